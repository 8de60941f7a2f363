"""A decoder's config.json that says what we do not honour is refused in one line: the field, and the fix."""

import json
import re
import shutil
from math import inf, nan

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import clearhead as ch
from clearhead.check.finding import Verdict
from clearhead.checkpoint.folder import read_folder
from clearhead.errors import FolderError
from clearhead.model.layout import pack
from decoders import tiny_folder

# The fields of each family's config.json, in the spelling before rope_parameters.
GPT2 = {
    "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": 50, "n_embd": 24, "n_layer": 2,
    "n_head": 4, "n_positions": 64, "n_inner": 40, "activation_function": "gelu_new", "resid_pdrop": 0.1,
    "embd_pdrop": 0.1, "attn_pdrop": 0.1, "layer_norm_epsilon": 1e-5, "initializer_range": 0.02,
    "tie_word_embeddings": True,
}  # fmt: skip
LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 50, "hidden_size": 24,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 40,
    "max_position_embeddings": 64, "hidden_act": "silu", "rms_norm_eps": 1e-6, "attention_dropout": 0.0,
    "initializer_range": 0.02, "tie_word_embeddings": False, "rope_theta": 10000.0,
}  # fmt: skip
QWEN2 = LLAMA | {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "use_sliding_window": False}
NEOX = {
    "architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox", "vocab_size": 50, "hidden_size": 32,
    "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40, "max_position_embeddings": 64,
    "hidden_act": "gelu", "layer_norm_eps": 1e-5, "attention_dropout": 0.0, "hidden_dropout": 0.0,
    "initializer_range": 0.02, "tie_word_embeddings": False, "use_parallel_residual": True,
    "attention_bias": True, "rotary_pct": 0.25, "rotary_emb_base": 10000,
}  # fmt: skip
BIASED = {"attention_bias": False, "mlp_bias": False, "head_dim": 6}
CONFIGS = {
    "gpt2": GPT2,
    "gpt2-usual": {field: value for field, value in GPT2.items() if field != "n_inner"},
    "llama": LLAMA | BIASED,
    "mistral": LLAMA
    | {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": 6, "head_dim": 6},
    "qwen2": QWEN2,
    "qwen3": QWEN2
    | {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "attention_bias": False, "head_dim": 6},
    "gpt_neox": NEOX,
}
BANDS = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
LONG = {"rope_type": "longrope", "long_factor": [1.0], "short_factor": [1.0]}


def refusal(config, folder):
    """What is said of a folder that holds nothing but this config.json."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(FolderError) as refused:
        read_folder(folder)
    said = str(refused.value)
    assert "\n" not in said and "config.json" in said
    return said


def assert_said(pattern, said):
    assert re.search(pattern, said), said


def without(table, name):
    return {key: value for key, value in table.items() if key != name}


@pytest.mark.parametrize("family", CONFIGS)
def test_these_configs_themselves_lack_nothing_but_the_weights(family, tmp_path):
    tmp_path.joinpath("config.json").write_text(json.dumps(CONFIGS[family]))
    with pytest.raises(FolderError, match=r"has no model\.safetensors"):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    ("family", "changes", "said"),
    [
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "inverse_layer_idx=True .* only False"),
        ("gpt2", {"scale_attn_weights": False}, "scale_attn_weights=False is not supported, only True"),
        ("gpt2", {"n_head": 5}, "n_embd=24 cannot be shared by n_head=5 evenly; make n_embd"),
        ("gpt2", {"architectures": ["GPT2DoubleHeadsModel"]}, "the head of .* only GPT2LMHeadModel"),
        ("gpt2", {"activation_function": "swiglu"}, "activation_function='swiglu' .* supported: gelu"),
        ("llama", {"pretraining_tp": 2}, "pretraining_tp=2 is not supported, only 1"),
        ("llama", {"rope_interleaved": True}, "rope_interleaved=True is not supported, only False"),
        ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor=0.5 is not supported, only 1.0"),
        (
            "llama",
            {"num_key_value_heads": 3},
            "num_attention_heads=4 cannot share num_key_value_heads=3 evenly; "
            "make num_attention_heads a multiple of num_key_value_heads",
        ),
        ("llama", {"num_key_value_heads": 0}, "num_key_value_heads=0 must be a whole number of at least 1"),
        ("llama", {"head_dim": 5}, "5 numbers of a head cannot be turned in pairs"),
        ("llama", {"hidden_size": 24.5}, "hidden_size=24.5 must be a whole number"),
        ("llama", {"rope_theta": 0}, "rope_theta=0 must be a number above 0"),
        ("llama", {"rope_theta": "10000"}, "rope_theta='10000' must be a number above 0"),
        ("llama", {"tie_word_embeddings": "false"}, "tie_word_embeddings='false' must be true or false"),
        ("llama", {"attention_bias": 1}, "attention_bias=1 must be true or false"),
        ("llama", {"hidden_act": "gelu_fast"}, "hidden_act='gelu_fast' .* supported: gelu"),
        ("mistral", {"sliding_window": 1}, "sliding_window=1 must be a whole number of at least 2, or null"),
        ("mistral", {"sliding_window": "4096"}, "sliding_window='4096' must be a whole number"),
        ("mistral", {"sliding_window": 6.5}, "sliding_window=6.5 must be a whole number"),
        ("qwen2", {"use_sliding_window": True}, "use_sliding_window=True is not supported, only False"),
        ("qwen2", {"use_mrope": True}, "use_mrope=True is not supported, only False"),
        ("qwen2", {"head_dim": 8}, "head_dim=8 is not supported, only 6"),
        ("qwen3", {"use_sliding_window": True}, "use_sliding_window=True is not supported, only False"),
        (
            "qwen3",
            {"layer_types": ["full_attention", "sliding_attention"]},
            "layer_types=.* is not supported, only 'full_attention'",
        ),
        ("gpt_neox", {"rotary_pct": 1.5}, "rotary_pct=1.5 must be at most 1"),
        ("gpt_neox", {"rotary_pct": "0.25"}, "rotary_pct='0.25' must be a number above 0"),
        ("gpt_neox", {"rotary_emb_base": None}, "rotary_emb_base=None must be a number above 0"),
        ("gpt_neox", {"partial_rotary_factor": 0.5}, "partial_rotary_factor=0.5 is not supported, only 0.25"),
        ("gpt_neox", {"use_parallel_residual": "no"}, "use_parallel_residual='no' must be true or false"),
    ],
)  # fmt: skip
def test_a_fact_that_we_do_not_honour_is_refused_by_name(family, changes, said, tmp_path):
    assert_said(said, refusal(CONFIGS[family] | changes, tmp_path))


@pytest.mark.parametrize("family", CONFIGS)
@pytest.mark.parametrize(
    "changes",
    [{"add_cross_attention": True}, {"is_encoder_decoder": True}, {"architectures": ["OtherModel"]}],
    ids=lambda changes: next(iter(changes)),
)
def test_another_architecture_under_a_decoders_name_is_refused(family, changes, tmp_path):
    said = refusal(CONFIGS[family] | changes, tmp_path)
    assert "is not supported, only" in said
    assert "OtherModel" in said or next(iter(changes)) in said


@pytest.mark.parametrize("spelling", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3", "gpt_neox"])
@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"type": "dynamic", "factor": 2.0}, "rope_type='dynamic' is not supported .the angles of"),
        ({"rope_type": "dynamic", "factor": 2.0}, "supported: default, linear, llama3"),
        ({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}, "rope_type='yarn'"),
        ({"rope_type": "yarn", "factor": 4.0, "attn_factor": 0.8}, "rope_type='yarn' is not supported"),
        (LONG, "rope_type='longrope' is not supported; supported: default, linear, llama3"),
        ({"rope_type": "mrope", "mrope_section": [1, 2]}, "rope_type='mrope' is not supported"),
        ({"rope_type": ["linear"], "factor": 2.0}, r"rope_type=\['linear'\] is not supported"),
        ({"type": "default", "mrope_section": [1, 2]}, "'mrope_section', which is not supported; take it"),
        ({"rope_type": "linear"}, "needs factor, a number; it has None"),
        ({"rope_type": "linear", "factor": "2"}, "needs factor, a number; it has '2'"),
        ({"rope_type": "linear", "factor": 0}, "factor=0.0 must be a number above 0"),
        (without(BANDS, "factor"), "needs factor, a number; it has None"),
        (without(BANDS, "low_freq_factor"), "needs low_freq_factor, a number; it has None"),
        (without(BANDS, "original_max_position_embeddings"), "needs original_max_position_embeddings"),
        (BANDS | {"low_freq_factor": 4.0}, "low_freq_factor=4.0 .* below high_freq_factor=4.0"),
        (BANDS | {"original_max_position_embeddings": 8.5}, "max_position_embeddings=8.5 must be a whole"),
        ("linear", "='linear' is no table of rotary parameters"),
        ([1], "is no table of rotary parameters"),
    ],
)  # fmt: skip
def test_angles_that_we_do_not_turn_are_refused_with_the_reason(family, table, said, spelling, tmp_path):
    assert_said(said, refusal(CONFIGS[family] | {spelling: table}, tmp_path))


@pytest.mark.parametrize("method", ["gptq", "awq", "bitsandbytes", "fp8"])
@pytest.mark.parametrize("family", CONFIGS)
def test_packed_weights_are_refused_before_they_are_read(family, method, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"not read")
    changes = {"quantization_config": {"bits": 4, "quant_method": method}}
    said = refusal(CONFIGS[family] | changes, tmp_path)
    assert f"quantization_config is not supported (quant_method '{method}')" in said
    assert "take the model that they were made from" in said


STRANGE = st.one_of(
    st.text(max_size=5),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=1),
    st.sampled_from([-1, -0.5, inf, -inf, nan]),
)
NUMBERS = [
    (family, field)
    for family, config in CONFIGS.items()
    for field, value in config.items()
    if isinstance(value, int | float) and not isinstance(value, bool)
]
SWITCHES = [
    (family, field)
    for family, config in CONFIGS.items()
    for field, value in config.items()
    if isinstance(value, bool)
]


@settings(max_examples=15, deadline=None)
@given(value=STRANGE)
@pytest.mark.parametrize(("family", "field"), NUMBERS)
def test_what_is_no_number_is_refused_in_the_name_of_its_field(family, field, value, tmp_path_factory):
    said = refusal(CONFIGS[family] | {field: value}, tmp_path_factory.getbasetemp() / "numbers")
    assert f"{field}=" in said


@settings(max_examples=15, deadline=None)
@given(value=STRANGE | st.none() | st.integers())
@pytest.mark.parametrize(("family", "field"), SWITCHES)
def test_what_is_neither_true_nor_false_is_refused_in_the_name_of_its_field(
    family, field, value, tmp_path_factory
):
    if field == "use_sliding_window" and value in (None, 0):  # as good as false
        return
    said = refusal(CONFIGS[family] | {field: value}, tmp_path_factory.getbasetemp() / "switches")
    assert f"{field}={value!r}" in said


@pytest.mark.parametrize("family", ["gpt2", "llama-tied", "qwen3", "gpt_neox"])
def test_a_head_that_is_there_twice_is_taken_and_one_that_differs_is_refused(family, tmp_path):
    folder = tiny_folder(tmp_path / "folder", family, tie_word_embeddings=True)
    path = folder / "model.safetensors"
    tensors = load_file(path)
    whole = next(
        name for name in tensors if name.endswith(("wte.weight", "embed_tokens.weight", "embed_in.weight"))
    )
    twin = "embed_out.weight" if family == "gpt_neox" else "lm_head.weight"
    before = read_folder(folder).network.state_dict()
    save_file(tensors | {twin: tensors[whole].clone()}, path, metadata={"format": "pt"})
    after = read_folder(folder).network.state_dict()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    save_file(tensors | {twin: tensors[whole] + 1}, path, metadata={"format": "pt"})
    with pytest.raises(FolderError, match='says that .* "tie_word_embeddings": false'):
        read_folder(folder)


@pytest.mark.parametrize("eos", ["2", True, -1, [2, "3"], 2.0, {"id": 2}], ids=str)
@pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
def test_an_end_that_is_no_id_is_refused(file, eos, tmp_path):
    folder = tiny_folder(tmp_path / "folder", "llama")
    (folder / "generation_config.json").unlink(missing_ok=True)
    path = folder / file
    values = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(values | {"eos_token_id": eos}))
    with pytest.raises(FolderError, match=f"{file}: eos_token_id=.* is no id and no list of ids"):
        read_folder(folder)


@pytest.mark.parametrize("family", ["llama", "gpt_neox"])
def test_angles_that_are_stored_as_tensors_are_not_missed_and_not_read(family, tmp_path):
    folder = tiny_folder(tmp_path / "folder", family)
    shutil.copytree(folder, tmp_path / "older")
    path = tmp_path / "older" / "model.safetensors"
    tensors = load_file(path)
    inside = "gpt_neox.layers.0.attention" if family == "gpt_neox" else "model.layers.0.self_attn"
    tensors[f"{inside}.rotary_emb.inv_freq"] = torch.full((2,), nan)
    save_file(tensors, path, metadata={"format": "pt"})
    before, after = (read_folder(place).network.state_dict() for place in (folder, tmp_path / "older"))
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())


@pytest.mark.parametrize("older", [False, True], ids=["newer slows", "older slows"])
def test_where_both_spellings_of_rotary_parameters_stand_the_published_code_decides(tmp_path, older):
    from transformers import AutoModelForCausalLM

    folder = tiny_folder(tmp_path, "llama", wide=True)
    path = folder / "config.json"
    slow, plain = ({"rope_theta": 10000.0, **kind} for kind in (
        {"rope_type": "linear", "factor": 4.0}, {"rope_type": "default"}
    ))  # fmt: skip
    scaling, parameters = (slow, plain) if older else (plain, slow)
    values = json.loads(path.read_text()) | {"rope_scaling": scaling, "rope_parameters": parameters}
    path.write_text(json.dumps(values))
    ids = [5, 9, 2, 7] * 8
    with torch.no_grad():
        right = AutoModelForCausalLM.from_pretrained(folder).eval()(torch.tensor([ids])).logits[0]
        network = ch.load(folder).loaded.network
        mine = network.next_logits(network(pack([ids]))[: len(ids)])
    torch.testing.assert_close(mine, right, atol=2e-5, rtol=2e-5)
    assert [finding for finding in ch.verify(ch.load(folder)) if finding.verdict is Verdict.FAIL] == []
