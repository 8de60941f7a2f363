"""Language models from texts: each token learned once, nothing seen across borders, resumed bit-equal."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

import clearhead as ch
from clearhead.engine.modes import own_modes
from clearhead.errors import ClearheadError, Interrupted
from clearhead.learn.corpus import Texts, kept_aside
from clearhead.learn.language import LanguageRun
from clearhead.settings import Language
from clearhead.tasks.pieces import Pieces, ids_of
from clearhead.text.train import train_tokenizer
from decoders import tiny_folder

ARCHITECTURES = ("gpt2", "llama", "qwen3", "gpt_neox")
SMALL = {"layers": 2, "width": 16, "heads": 2, "context": 12, "vocab": 300, "batch_tokens": 60, "epochs": 1}


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text(
        "".join(f"line {number}: the soup was {'good' if number % 2 else 'cold'}.\n" for number in range(40))
    )
    return path


def run_of(texts, out, **changes):
    return LanguageRun(Language(data=[str(texts)], out=str(out), **(SMALL | changes)))


def finish(run):
    return [progress.step.loss for progress in run]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.integers(0, 9), max_size=30), max_size=6), st.integers(1, 9), st.booleans())
def test_each_token_that_follows_one_is_learned_once(documents, context, blocks):
    pieces = Pieces.of(documents, context=context, blocks=blocks)
    flat = [id for document in documents for id in document]
    assert pieces.ids.tolist() == flat
    learned = [place + 1 for start, stop in pieces.spans for place in range(start, stop)]
    starts = {0} if blocks else {sum(map(len, documents[:n])) for n in range(len(documents))}
    assert learned == [place for place in range(len(flat)) if place not in starts]
    assert all(1 <= length <= context for length in pieces.lengths)
    assert pieces.size(range(len(pieces.spans))) == len(learned)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_loss_is_the_published_codes(texts, tmp_path, architecture):
    """The same text, the same weights: `transformers` with labels, block by block; gradients too."""
    run = run_of(texts, tmp_path / "run", architecture=architecture, dropout=0.0)
    run.model.save(tmp_path / "start")
    published = AutoModelForCausalLM.from_pretrained(tmp_path / "start").eval()
    members = list(range(4))
    with own_modes(learning=True):
        loss = run.objective.loss(run.model.loaded.network, members, drop=None)
        loss.backward()
    total = 0.0
    for start, stop in (run.objective.spans[member] for member in members):
        ids = run.objective.ids[start : stop + 1].long()[None]
        logits = published(ids[:, :-1]).logits[0]
        total = total + torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum")
    total.backward()
    assert float(loss) == pytest.approx(float(total), rel=1e-5)
    ours = run.model.loaded.network.embedding.tokens.weight.grad
    theirs = published.get_input_embeddings().weight.grad
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-3)


def test_a_document_is_learned_as_if_it_were_alone(tmp_path):
    """Nothing is seen across borders: the loss of each document is the same in any batch."""
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": f"text {n} " + "soup " * (n % 5)}) + "\n" for n in range(30)))
    run = run_of(path, tmp_path / "run", context=64)
    network, pieces = run.model.loaded.network, run.objective
    with own_modes():
        together = float(pieces.loss(network, list(range(20)), drop=None))
        alone = sum(float(pieces.loss(network, [member], drop=None)) for member in range(20))
    assert together == pytest.approx(alone, rel=1e-6)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_trained_model_is_a_published_folder_that_knows_its_texts(texts, tmp_path, architecture):
    run = run_of(texts, tmp_path / "run", architecture=architecture, epochs=12, learning_rate=1e-2)
    losses = finish(run)
    assert losses[-1] < 0.6 * losses[0]
    model = ch.load(tmp_path / "run")
    assert model.loaded.family.model_type == architecture
    (told,) = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()][
        -1:
    ]
    assert told["eval_loss"] < 3 and told["eval_bits_per_byte"] > 0
    AutoModelForCausalLM.from_pretrained(tmp_path / "run")
    text = "".join(piece for _, piece in ch.generate(model, ["line 3: the"], max_new_tokens=4))
    assert text
    assert all(finding.verdict != "fail" for finding in ch.verify(model))
    assert "A language model" in (tmp_path / "run" / "README.md").read_text()


@pytest.mark.parametrize("changes", [{}, {"accumulate": 2, "epochs": 2}, {"blocks": True}])
def test_a_run_that_is_stopped_goes_on_to_the_same_bits(texts, tmp_path, changes):
    changes = {"dropout": 0.2, "architecture": "gpt2", "save_steps": 2, "eval_steps": 3} | changes
    finish(run_of(texts, tmp_path / "whole", **changes))
    run = run_of(texts, tmp_path / "cut", **changes)
    for progress in run:
        if progress.step.number == 3:
            break  # as a kill would leave it: no state of this step
    with pytest.raises(Interrupted):  # noqa: PT012
        for progress in (again := run_of(texts, tmp_path / "cut", resume=True, **changes)):
            if progress.step.number == 5:
                again.stop()
    finish(run_of(texts, tmp_path / "cut", resume=True, **changes))
    for name in ("model.safetensors", "tokenizer.json", "config.json", "fingerprint.json"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()
    states = [next((tmp_path / name).glob("state-*/state.json")).read_text() for name in ("whole", "cut")]
    digests = [json.loads(state)["standing"]["tensors"] for state in states]
    assert digests[0] == digests[1]


def test_a_published_model_goes_on_learning(texts, tmp_path):
    base = tiny_folder(tmp_path / "base", "llama", max_position_embeddings=64)
    run = run_of(
        texts, tmp_path / "run", base=str(base), layers=4, width=256, heads=4, vocab=4000, context=16
    )
    assert run.learning_rate == 5e-5
    finish(run)
    before, after = (load_file(folder / "model.safetensors") for folder in (base, tmp_path / "run"))
    assert before.keys() - {"lm_head.weight"} == after.keys() - {"lm_head.weight"}
    assert any(not torch.equal(before[name], after[name]) for name in after if name in before)


@pytest.mark.parametrize("kind", ["bpe", "characters"])
def test_a_tokenizer_that_ends_every_text_is_refused_and_one_that_does_not_is_taken(texts, tmp_path, kind):
    for closed in (True, False):
        train_tokenizer([texts.read_text()], vocab=300, kind=kind, closed=closed).write(
            tmp_path / str(closed)
        )
    with pytest.raises(ClearheadError, match=r"ends texts with '</s>'.*tokenizer train --no-closed"):
        run_of(texts, tmp_path / "run", tokenizer=str(tmp_path / "True"), vocab=4000)
    run = run_of(texts, tmp_path / "run", tokenizer=str(tmp_path / "False"), vocab=4000)
    assert run.model.tokenizer.encode(["a"])[0].ids[0] == run.model.tokenizer.roles["bos_token"]


def test_what_puts_anything_behind_a_text_is_refused_whatever_its_role(texts, tmp_path):
    """BERT's [SEP] is no end token, and yet no prompt could be gone on with."""
    bert = tmp_path / "bert"
    train_tokenizer([texts.read_text()], vocab=300, kind="wordpiece").write(bert)
    with pytest.raises(ClearheadError, match=r"--tokenizer .*bert ends texts with '\[SEP\]'"):
        run_of(texts, tmp_path / "run", tokenizer=str(bert), vocab=4000)
    base = tmp_path / "base"
    run_of(texts, tmp_path / "run", vocab=258).model.save(base)
    (base / "fingerprint.json").unlink()
    train_tokenizer([texts.read_text()], vocab=258).write(base)
    usual = {"layers": 4, "width": 256, "heads": 4, "vocab": 4000}
    run = run_of(texts, tmp_path / "further", base=str(base), **usual)  # as it is published, and said
    assert any("base ends prompts with '</s>'; texts go on before it" in note for note in run.notes)


