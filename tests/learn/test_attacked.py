"""What attackers of the encoder have found, as rules that hold now."""

import errno
import io
import json
import os
import pickle
import shlex

import pytest
import torch

import clearhead as ch
from clearhead.app.cli import main
from clearhead.checkpoint.folder import read_folder
from clearhead.errors import DataError, FolderError, Interrupted, SettingError, refused_by_system
from clearhead.model.config import Over
from clearhead.tasks import baseline
from families import NAMES, OVER, over_tokens, write_tokenizer
from tiny import tiny_bert


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "reviews.csv"
    rows = [f"good soup {number},good\nbad film {number},bad\n" for number in range(10)]
    path.write_text("text,label\n" + "".join(rows))
    return str(path)


def said(capsys, *words):
    with pytest.raises(SystemExit) as left:
        main([str(word) for word in words])
    return left.value.code, capsys.readouterr().err


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("over", OVER)
@pytest.mark.parametrize("name", NAMES)
def test_a_head_over_tokens_makes_room_for_one_over_texts(tmp_path, table, name, over, freeze):
    base = tmp_path / "base"
    over_tokens(name, over).save_pretrained(base)
    write_tokenizer(base, name)
    options = {"base": str(base), "out": str(tmp_path / "run"), "max_steps": 1, "freeze": freeze}
    list(ch.train("classify", data=table, **options))
    facts = read_folder(tmp_path / "run").network.head_facts
    assert facts.over is Over.TEXTS and (name != "bert" or facts.dropout is None)
    assert ch.load(tmp_path / "run").predict(["good"])[0].label in ("good", "bad")


@pytest.mark.parametrize("options", [{"long": "error"}, {"long": "window", "pair_column": "second"}])
def test_texts_to_choose_by_are_looked_at_before_anything_is_written(tmp_path, options):
    long = "good " * 60
    for name, text in (("train", "good"), ("aside", long)):
        rows = [f"{text},soup,good", "bad,soup,bad"] * 8
        (tmp_path / f"{name}.csv").write_text("text,second,label\n" + "\n".join(rows) + "\n")
    base = tiny_bert(tmp_path / "base")
    files = {"data": str(tmp_path / "train.csv"), "validation": str(tmp_path / "aside.csv")}
    with pytest.raises(DataError, match=r"aside\.csv, row 1"):
        ch.train("classify", base=str(base), out=str(tmp_path / "run"), **files, **options)
    assert not (tmp_path / "run").exists()


def test_whatever_ends_a_run_before_its_first_model_says_where_the_old_one_is(tmp_path, table):
    options = {"data": table, "base": str(tiny_bert(tmp_path / "base")), "out": str(tmp_path / "run")}
    list(ch.train("classify", max_steps=1, **options))
    run = ch.train("classify", overwrite=True, eval_steps=9, **options)
    run.stop()
    with pytest.raises(Interrupted, match=r"go on with --resume; .*to replace is kept in .*\.run-before"):
        list(run)


def test_what_a_run_cannot_read_or_write_is_named_and_no_error_of_python(tmp_path, table):
    from clearhead.learn.place import LOG, MODEL, REPORT

    options = {"data": table, "base": str(tiny_bert(tmp_path / "base")), "out": str(tmp_path / "run")}
    list(ch.train("classify", max_steps=1, **options))
    for name in (*MODEL, LOG, REPORT, "README.md"):
        place, kept = tmp_path / "run" / name, tmp_path / "kept"
        if place.exists():
            place.rename(kept)
        place.mkdir(parents=True)
        with pytest.raises(
            SettingError, match=rf"{name} is a folder, where the run has a file; move it away"
        ):
            ch.train("classify", max_steps=1, resume=True, **options)
        place.rmdir()
        if kept.exists():
            kept.rename(place)
    with pytest.raises(DataError, match="/proc/self/mem: cannot be read"):
        ch.train("classify", format="csv", **options | {"data": "/proc/self/mem", "out": str(tmp_path / "o")})


def test_a_disk_that_is_full_has_a_file_or_the_standard_output_in_its_message(tmp_path, monkeypatch, capsys):
    from clearhead.learn.place import append_log

    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as full:
        append_log(tmp_path, {"step": 1})
    assert refused_by_system(full.value).startswith(f"{tmp_path / 'metrics.jsonl'}: No space left")

    class Full(io.StringIO):
        def flush(self):
            raise OSError(errno.ENOSPC, "No space left")

    monkeypatch.setattr("sys.stdout", Full())
    status, error = said(capsys, "env", "--json")
    assert (status, error.split(";")[0]) == (2, "clearhead: standard output: No space left")


