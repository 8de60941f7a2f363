"""Vectors learned from pairs: the published loss, duplicates no negatives, resumed bit-equal."""

import csv
import json
import random

import pytest
import torch
from safetensors.torch import load_file
from test_kills import remains, until
from torch.nn.functional import cross_entropy, normalize
from transformers import AutoModel

import clearhead as ch
from clearhead.checkpoint.card import CARD
from clearhead.checkpoint.embedding import MODULES
from clearhead.errors import DataError, SettingError
from clearhead.learn.embed import EmbedRun
from clearhead.learn.schedule import Schedule
from clearhead.settings import Contrasting
from families import NAMES, tiny_folder
from sentences import sentence_folder
from tiny import WORDS, tiny_bert

SMALL = {"layers": 1, "width": 16, "heads": 2, "hidden": 32, "vocab": 300, "batch_pairs": 8, "epochs": 2}


def write(path, names, rows):
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([names, *rows])
    return str(path)


@pytest.fixture
def pairs(tmp_path):
    """80 pairs: a few words, and some of them again."""
    chance, rows = random.Random(0), []
    for number in range(80):
        words = chance.sample(WORDS[:28], 4)
        rows.append((" ".join([*words, f"{number % 10}"]), " ".join(chance.sample(words, 3))))
    return write(tmp_path / "pairs.csv", ("anchor", "positive"), rows)


@pytest.fixture
def scored(tmp_path):
    chance, rows = random.Random(0), []
    for _ in range(60):
        words, same = chance.sample(WORDS[:28], 5), chance.randint(0, 5)
        rows.append((" ".join(words), " ".join(words[:same] + chance.choices(WORDS[:28], k=5 - same)), same))
    return write(tmp_path / "scored.csv", ("sentence1", "sentence2", "score"), rows)


def run_of(data, out, **changes):
    new = SMALL if changes.get("base", "new") == "new" else {"batch_pairs": 8, "epochs": 2}
    return EmbedRun(Contrasting(data=data, out=str(out), **({"base": "new"} | new | changes)))


def plain_losses(run, folder, steps):
    """The same steps by a plain loop: each text by itself through the published code."""
    model = AutoModel.from_pretrained(folder).train()
    settings, pooling = run.settings, run.objective.pooling
    named = [(name, one) for name, one in model.named_parameters() if not name.startswith("pooler")]
    groups = [
        {"params": [p for _, p in named if p.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [p for _, p in named if p.ndim <= 1], "weight_decay": 0.0},
    ]
    rate = Schedule.of(run.learning_rate, len(run.trainer.steps), warmup=settings.warmup, decay="linear")
    optimizer = torch.optim.AdamW(groups, lr=1.0)

    def vector(example):
        (window,) = example.windows
        tokens = model(
            input_ids=torch.tensor([window.ids]), token_type_ids=torch.tensor([window.segments])
        ).last_hidden_state[0]
        return {"mean": tokens.mean(0), "cls": tokens[0], "max": tokens.amax(0), "last": tokens[-1]}[pooling]

    losses = []
    for number, (_, _, (members,)) in enumerate(run.trainer.steps[:steps], 1):
        sides = [[side[index] for index in members] for side in run.objective.sides]
        ones, others = (normalize(torch.stack([vector(one) for one in side]), dim=-1) for side in sides[:2])
        extra = [vector(one) for one in sides[2] if one]
        couples = [run.pairs[index] for index in members]
        if run.objective.scored:
            right = torch.tensor([couple.score for couple in couples]) / run.largest
            loss = (((ones * others).sum(-1) - right) ** 2).mean()
        else:
            texts = [couple.positive for couple in couples] + [c.negative for c in couples if c.negative]
            candidates = torch.cat([others, normalize(torch.stack(extra), dim=-1)]) if extra else others
            logits = settings.scale * ones @ candidates.T
            for row, couple in enumerate(couples):
                known = {other.positive for other in run.pairs if other.anchor == couple.anchor}
                for column, text in enumerate(texts):
                    if column != row and text in known | {couple.anchor}:
                        logits[row, column] = -torch.inf
            loss = cross_entropy(logits, torch.arange(len(members)))
            if settings.symmetric:
                back = settings.scale * others @ ones.T
                for row, couple in enumerate(couples):
                    known = {other.anchor for other in run.pairs if other.positive == couple.positive}
                    for column, other in enumerate(couples):
                        if column != row and other.anchor in known | {couple.positive}:
                            back[row, column] = -torch.inf
                loss = (loss + cross_entropy(back, torch.arange(len(members)))) / 2
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for _, p in named], settings.max_grad_norm)
        for group in optimizer.param_groups:
            group["lr"] = rate(number)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    "changes",
    [{}, {"symmetric": True}, {"pooling": "cls", "scale": 5.0}, {"pooling": "max"}, {"pooling": "last"}],
    ids=["one-sided", "symmetric", "cls", "max", "last"],
)
def test_the_first_twenty_losses_are_those_of_a_plain_loop(pairs, tmp_path, changes):
    """The published code, text by text, duplicates masked; within 1e-4."""
    with open(pairs, "a") as file:
        file.write("good soup,warm bread\ngood soup,cold film\nwarm bread,good\nslow,good\n" * 2)
    base = tiny_bert(tmp_path / "base")
    more = {"epochs": 3, "dropout": 0.0, "learning_rate": 1e-3}
    run = run_of(pairs, tmp_path / "run", base=str(base), **more, **changes)
    right = plain_losses(run, base, 20)
    found = [progress.step.loss for progress in run][:20]
    assert len(found) == 20
    assert found == pytest.approx(right, abs=1e-4)
    assert found[-1] < found[0]


