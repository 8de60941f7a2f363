"""Adapters: the logits of the published code both ways, a base that keeps its bits, runs that go on."""

import json

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import clearhead as ch
from clearhead.engine.modes import own_modes
from clearhead.errors import ClearheadError, Interrupted
from clearhead.learn.language import LanguageRun
from clearhead.model.layout import pack
from clearhead.settings import Language
from decoders import tiny_folder

FAMILIES = ("gpt2", "llama", "mistral", "qwen2", "qwen3", "gpt_neox", "llama-biases")
SMALL = {"batch_tokens": 60, "context": 16, "lora": 3, "learning_rate": 1e-2}
IDS = [[5, 9, 17, 3, 8, 11, 30, 2], [4, 4, 9]]


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("".join(f"line {n}: the soup was {'good' if n % 2 else 'cold'}.\n" for n in range(40)))
    return path


def run_of(base, texts, out, **changes):
    return LanguageRun(Language(base=str(base), data=[str(texts)], out=str(out), **(SMALL | changes)))


def finish(run):
    return [progress.step.loss for progress in run]


@own_modes()
def ours(model):
    network = model.loaded.network
    batch = pack(IDS)
    logits = network.next_logits(network(batch))
    return [logits[rows] for rows in batch.layout.slices]


def theirs(model):
    with torch.no_grad():
        return [model(torch.tensor([ids])).logits[0] for ids in IDS]


