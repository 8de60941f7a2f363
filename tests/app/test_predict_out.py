"""What `predict` writes: a new file and nothing that was there, each column under one name."""

import json
import os
import shutil
from dataclasses import replace

import pytest

import clearhead as ch
from clearhead.app import demo, facts, show
from clearhead.app.cli import main
from clearhead.app.demo import run_demo
from clearhead.app.writing import written
from clearhead.checkpoint.lock import locked
from clearhead.errors import SettingError
from tiny import tiny_bert


@pytest.fixture
def refusal(capsys):
    """Run a command that cannot work; its one line."""

    def refusal(*arguments):
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        seen = capsys.readouterr()
        assert left.value.code == 2 and not seen.out, seen
        (line,) = seen.err.splitlines()
        return line

    return refusal


@pytest.fixture
def lines(capsys):
    """Run a command that works; the JSON lines it prints."""

    def lines(*arguments):
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        seen = capsys.readouterr()
        assert left.value.code == 0, seen.err
        return [json.loads(line) for line in seen.out.splitlines()]

    return lines


def test_out_destroys_nothing_and_is_named_as_given(refusal, bert_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = tmp_path / "texts.txt"
    texts.write_text("fine\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "linked").symlink_to(texts)
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "also-bert").symlink_to(bert_folder)
    os.mkfifo(tmp_path / "pipe")
    weights = (bert_folder / "model.safetensors").read_bytes()
    for out, said in {
        "texts.txt": "is there already",
        "linked": "is there already",
        "bert/model.safetensors": "is there already",
        "bert/answers.jsonl": "is inside the model's folder",
        "also-bert/answers.jsonl": "is inside the model's folder",
        "folder": "is a folder",
        ".": "is a folder",
        "new/": "is a folder",
        "": "is empty",
        "pipe": "is there and is no file",
        "round": "is there and is no file",
        "/dev/null": "is there and is no file",
        "nowhere/x.jsonl": "there is no folder nowhere",
        "n" * 252: "cannot be written",
    }.items():
        line = refusal("predict", bert_folder, texts, "--out", out)
        assert f"--out {out}" in line and said in line and ".part" not in line
    assert texts.read_text() == "fine\n" and (bert_folder / "model.safetensors").read_bytes() == weights
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "also-bert", "bert", "folder", "linked", "pipe", "round", "texts.txt",
    ]  # fmt: skip


def test_out_is_written_where_a_link_leads(lines, bert_folder, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "answers.jsonl")
    assert lines("predict", bert_folder, "--text", "fine", "--out", tmp_path / "link") == []
    assert (tmp_path / "link").is_symlink()
    assert json.loads((tmp_path / "answers.jsonl").read_text())["text"] == "fine"


def test_a_column_named_like_one_of_ours_has_one_name_on_every_line(lines, bert_folder, tmp_path):
    data = tmp_path / "texts.jsonl"
    data.write_text(
        '{"text": "fine", "reason": "mine", "input_score": 1, "pair": 2, "input_mine": 3}\n'
        '{"text": "bad", "input_reason": "mine", "score": 1, "input_pair": 2}\n'
    )
    for below in ((), ("--abstain-below", "1")):
        one, two = lines("predict", bert_folder, data, *below)
        assert ("reason" in one) == ("reason" in two) == bool(below)
        assert one.get("reason") != "mine" and one["input_reason"] == "mine" and one["input_pair"] == 2
        assert one["input_input_score"] == 1 and one["input_mine"] == 3
        assert (
            two["input_input_reason"] == "mine" and two["input_score"] == 1 and two["input_input_pair"] == 2
        )


@pytest.mark.parametrize("value", ["1e999", '["a", {"b": -1e999}]', r'["\ud800"]', r'{"\udc00": 1}'])
def test_what_json_cannot_say_again_is_refused_with_row_and_column(refusal, bert_folder, tmp_path, value):
    data = tmp_path / "texts.jsonl"
    data.write_text('{"text": "fine", "x": 1e30}\n{"text": "warm", "x": ' + value + "}\n")
    assert "texts.jsonl, row 2, column 'x': " in refusal("predict", bert_folder, data)


@pytest.mark.parametrize("settings", ["x", "{}", "[]", '{"settings": []}'])
def test_a_folder_with_other_settings_is_no_demo(tmp_path, settings):
    (tmp_path / "settings.json").write_text(settings)
    with pytest.raises(SettingError, match="not empty and not a demo's"):
        run_demo(str(tmp_path), offline=True)