def test_hard_negatives_are_candidates_of_all(tmp_path):
    chance, rows = random.Random(0), []
    for _ in range(50):
        words = chance.sample(WORDS[:28], 4)
        hard = " ".join(chance.sample(WORDS[:28], 3)) if chance.random() < 0.7 else ""
        rows.append((" ".join(words), " ".join(words[:3]), hard))
    data = write(tmp_path / "pairs.csv", ("query", "answer", "negative"), rows)
    base = tiny_bert(tmp_path / "base")
    run = run_of(data, tmp_path / "run", base=str(base), epochs=4, dropout=0.0, learning_rate=1e-3)
    right = plain_losses(run, base, 20)
    assert [progress.step.loss for progress in run][:20] == pytest.approx(right, abs=1e-4)


def test_losses_of_scores_are_those_of_a_plain_loop(scored, tmp_path):
    base = tiny_bert(tmp_path / "base")
    run = run_of(scored, tmp_path / "run", base=str(base), epochs=4, dropout=0.0, learning_rate=1e-3)
    right = plain_losses(run, base, 20)
    found = [progress.step.loss for progress in run]
    assert found[:20] == pytest.approx(right, abs=1e-4)
    assert run.metric == "spearman" and run.largest == 5
    log = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    best = max((line for line in log if "eval_spearman" in line), key=lambda line: line["eval_spearman"])
    assert best["eval_spearman"] == log[run.best_step - 1]["eval_spearman"]


@pytest.mark.shows("train")
@pytest.mark.parametrize("embeds", [True])
@pytest.mark.parametrize("name", NAMES)
def test_every_family_learns_and_stays_itself(pairs, tmp_path, name, embeds):
    base = tiny_folder(tmp_path / "base", name)
    names = ("sentence-similarity", "feature-extraction")
    ways = {"data": pairs, "base": base, "out": tmp_path / "run", "max_steps": 3, "batch_pairs": 8}
    run = ch.train(names[len(name) % 2], **ways)
    assert [progress.step.texts for progress in run] == [8, 8, 8]
    model = ch.load(tmp_path / "run")
    assert model.embeds and model.loaded.embedding.normalise
    assert model.loaded.family.model_type == ch.load(base).loaded.family.model_type
    before, after = (load_file(folder / "model.safetensors") for folder in (base, tmp_path / "run"))
    assert after.keys() <= before.keys()  # the pooler of RoBERTa is left out
    assert any(not torch.equal(before[name], after[name]) for name in after)
    assert 'pipeline_tag: "sentence-similarity"' in (tmp_path / "run" / CARD).read_text()


def test_what_a_base_says_of_vectors_stays(pairs, tmp_path):
    base = sentence_folder(tmp_path / "base", pooling="cls", normalise=False, limit=9)
    said = ch.load(base).loaded.embedding
    run = run_of(pairs, tmp_path / "run", base=str(base), max_steps=2)
    assert run.objective.pooling == "cls" and max(one.tokens for one in run.objective.sides[0]) <= 9
    list(run)
    assert ch.load(tmp_path / "run").loaded.embedding == said
    run = run_of(pairs, tmp_path / "other", base=str(base), max_steps=2, pooling="max")
    list(run)
    assert ch.load(tmp_path / "other").loaded.embedding.pooling == "max"