def near(found, right, tolerance=1e-5):
    return all(
        torch.allclose(a, b, atol=tolerance * float(b.abs().max()), rtol=0)
        for a, b in zip(found, right, strict=True)
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_an_adapter_trained_here_is_the_published_codes(texts, tmp_path, family):
    base = tiny_folder(tmp_path / "base", family)
    run = run_of(base, texts, tmp_path / "run", dropout=0.0)
    assert finish(run)[-1] < 8
    model = ch.load(tmp_path / "run")
    published = AutoModelForCausalLM.from_pretrained(base).eval()
    before = theirs(published)
    adapted = PeftModel.from_pretrained(published, tmp_path / "run").eval()
    assert near(ours(model), theirs(adapted)) and not near(ours(model), before, 1e-3)
    assert near(ours(model.without_adapters()), before)
    model.save(tmp_path / "merged")
    whole = ch.load(tmp_path / "merged")
    assert near(ours(whole), ours(model)) and not whole.loaded.adapters
    assert near(theirs(AutoModelForCausalLM.from_pretrained(tmp_path / "merged").eval()), ours(model))
    if family in ("gpt2", "gpt_neox"):
        assert all(finding.verdict != "fail" for finding in ch.verify(model))


def published_adapter(tmp_path, family="llama", **changes):
    """An adapter that the published code made, with random factors, and the logits it gives with it."""
    base = tiny_folder(tmp_path / "base", family)
    published = AutoModelForCausalLM.from_pretrained(base).eval()
    usual = {"r": 4, "lora_alpha": 12, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}
    adapted = get_peft_model(published, LoraConfig(**(usual | changes)))
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_" in name:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    adapted.eval().save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter", theirs(adapted)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pattern", [False, True], ids=["plain", "patterns"])
def test_a_published_adapter_is_read_as_it_is_meant(tmp_path, family, pattern):
    targets = "all-linear" if family.startswith("gpt") else ["q_proj", "v_proj", "down_proj"]
    changes = (
        {"rank_pattern": {"q_proj": 2}, "alpha_pattern": {"layers.1.self_attn.q_proj": 7}} if pattern else {}
    )
    folder, right = published_adapter(tmp_path, family, target_modules=targets, use_rslora=pattern, **changes)
    assert near(ours(ch.load(folder)), right)
    assert near(ours(ch.load(tmp_path / "base", adapter=folder)), right)
    assert near(ours(ch.load(folder).merged()), right)


def test_adapters_on_one_base_add_up_and_change_no_bit_of_it(texts, tmp_path):
    base = tiny_folder(tmp_path / "base", "llama")
    for seed, targets in ((1, ["q_proj", "v_proj"]), (2, None)):
        finish(run_of(base, texts, tmp_path / str(seed), seed=seed, lora_targets=targets))
    alone = ch.load(base)
    one, two = (ch.load(base, adapter=str(tmp_path / name)) for name in "12")
    both = ch.load(tmp_path / "1", adapter=[tmp_path / "2"])
    assert [len(model.loaded.adapters) for model in (alone, one, two, both)] == [0, 1, 1, 2]
    published = PeftModel.from_pretrained(
        AutoModelForCausalLM.from_pretrained(base).eval(), tmp_path / "1", adapter_name="one"
    )
    published.load_adapter(tmp_path / "2", adapter_name="two")
    published.base_model.set_adapter(["one", "two"])
    assert near(ours(both), theirs(published.eval()))
    # What stands on a base shares its tensors, and leaves them as they are.
    again = one.without_adapters()
    for name, tensor in one.loaded.network.state_dict().items():
        if ".adapter." not in name:
            assert torch.equal(tensor, alone.loaded.network.state_dict()[name])
            assert again.loaded.network.state_dict()[name].data_ptr() == tensor.data_ptr()
    assert all(torch.equal(a, b) for a, b in zip(ours(again), ours(alone), strict=True))


def test_a_new_adapter_changes_nothing_and_nothing_else_learns(texts, tmp_path):
    base = tiny_folder(tmp_path / "base", "llama")
    run = run_of(base, texts, tmp_path / "run")
    assert near(ours(run.model), ours(ch.load(base)), 0)
    before = {name: tensor.clone() for name, tensor in run.model.loaded.network.state_dict().items()}
    finish(run)
    for name, tensor in run.model.loaded.network.state_dict().items():
        assert torch.equal(tensor, before[name]) == (".adapter." not in name), name
    assert {path.name for path in (tmp_path / "run").glob("adapter*")} == {
        "adapter_config.json", "adapter_model.safetensors",
    }  # fmt: skip
    assert not (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.parametrize("changes", [{}, {"accumulate": 2, "lora_dropout": 0.3, "dropout": 0.1}])
def test_a_run_of_an_adapter_goes_on_to_the_same_bits(texts, tmp_path, changes):
    base = tiny_folder(tmp_path / "base", "gpt2")
    changes = {"save_steps": 2, "eval_steps": 2, "epochs": 2} | changes
    finish(run_of(base, texts, tmp_path / "whole", **changes))
    run = run_of(base, texts, tmp_path / "cut", **changes)
    for progress in run:
        if progress.step.number == 3:
            break
    with pytest.raises(Interrupted):  # noqa: PT012
        for progress in (again := run_of(base, texts, tmp_path / "cut", resume=True, **changes)):
            if progress.step.number == 5:
                again.stop()
    finish(run_of(base, texts, tmp_path / "cut", resume=True, **changes))
    for name in ("adapter_model.safetensors", "adapter_config.json", "fingerprint.json"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()
    states = [next((tmp_path / name).glob("state-*/state.json")).read_text() for name in ("whole", "cut")]
    assert len({json.loads(state)["standing"]["tensors"] for state in states}) == 1


def altered(folder, *, config=None, tensors=None):
    """An adapter's folder with changes, without its fingerprint."""
    (folder / "fingerprint.json").unlink()
    said = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps(said | (config or {})))
    held = load_file(folder / "adapter_model.safetensors")
    save_file(tensors(held) if tensors else held, folder / "adapter_model.safetensors")


def named(old, new):
    return lambda held: {name.replace(old, new): tensor for name, tensor in held.items()}


@pytest.mark.parametrize(
    ("config", "tensors", "said"),
    [
        ({"peft_type": "IA3"}, None, "peft_type 'IA3' is not supported, only LORA"),
        ({"use_dora": True}, None, "use_dora=True is not supported"),
        ({"bias": "all"}, None, "bias='all' is not supported"),
        ({"modules_to_save": ["lm_head"]}, None, r"modules_to_save=\['lm_head'\] is not supported"),
        ({"r": 5}, None, r"lora_A is \[3, \d+\]; rank 5 on .* makes \[5, \d+\]"),
        ({"new_idea": {"x": 1}}, None, "new_idea={'x': 1} is not supported"),
        ({"r": 0}, None, "r=0 must be a number above 0"),
        ({"lora_alpha": "x"}, None, "lora_alpha='x' must be a number above 0"),
        ({"rank_pattern": [1]}, None, r"rank_pattern=\[1\] is no table of patterns and numbers"),
        ({"rank_pattern": {"(": 2}}, None, r"rank_pattern: '\(' is no pattern"),
        ({"alpha_pattern": {"q_proj": "x"}}, None, "alpha_pattern: q_proj='x' must be a number above 0"),
        ({"base_model_name_or_path": "nowhere"}, None, "its base 'nowhere' is not here; .* --adapter"),
        ({}, named("self_attn.q_proj", "self_attn.z_proj"), "is for no linear layer of a block .* its base"),
        ({}, named("lora_A", "lora_embedding_A"), "lora_embedding_A.weight is for no linear layer"),
        ({}, lambda held: dict(list(held.items())[1:]), "lora_A is missing"),
        ({}, lambda held: {n: t * float("nan") for n, t in held.items()}, "numbers that are not finite"),
    ],
)
def test_an_adapter_that_is_not_of_this_base_is_refused_by_name(texts, tmp_path, config, tensors, said):
    base = tiny_folder(tmp_path / "base", "llama")
    finish(run_of(base, texts, tmp_path / "run", max_steps=2))
    altered(tmp_path / "run", config=config, tensors=tensors)
    with pytest.raises(ClearheadError, match=said):
        ch.load(tmp_path / "run")


def test_another_base_of_the_same_shape_is_noticed(texts, tmp_path):
    base = tiny_folder(tmp_path / "base", "llama")
    finish(run_of(base, texts, tmp_path / "run", max_steps=2))
    other = tiny_folder(tmp_path / "other", "llama")
    held = load_file(other / "model.safetensors")
    save_file(
        {name: tensor * 1.1 for name, tensor in held.items()}, other / "model.safetensors", {"format": "pt"}
    )
    with pytest.raises(ClearheadError, match=r"the answers to the sample differ .*; is .* the base"):
        ch.load(other, adapter=str(tmp_path / "run"))
    assert ch.load(other, adapter=str(tmp_path / "run"), fingerprint=False).loaded.adapters
    with pytest.raises(ClearheadError, match="holds an adapter and no model; make one .* clearhead merge"):
        run_of(tmp_path / "run", texts, tmp_path / "further", lora=None)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"lora_targets": ["z_proj"]},
            "--lora-targets z_proj: there is no such layer; there are down_proj, gate",
        ),
        ({"lora": 0}, "--lora 0 must be at least 1"),
        ({"lora": None, "lora_alpha": 3.0}, "--lora-alpha is of an adapter; give its rank too: --lora 8"),
        ({"lora_dropout": 1.0}, "--lora-dropout 1.0 must be at least 0 and below 1"),
        ({"lora_alpha": 0.0}, "--lora-alpha 0.0 must be a number above 0"),
        ({"base": "new", "context": 256}, "--lora keeps the model, and a new one knows nothing"),
    ],
)
def test_options_that_make_no_adapter_are_refused(texts, tmp_path, changes, said):
    base = tiny_folder(tmp_path / "base", "llama")
    with pytest.raises(ClearheadError, match=said):
        run_of(changes.pop("base", base), texts, tmp_path / "run", **changes)


