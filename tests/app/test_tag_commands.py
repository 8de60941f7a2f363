"""Tagging on the command line: train, predict from files and flags, evaluate, info; what is refused."""

import io
import json
import sys

import pytest

from clearhead.app import facts, show
from clearhead.app.cli import main

DISHES = "".join(
    f"the\tO\n{dish}\tB-DISH\nwas\tO\n{'cold' if number % 2 else 'warm'}\tO\n{number}\tO\n\n"
    for number in range(10) for dish in ("soup", "pie")
)  # fmt: skip


@pytest.fixture
def ran(capsys):
    """Run a command that ends with this status; what it printed, and what it said."""

    def ran(*arguments, status=0):
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        seen = capsys.readouterr()
        assert left.value.code == status, seen.err
        return seen.out, seen.err

    return ran


@pytest.fixture
def lines(ran):
    return lambda *arguments: [json.loads(line) for line in ran(*arguments)[0].splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run that has learned which words are dishes."""
    place = tmp_path_factory.mktemp("run")
    (place / "dishes.conll").write_text(DISHES)
    with pytest.raises(SystemExit) as left:
        main(
            f"train token-classification --data {place}/dishes.conll --from new --out {place}/run --layers 1 "
            "--width 32 --heads 2 --vocab 300 --epochs 30 --batch-tokens 128 --dropout 0".split()
        )
    assert left.value.code == 0
    return place


def test_a_run_leaves_a_report_with_types_and_mistakes(folder):
    page = (folder / "run" / "report.html").read_text()
    for said in ("Scores by type", "DISH", "F1 of entities", "Entities there", "Loss, nats per word"):
        assert said in page, said
    settings = json.loads((folder / "run" / "settings.json").read_text())
    assert settings["task"] == "tag" and settings["resolved"]["labels"] == ["O", "B-DISH", "I-DISH"]


def test_predict_answers_text_files_words_and_standard_input_alike(folder, lines, tmp_path, monkeypatch):
    text = "the soup was warm"
    (line,) = lines("predict", folder / "run", "--text", text)
    (entity,) = line["entities"]
    assert (entity["label"], entity["text"], entity["start"], entity["end"]) == ("DISH", "soup", 4, 8)
    assert list(line) == ["text", "entities", "words", "tokens", "dropped", "dropped_words", "windows"]
    for name, content in {
        "a.txt": text,
        "a.csv": f"text\n{text}",
        "a.jsonl": json.dumps({"text": text}),
        "b.jsonl": json.dumps({"tokens": text.split()}),
        "c.jsonl": json.dumps({"w": text.split()}),
        "a.conll": "\n".join(text.split()),
    }.items():
        (tmp_path / name).write_text(content + "\n")
        more = ["--tokens-column", "w"] if name == "c.jsonl" else []
        assert lines("predict", folder / "run", tmp_path / name, *more) == [line], name
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert lines("predict", folder / "run") == [line]
    (tagged,) = lines("predict", folder / "run", folder / "dishes.conll")[:1]
    assert tagged["tags"] == ["O", "B-DISH", "O", "O", "O"]


def test_a11_a_file_of_one_word_rows_has_an_answer_a_row(folder, lines, tmp_path):
    (tmp_path / "a.txt").write_text("soup\nbread\nsoup\n")
    found = lines("predict", folder / "run", tmp_path / "a.txt")
    assert [line["text"] for line in found] == ["soup", "bread", "soup"] and found[0] == found[2]


def test_empty_texts_are_refused_or_skipped_and_answered(folder, lines, ran, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "the soup"}\n{"text": " "}\n{"text": "the pie"}\n')
    assert "row 2, column 'text': holds no text" in ran("predict", folder / "run", path, status=2)[1]
    found = lines("predict", folder / "run", path, "--empty", "skip")
    assert [len(line["words"]) for line in found] == [2, 0, 2]
    path.write_text('{"tokens": ["soup"]}\n{"tokens": []}\n')
    assert "row 2: holds no words" in ran("predict", folder / "run", path, status=2)[1]
    found = lines("predict", folder / "run", path, "--empty", "skip")
    assert [len(line["words"]) for line in found] == [1, 0]


def test_evaluate_scores_entities_and_info_says_what_the_model_is(folder, lines, ran, monkeypatch):
    out, err = ran("evaluate", folder / "run", "--data", folder / "dishes.conll")
    found = json.loads(out)
    assert found["f1"] == 1.0 and found["entities"] == 20 and found["classes"][0]["label"] == "DISH"
    assert "note: " in err and "20 sentences, tags in BIO" in err.replace("\n", " ")
    for page in (show, facts):
        monkeypatch.setattr(page, "plain", lambda as_json: False)
    assert "F1 1.000" in ran("evaluate", folder / "run", "--data", folder / "dishes.conll")[0]
    assert "soup: DISH" in ran("predict", folder / "run", "--text", "the soup was warm")[0]
    assert "tags each word by its first piece, 3 labels" in ran("info", folder / "run")[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("predict {} --text a --abstain-below 0.5", "--abstain-below is for labels, and"),
        (
            "predict {} {data} --skip-bad-rows",
            "--skip-bad-rows is for training and evaluation; predict answers",
        ),
        ("predict {} --text a --tokens-column x", "--tokens-column is for a file, and --text is given"),
        ("predict {} --text a --skip-bad-rows", "--skip-bad-rows is for a file, and --text is given"),
        ("predict {} --text a --candidates 3", "--candidates is for models that fill masks, and"),
        ("predict {} {text} --tokens-column x", "--tokens-column is for JSONL with lists of words;"),
        ("evaluate {} --data {text}", "tagged words are read from CoNLL"),
        (
            "evaluate {} --data {other}",
            "other.conll, row 1: the label 'B-CITY' is not one the model was trained",
        ),
        ("train tag --data {data} --from nowhere --out {}x", "there is no folder or model 'nowhere'"),
        ("train classify --data {data} --from new --out {}x", "the ending '.conll' is not known"),
        (
            "train classify --data {data} --from new --format conll --out {}x",
            "--format conll holds tagged words",
        ),
    ],
)
def test_what_is_for_others_is_refused_on_one_line(folder, ran, arguments, said):
    (folder / "a.txt").write_text("soup\n")
    (folder / "other.conll").write_text("Oslo\tB-CITY\n")
    data, text, other = folder / "dishes.conll", folder / "a.txt", folder / "other.conll"
    out, err = ran(*arguments.format(folder / "run", data=data, text=text, other=other).split(), status=2)
    assert not out and said in err and len(err.splitlines()) == 1


def test_options_of_taggers_are_refused_by_other_models(ran, bert_folder):
    err = ran("predict", bert_folder, "--text", "a", "--tokens-column", "x", status=2)[1]
    assert "--tokens-column is for models that tag words, and" in err


def test_a_file_that_holds_bad_rows_is_learned_without_them(ran, tmp_path):
    (tmp_path / "bad.conll").write_text(f"x\tI-DISH\n\n{DISHES}")
    command = (
        f"train tag --data {tmp_path}/bad.conll --from new --out {tmp_path}/run --max-steps 1 --width 16"
    )
    assert "bad.conll, row 1, line 1: I-DISH follows nothing" in ran(*command.split(), status=2)[1]
    err = ran(*command.split(), "--skip-bad-rows")[1]
    assert "20 sentences, tags in BIO; left out as unusable: 1" in err.replace("\n", " ")
