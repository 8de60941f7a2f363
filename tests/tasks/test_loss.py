"""Class weights and label smoothing: the loss of a step is one loss, however its texts fell into batches."""

import json
import math
import sys

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

import clearhead as ch
from clearhead.checkpoint.labels import Problem
from clearhead.data.rows import Row
from clearhead.errors import DataError, SettingError
from clearhead.learn.run import Run
from clearhead.settings import Training
from clearhead.tasks.baseline import baseline
from clearhead.tasks.classify import Classification
from clearhead.tasks.task import task_of
from clearhead.tasks.weights import class_weights

LABELS = ("bad", "good")


def rows(names):
    return [Row(f"text {number}", name, "data.csv", number, {}) for number, name in enumerate(names, 1)]


def step_loss(task, logits, targets, *, parts):
    """As the trainer does: sums of each batch, divided once by the size of the step."""
    size = task.size(targets)
    return sum(task.loss(logits[part], targets[part]) / size for part in parts).item()


def test_a_weighted_loss_is_divided_by_the_weights_of_the_whole_step():
    """Public report A26: 9.2 / 13, not the mean of two means, which is 0.5409."""
    losses = torch.tensor([0.2, 0.4, 0.6, 0.8], dtype=torch.float64)
    odds = -torch.log(torch.expm1(losses))  # of the right label
    targets = torch.tensor([0, 0, 0, 1])
    logits = torch.stack([odds * (targets == 0), odds * (targets == 1)], dim=-1)
    assert cross_entropy(logits, targets, reduction="none").tolist() == pytest.approx(losses.tolist())
    task = Classification(LABELS, weights=(1.0, 10.0))
    for parts in ([slice(4)], [slice(2), slice(2, 4)], [slice(1), slice(1, 4)]):
        assert step_loss(task, logits, targets, parts=parts) == pytest.approx(9.2 / 13, rel=1e-6)


@pytest.mark.parametrize("weights", [None, (1.0, 2.5, 0.5)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_smoothed_loss_knows_the_texts_of_the_step_and_no_others(weights, smoothing):
    """Public report A22: what is no text has no part in it; here such rows never come to the loss."""
    random = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 3, generator=random, dtype=torch.float64)
    targets = torch.tensor([0, 2, 1, 1, 0])
    task = Classification(("a", "b", "c"), weights, smoothing)
    weight = torch.tensor(weights or (1.0, 1.0, 1.0), dtype=torch.float64)[targets]
    extreme = torch.cat([logits, torch.full((3, 3), 1e6, dtype=torch.float64)])
    ignored = torch.cat([targets, torch.tensor([-100] * 3)])
    losses = cross_entropy(extreme, ignored, label_smoothing=smoothing, reduction="none")
    plain = losses[:5] @ weight / weight.sum()
    for parts in ([slice(5)], [slice(1), slice(1, 4), slice(4, 5)]):
        assert step_loss(task, logits, targets, parts=parts) == pytest.approx(plain.item(), rel=1e-12)


def test_a_text_counts_as_its_labels_weight_says_also_where_labels_are_smoothed():
    """By hand: logits of ln 3 and 0 are probabilities of 3/4 and 1/4, the smoothed target 0.9 and 0.1."""
    logits = torch.tensor([[3.0, 1.0], [3.0, 1.0]], dtype=torch.float64).log()
    first = -(0.9 * math.log(0.75) + 0.1 * math.log(0.25))
    second = -(0.1 * math.log(0.75) + 0.9 * math.log(0.25))
    task = Classification(LABELS, weights=(1.0, 10.0), smoothing=0.2)
    targets = torch.tensor([0, 1])
    assert task.loss(logits, targets).item() == pytest.approx(first + 10 * second, rel=1e-12)
    thrice = Classification(LABELS, weights=(1.0, 3.0), smoothing=0.2).loss(logits, targets)
    repeated = Classification(LABELS, smoothing=0.2).loss(logits[[0, 1, 1, 1]], targets[[0, 1, 1, 1]])
    assert thrice.item() == pytest.approx(repeated.item(), rel=1e-12)


def test_balanced_weights_are_the_published_ones():
    from sklearn.utils.class_weight import compute_class_weight

    names = ["a"] * 7 + ["b"] * 2 + ["c"]
    published = compute_class_weight("balanced", classes=np.array(["a", "b", "c"]), y=names)
    assert class_weights("balanced", rows(names), labels=("a", "b", "c")) == pytest.approx(published)
    assert class_weights("b=2, c=0.5", rows(names), labels=("a", "b", "c")) == (1, 2, 0.5)
    assert class_weights("a=b=3", rows(names), labels=("a=b", "c")) == (3, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"class_weights": "god=2"}, "--class-weights 'god' names no label; .* with bad, good"),
        ({"class_weights": "good=0"}, "the weight must be a number above 0"),
        ({"class_weights": "good=much"}, "the weight must be a number above 0"),
        ({"class_weights": "good"}, "names no label"),
        ({"class_weights": "good=1_0"}, "the weight must be a number above 0"),
        ({"class_weights": "good=1e39"}, "'good=1e39': the weight must be .* from 1e-09 to 1e[+]09"),
        ({"class_weights": "good=1e-46,bad=1e-46"}, "'good=1e-46': the weight must be a number above 0"),
        ({"class_weights": "good=2,good=3"}, "--class-weights names 'good' twice"),
        ({"class_weights": ""}, "--class-weights is empty"),
        (
            {"class_weights": "good, not bad=2"},
            "'good' names no label; .*a label with a comma cannot be named",
        ),
        ({"label_smoothing": 1.0}, "--label-smoothing 1.0 must be at least 0 and below 1"),
        ({"label_smoothing": 0.1, "problem": "multi"}, "--label-smoothing is for one label a text"),
        ({"class_weights": "balanced", "problem": "multi"}, "--class-weights is for one label a text"),
    ],
)
def test_what_cannot_be_weighed_is_refused(reviews, tmp_path, options, message):
    with pytest.raises(SettingError, match=message):
        ch.train("classify", data=reviews, base="new", out=tmp_path / "run", **options)


