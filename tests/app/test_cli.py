"""The command line: what it prints, where, and its exit status; bad input is one line with the fix."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from clearhead.app.cli import main

SMALL = ["--from", "new", "--epochs", "2", "--layers", "1", "--width", "16", "--heads", "2", "--hidden", "16"]


TRAIN = ["train", "classify", "--data", "{data}", "--out", "out"]


@pytest.fixture
def run(capsys):
    """Run a command in this process: status, stdout, stderr."""

    def run(*arguments, stdin=None, monkeypatch=None):
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"))
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        seen = capsys.readouterr()
        return SimpleNamespace(status=left.value.code, out=seen.out, err=seen.err)

    return run


def refused(result):
    """The one line of an error."""
    assert result.status == 2
    assert not result.out
    lines = result.err.splitlines()
    assert len(lines) == 1, result.err
    assert lines[0].startswith("clearhead: ")
    return lines[0].removeprefix("clearhead: ")


def test_from_reviews_to_answers(run, reviews, tmp_path, monkeypatch):
    out = tmp_path / "runs" / "reviews"
    done = run("train", "classify", "--data", reviews, "--out", out, *SMALL)
    assert done.status == 0
    assert json.loads(done.out)["report"] == str(out / "report.html")
    assert "54 texts to learn from" in done.err and "about" in done.err and "best so far, saved" in done.err
    assert (out / "report.html").read_text().startswith("<!doctype html>")

    scored = run("evaluate", out, "--data", reviews)
    assert scored.status == 0
    metrics = json.loads(scored.out)
    assert metrics["texts"] == 60 and 0 <= metrics["accuracy"] <= 1
    assert len(metrics["confusion"]) == len(metrics["classes"]) == 2

    answered = run("predict", out, reviews)
    lines = [json.loads(line) for line in answered.out.splitlines()]
    assert len(lines) == 60
    assert {line["label"] for line in lines} <= {"good", "bad"}
    piped = run("predict", out, stdin="fine\nbad\nfine\n", monkeypatch=monkeypatch)
    texts = [json.loads(line) for line in piped.out.splitlines()]
    assert [line["text"] for line in texts] == ["fine", "bad", "fine"] and texts[0] == texts[2]
    dashed = run("predict", out, "-", stdin="fine\n", monkeypatch=monkeypatch)
    assert json.loads(dashed.out) == texts[0]
    asked = run("predict", out, "--text", "fine", "--text", "-5 degrees")
    assert json.loads(asked.out.splitlines()[0]) == texts[0]

    checked = run("verify", out)
    assert checked.status == 0
    assert {json.loads(line)["verdict"] for line in checked.out.splitlines()} <= {"pass", "not promised"}

    facts = json.loads(run("info", out).out)
    assert facts["facts"]["positions"]["kind"] == "sinusoidal" and facts["labels"] == ["bad", "good"]


def test_training_reads_standard_input(run, reviews, tmp_path, monkeypatch):
    arguments = (
        "train",
        "text-classification",
        "--data",
        "-",
        "--format",
        "csv",
        "--out",
        tmp_path / "run",
        *SMALL,
    )
    assert run(*arguments, stdin=reviews.read_text(), monkeypatch=monkeypatch).status == 0


def test_a_broken_promise_is_exit_status_one(run, bert_folder, monkeypatch):
    monkeypatch.setattr("clearhead.check.verify.TOLERANCE", 0.0)
    result = run("verify", bert_folder)
    assert result.status == 1
    broken = [json.loads(line) for line in result.out.splitlines() if json.loads(line)["verdict"] == "fail"]
    assert all(finding["hint"] for finding in broken)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "classify", "--data", "nowhere.csv", "--out", "out"], "nowhere.csv"),
        (["train", "classify", "--out", "out"], "--data"),
        (["train", "classify", "--data", "{data}"], "--out"),
        (
            [*TRAIN, "--from", "minilmm"],
            "did you mean minilm?",
        ),
        (
            [*TRAIN, "--text-column", "words"],
            "--text-column",
        ),
        (
            [*TRAIN, "--epochs", "0"],
            "--epochs 0 must be at least 1",
        ),
        ([*TRAIN, "--epochs", "many"], "--epochs"),
        ([*TRAIN, "--learnin-rate", "1"], "--learnin-rate"),
        ([*TRAIN, "--layers", "3"], "use --from new"),
        (["train", "sing", *TRAIN[2:]], "sing"),
        (["predict", "nowhere", "--text", "x"], "there is no folder or model 'nowhere'"),
        (["predict", "{model}", "nowhere.txt"], "nowhere.txt"),
        (["predict", "{model}", "{data}", "--text", "x"], "give one of them"),
        (["predict", "{model}", "--text", "  "], "--text number 1 is empty"),
        (["evaluate", "{model}", "--data", "{data}"], "is not one the model was trained on"),
        (["evaluate", "{data}", "--data", "{data}"], "is not a folder"),
        (["predict", "{model}", "my house is red"], "to ask about a text, write --text"),
        (["verify", "nowhere"], "there is no folder or model"),
        (["get", "nothing-like-it"], "nothing is called 'nothing-like-it'"),
        (["info", "bert-bas"], "bert-bas"),
        (["sing"], "sing"),
    ],
)
def test_bad_input_is_one_line_that_names_the_thing(
    run, arguments, message, reviews, bert_folder, body_folder, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "cache"))
    reviews.write_text(reviews.read_text().replace(",good", ",superb"))
    names = {"data": reviews, "model": bert_folder, "body": body_folder}
    line = refused(run(*(argument.format(**names) for argument in arguments)))
    assert message in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no rows"),
        ("text,label\n", "holds no rows"),
        ("words,label\na,b\n", "no column 'text' or 'sentence' or 'review'; found 'words'"),
        ("text,kind\na,b\n", "no column 'label' or 'sentiment'"),
        ("text,label\na,x\nb,x\nc,x\n", "every row has the label 'x'; give rows of at least two classes"),
        ("text,label\na,x\n   ,y\n", "row 2, column 'text': holds no text"),
        ("text,label\na,x\nb,\n", "row 2, column 'label': holds no label"),
        ("text,label\na,x\nb,y,z\n", "row 2: 3 fields, but the header names 2 columns"),
    ],
)
def test_a_bad_file_is_named_with_row_column_and_fix(run, content, message, tmp_path):
    data = tmp_path / "data.csv"
    data.write_text(content)
    line = refused(run("train", "classify", "--data", data, "--out", tmp_path / "out", *SMALL))
    assert "data.csv" in line and message in line
    assert not (tmp_path / "out").exists()


def test_empty_texts_are_skipped_on_request_and_answered_n_for_n(run, bert_folder, tmp_path):
    data = tmp_path / "texts.csv"
    data.write_text("text\nfine\n  \nbad\n")
    assert "row 2" in refused(run("predict", bert_folder, data))
    lines = [
        json.loads(line) for line in run("predict", bert_folder, data, "--empty", "skip").out.splitlines()
    ]
    assert [line["label"] is None for line in lines] == [False, True, False]
    assert lines[1]["scores"] == {}


def test_a_text_that_is_too_long_is_counted_or_refused(run, bert_folder, tmp_path):
    data = tmp_path / "texts.txt"
    data.write_text("fine\n" + "soup " * 50 + "\n")
    cut = run("predict", bert_folder, data)
    assert [json.loads(line)["dropped"] for line in cut.out.splitlines()] == [0, 20]
    assert "longer than the model takes, and cut (see dropped): 1 of 2 texts" in cut.err
    line = refused(run("predict", bert_folder, data, "--long", "error"))
    assert "texts.txt, row 2: the text has 52 tokens, the model takes 32" in line


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("bert-base", 109_482_240),
        ("bert-large", 335_141_888),
        ("gpt2", 124_439_808),
        ("gpt2-xl", 1_557_611_200),
        ("gpt3-175b", 174_604_259_328),
        ("t5-small", 60_506_624),
        ("t5-base", 222_903_552),
    ],
)
def test_architectures_are_known_by_name_with_their_published_size(run, name, parameters):
    found = json.loads(run("info", name).out)
    assert found["sizes"]["parameters"] == parameters
    if name == "gpt3-175b":
        assert found["facts"]["layers"] == 96


def test_the_first_transformers_have_about_the_printed_size(run):
    base = json.loads(run("info", "transformer-base").out)["sizes"]["parameters"]
    big = json.loads(run("info", "transformer-big").out)["sizes"]["parameters"]
    assert base == pytest.approx(65e6, rel=0.04) and big == pytest.approx(213e6, rel=0.04)


def test_the_demo_replaces_nothing_but_a_demo(run, bert_folder, tmp_path):
    result = run("demo", "--offline", "--out", bert_folder)
    assert result.status == 2 and "is not empty and not a demo's; give another --out" in result.err
    assert not bert_folder.with_name("bert-data").exists()
    (tmp_path / "new-data").mkdir()
    (tmp_path / "new-data" / "mine.csv").write_text("precious")
    result = run("demo", "--offline", "--out", tmp_path / "new")
    assert result.status == 2 and "is not empty and not a demo's; give another --out" in result.err


def test_a_place_that_cannot_be_written_is_one_line(run, reviews):
    result = run("train", "classify", "--data", reviews, "--out", reviews / "x", *SMALL)
    assert result.status == 2 and "Traceback" not in result.err


def test_env_tells_versions_and_no_secret(run, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    found = run("env")
    assert found.status == 0 and "secret" not in found.out
    assert {"clearhead", "python", "torch", "tokenizers", "processor"} <= json.loads(found.out).keys()


@pytest.mark.parametrize(
    "verb", [("train", "language"), ("train", "fill"), ("tokenizer", "encode", "--tokenizer", "x")]
)
def test_a_hyphen_where_files_are_listed_says_how_standard_input_is_named(run, tmp_path, verb):
    result = run(*verb, "--data", "-", "--out", tmp_path / "out")
    assert "--data names no file; give at least one (--data=- is standard input)" in refused(result)


def test_texts_to_choose_by_may_come_from_standard_input(run, tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("the soup was good. " * 9)
    size = "--layers 1 --width 16 --heads 2 --context 12 --vocab 300 --max-steps 1".split()
    arguments = ["train", "language", "--data", tmp_path / "a.txt", "--validation", "-", *size]
    said = "the bread was good."
    done = run(*arguments, "--out", tmp_path / "out", stdin=said, monkeypatch=monkeypatch)
    assert done.status == 0, done.err
    assert json.loads((tmp_path / "out" / "settings.json").read_text())["settings"]["validation"] == "-"


def test_get_without_a_name_lists_the_names(run):
    assert {json.loads(line)["name"] for line in run("get").out.splitlines()} == {
        "minilm", "smollm2", "titler", "rampart", "movie-reviews",
    }  # fmt: skip


def start(*arguments, **more):
    command = [sys.executable, "-m", "clearhead", *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more)


def test_ctrl_c_saves_the_state_and_resume_goes_on(reviews, tmp_path):
    out = tmp_path / "run"
    arguments = ["train", "classify", "--data", reviews, "--out", out, *SMALL, "--batch-tokens", "16"]
    arguments[arguments.index("--epochs") + 1] = "200"
    process = start(*arguments)
    deadline = time.time() + 120
    while not (out / "metrics.jsonl").exists() and time.time() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "go on with --resume" in err and "Traceback" not in err
    (state,) = out.glob("state-*")
    done = int(state.name.removeprefix("state-"))
    again = start(*arguments, "--resume")
    log = out / "metrics.jsonl"
    while len(log.read_text().splitlines()) < done + 3 and time.time() < deadline:
        time.sleep(0.05)
    again.send_signal(signal.SIGINT)
    again.communicate(timeout=120)
    steps = [json.loads(line)["step"] for line in log.read_text().splitlines()]
    assert steps == list(range(1, len(steps) + 1)) and len(steps) > done


def test_ctrl_c_while_the_program_is_being_imported_is_one_line(tmp_path):
    late = "import atexit, os, signal\natexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
    (tmp_path / "cyclopts.py").write_text(f"{late}raise KeyboardInterrupt")  # and once more at the end
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    process = start("env", env=os.environ | {"PYTHONPATH": paths})
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "clearhead: stopped\n")


def test_a_reader_that_has_had_enough_is_no_error(bert_folder, tmp_path):
    data = tmp_path / "texts.txt"
    data.write_text("fine soup\n" * 20_000)
    process = start("predict", bert_folder, data, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
    assert process.wait(timeout=60) == 0, err
    assert "Traceback" not in err and "BrokenPipe" not in err