@pytest.fixture
def small_demo(monkeypatch, tmp_path):
    """The offline demo, with a smaller model; it runs into `tmp_path / "d"`."""
    small = demo.NEW | {"width": 16, "heads": 2, "hidden": 16, "epochs": 1}
    monkeypatch.setattr(demo, "OFFLINE", replace(demo.OFFLINE, training=small))
    monkeypatch.setattr(demo, "ONLINE", replace(demo.OFFLINE, training=small | {"epochs": 2}))
    monkeypatch.setattr(demo, "film_reviews", demo.own_reviews)
    return lambda **more: run_demo(str(tmp_path / "d"), **({"offline": True} | more))


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_demo_is_repeated_where_nothing_but_its_own_is_replaced(small_demo, tmp_path):
    small_demo()
    model = (tmp_path / "d" / "model.safetensors").read_bytes()
    (tmp_path / "d-data" / "mine.csv").write_text("precious")
    (tmp_path / "d-data" / "train.csv").unlink()
    small_demo()
    assert (tmp_path / "d" / "model.safetensors").read_bytes() == model
    before = files(tmp_path)
    for name in ("train.csv", "held-out.csv"):
        path = tmp_path / "d-data" / name
        path.write_bytes(path.read_bytes() + b"mine,positive\n")
        edited = files(tmp_path)
        with pytest.raises(SettingError, match=f"d-data/{name} is not as this demo writes it; move it, or"):
            small_demo()
        assert files(tmp_path) == edited
        path.write_bytes(before[path])
    with pytest.raises(SettingError, match=r"d holds another run than this demo's \(epochs was 1\); give"):
        small_demo(offline=False)
    assert files(tmp_path) == before


def test_a_run_of_the_users_on_the_demos_texts_is_not_replaced(small_demo, tmp_path):
    small_demo()
    data, out = tmp_path / "d-data" / "train.csv", tmp_path / "d"
    own = {"base": "new", "layers": 1, "width": 16, "heads": 2, "hidden": 16, "dropout": 0.3, "epochs": 1}
    for change, message in (({"seed": 7}, r"\(seed was 7\)"), ({}, "on other texts than this demo's")):
        texts = data.read_text()
        if not change:
            data.write_text(texts + "mine,positive\n")
        list(ch.train("classify", **{**own, "data": data, "out": out, "overwrite": True, **change}))
        data.write_text(texts)
        before = files(tmp_path)
        with pytest.raises(SettingError, match=message):
            small_demo()
        assert files(tmp_path) == before


def test_a_demo_that_was_stopped_early_is_begun_again_unless_a_run_goes_on(small_demo, tmp_path):
    with locked(tmp_path / "d"), pytest.raises(SettingError, match="a run is going on in"):
        small_demo()
    assert not (tmp_path / "d-data").exists()
    small_demo()
    shutil.rmtree(tmp_path / "d")
    small_demo()


def test_control_characters_never_reach_a_terminal_raw(capsys, bert_folder, tmp_path, monkeypatch):
    """A text or a label with the escape that clears a screen, or a C1 control."""
    evil = "wa\x1b[2Jrm\x9b2J\x07"
    folder = tiny_bert(tmp_path / "evil", labels=(evil, "fine"))
    data = tmp_path / "data.csv"
    data.write_text(f"text,label\n{evil},{evil}\nfine,fine\n")
    other = tmp_path / "other.csv"
    other.write_text(f"text,label\nfine,{evil}x\n")
    for printer in (facts, show):
        monkeypatch.setattr(printer, "plain", lambda as_json: as_json)
    for arguments in (
        ["predict", folder, data], ["evaluate", folder, "--data", data],
        ["evaluate", folder, "--data", other], ["info", folder], ["predict", folder, f"no{evil}.csv"],
    ):  # fmt: skip
        with pytest.raises(SystemExit):
            main([str(argument) for argument in arguments])
        seen = capsys.readouterr()
        assert not set(seen.out + seen.err) & set("\x1b\x9b\x07"), (arguments, seen)
        assert "wa\u241b[2Jrm" in seen.out + seen.err or r"wa\x1b[2Jrm" in seen.out + seen.err, (
            arguments,
            seen,
        )


def write_beside_another(out, text):
    """Write a file that somebody else makes, too, while it is written."""
    with written(str(out)) as file:
        file.write(text)
        out.write_text("another's\n")


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_a_file_that_comes_to_be_meanwhile_stays_and_so_do_the_answers(tmp_path, monkeypatch, links):
    if not links:
        monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(PermissionError(1, "no links here")))
    out = tmp_path / "answers.jsonl"
    for number in (2, 3):
        out.unlink(missing_ok=True)
        with pytest.raises(SettingError, match=rf"come to be there .* went to .*answers-{number}\.jsonl"):
            write_beside_another(out, f"mine {number}\n")
        assert out.read_text() == "another's\n"
        assert (tmp_path / f"answers-{number}.jsonl").read_text() == f"mine {number}\n"
    with written(str(tmp_path / "new.jsonl")) as file:
        file.write("mine\n")
    assert (tmp_path / "new.jsonl").read_text() == "mine\n"
    names = {"answers.jsonl", "answers-2.jsonl", "answers-3.jsonl", "new.jsonl"}
    assert {path.name for path in tmp_path.iterdir()} == names