def test_weighted_accumulation_gives_the_gradient_of_one_large_batch(body_folder, reviews, tmp_path):
    """Public report A21, with weights and smoothing."""
    options = {"class_weights": "bad=10", "label_smoothing": 0.1, "dropout": 0.0}
    run = Run(Training(data=str(reviews), base=str(body_folder), out=str(tmp_path / "run"), **options))
    found = []
    for batches in ([[0, 1, 2, 3, 4, 5, 6]], [[3, 0], [1], [2, 6, 5, 4]]):
        loss = run.trainer.gradients(batches, None)
        found.append((loss, [p.grad.clone() for p in run.trainer.network.parameters()]))
        run.trainer.optimizer.zero_grad()
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-6)
    for one, two in zip(found[0][1], found[1][1], strict=True):
        torch.testing.assert_close(one, two, atol=1e-6, rtol=1e-5)


def test_predictions_keep_the_other_columns_and_can_go_to_a_file(bert_folder, tmp_path, capsys):
    """Under their own names and as the file states them; a field of ours is never replaced."""
    from clearhead.app.cli import main

    data, out = tmp_path / "texts.jsonl", tmp_path / "answers.jsonl"
    rows = [{"id": 7, "text": "fine", "label": "bad", "tags": ["é"], "score": None},
            {"id": "x", "text": "bad soup", "label": "fine", "tags": [], "score": 1}]  # fmt: skip
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(SystemExit):
        main(["predict", str(bert_folder), str(data)])
    printed = capsys.readouterr().out
    answers = ch.load(bert_folder).predict([row["text"] for row in rows])
    for row, answer, line in zip(rows, answers, map(json.loads, printed.splitlines()), strict=True):
        assert (line["text"], line["label"], line["score"]) == (row["text"], answer.label, answer.score)
        given = (row["id"], row["tags"], row["label"], row["score"])
        assert (line["id"], line["tags"], line["input_label"], line["input_score"]) == given
    with pytest.raises(SystemExit) as left:
        main(["predict", str(bert_folder), str(data), "--out", str(out)])
    assert left.value.code == 0
    assert out.read_text() == printed and not capsys.readouterr().out


def test_a_report_compares_with_a_baseline_on_the_same_texts(body_folder, reviews, tmp_path, capsys):
    """And says how to get it where scikit-learn is not there."""
    from clearhead.app.cli import main

    command = ["train", "classify", "--data", str(reviews), "--from", str(body_folder), "--epochs", "1"]
    for name, more in (("with", []), ("without", ["--no-baseline"])):
        with pytest.raises(SystemExit):
            main([*command, "--out", str(tmp_path / name), *more])
        page = (tmp_path / name / "report.html").read_text()
        assert ("TF-IDF" in page) == ("Against the baseline" in page) == (name == "with")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
        with pytest.raises(SystemExit) as left:
            main([*command, "--out", str(tmp_path / "missing")])
    assert left.value.code == 0
    assert 'no baseline: the TF-IDF baseline needs an extra: pip install "clearhead[metrics]"' in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("problem", [Problem.SINGLE, Problem.MULTI, Problem.REGRESSION])
def test_a_baseline_learns_what_words_say(problem):
    names = [("red",), ("blue",), ("red", "blue"), ()]
    rows, value = [], ("1", "2", "3", "4")
    for n in range(40):
        text = " ".join(["stone", *names[n % 4]])
        several = problem is Problem.MULTI
        label = "|".join(names[n % 4]) if several else value[n % 4]
        rows.append(Row(text, label, "f", n, {}, names[n % 4] if several else None, "word"))
    labels = {Problem.MULTI: ("blue", "red", "never"), Problem.REGRESSION: ("value",)}
    task = task_of(problem, labels.get(problem, value))
    scores = baseline(rows, rows, task=task)
    assert scores.mae < 0.3 if problem is Problem.REGRESSION else scores.accuracy == 1
    letters = [Row("a b", row.label, "f", 1, {}, row.labels) for row in rows]
    with pytest.raises(DataError, match="no words of two letters"):
        baseline(letters, letters, task=task)
