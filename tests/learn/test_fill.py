"""Models that fill masks, learned from texts: the published loss, nothing seen across, resumed bit-equal."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy
from transformers import AutoModelForMaskedLM, BertForMaskedLM

import clearhead as ch
from clearhead.checkpoint.folder import read_folder
from clearhead.engine.modes import own_modes
from clearhead.errors import ClearheadError, DataError, Interrupted
from clearhead.learn.fill import FillRun
from clearhead.model.layout import pack
from clearhead.settings import Masked
from clearhead.tasks.language import next_token_loss
from decoders import tiny_folder as tiny_decoder
from families import NAMES, filler, kinds, texts, tiny_folder, write_tokenizer
from float64 import in_float64
from tiny import bert_config, write_vocab

ARCHITECTURES = ("bert", "roberta", "modernbert")
SMALL = {"layers": 2, "width": 16, "heads": 2, "context": 12, "vocab": 300, "batch_tokens": 60, "epochs": 1}


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "texts.jsonl"
    rows = [f"line {number}: the soup was {'good' if number % 2 else 'cold'}." for number in range(40)]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in rows))
    return path


def run_of(lines, out, **changes):
    return FillRun(Masked(data=[str(lines)], out=str(out), **(SMALL | changes)))


def filling_folder(folder, name, **changes):
    """A folder saved by the published code, with its head for masked tokens and a tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    filler(name, **changes).save_pretrained(folder)
    write_tokenizer(folder, name)
    return folder


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_loss_is_the_published_codes(lines, tmp_path, architecture):
    """The same tokens hidden, the same weights: `transformers` with labels, piece by piece; gradients too."""
    run = run_of(lines, tmp_path / "run", architecture=architecture, dropout=0.0)
    run.model.save(tmp_path / "start")
    published = AutoModelForMaskedLM.from_pretrained(tmp_path / "start").eval()
    network, gaps, members = run.model.loaded.network, run.objective, list(range(6))
    with own_modes(learning=True):
        loss = gaps.loss(network, members, drop=None)
        loss.backward()
    total, count = 0.0, 0
    for member in members:
        read, places = gaps.hidden(member)
        start, end = gaps.spans[member]
        labels = torch.full((end - start + 2,), -100)
        labels[torch.tensor(places) + 1] = torch.tensor(gaps.ids[start:end][places], dtype=torch.long)
        ids = torch.tensor([gaps.tokenizer.framed(read).ids])
        logits = published(input_ids=ids).logits[0]
        total = total + cross_entropy(logits, labels, reduction="sum")
        count += len(places)
    total.backward()
    assert gaps.size(members) == count
    assert loss.item() == pytest.approx(total.item(), rel=1e-5)
    ours, theirs = network.embedding.tokens.weight.grad, published.get_input_embeddings().weight.grad
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-3)


@pytest.mark.shows("gradients")
@pytest.mark.parametrize("fills", [True])
@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_the_published_code(tmp_path, name, fills):
    ids = texts()
    with in_float64(*kinds(name)):
        model = filler(name, wide=True)
        model.save_pretrained(tmp_path)
        write_tokenizer(tmp_path, name)
        loaded = read_folder(tmp_path)
        model.double()
        firsts = torch.stack([model(input_ids=torch.tensor([row])).logits[0, 0] for row in ids])
        cross_entropy(firsts, torch.arange(len(ids)), reduction="sum").backward()
    network = loaded.network.double()
    batch = pack(ids)
    rows = network(batch)[[rows.start for rows in batch.layout.slices]]
    made, weight, bias = network.filling(rows)
    next_token_loss(made, weight, targets=torch.arange(len(ids)), bias=bias).backward()
    ours = {name: parameter.grad for name, parameter in network.named_parameters()}
    given = loaded.family.to_published(ours, prefixed=True, config=network.config, head=None)
    theirs = {name: one.grad for name, one in model.named_parameters(remove_duplicate=False)}
    assert given.keys() <= theirs.keys()  # tied ones are there under both names
    assert {id(theirs[name]) for name in given} == set(map(id, theirs.values()))
    for tensor, gradient in given.items():
        torch.testing.assert_close(gradient, theirs[tensor], atol=1e-10, rtol=1e-9, msg=tensor)


