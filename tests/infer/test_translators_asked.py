"""Options of a model that turns texts into others: each is read, or refused by its name."""

import io
import json
from dataclasses import fields

import pytest

import clearhead as ch
from clearhead.app.cli import main
from clearhead.data.rows import Row
from clearhead.errors import DataError, SettingError
from clearhead.infer.continued import continued
from clearhead.infer.translate import evaluate_translations
from clearhead.settings import Asking, Comparing, Generating
from translators import tiny_folder

OTHERS = {
    "text_column": "text", "pair_column": "other", "label_column": "label", "label_separator": ";",
    "stride": 3, "batch_tokens": 64, "abstain_below": 0.5, "skip_bad_rows": True, "tokens_column": "words",
    "tags_column": "tags",
}  # fmt: skip


@pytest.fixture
def model(tmp_path):
    return ch.load(tiny_folder(tmp_path / "model", "bart"))


@pytest.fixture
def files(tmp_path):
    (tmp_path / "x.en").write_text("the good soup\n\nbread\n")
    (tmp_path / "x.de").write_text("die gute Suppe\nleer\nBrot\n")
    (tmp_path / "x.tsv").write_text("source\ttarget\nthe good soup\tdie gute Suppe\n")
    return tmp_path


@pytest.mark.parametrize("name", [item.name for item in fields(Asking)])
def test_an_option_is_read_or_refused_by_name(model, files, name):
    if name in ("format", "empty", "long"):
        return
    said = f"--{name.replace('_', '-')} is not read by .*which turns a text into another; leave it out"
    asking, table = Asking(**{name: OTHERS[name]}), files / "x.tsv"
    with pytest.raises(SettingError, match=said):
        evaluate_translations(model, [str(table)], asking=asking, comparing=Comparing())
    with pytest.raises(SettingError, match=said):
        ch.evaluate(model, table, **{name: OTHERS[name]})
    if name not in ("text_column", "label_separator"):
        row = Row("the good soup", None, "x", 1, {})
        with pytest.raises(SettingError, match=said):
            continued(model, [row], settings=Generating(max_new_tokens=2), asking=asking)


@pytest.mark.parametrize("name", ["source_column", "target_column"])
def test_two_files_of_lines_have_no_columns(model, files, name):
    source, target = str(files / "x.en"), str(files / "x.de")
    said = f"--{name.replace('_', '-')} foo is for one file of pairs, and .* are two of one text a line"
    with pytest.raises(SettingError, match=said):
        ch.evaluate(model, source, references=target, **{name: "foo"})
    with pytest.raises(SettingError, match=said):
        ch.train("translate", data=[source, target], out=str(files / "run"), **{name: "foo"})


def test_a_pair_with_an_empty_side_is_refused_by_place_or_left_out(model, files):
    source, target = str(files / "x.en"), str(files / "x.de")
    with pytest.raises(DataError, match="x.en, row 2: the source is empty; .*--empty skip"):
        ch.evaluate(model, source, references=target, max_new_tokens=2)
    with pytest.raises(DataError, match="x.de, row 2: the target is empty"):
        ch.evaluate(model, target, references=source, max_new_tokens=2)
    found = ch.evaluate(model, source, references=target, max_new_tokens=2, empty="skip")
    assert found.metrics.texts == 2
    (files / "n.tsv").write_text("source\ttarget\na\t \n")
    with pytest.raises(DataError, match="n.tsv: no pair has text on both sides"):
        ch.evaluate(model, files / "n.tsv", empty="skip")


def test_a_file_that_can_be_trained_on_can_be_asked_about(model, files, capsys):
    with pytest.raises(SystemExit) as done:
        main(["predict", model.name, str(files / "x.en"), "--max-new-tokens", "2", "--empty", "skip"])
    said = capsys.readouterr()
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert done.value.code == 0, said.err
    assert [line["text"] for line in lines] == ["the good soup", "", "bread"]
    assert [line["answer"] is None for line in lines] == [False, True, False]


def test_a_file_with_bytes_that_training_took_is_evaluated_with_the_same_option(model, files, capsys):
    (files / "b.en").write_bytes(b"the good so\xffup\n")
    (files / "b.de").write_text("die gute Suppe\n")
    source, target = str(files / "b.en"), str(files / "b.de")
    with pytest.raises(DataError, match="UTF-8"):
        ch.evaluate(model, source, references=target, max_new_tokens=2)
    found = ch.evaluate(model, source, references=target, max_new_tokens=2, errors="replace")
    assert found.metrics.texts == 1
    asked = ["evaluate", model.name, "--data", source, "--references", target, "--errors", "replace"]
    with pytest.raises(SystemExit) as done:
        main([*asked, "--max-new-tokens", "2"])
    assert done.value.code == 0, capsys.readouterr().err


def test_a_line_that_is_piped_in_is_the_text_of_the_command_line(model, monkeypatch, capsys):
    answers = []
    for given, piped in (["the soup"], ""), ([], "the soup\n"):
        monkeypatch.setattr("sys.stdin", io.StringIO(piped))
        with pytest.raises(SystemExit):
            main(["generate", model.name, *given, "--max-new-tokens", "3", "--json"])
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0] == answers[1] and answers[0]["prompt"] == "the soup"


@pytest.mark.parametrize("beams", [1, 2])
def test_more_tokens_than_there_are_positions_are_refused(model, beams):
    said = "--min-new-tokens 40 is more than .* has positions for: 39"
    row = Row("the good soup", None, "x", 1, {})
    with pytest.raises(SettingError, match=said):
        continued(model, [row], settings=Generating(min_new_tokens=40, beams=beams))
    (answered,) = continued(model, [row], settings=Generating(min_new_tokens=39, beams=beams))
    assert answered[1].tokens == 39