def test_a_value_that_goes_on_and_on_is_not_repeated_whole(tmp_path, capsys):
    folder, long = tiny_bert(tmp_path, ("a", "b")), "x" * 5000
    for file, name, fix in (
        ("config.json", "model_type", "supported: "),
        ("config.json", "hidden_act", ""),
        ("tokenizer_config.json", "truncation_side", "use 'left' or 'right'"),
    ):
        kept = (folder / file).read_text()
        (folder / file).write_text(json.dumps(json.loads(kept) | {name: long}))
        with pytest.raises(FolderError, match=f"(?s){name}.*{fix}") as refused:
            read_folder(folder)
        assert len(str(refused.value)) < 1010, file
        (folder / file).write_text(kept)
    assert len(said(capsys, "predict", folder, "--text", "a", "--dtype", long)[1]) < 1200
    error = pickle.loads(pickle.dumps(SettingError(long)))
    assert type(error) is SettingError and len(str(error)) < 1010


def test_options_that_nothing_reads_are_refused_by_name(tmp_path, table, capsys):
    from decoders import tiny_folder as decoder
    from families import filler

    speaker = decoder(tmp_path / "speaker", "gpt2")
    filler("bert").save_pretrained(tmp_path / "filler")
    write_tokenizer(tmp_path / "filler", "bert")
    for words, name in (
        (["evaluate", speaker, "--data", table, "--long", "window"], "--long window"),
        (["evaluate", speaker, "--data", table, "--label-separator", ";"], "--label-separator"),
        (["evaluate", tmp_path / "filler", "--data", table, "--long", "error"], "--long error"),
        (["predict", speaker, "--text", "a", "--stride", "3", "--max-new-tokens", "2"], "--stride 3"),
        (["predict", tmp_path / "filler", "--text", "[MASK] a", "--stride", "3"], "--stride 3"),
        (["predict", tiny_bert(tmp_path / "c", ("a", "b")), "--text", "a", "--stride", "3"], "--stride 3"),
    ):
        status, error = said(capsys, *words)
        assert status == 2 and name in error, words


def test_a_model_over_tokens_is_not_told_to_be_trained_for_what_it_is(tmp_path):
    folder = tmp_path / "answers"
    over_tokens("bert", "answer").save_pretrained(folder)
    write_tokenizer(folder, "bert")
    with pytest.raises(SettingError, match="finds answers and gives no labels; ask it with Model.answer"):
        ch.load(folder).predict(["good"])


def test_only_what_helps_is_advised(tmp_path):
    from decoders import tiny_folder as decoder

    model = ch.load(tiny_bert(tmp_path / "c", ("a", "b")))
    with pytest.raises(SettingError, match=r"see Model\.examples"):
        model.encode(["a"], long="window")
    path = tmp_path / "long.txt"
    path.write_text("good " * 50 + "\n")
    from clearhead.data.rows import read_rows
    from clearhead.infer.continued import continued
    from clearhead.settings import Asking, Generating

    speaker = ch.load(decoder(tmp_path / "speaker", "gpt2"))
    with pytest.raises(DataError, match="shorten it, or cut it with --long truncate$"):
        continued(
            speaker,
            read_rows(path, labelled=False),
            settings=Generating(max_new_tokens=2),
            asking=Asking(long="error"),
        )


@pytest.mark.parametrize("limit", [2, 3])
def test_a_window_has_room_or_says_for_what_it_lacks_it(tmp_path, limit):
    folder = tiny_bert(tmp_path, ("a", "b"))
    config = json.loads((folder / "tokenizer_config.json").read_text()) | {"model_max_length": limit}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    model = ch.load(folder)
    assert model.predict([""], long="window")[0].windows == 1
    if limit == 3:
        assert model.predict(["good soup"], long="window")[0].windows == 2
        return
    with pytest.raises(DataError, match="text 0: the special tokens are 2 tokens, which leaves no room"):
        model.predict(["good soup"], long="window")


def test_standard_input_is_read_for_one_of_both(tmp_path):
    with pytest.raises(SettingError, match="both standard input, which is read once"):
        ch.train("classify", data="-", validation="-", out=str(tmp_path / "run"))


def test_the_dropout_of_a_head_is_named_as_its_field_is(tmp_path):
    folder = tiny_bert(tmp_path, ("a", "b"))
    config = json.loads((folder / "config.json").read_text()) | {"classifier_dropout": 2}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(FolderError, match="classifier_dropout=2"):
        read_folder(folder)


def test_a_link_to_nothing_is_called_so(tmp_path, table):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(SettingError, match="is a link to nothing; give a folder"):
        ch.train("classify", data=table, out=str(tmp_path / "link"), base="new")