@pytest.mark.parametrize(("name", "value"), [("vocab", 300), ("pieces", "characters")])
def test_what_a_tokenizer_that_is_there_cannot_be_is_refused(texts, tmp_path, name, value):
    usual = {"tokenizer": str(tmp_path), "vocab": 4000}
    with pytest.raises(ClearheadError, match=f"--{name} is of a tokenizer that is learned, and --tokenizer"):
        run_of(texts, tmp_path / "run", **(usual | {name: value}))


@pytest.mark.parametrize("pieces", ["bpe", "characters"])
def test_characters_and_byte_pairs_write_back_what_they_read(texts, tmp_path, pieces):
    run = run_of(texts, tmp_path / "run", pieces=pieces)
    tokenizer, text = run.model.tokenizer, texts.read_text()
    (ids,) = ids_of(tokenizer, [text])
    assert ids[0] == tokenizer.roles["bos_token"] and ids[-1] == tokenizer.roles["eos_token"]
    assert tokenizer.decode(ids[1:-1]) == text
    if pieces == "characters":
        assert len(ids) == len(text) + 2 and tokenizer.vocab_size == 3 + len(set(text[: -len(text) // 10]))


def test_texts_are_kept_aside_by_seed_or_at_their_ends():
    many = [f"text {number}" for number in range(40)]
    kept, aside = kept_aside(many, seed=1)
    assert sorted(kept + aside) == sorted(many) and len(aside) == 4
    assert kept_aside(many, seed=1) == (kept, aside) != kept_aside(many, seed=2)
    kept, aside = Texts(["x" * 90 + "y" * 10]).parts(0)
    assert (kept.texts, aside.texts) == (["x" * 90], ["y" * 10])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"width": 15}, "--width 15 cannot be shared by --heads 2 evenly"),
        ({"vocab": 3}, "vocab=3 is too small"),
        ({"context": 1}, "--context 1 must be at least 2"),
        ({"base": "minilm-nowhere"}, "shapes a new model, but --from is minilm-nowhere"),
        ({"tokenizer": "nowhere", "vocab": 4000}, "there is no folder or model 'nowhere'"),
        ({"resume": True}, "holds no run to go on with"),
    ],
)
def test_what_cannot_be_learned_is_refused_by_name(texts, tmp_path, changes, said):
    with pytest.raises(ClearheadError, match=said):
        run_of(texts, tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("content", ["", "   \n \n", "x"])
def test_texts_that_hold_nothing_to_learn_are_named(tmp_path, content):
    (tmp_path / "a.txt").write_text(content)
    with pytest.raises(ClearheadError, match="there is no text to learn from|too short"):
        run_of(tmp_path / "a.txt", tmp_path / "run")


def test_a_classifier_does_not_go_on_as_a_language_model(texts, reviews, tmp_path):
    for _ in ch.train("classify", data=reviews, out=tmp_path / "run", base="new", max_steps=1):
        pass
    with pytest.raises(ClearheadError, match=r"holds a run of another task \(classify\)"):
        run_of(texts, tmp_path / "run", resume=True)
    encoder = tmp_path / "run"
    usual = {"layers": 4, "width": 256, "heads": 4, "vocab": 4000}
    with pytest.raises(ClearheadError, match="has no language head"):
        run_of(texts, tmp_path / "other", base=str(encoder), **usual)


def test_new_gpt2_weights_are_as_published(texts, tmp_path):
    """What adds to the stream is scaled by √(2 · layers), as the published code draws it; Llama's is not."""
    for architecture, share in (("gpt2", 1 / (2 * 8) ** 0.5), ("llama", 1.0)):
        run = run_of(texts, tmp_path / architecture, architecture=architecture, layers=8, width=64)
        block = run.model.loaded.network.encoder.blocks[3]
        assert float(block.attention.qkv.weight.detach().std()) == pytest.approx(0.02, rel=0.05)
        for layer in (block.attention.output, block.feed_forward.contract):
            assert float(layer.weight.detach().std()) == pytest.approx(0.02 * share, rel=0.05)


def test_a_new_model_sees_enough_steps_and_a_published_one_each_text_three_times(texts, tmp_path):
    run = run_of(texts, tmp_path / "a", epochs=None, batch_tokens=100)
    assert run.epochs == 10 and run.resolved()["training_texts"] == 1 and run.learning_rate == 2e-3
    assert run_of(texts, tmp_path / "b", epochs=None, batch_tokens=2).epochs < 10
    base = str(tiny_folder(tmp_path / "base", "llama"))
    usual = {"layers": 4, "width": 256, "heads": 4, "vocab": 4000}
    assert run_of(texts, tmp_path / "c", base=base, epochs=None, **usual).epochs == 3


@pytest.mark.parametrize("pieces", ["bpe", "characters"])
def test_a_report_is_written_where_texts_fill_the_models_positions(tmp_path, pieces):
    """What the model writes for it needs room."""
    from clearhead.app.reporting import report_of_language

    path = tmp_path / "texts.txt"
    path.write_text(
        "".join(f"line {n}: the soup was good and the bread was cold again.\n" for n in range(30))
    )
    for context in (2, 3, 8, 32):
        run = run_of(path, tmp_path / f"run-{context}", context=context, pieces=pieces, documents="line")
        finish(run)
        assert report_of_language(run).is_file()


def test_a_changed_tokenizer_stops_going_on(texts, tmp_path):
    def tokenizer(words):
        train_tokenizer(words, vocab=268, closed=False).write(tmp_path / "tokenizer")

    tokenizer(["the soup was good"] * 9)
    changes = {"tokenizer": str(tmp_path / "tokenizer"), "vocab": Language.vocab, "save_steps": 1}
    for progress in run_of(texts, tmp_path / "run", **changes):
        if progress.step.number == 2:
            break
    run_of(texts, tmp_path / "run", resume=True, **changes)
    tokenizer(["lines and lines of it"] * 9)
    with pytest.raises(
        ClearheadError, match="the tokenizer of --tokenizer .* has changed since the run began"
    ):
        run_of(texts, tmp_path / "run", resume=True, **changes)


@pytest.mark.parametrize("name", ["chat_template.jinja", "generation_config.json"])
def test_a_changed_template_or_end_stops_going_on(texts, tmp_path, name):
    base = tiny_folder(tmp_path / "base", "llama")
    changes = {"base": str(base), "layers": 4, "width": 256, "heads": 4, "vocab": 4000, "save_steps": 1}
    for progress in run_of(texts, tmp_path / "run", **changes):
        if progress.step.number == 2:
            break
    (base / name).write_text('{"eos_token_id": 5}')
    with pytest.raises(ClearheadError, match="the model of --from .* has changed since the run began"):
        run_of(texts, tmp_path / "run", resume=True, **changes)


def test_folders_that_would_read_or_replace_each_other_are_refused(texts, tmp_path):
    with pytest.raises(ClearheadError, match="lies in --data .*, all of whose files are read"):
        run_of(texts.parent, texts.parent / "run")
    finish(run_of(texts, tmp_path / "run"))
    with pytest.raises(ClearheadError, match="--tokenizer .* lies in --out"):
        run_of(texts, tmp_path / "run", tokenizer=str(tmp_path / "run"), overwrite=True, vocab=Language.vocab)