def test_a_classifier_of_such_a_base_is_no_embedder(reviews, tmp_path):
    base = sentence_folder(tmp_path / "base")
    list(ch.train("classify", data=reviews, base=base, out=tmp_path / "run", max_steps=2))
    assert not (tmp_path / "run" / MODULES).exists()
    assert ch.load(tmp_path / "run").task


def test_each_step_has_as_many_pairs_and_epochs_differ(pairs, tmp_path):
    run = run_of(pairs, tmp_path / "run", batch_pairs=7)
    steps = run.trainer.steps
    assert {len(members) for _, _, (members,) in steps} == {7}
    epochs = [
        [index for epoch, _, (members,) in steps if epoch == number for index in members] for number in (0, 1)
    ]
    assert all(len(set(one)) == len(one) == 70 for one in epochs) and epochs[0] != epochs[1]
    again = run_of(pairs, tmp_path / "run", batch_pairs=7)
    assert again.trainer.steps == steps
    few = run_of(pairs, tmp_path / "run", batch_pairs=500)
    assert {len(members) for _, _, (members,) in few.trainer.steps} == {72}
    assert any("each step has all 72" in note for note in few.notes)


def test_a_killed_run_ends_with_the_bits_of_an_undisturbed_one(pairs, tmp_path):
    changes = {"save_steps": 3, "eval_steps": 4, "dropout": 0.2, "learning_rate": 0.01, "ema": 0.9}
    list(run_of(pairs, tmp_path / "whole", **changes))
    right = remains(tmp_path / "whole")
    right[CARD] = right[CARD].replace(b"whole", b"run")
    until(run_of(pairs, tmp_path / "run", **changes), 1)
    for step in (5, 8, 13):
        until(run_of(pairs, tmp_path / "run", resume=True, **changes), step)
    list(run_of(pairs, tmp_path / "run", resume=True, **changes))
    assert remains(tmp_path / "run") == right


def test_a_run_takes_the_place_of_one_of_another_task(pairs, reviews, tmp_path):
    out = tmp_path / "run"
    list(run_of(pairs, out, max_steps=2))
    list(run_of(pairs, out, max_steps=2, overwrite=True))
    new = {"base": "new", "layers": 1, "width": 16, "heads": 2, "max_steps": 2}
    list(ch.train("classify", data=reviews, out=out, overwrite=True, **new))
    assert not (out / MODULES).exists() and not (out / "1_Pooling").exists()
    assert ch.load(out).task and not list(out.glob(".run-before"))
    list(run_of(pairs, out, max_steps=2, overwrite=True))
    assert ch.load(out).embeds


def test_windows_are_learned_by_their_mean(pairs, tmp_path):
    base = sentence_folder(tmp_path / "base", limit=5)
    run = run_of(pairs, tmp_path / "run", base=str(base), long="window", max_steps=2, dropout=0.0)
    assert any(len(one.windows) > 1 for one in run.objective.sides[0])
    assert all(progress.step.loss > 0 for progress in run)
    cut = run_of(pairs, tmp_path / "cut", base=str(base), max_steps=1)
    assert "in 72 of 72 pairs to learn from a text is cut to 5 tokens" in cut.notes
    assert "in 8 of 8 pairs to choose by a text is cut to 5 tokens" in cut.notes
    with pytest.raises(DataError, match=r"pairs.csv, row \d+: the text has 7 tokens, the model takes 5"):
        run_of(pairs, tmp_path / "cut", base=str(base), long="error")


def test_a_text_to_choose_by_that_is_too_long_is_refused_before_the_first_step(tmp_path):
    base = sentence_folder(tmp_path / "base", limit=5)
    names = ("anchor", "positive")
    short = write(tmp_path / "short.csv", names, [("soup", "bread"), ("bread", "soup"), ("the", "table")])
    long = write(tmp_path / "long.csv", names, [("soup", "bread"), ("soup", "the soup and the bread was")])
    with pytest.raises(DataError, match=r"long.csv, row \d+: the text has \d+ tokens, the model takes 5"):
        run_of(short, tmp_path / "run", base=str(base), long="error", validation=str(long))