def test_a_document_is_learned_as_if_it_were_alone(lines, tmp_path):
    run = run_of(lines, tmp_path / "run", context=64)
    network, gaps = run.model.loaded.network, run.objective
    with own_modes():
        together = float(gaps.loss(network, list(range(20)), drop=None))
        alone = sum(float(gaps.loss(network, [member], drop=None)) for member in range(20))
    assert together == pytest.approx(alone, rel=1e-6)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_trained_model_is_a_published_folder_that_knows_its_texts(lines, tmp_path, architecture):
    changes = {"epochs": 20, "learning_rate": 1e-2, "context": 32, "dropout": 0.0}
    run = run_of(lines, tmp_path / "run", architecture=architecture, **changes)
    losses = [progress.step.loss for progress in run]
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])
    model = ch.load(tmp_path / "run")
    assert model.loaded.family.model_type == architecture and model.fills
    assert not [finding for finding in ch.verify(model) if finding.verdict == "fail"]
    theirs, notes = AutoModelForMaskedLM.from_pretrained(tmp_path / "run", output_loading_info=True)
    assert not notes["missing_keys"] and not notes["unexpected_keys"]
    assert sum(p.numel() for p in theirs.parameters()) == sum(
        p.numel() for p in model.loaded.network.parameters()
    )
    (filled,) = model.fill(["line 3: the [MASK] was good."])
    assert "soup" in filled.masks[0][0].token_str or filled.masks[0][0].score < 0.9
    (told,) = [json.loads(row) for row in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()][-1:]
    assert told["eval_loss"] > 0 and 0 <= told["eval_accuracy"] <= 1
    assert "fill-mask" in (tmp_path / "run" / "README.md").read_text()


@pytest.mark.shows("train")
@pytest.mark.parametrize("fills", [True])
@pytest.mark.parametrize("name", NAMES)
def test_a_published_model_goes_on_learning(lines, tmp_path, name, fills):
    base = filling_folder(tmp_path / "base", name)
    out = tmp_path / "run"
    run = ch.train("fill", data=[lines], base=base, out=out, max_steps=2, batch_tokens=64, context=16)
    assert run.learning_rate == 5e-5
    assert [progress.step.number for progress in run] == [1, 2]
    model = ch.load(out)
    assert model.fills and model.loaded.family.model_type == ch.load(base).loaded.family.model_type
    before, after = (load_file(folder / "model.safetensors") for folder in (base, out))
    assert before.keys() == after.keys()
    assert any(not torch.equal(before[name], after[name]) for name in after)


@pytest.mark.parametrize("name", NAMES)
def test_a_body_gets_the_head_of_its_family(lines, tmp_path, name):
    base = tiny_folder(tmp_path / "base", name)
    out = tmp_path / "run"
    run = ch.train("fill", data=[lines], base=base, out=out, max_steps=1, batch_tokens=64, context=16)
    assert any("has no head for masked tokens, so that a new one is learned" in note for note in run.notes)
    list(run)
    theirs, notes = AutoModelForMaskedLM.from_pretrained(out, output_loading_info=True)
    assert not notes["missing_keys"] and not notes["unexpected_keys"]
    assert type(theirs).__name__ == type(filler(name)).__name__