@pytest.mark.parametrize("behind", [" ", "\t", "\u00a0", "\r"])
def test_white_space_behind_a_token_of_a_vocabulary_is_none_of_it(tmp_path, behind):
    from transformers import AutoTokenizer

    folder = tiny_bert(tmp_path, ("a", "b"))
    lines = (folder / "vocab.txt").read_text().split("\n")
    lines[lines.index("good")] += behind
    (folder / "vocab.txt").write_text("\n".join(lines), newline="\n")
    ours = ch.load(folder, fingerprint=False).tokenizer.encode(["the good soup"])[0].ids
    assert list(ours) == AutoTokenizer.from_pretrained(folder)("the good soup")["input_ids"]


def test_an_index_of_safetensors_reads_no_pickle(tmp_path):
    folder = tiny_bert(tmp_path, ("a", "b"))
    from safetensors.torch import load_file

    tensors = load_file(folder / "model.safetensors")
    torch.save(tensors, folder / "a.bin")
    (folder / "model.safetensors").unlink()
    index = {"weight_map": dict.fromkeys(tensors, "a.bin")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(FolderError, match="names 'a.bin', which is no file of its kind"):
        read_folder(folder)


def test_commands_that_are_shown_ask_as_the_model_has_learned(tmp_path):
    path = tmp_path / "pairs.csv"
    rows = [f"good {number},soup,good\nbad {number},film,bad\n" for number in range(10)]
    path.write_text("text,second,label\n" + "".join(rows))
    options = {"data": str(path), "pair_column": "second", "long": "window", "stride": 9}
    run = ch.train(
        "classify", base=str(tiny_bert(tmp_path / "b")), out=str(tmp_path / "run"), max_steps=1, **options
    )
    list(run)
    assert run.ask == 'predict {} --text "…" --pair "…" --long window --stride 9'
    card = (tmp_path / "run" / "README.md").read_text()
    assert '--pair "…" --long window --stride 9' in card and "long='window', stride=9" in card


def test_the_same_text_in_another_case_is_the_same_text(tmp_path, table):
    other = tmp_path / "other.csv"
    other.write_text("text,label\nGOOD soup 1 ,good\nbad film 2,bad\n")
    options = {"base": str(tiny_bert(tmp_path / "b")), "out": str(tmp_path / "run")}
    run = ch.train("classify", data=table, validation=str(other), **options)
    assert any("2 of 2 validation texts stand among the training texts too" in note for note in run.notes)


def test_half_a_character_in_a_label_is_refused(tmp_path):
    folder = tiny_bert(tmp_path, ("a", "b"))
    config = json.loads((folder / "config.json").read_text())
    config["id2label"]["1"] = "\ud800"
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(FolderError, match="id2label holds half a character"):
        read_folder(folder)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_a_file_that_cannot_be_read_is_named_with_what_to_look_at(number):
    said = refused_by_system(OSError(number, os.strerror(number), "a/config.json"))
    assert said.startswith("a/config.json: ")
    assert said.endswith("may it be read, and written where it must be?")


def test_the_cards_command_runs_where_a_value_begins_like_a_flag(tmp_path, capsys):
    rows = [f"good soup {number},- x\nbad film {number},bad\n" for number in range(8)]
    (tmp_path / "d.csv").write_text("-t,label\n" + "".join(rows))
    sizes = {"base": "new", "layers": 1, "width": 8, "heads": 1, "hidden": 8, "max_steps": 1}
    options = {"class_weights": "- x=2,bad=.5", "text_column": "-t"}
    list(ch.train("classify", data=str(tmp_path / "d.csv"), out=str(tmp_path / "run"), **sizes, **options))
    card = (tmp_path / "run" / "README.md").read_text()
    (line,) = [line for line in card.splitlines() if line.startswith("clearhead train")]
    assert "--class-weights=" in line and "--text-column=-t" in line
    words = shlex.split(line)[1:]
    assert "- x=2,bad=.5" in " ".join(words)
    words[words.index("--out") + 1] = str(tmp_path / "again")
    words[words.index("--data") + 1] = str(tmp_path / "d.csv")
    assert said(capsys, *words, "--no-baseline")[0] == 0


def test_a_baseline_that_memory_does_not_hold_is_left_out_with_a_note(tmp_path, table, capsys, monkeypatch):
    small = ("--from", "new", "--layers", 1, "--width", 8, "--heads", 1, "--hidden", 8, "--max-steps", 1)
    for number, (name, limit) in enumerate((("MOST", 3), ("joined", None))):
        if limit is None:
            monkeypatch.setattr(baseline, name, out_of_memory)
        else:
            monkeypatch.setattr(baseline, name, limit)
        out = tmp_path / f"run{number}"
        code, err = said(capsys, "train", "classify", "--data", table, "--out", out, *small)
        assert code == 0 and "note: no baseline: " in err and (out / "report.html").is_file()
        assert ("are too many for the TF-IDF baseline" if limit else "--no-baseline leaves it out") in err


def out_of_memory(row):
    raise MemoryError
