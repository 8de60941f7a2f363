"""`clearhead tokenizer train`: files of texts become a tokenizer folder, or one line says why not."""

import gzip
import io
import json
import sys
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from clearhead.app.cli import main
from clearhead.checkpoint.catalog import locate
from clearhead.text import Tokenizer

TEXTS = ["Warm bread and cold soup.", "Cold bread, warm soup!", "the soup the bread"] * 5


@pytest.fixture
def run(capsys):
    def run(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main(["tokenizer", "train", *map(str, arguments)])
        seen = capsys.readouterr()
        return left.value.code, seen.out, seen.err

    return run


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    return path


@pytest.mark.parametrize("kind", ["bpe", "wordpiece"])
def test_a_file_becomes_a_folder_that_both_readers_read(kind, run, texts, tmp_path):
    out = tmp_path / "deep" / "tokenizer"
    status, told, errors = run("--data", texts, "--out", out, "--kind", kind, "--vocab", 300, "--lowercase")
    assert (status, errors) == (0, "")
    summary = json.loads(told)
    assert (summary["out"], summary["kind"], summary["texts"]) == (str(out), kind, 15)
    assert summary["bytes"] == sum(map(len, TEXTS))
    assert sorted(path.name for path in out.iterdir()) == ["tokenizer.json", "tokenizer_config.json"]
    ours, theirs = Tokenizer.read(out), AutoTokenizer.from_pretrained(out)
    assert len(ours.vocabulary()) == summary["vocab"] <= 300
    for text in TEXTS:
        assert list(ours.encode([text])[0].ids) == theirs(text)["input_ids"]
    tokens = sum(len(encoding.ids) - 2 for encoding in ours.encode(TEXTS))
    assert summary["bytes_a_token"] == summary["bytes"] / tokens


def test_files_of_every_form_together_are_one_stream(run, texts, tmp_path, monkeypatch):
    table, packed, lines = tmp_path / "a.csv", tmp_path / "b.txt.gz", tmp_path / "c.jsonl"
    table.write_text("label,body\n" + "".join(f'x,"{text}"\n' for text in TEXTS[:5]))
    packed.write_bytes(gzip.compress("\n".join(TEXTS[5:10]).encode()))
    lines.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS[10:]))
    assert run("--data", texts, "--out", tmp_path / "whole", "--vocab", 300)[0] == 0
    table.write_text(table.read_text().replace("label,body", "label,text"))
    assert run("--data", table, packed, lines, "--out", tmp_path / "parts", "--vocab", 300)[0] == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(texts.read_bytes())))
    assert run("--data=-", "--out", tmp_path / "piped", "--vocab", 300)[0] == 0
    whole = (tmp_path / "whole" / "tokenizer.json").read_bytes()
    for name in ("parts", "piped"):
        assert (tmp_path / name / "tokenizer.json").read_bytes() == whole


def test_a_column_may_be_chosen(run, tmp_path):
    table = tmp_path / "a.csv"
    table.write_text("title,body\nzzz,the the\nzzz,the the\n")
    assert run("--data", table, "--out", tmp_path / "out", "--text-column", "body")[0] == 0
    assert "the" in Tokenizer.read(tmp_path / "out").vocabulary()
    assert "zz" not in Tokenizer.read(tmp_path / "out").vocabulary()


def test_only_a_tokenizer_is_replaced_and_only_on_request(run, texts, tmp_path):
    out = tmp_path / "out"
    assert run("--data", texts, "--out", out)[0] == 0
    before = (out / "tokenizer.json").read_bytes()
    status, _, errors = run("--data", texts, "--out", out, "--kind", "wordpiece")
    assert status == 2 and "holds a tokenizer" in errors and "--overwrite" in errors
    assert (out / "tokenizer.json").read_bytes() == before
    assert run("--data", texts, "--out", out, "--kind", "wordpiece", "--overwrite")[0] == 0
    assert (out / "tokenizer.json").read_bytes() != before
    (out / "config.json").write_text("{}")
    status, _, errors = run("--data", texts, "--out", out, "--overwrite")
    assert status == 2 and "holds config.json, which is no tokenizer's; give another folder" in errors
    status, _, errors = run("--data", texts, "--out", texts)
    assert status == 2 and "is a file; give a folder" in errors


def test_what_is_unknown_is_told_and_is_no_compression(run, tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("the cat\n" * 9 + "the " + "x" * 300 + "\n")
    status, told, errors = run("--data", path, "--out", tmp_path / "out", "--kind", "wordpiece")
    assert (status, errors[:35]) == (0, "note: runs of more than 100 charact")
    summary = json.loads(told)
    assert summary["unknown"] == 1 / 20
    assert summary["bytes_a_token"] == (summary["bytes"] - 300) / 19
    path.write_text("  \n" * 9)
    status, _, errors = run("--data", path, "--out", tmp_path / "none", "--kind", "wordpiece")
    assert status == 2 and "there is no text to learn from" in errors and not (tmp_path / "none").exists()


@pytest.mark.parametrize("after", ["nothing", "the decision", "the first file"])
def test_a_stop_while_a_tokenizer_is_replaced_leaves_one_of_the_two(after, run, texts, tmp_path, monkeypatch):
    old, new, out = tmp_path / "old", tmp_path / "new", tmp_path / "out"
    assert run("--data", texts, "--out", old)[0] == run("--data", texts, "--out", out)[0] == 0
    replacing = ["--data", texts, "--kind", "wordpiece", "--overwrite", "--out"]
    assert run(*replacing, new)[0] == 0
    move, whole = Path.replace, [Path.rename, Path.replace]

    def stopped(path, target):
        if after == "the first file" and Path(target).name == "tokenizer.json":
            return move(path, target)
        if Path(target).parent == out:
            raise KeyboardInterrupt
        return move(path, target)

    monkeypatch.setattr(Path, "rename" if after == "nothing" else "replace", stopped)
    with pytest.raises(KeyboardInterrupt):
        main(["tokenizer", "train", *map(str, replacing), str(out)])
    for name, method in zip(("rename", "replace"), whole, strict=True):
        monkeypatch.setattr(Path, name, method)
    right = old if after == "nothing" else new
    assert Tokenizer.read(locate(out)).same(Tokenizer.read(right))
    assert sorted(path.name for path in out.iterdir()) == ["tokenizer.json", "tokenizer_config.json"]


def test_half_a_tokenizer_is_none_and_leaves(run, texts, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "tokenizer.json.part").write_text("{")
    assert run("--data", texts, "--out", out)[0] == 0
    assert sorted(path.name for path in out.iterdir()) == ["tokenizer.json", "tokenizer_config.json"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--data", "nowhere.txt"], "nowhere.txt: there is no such file"),
        (["--data", "{texts}", "--vocab", "100"], "vocab=100 is too small; make it at least 258"),
        (["--data", "{texts}", "--vocab", "0"], "--vocab 0 must be at least 1"),
        (["--data", "{texts}", "--kind", "unigram"], "unigram"),
        (["--data", "{texts}", "--format", "csv"], "the header names 1 column"),
        (["--data", "-"], "--data=- is standard input"),
        ([], "--data"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_writes_nothing(arguments, words, run, texts, tmp_path):
    given = [argument.format(texts=texts) for argument in arguments]
    status, told, errors = run(*given, "--out", tmp_path / "out")
    assert (status, told) == (2, "")
    assert len(errors.splitlines()) == 1 and words in errors
    assert not (tmp_path / "out").exists()