@pytest.mark.parametrize("began", ["pissa", "pissa_niter_4", "olora"])
def test_factors_that_were_taken_out_of_the_base_are_refused(tmp_path, began):
    folder, _ = published_adapter(tmp_path, init_lora_weights=began)
    with pytest.raises(ClearheadError, match=f"init_lora_weights='{began}' changes the base too"):
        ch.load(folder)


@pytest.mark.parametrize("began", [True, False, "gaussian", "orthogonal"])
def test_factors_that_left_the_base_alone_are_read(tmp_path, began):
    folder, right = published_adapter(tmp_path, init_lora_weights=began)
    assert near(ours(ch.load(folder)), right)


@pytest.mark.parametrize("name", ["model.layers.0.self_attn.q_proj", "^model.layers.0.self_attn.q_proj"])
def test_a_pattern_may_be_the_whole_published_name(tmp_path, name):
    folder, right = published_adapter(tmp_path, alpha_pattern={name: 64}, rank_pattern={name: 2})
    assert near(ours(ch.load(folder)), right)


def test_layers_can_be_named_as_they_are_published(texts, tmp_path):
    base = tiny_folder(tmp_path / "base", "llama")
    name = "model.layers.0.self_attn.q_proj"
    run = run_of(base, texts, tmp_path / "run", lora_targets=[name, "v_proj"], dropout=0.0)
    finish(run)
    said = json.loads((tmp_path / "run" / "adapter_config.json").read_text())
    assert said["target_modules"] == [name, "v_proj"]
    published = AutoModelForCausalLM.from_pretrained(base).eval()
    adapted = PeftModel.from_pretrained(published, tmp_path / "run").eval()
    assert near(ours(ch.load(tmp_path / "run")), theirs(adapted))


def test_of_several_adapters_each_must_be_for_this_base(texts, tmp_path):
    base, other = (tiny_folder(tmp_path / name, "llama") for name in ("base", "other"))
    weights = load_file(other / "model.safetensors")
    save_file({name: tensor + 0.1 for name, tensor in weights.items()}, other / "model.safetensors")
    for name, of in (("mine", base), ("foreign", other)):
        finish(run_of(of, texts, tmp_path / name))
    for asked in (["foreign"], ["mine", "foreign"], ["foreign", "mine"]):
        with pytest.raises(ClearheadError, match="is .*base the base that it was made for"):
            ch.load(base, adapter=[tmp_path / name for name in asked])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda tensors: {}, "has no tensors for"),
        (lambda tensors: dict([*tensors.items()][2:]), "has no tensors for"),
        (lambda tensors: tensors | {"layers.0.self_attn.q_proj.lora_A.weight": torch.ones(4, 8)}, "two of"),
        (lambda tensors: {name: one.double() * 1e300 for name, one in tensors.items()}, "not finite"),
        (lambda tensors: {name: one.long() for name, one in tensors.items()}, "no kind of float"),
    ],
)  # fmt: skip
def test_odd_files_of_adapters_are_refused_by_name(tmp_path, change, said):
    folder, _ = published_adapter(tmp_path)
    path = folder / "adapter_model.safetensors"
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    save_file({name: tensor.clone() for name, tensor in change(tensors).items()}, path)
    with pytest.raises(ClearheadError, match=said):
        ch.load(folder)
