"""Knowing how sure it may be: calibration, and no label where it is not sure."""

import json

import numpy as np
import pytest

import clearhead as ch
from clearhead.app.cli import main
from clearhead.errors import SettingError
from clearhead.tasks.scores import measure
from tiny import tiny_bert


def test_calibration_compares_probabilities_with_what_was_right():
    """Ten bins, each with its upper end; the error as published, by hand."""
    best = np.array([0.55, 0.6, 0.95, 0.99, 1.0])
    with np.errstate(divide="ignore"):
        logits = np.log(np.stack([best, 1 - best], axis=-1))
    logits = np.maximum(logits, -800)
    found = measure(logits, np.array([0, 1, 0, 0, 1]), labels=("a", "b"))
    assert [part.texts for part in found.calibration] == [0, 0, 0, 0, 0, 2, 0, 0, 0, 3]
    assert [(part.low, part.high) for part in found.calibration][5] == (0.5, 0.6)
    middle, last = found.calibration[5], found.calibration[9]
    assert (middle.confidence, middle.accuracy) == pytest.approx((0.575, 0.5))
    assert (last.confidence, last.accuracy) == pytest.approx((0.98, 2 / 3))
    assert found.calibration_error == pytest.approx((2 * 0.075 + 3 * (0.98 - 2 / 3)) / 5)
    assert found.calibration[0].accuracy is None


def test_a_model_that_is_not_sure_gives_no_label(bert_folder, tmp_path, capsys):
    model = ch.load(bert_folder)
    texts = ["fine soup", "bad", "a good table", "very slow story"]
    plain = model.predict(texts)
    least = sorted(result.score for result in plain)[2]
    held = model.predict(texts, abstain_below=least)
    for one, two in zip(plain, held, strict=True):
        assert two.scores == one.scores and two.score == one.score
        assert two.label == (one.label if one.score >= least else None)
        assert (two.reason is None) == (one.score >= least)
    assert sum(result.label is not None for result in held) == 2

    data = tmp_path / "data.csv"
    data.write_text("text,label\n" + "".join(f"{text},good\n" for text in texts))
    for command in (["predict", str(data)], ["evaluate", "--data", str(data)]):
        with pytest.raises(SystemExit) as left:
            main([command[0], str(bert_folder), *command[1:], "--abstain-below", str(least)])
        assert left.value.code == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        if command[0] == "predict":
            assert [line["label"] for line in lines] == [result.label for result in held]
            assert ["reason" in line for line in lines] == [result.label is None for result in held]
        else:
            answers = [result.label for result in held if result.label]
            assert lines[0]["coverage"] == 0.5 and lines[0]["abstain_below"] == least
            assert lines[0]["answered_accuracy"] == answers.count("good") / 2
            assert lines[0]["accuracy"] == np.mean([result.label == "good" for result in plain])
    none = ch.evaluate(model, data, abstain_below=1).answered
    assert (none.coverage, none.answered_accuracy) == (0, None)


def test_what_cannot_abstain_is_refused(bert_folder, tmp_path):
    with pytest.raises(SettingError, match="--abstain-below 2 must be from 0 to 1"):
        ch.evaluate(ch.load(bert_folder), "x.csv", abstain_below=2)
    number = ch.load(tiny_bert(tmp_path / "number", labels=("LABEL_0",)))
    with pytest.raises(SettingError, match="--abstain-below is for models with one label a text"):
        number.predict(["fine"], abstain_below=0.5)