@pytest.mark.parametrize("changes", [{}, {"accumulate": 2}, {"whole_words": True, "architecture": "roberta"}])
def test_a_run_that_is_stopped_goes_on_to_the_same_bits(lines, tmp_path, changes):
    changes = {"dropout": 0.2, "save_steps": 2, "eval_steps": 3, "epochs": 3, "batch_tokens": 80} | changes
    whole = [p.step.loss for p in run_of(lines, tmp_path / "whole", **changes)]
    assert len(whole) > 6
    for progress in run_of(lines, tmp_path / "cut", **changes):
        if progress.step.number == 3:
            break  # as a kill would leave it: no state of this step
    with pytest.raises(Interrupted):  # noqa: PT012
        for progress in (again := run_of(lines, tmp_path / "cut", resume=True, **changes)):
            if progress.step.number == 5:
                again.stop()
    list(run_of(lines, tmp_path / "cut", resume=True, **changes))
    for name in ("model.safetensors", "tokenizer.json", "config.json", "fingerprint.json"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()
    states = [next((tmp_path / name).glob("state-*/state.json")).read_text() for name in ("whole", "cut")]
    digests = [json.loads(state)["standing"]["tensors"] for state in states]
    assert digests[0] == digests[1]


def pooled_folder(folder):
    """What BERT's own repositories hold: a pooler beside the head for masked tokens, twins, another head."""
    folder.mkdir()
    torch.manual_seed(0)
    model = BertForMaskedLM(bert_config(architectures=["BertForMaskedLM"]))
    model.save_pretrained(folder)
    write_vocab(folder)
    tensors = load_file(folder / "model.safetensors")
    width = model.config.hidden_size
    tensors |= {"bert.pooler.dense.weight": torch.randn(width, width) * 0.02}
    tensors |= {"bert.pooler.dense.bias": torch.zeros(width)}
    tensors |= {"cls.seq_relationship.weight": torch.zeros(2, width)}
    tensors |= {"cls.predictions.decoder.weight": tensors["bert.embeddings.word_embeddings.weight"].clone()}
    tensors |= {"cls.predictions.decoder.bias": tensors["cls.predictions.bias"].clone()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder, tensors


def test_a_pooler_is_kept_in_saving_and_let_go_in_training(lines, tmp_path):
    folder, _ = pooled_folder(tmp_path / "base")
    model = ch.load(folder)
    assert model.fills and model.loaded.network.head_facts.labels == 0
    model.save(tmp_path / "saved")
    saved = load_file(tmp_path / "saved" / "model.safetensors")
    assert "bert.pooler.dense.weight" in saved and "cls.predictions.decoder.weight" not in saved
    assert BertForMaskedLM.from_pretrained(tmp_path / "saved").config.architectures == ["BertForMaskedLM"]
    for _ in ch.train("fill", data=[lines], base=folder, out=tmp_path / "run", max_steps=1, context=16):
        pass
    assert not any("pooler" in name for name in load_file(tmp_path / "run" / "model.safetensors"))


@pytest.mark.parametrize("name", ["bert", "modernbert", "roberta"])
def test_a_classifier_begins_as_from_the_body_alone(reviews, tmp_path, name):
    """Before these heads were read, a folder that has one was a body: what is trained from it is the same."""
    base = pooled_folder(tmp_path / "base")[0] if name == "bert" else filling_folder(tmp_path / "base", name)
    body = tmp_path / "body"
    body.mkdir()
    for file in base.iterdir():
        (body / file.name).write_bytes(file.read_bytes())
    config = json.loads((body / "config.json").read_text())
    config["architectures"] = [config["architectures"][0].replace("ForMaskedLM", "Model")]
    (body / "config.json").write_text(json.dumps(config))
    for folder in (base, body):
        out = tmp_path / f"from {folder.name}"
        for _ in ch.train("classify", data=reviews, base=folder, out=out, max_steps=2, batch_tokens=64):
            pass
    ours, theirs = (load_file(tmp_path / f"from {place}" / "model.safetensors") for place in ("base", "body"))
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_twins_that_differ_are_refused_by_name(tmp_path):
    folder, tensors = pooled_folder(tmp_path / "base")
    for name in ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias"):
        changed = tensors | {name: tensors[name] + 1}
        save_file(changed, folder / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(ClearheadError, match=rf"{name} is .* \(tie_word_embeddings\), but they differ"):
            ch.load(folder)
    lost = {name: tensor for name, tensor in tensors.items() if "transform.dense" not in name}
    save_file(lost, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ClearheadError, match=r"missing: cls.predictions.transform.dense"):
        ch.load(folder)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"width": 15}, "--width 15 cannot be shared by --heads 2 evenly"),
        ({"vocab": 3}, "vocab=3 is too small"),
        ({"vocab": 3, "architecture": "roberta"}, "vocab=3 is too small; make it at least 261"),
        ({"context": 2}, "--context 2 has no room for a token beside the 2 special ones"),
        ({"mask_share": 0.0}, "--mask-share 0.0 must be above 0 and below 1"),
        ({"base": "minilm-nowhere"}, "shapes a new model, but --from is minilm-nowhere"),
        ({"tokenizer": "nowhere", "vocab": 8000}, "there is no folder or model 'nowhere'"),
        ({"architecture": "gpt2"}, "--architecture 'gpt2' is not one of bert, roberta, modernbert"),
        ({"resume": True}, "holds no run to go on with"),
    ],
)
def test_what_cannot_be_learned_is_refused_by_name(lines, tmp_path, changes, said):
    with pytest.raises(ClearheadError, match=said):
        run_of(lines, tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


def test_a_model_that_cannot_fill_is_refused_as_a_start(lines, tmp_path):
    usual = {"layers": 4, "width": 256, "heads": 4, "vocab": 8000}
    decoder = tiny_decoder(tmp_path / "decoder", "llama")
    with pytest.raises(ClearheadError, match="is a decoder.*clearhead train language"):
        run_of(lines, tmp_path / "run", base=str(decoder), **usual)
    labelled = tiny_folder(tmp_path / "labelled", "bert", ("a", "b"))
    with pytest.raises(ClearheadError, match="gives labels, which it would forget"):
        run_of(lines, tmp_path / "run", base=str(labelled), **usual)
    base = filling_folder(tmp_path / "base", "roberta")
    config = json.loads((base / "tokenizer_config.json").read_text())
    del config["mask_token"]
    (base / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(ClearheadError, match=r"--from .*base: the tokenizer has no mask token"):
        run_of(lines, tmp_path / "run", base=str(base), **usual)


@pytest.mark.parametrize(("name", "value"), [("vocab", 300), ("lowercase", False)])
def test_what_a_tokenizer_that_is_there_cannot_be_is_refused(lines, tmp_path, name, value):
    usual = {"tokenizer": str(tmp_path), "vocab": 8000}
    with pytest.raises(ClearheadError, match=f"--{name} is of a tokenizer that is learned, and --tokenizer"):
        run_of(lines, tmp_path / "run", **(usual | {name: value}))


@pytest.mark.parametrize("content", ["", "   \n \n"])
def test_texts_that_hold_nothing_to_learn_are_named(tmp_path, content):
    (tmp_path / "a.txt").write_text(content)
    with pytest.raises(ClearheadError, match="there is no text to learn from"):
        run_of(tmp_path / "a.txt", tmp_path / "run")


def test_texts_without_a_token_that_could_be_hidden_are_named(tmp_path):
    (tmp_path / "a.txt").write_text("\u0301\n" * 30)  # which BERT's tokenizer takes away
    known = tiny_folder(tmp_path / "tokenizer", "bert")
    with pytest.raises(ClearheadError, match="no token that could be hidden"):
        run_of(tmp_path / "a.txt", tmp_path / "run", tokenizer=str(known), vocab=8000, documents="line")


def test_texts_that_a_tokenizer_knows_nothing_of_are_not_called_short(lines, tmp_path):
    own = tmp_path / "a.txt"
    own.write_text("文字列 文字列\n" * 30)
    options = {"base": str(filling_folder(tmp_path / "known", "bert")), "out": str(tmp_path / "run")}
    with pytest.raises(DataError, match=r"--from .*known: .* nothing of the texts to learn from"):
        ch.train("fill", data=[own], **options)
    with pytest.raises(DataError, match=r"nothing of the texts to choose by: all of their [0-9]+ tokens"):
        ch.train("fill", data=[lines], validation=own, **options)
    with pytest.raises(DataError, match=r"known: .* knows nothing of the texts of .*a\.txt: all"):
        ch.evaluate(ch.load(options["base"]), own)


def test_runs_without_a_break_are_learned_from_or_refused(tmp_path):
    (tmp_path / "a.txt").write_text("あいうえおかきくけこ" * 60 + "\n")
    with pytest.raises(DataError, match=r"nothing is left to learn from; .*--architecture roberta"):
        run_of(tmp_path / "a.txt", tmp_path / "run", architecture="bert")
    assert list(run_of(tmp_path / "a.txt", tmp_path / "run", architecture="roberta"))


def test_a_tokenizer_without_words_is_refused_by_name(lines, tmp_path):
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    with pytest.raises(ClearheadError, match=r"--tokenizer .*bare: its tokenizer has special tokens alone"):
        run_of(lines, tmp_path / "run", architecture="bert", tokenizer=str(tmp_path / "bare"), vocab=8000)
