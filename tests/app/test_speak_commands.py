"""The commands generate and chat, as they are typed."""

import io
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

import clearhead as ch
from clearhead.app.cli import main
from decoders import tiny_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tiny_folder(tmp_path_factory.mktemp("llama"), "llama", wide=True)
    (place / "chat_template.jinja").write_text(
        "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} . {% endfor %}"
    )
    return place


@pytest.fixture
def run(capsys, monkeypatch):
    """Run a command in this process."""

    def run(*words, given=""):
        capsys.readouterr()
        monkeypatch.setattr(sys, "stdin", io.StringIO(given))
        with pytest.raises(SystemExit) as left:
            main([str(word) for word in words])
        seen = capsys.readouterr()
        return SimpleNamespace(returncode=left.value.code, stdout=seen.out, stderr=seen.err)

    return run


def test_generate_prints_one_object_for_each_answer(run, folder):
    done = run("generate", folder, "good bread", "--max-new-tokens", 5)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    said = json.loads(line)
    assert said["prompt"] == "good bread" and said["tokens"] <= 5 and said["end"] in ("end", "length")
    assert said["log_probability"] < 0
    pieces = [piece for _, piece in ch.generate(ch.load(folder), ["good bread"], max_new_tokens=5)]
    assert said["text"] == "".join(pieces)


def test_a_model_is_merged_into_a_new_folder_alone_and_the_command_says_so(run, folder, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    done = run("merge", folder, "--out", tmp_path)
    assert done.returncode == 2 and "is not empty; give a folder that is new or empty" in done.stderr
    assert "overwrite" not in done.stderr


def test_a_prompt_is_read_from_standard_input(run, folder):
    typed = json.loads(run("generate", folder, "good bread", "--max-new-tokens", 3).stdout)
    piped = json.loads(run("generate", folder, "--max-new-tokens", 3, given="good bread").stdout)
    assert typed == piped


def test_samples_and_beams_are_told_one_by_one(run, folder):
    sampled = run("generate", folder, "good", "--temperature", 1, "--samples", 3, "--max-new-tokens", 4)
    assert [json.loads(line)["sample"] for line in sampled.stdout.splitlines()] == sorted(
        json.loads(line)["sample"] for line in sampled.stdout.splitlines()
    ) or len(sampled.stdout.splitlines()) == 3
    beams = run("generate", folder, "good", "--beams", 3, "--samples", 2, "--max-new-tokens", 4)
    assert beams.returncode == 0, beams.stderr
    found = [json.loads(line) for line in beams.stdout.splitlines()]
    assert len(found) == 2 and found[0]["score"] >= found[1]["score"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--top-k", 3], "--top-k is for sampling; give --temperature above 0 too"),
        (["--max-new-tokens", 0], "--max-new-tokens 0 must be at least 1"),
        (["--repetition-penalty", -1], "--repetition-penalty -1.0 must be above 0"),
    ],
)
def test_options_that_cannot_work_are_refused_in_one_line(run, folder, words, named):
    done = run("generate", folder, "good", *words)
    assert done.returncode == 2 and named in done.stderr and done.stderr.count("\n") == 1


def test_a_file_of_prompts_is_gone_on_with_row_by_row(run, folder, tmp_path):
    prompts = tmp_path / "prompts.csv"
    prompts.write_text("text,id\ngood bread,1\n,2\nthe table is not so warm and the film,3\n")
    words = ("predict", folder, prompts, "--empty", "skip", "--max-new-tokens", 6)
    done = run(*words)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["id"] for line in lines] == ["1", "2", "3"]
    assert lines[1] | {"id": ""} == {
        "text": "", "answer": None, "end": None, "tokens": 0, "log_probability": None, "dropped": 0, "id": "",
    }  # fmt: skip
    for line in (lines[0], lines[2]):
        alone = json.loads(run("generate", folder, line["text"], "--max-new-tokens", 6).stdout)
        for name, other in (("answer", "text"), ("end", "end"), ("tokens", "tokens")):
            assert line[name] == alone[other]
        assert line["log_probability"] == alone["log_probability"]
    out = tmp_path / "answers.jsonl"
    assert run(*words, "--out", out).returncode == 0 and out.read_text() == done.stdout
    best = json.loads(run("predict", folder, "--text", "good", "--beams", 3, "--max-new-tokens", 4).stdout)
    first = run("generate", folder, "good", "--beams", 3, "--max-new-tokens", 4).stdout.splitlines()[0]
    assert best["answer"] == json.loads(first)["text"]


def test_a_prompt_that_leaves_no_room_is_cut_and_told_or_refused(run, folder):
    text = " ".join(["good"] * 60)
    cut = run("predict", folder, "--text", text, "--max-new-tokens", 10)
    assert json.loads(cut.stdout)["dropped"] == 60 + 2 - (32 - 10)
    assert "longer than the model takes, and cut" in cut.stderr
    refused = run("predict", folder, "--text", text, "--max-new-tokens", 10, "--long", "error")
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--abstain-below", 0.5], "--abstain-below is for labels"),
        (["--pair-column", "b"], "--pair-column is for labels"),
        (["--temperature", 1, "--samples", 2], "--samples gives several answers to a prompt"),
        (["--max-new-tokens", 64], "--max-new-tokens 64 leaves no room for a prompt"),
    ],
)
def test_what_a_file_of_prompts_cannot_have_is_refused_by_name(run, folder, words, named):
    done = run("predict", folder, "--text", "good", *words)
    assert done.returncode == 2 and named in done.stderr and done.stderr.count("\n") == 1


def test_options_of_language_models_are_refused_by_a_classifier(run, bert_folder):
    done = run("predict", bert_folder, "--text", "good", "--max-new-tokens", 3)
    assert done.returncode == 2 and "--max-new-tokens is for language models" in done.stderr


def test_chat_answers_line_by_line_and_resets(run, folder):
    done = run("chat", folder, "--max-new-tokens", 4, given="good bread\n/help\n/reset\ngood bread\n")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == second
    assert "(/help is not known: /reset begins anew" in done.stderr
    assert "a new conversation" in done.stderr


def test_a_model_without_a_template_cannot_chat(run, tmp_path):
    done = run("chat", tiny_folder(tmp_path, "gpt2"), given="hello\n")
    assert done.returncode == 2 and "no chat template" in done.stderr and done.stderr.count("\n") == 1


def test_closed_streams_and_texts_that_are_no_text_are_said_in_one_line(folder):
    words = [sys.executable, "-m", "clearhead", "generate", str(folder)]
    closed = subprocess.run(["sh", "-c", '"$@" <&-', "sh", *words], capture_output=True, text=True)
    assert closed.returncode in (0, 2) and closed.stderr.count("\n") <= 1, closed.stderr
    words = [*words, "good", "--max-new-tokens", "2"]
    deaf = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *words], capture_output=True, text=True)
    assert deaf.returncode == 0 and not deaf.stderr
    half = subprocess.run(
        [sys.executable, "-m", "clearhead", "predict", str(folder), "--text", b"\xff"], capture_output=True
    )
    assert half.returncode == 2 and half.stderr.count(b"\n") == 1
