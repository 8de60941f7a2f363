"""Taggers, learned: the published loop's losses, resumed bit-equal, kept or new heads, what is refused."""

import json
import random

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForTokenClassification, AutoTokenizer

import clearhead as ch
from clearhead.engine.modes import own_modes
from clearhead.errors import ClearheadError, Interrupted
from clearhead.learn.tag import TagRun
from clearhead.settings import Tagging
from decoders import tiny_folder as tiny_decoder
from families import NAMES, over_tokens, tiny_folder, write_tokenizer
from tiny import WORDS

FOOD = ("soup", "bread")
LABELS = ("O", "B-FOOD", "I-FOOD", "B-SITE", "I-SITE")
NEW = {"base": "new", "layers": 1, "width": 16, "heads": 2, "hidden": 32, "vocab": 300}


def tagged(count, seed=0):
    """Sentences whose tags can be learned, with words of several pieces, and one without any."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        words = chance.choices([*WORDS[:26], "soup12", "table3"], k=chance.randint(1, 9))
        words += ["\u200b"] if number % 7 == 0 else []
        kinds = ["FOOD" if word[:5] in ("soup", "soup1", "bread") else "SITE" if word[:5] == "table" else ""
                 for word in words]  # fmt: skip
        tags = [
            "O" if not kind else f"{'I' if place and kinds[place - 1] == kind else 'B'}-{kind}"
            for place, kind in enumerate(kinds)
        ]
        found.append((words, tags))
    return found


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.conll"
    lines = ("".join(f"{w}\t{t}\n" for w, t in zip(*one, strict=True)) for one in tagged(80))
    path.write_text("\n".join(lines))
    return path


def run_of(data, out, **changes):
    return TagRun(Tagging(data=str(data), out=str(out), **({"epochs": 1, "batch_tokens": 120} | changes)))


@pytest.mark.parametrize("name", ["bert", "roberta", "modernbert"])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_first_losses_are_those_of_a_plain_loop_around_the_published_code(
    data, tmp_path, name, accumulate
):
    """The same start, batches and rates: words by their first piece, −100 for others, the sum over a step
    divided by the number of labels in it; AdamW and clipping as everywhere."""
    base = tiny_folder(tmp_path / "base", name)
    run = run_of(
        data, tmp_path / "run", base=str(base), dropout=0.0, epochs=3, accumulate=accumulate,
        learning_rate=1e-3, schedule="constant", warmup=1, weight_decay=0.0,
    )  # fmt: skip
    run.model.save(tmp_path / "start")
    theirs = AutoModelForTokenClassification.from_pretrained(tmp_path / "start").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "start")
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=1e-3, weight_decay=0.0)
    numbers = {label: number for number, label in enumerate(LABELS)}
    wanted = []
    for _, _, batches in run.trainer.steps[:20]:
        total, count = 0.0, 0
        for index in [index for batch in batches for index in batch]:
            row = run.training[index]
            encoding = tokenizer(row.text, return_tensors="pt", truncation=True)
            labels = torch.full(encoding["input_ids"].shape, -100)
            start = 0
            for word, tag in zip(row.words, row.labels, strict=True):
                token = encoding.char_to_token(start)
                if token is not None:
                    labels[0, token] = numbers[tag]
                start += len(word) + 1
            known = int((labels >= 0).sum())
            total = total + theirs(**encoding, labels=labels).loss * known if known else total
            count += known
        loss = total / count
        loss.backward()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        wanted.append(loss.item())
    losses = [progress.step.loss for progress, _ in zip(run, wanted, strict=False)]
    torch.testing.assert_close(losses, wanted, atol=1e-5, rtol=1e-4)
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.shows("train")
@pytest.mark.parametrize("over", ["tag"])
@pytest.mark.parametrize("name", NAMES)
def test_every_family_learns_to_tag(data, tmp_path, name, over):
    base, out = tiny_folder(tmp_path / "base", name), tmp_path / "run"
    run = ch.train(
        "token-classification", data=data, base=base, out=out, epochs=12, batch_tokens=120, learning_rate=5e-3
    )
    losses = [progress.step.loss for progress in run]
    assert losses[-1] < losses[0]
    model = ch.load(out)
    assert model.tags and model.loaded.labels == LABELS
    assert model.loaded.family.model_type == ch.load(base).loaded.family.model_type
    found = ch.evaluate(model, data)
    assert found.metrics.f1 > 0.7, found.metrics
    assert not [one for one in ch.verify(model) if one.verdict == "fail"]
    theirs, notes = AutoModelForTokenClassification.from_pretrained(out, output_loading_info=True)
    assert not notes["missing_keys"] and not notes["unexpected_keys"]
    assert tuple(theirs.config.id2label.values()) == LABELS


def test_a_new_model_learns_chooses_by_entities_and_says_so(data, tmp_path):
    out = tmp_path / "run"
    run = run_of(data, out, epochs=30, **NEW)
    assert run.notes[0] == f"{data}: 80 sentences, tags in BIO"
    assert run.made() == "entities: FOOD, SITE"
    found = [progress.metrics for progress in run if progress.metrics]
    log = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    best = next(line for line in log if line["step"] == run.best_step)
    scores = [(line["eval_f1"], -line["eval_loss"]) for line in log if "eval_f1" in line]
    assert (best["eval_f1"], -best["eval_loss"]) == max(scores)
    assert found[-1].f1 > 0.7 and found[-1].loss < found[0].loss / 3
    card = (out / "README.md").read_text()
    assert (
        "token-classification" in card and "A tagger of words that finds entities of the types `FOOD`" in card
    )
    assert ch.load(out).predict(["the soup"])[0].entities[0].label == "FOOD"


def test_a_run_that_was_stopped_goes_on_to_the_same_bits(data, tmp_path):
    changes = {"epochs": 3, "save_steps": 2, "dropout": 0.1, **NEW}
    list(run_of(data, tmp_path / "whole", **changes))
    for progress in run_of(data, tmp_path / "cut", **changes):
        if progress.step.number == 3:
            break  # as a kill would leave it: no state of this step
    with pytest.raises(Interrupted):  # noqa: PT012
        for progress in (again := run_of(data, tmp_path / "cut", resume=True, **changes)):
            if progress.step.number == 5:
                again.stop()
    list(run_of(data, tmp_path / "cut", resume=True, **changes))
    for name in ("model.safetensors", "tokenizer.json", "config.json", "fingerprint.json"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()
    states = [next((tmp_path / name).glob("state-*/state.json")).read_text() for name in ("whole", "cut")]
    digests = [json.loads(state)["standing"]["tensors"] for state in states]
    assert digests[0] == digests[1]


def test_changed_tags_are_no_run_to_go_on_with(data, tmp_path):
    list(run_of(data, tmp_path / "run", **NEW))
    data.write_text(data.read_text().replace("B-SITE", "B-FOOD"))
    with pytest.raises(ClearheadError, match="the texts have changed since the run began"):
        run_of(data, tmp_path / "run", resume=True, **NEW)


def test_a_sentence_is_learned_as_if_it_were_alone(data, tmp_path):
    run = run_of(data, tmp_path / "run", base=str(tiny_folder(tmp_path / "base", "bert")))
    network, objective = run.model.loaded.network, run.objective
    with own_modes():
        together = float(objective.loss(network, list(range(20)), drop=None))
        alone = sum(float(objective.loss(network, [member], drop=None)) for member in range(20))
    assert together == pytest.approx(alone, rel=1e-6)


def test_long_sentences_are_learned_in_windows_each_word_once(data, tmp_path):
    base = tiny_folder(tmp_path / "base", "bert")
    rows = tagged(12, seed=3)
    words = [word for some, _ in rows for word in some]
    tags = [tag for _, some in rows for tag in some]
    long = tmp_path / "long.conll"
    lines = "".join(f"{w}\t{t}\n" for w, t in zip(words, tags, strict=True))
    long.write_text(f"{lines}\n{data.read_text()}")
    cut = run_of(long, tmp_path / "cut", base=str(base), seed=1)
    whole = run_of(long, tmp_path / "whole", base=str(base), seed=1, long="window")
    assert any("sentences are cut to the model's 32 tokens, which loses" in note for note in cut.notes)
    assert any(" sentences are read in windows, " in note for note in whole.notes)
    spare = sum(word == "\u200b" for row in whole.training for word in row.words)
    assert sum(whole.objective.counts) == sum(len(row.words) for row in whole.training) - spare
    assert sum(cut.objective.counts) < sum(whole.objective.counts)
    assert all(progress.step.loss > 0 for progress in whole)
    with pytest.raises(
        ClearheadError, match=r"long.conll, row 1: the text has \d+ tokens, the model takes 32"
    ):
        run_of(long, tmp_path / "error", base=str(base), long="error")
    short = tmp_path / "short.conll"
    short.write_text(data.read_text())
    with pytest.raises(ClearheadError, match=r"long.conll, row 1: the text has \d+ tokens"):  # before a step
        run_of(short, tmp_path / "aside", base=str(base), long="error", validation=str(long))


@pytest.mark.parametrize("name", ["bert", "modernbert"])
def test_a_body_that_stays_is_learned_over_as_if_it_were_computed_each_time(data, tmp_path, name):
    base = tiny_folder(tmp_path / "base", name)
    changes = {"base": str(base), "learning_rate": 1e-2, "dropout": 0.0, "epochs": 4}
    run = run_of(data, tmp_path / "run", freeze=True, **changes)
    with own_modes():
        frozen = float(run.objective.loss(run.model.loaded.network, range(9), drop=None))
        run.objective.freeze = False
        plain = float(run.objective.loss(run.model.loaded.network, range(9), drop=None))
        run.objective.freeze = True
    assert frozen == pytest.approx(plain, rel=1e-6)
    list(run)
    before, after = (load_file(folder / "model.safetensors") for folder in (base, tmp_path / "run"))
    body = [name for name in after if not name.startswith(("classifier", "head"))]
    prefix = next(name for name in body if name.endswith("weight")).split(".")[0]
    for name in body:
        plain = name if name in before else name.removeprefix(f"{prefix}.")
        assert torch.equal(after[name], before[plain]), name


def test_a_head_with_these_labels_is_kept_and_any_other_made_new(data, tmp_path):
    folder = tmp_path / "tagger"
    folder.mkdir()
    over_tokens("bert", "tag", wide=True).save_pretrained(folder)
    write_tokenizer(folder, "bert")
    weight = load_file(folder / "model.safetensors")["classifier.weight"]
    same = tmp_path / "same.conll"
    same.write_text(data.read_text().replace("-SITE", "-FOOD"))
    kept = run_of(same, tmp_path / "kept", base=str(folder))
    assert torch.equal(kept.model.loaded.network.head.output.weight, weight)
    new = run_of(data, tmp_path / "new", base=str(folder))
    assert new.model.loaded.network.head.output.weight.shape[0] == 5
    list(new)
    assert ch.load(tmp_path / "new").loaded.labels == LABELS


def test_a_classifier_and_an_answerer_become_taggers(data, tmp_path):
    for name, base in (("class", tiny_folder(tmp_path / "class", "roberta", ("a", "b"))), ("spans", None)):
        if base is None:
            base = tmp_path / "spans"
            base.mkdir()
            over_tokens("roberta", "answer").save_pretrained(base)
            write_tokenizer(base, "roberta")
        list(run_of(data, tmp_path / f"{name}-run", base=str(base), max_steps=1))
        assert ch.load(tmp_path / f"{name}-run").loaded.labels == LABELS


@pytest.mark.parametrize(
    ("text", "changes", "said"),
    [
        ("a\tO\n\n" * 12, {}, "every tag is O; give sentences with some entities"),
        (
            "a\tB-A\n",
            {},
            "1 sentence are too few to learn from and choose by; give at least 10, or --validation",
        ),
        (None, {"base": "nowhere"}, "there is no folder or model 'nowhere'"),
        (None, {"base": "minilm", "layers": 3}, "--layers shapes a new model, but --from is minilm"),
        (None, {**NEW, "freeze": True}, "--freeze keeps the body, and a new one knows nothing"),
        (None, {**NEW, "stride": 3}, "--stride 3 is for --long window; leave it out"),
        (None, {**NEW, "stride": 0}, "--stride 0 must be at least 1"),
        (None, {**NEW, "metric": "auroc"}, "--metric 'auroc' is not one of f1, macro_f1, accuracy, loss"),
        (None, {**NEW, "format": "csv"}, "--format 'csv' is not one of conll, jsonl"),
    ],
)
def test_what_cannot_be_learned_is_refused_by_name(data, tmp_path, text, changes, said):
    if text is not None:
        data.write_text(text)
        changes = {**NEW, **changes}
    with pytest.raises(ClearheadError, match=said):
        run_of(data, tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


def test_models_that_cannot_tag_are_refused_as_a_start(data, tmp_path):
    with pytest.raises(ClearheadError, match="is a decoder, which does not see what follows a word; give an"):
        run_of(data, tmp_path / "run", base=str(tiny_decoder(tmp_path / "gpt2", "gpt2")))


def test_types_that_training_lacks_are_refused_where_they_stand(data, tmp_path):
    other = tmp_path / "other.conll"
    other.write_text("soup\tB-FOOD\n\nAda\tB-PERSON\n")
    with pytest.raises(
        ClearheadError, match=r"other.conll, row 2: the label 'B-PERSON' is not one the model was"
    ):
        run_of(data, tmp_path / "run", validation=str(other), **NEW)
    other.write_text("soup\tB-FOOD\n\nthe\tO\ntable\tB-SITE\n")
    run = run_of(data, tmp_path / "run", validation=str(other), max_steps=1, **NEW)
    list(run)
    assert len(run.training) == 80 and len(run.validation) == 2


def test_metric_loss_chooses_by_loss_and_repeats_are_left_out(data, tmp_path):
    data.write_text(data.read_text() + "\n\n" + data.read_text())
    run = run_of(data, tmp_path / "run", metric="loss", epochs=3, **NEW)
    assert any("rows repeat a sentence; the first of each is used" in note for note in run.notes)
    losses = [progress.metrics.loss for progress in run if progress.metrics]
    assert run.best[0] == -min(losses)