@pytest.mark.parametrize(
    ("names", "rows", "said"),
    [
        (("anchor", "positive"), [("a", "b")], "1 pair with text on both sides are too few"),
        (("anchor", "positive"), [("a", "b")] * 20, "pairs that all have the same second text to learn from"),
        (("anchor", "positive"), [(f"{n}", "b") for n in range(20)], "there is nothing to tell it from"),
        (("anchor", "positive"), [("a", f"{n}") for n in range(20)], "that all have the same first text to"),
        (
            ("anchor", "positive"), [(a, b) for a in "abc" for b in "xyza"] * 5,
            "pairs of which each second text belongs to each first one to learn from",
        ),
        (("anchor", "positive", "negative"), [("a", "b", "b")] * 20, "the same second text to learn from"),
        (("anchor", "positive", "score"), [("a", "b", 1)] * 20, "all pairs have the same score"),
        (("anchor", "positive", "score"), [("a", "b", "x")] * 20, "column 'score': 'x' is not a number"),
        (("anchor", "positive", "score"), [("a", "b", "nan")] * 20, "'nan' is not a number"),
        (("anchor", "positive", "score", "negative"), [("a", "b", 1, "c")] * 20, "has one or the other"),
        (("text", "label"), [("a", "b")] * 20, "no column 'positive' or 'answer'"),
        (("words", "positive"), [("a", "b")] * 20, "no column 'anchor' or 'query'"),
        (("query", "question", "answer"), [("a", "b", "c")] * 20, "could each be the anchor"),
        (("anchor", "positive"), [(" ", "b")] * 20, "no pair has text on both sides"),
    ],
)  # fmt: skip
def test_pairs_that_teach_nothing_are_refused(tmp_path, names, rows, said):
    data = write(tmp_path / "pairs.csv", names, rows)
    with pytest.raises(DataError, match=said):
        run_of(data, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"accumulate": 2}, "--accumulate 2: each text is told from the others of its step"),
        ({"batch_pairs": 1}, "--batch-pairs 1 must be at least 2"),
        ({"scale": 0.0}, "--scale 0.0 must be above 0"),
        ({"base": "minilm", "layers": 3}, "--layers shapes a new model"),
        ({"pooling": "middle"}, "--pooling 'middle' is not one of cls, mean, max, last"),
    ],
)
def test_settings_that_cannot_be_are_refused(pairs, tmp_path, changes, said):
    with pytest.raises(SettingError, match=said):
        EmbedRun(Contrasting(data=pairs, out=str(tmp_path / "run"), **changes))


def test_bases_that_would_lose_something_are_refused(pairs, bert_folder, tmp_path):
    with pytest.raises(SettingError, match="gives labels, which it would forget"):
        run_of(pairs, tmp_path / "run", base=str(bert_folder))


def test_an_empty_file_is_named(tmp_path):
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(DataError, match="empty.csv: "):
        run_of(str(tmp_path / "empty.csv"), tmp_path / "run")


def test_pairs_on_both_sides_are_told(pairs, tmp_path):
    run = run_of(pairs, tmp_path / "run", validation=pairs)
    assert any("80 of 80 validation pairs stand among the training pairs too" in note for note in run.notes)


def test_evaluation_counts_as_the_run_has_learned(pairs, tmp_path):
    list(run_of(pairs, tmp_path / "run", max_steps=1, scale=5.0))
    losses = [ch.evaluate(ch.load(tmp_path / "run"), pairs).metrics.loss]
    ch.load(tmp_path / "run").save(tmp_path / "alone")
    losses.append(ch.evaluate(ch.load(tmp_path / "alone"), pairs).metrics.loss)  # as usual, by 20
    assert losses[0] != losses[1]
    names = ("anchor", "positive", "score")
    data = write(tmp_path / "scored.csv", names, [(f"soup {n}", f"bread {n}", n % 5) for n in range(20)])
    low = write(tmp_path / "low.csv", names, [("soup 1", "bread 1", 1), ("soup 2", "bread 2", 2)])
    list(run_of(data, tmp_path / "second", max_steps=1))
    model = ch.load(tmp_path / "second")
    found = ch.evaluate(model, low).metrics
    one, other = (model.embed([f"soup {n}", f"bread {n}"]).double() for n in (1, 2))
    right = [(float(pair[0] @ pair[1]) - n / 4) ** 2 for n, pair in ((1, one), (2, other))]
    assert found.loss == pytest.approx(sum(right) / 2)
