"""A corpus as ids on the disk: the same run as from its texts, whole after any kill, refused when damaged."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from clearhead.errors import ClearheadError, DataError, FolderError, SettingError
from clearhead.learn import encode
from clearhead.learn.encode import Encoder
from clearhead.learn.encoded import DOCUMENTS, FACTS, IDS, Encoded
from clearhead.learn.language import LanguageRun
from clearhead.settings import Encode, Language
from clearhead.tasks.pieces import Pieces, ids_of
from clearhead.text.train import train_tokenizer

LINES = [f"line {number}: the soup was {'good' if number % 2 else 'cold'}.\n" for number in range(40)]
SMALL = {"layers": 1, "width": 16, "heads": 2, "context": 12, "batch_tokens": 60, "epochs": 1}


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "texts.txt").write_text("".join(LINES))
    train_tokenizer(LINES, vocab=300, closed=False).write(tmp_path / "tokenizer")
    return tmp_path / "texts.txt"


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(encode, "CHUNK", 100)


def asked(texts, **changes):
    folder = texts.parent
    usual = {"data": [str(texts)], "tokenizer": str(folder / "tokenizer"), "documents": "line"}
    return Encode(**(usual | {"out": str(folder / "ids")} | changes))


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def trained(out, **settings):
    run = LanguageRun(Language(out=str(out), **(SMALL | settings)))
    list(run)
    return load_file(Path(out) / "model.safetensors")


def test_learning_from_ids_is_learning_from_the_texts(texts, tmp_path):
    """To the bit: the same documents are kept aside, and the same pieces learned."""
    *_, last = Encoder(asked(texts))
    assert (last.facts.documents, last.facts.bytes) == (40, texts.stat().st_size - 40)  # without line ends
    from_ids = trained(tmp_path / "a", data=[str(tmp_path / "ids")])
    from_texts = trained(
        tmp_path / "b", data=[str(texts)], documents="line", tokenizer=str(tmp_path / "tokenizer")
    )
    assert all(torch.equal(from_ids[name], weights) for name, weights in from_texts.items())
    lines = [(tmp_path / run / "metrics.jsonl").read_text().splitlines()[-1] for run in "ab"]
    figures = [json.loads(line)["eval_bits_per_byte"] for line in lines]
    assert figures[0] == figures[1]


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("after", [0, 1, 3, 99])
def test_what_is_stopped_goes_on_to_the_same_files(texts, tmp_path, after):
    list(Encoder(asked(texts, out=str(tmp_path / "whole"))))
    made = iter(Encoder(asked(texts)))
    for _ in range(after):
        next(made, None)
    made.close()
    for name in (IDS, DOCUMENTS):  # a kill between the numbers and the note that they are there
        if after and (tmp_path / "ids" / name).exists() and after < 99:
            with (tmp_path / "ids" / name).open("ab") as file:
                file.write(b"half of a chunk")
    list(Encoder(asked(texts, resume=after > 0)))
    assert contents(tmp_path / "ids") == contents(tmp_path / "whole")


def test_going_on_at_the_end_changes_nothing(texts, tmp_path):
    list(Encoder(asked(texts)))
    before = contents(tmp_path / "ids")
    (told,) = Encoder(asked(texts, resume=True))
    assert (told.facts.documents, told.bytes) == (40, 0) and contents(tmp_path / "ids") == before
    texts.write_text("".join([*LINES, "one more"]))
    with pytest.raises(SettingError, match="there are more texts than when it ended"):
        list(Encoder(asked(texts, resume=True)))


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("after", [1, 99])
def test_a_corpus_is_encoded_once_by_what_encodes_it(texts, tmp_path, after):
    list(Encoder(asked(texts, out=str(tmp_path / "whole"))))
    made = Encoder(asked(texts))
    for _ in zip(range(after), made, strict=False):
        pass
    before = contents(tmp_path / "ids")
    with pytest.raises(SettingError, match="this corpus has begun already; make it again with resume=True"):
        list(made)
    assert contents(tmp_path / "ids") == before
    list(Encoder(asked(texts, resume=True)))
    assert contents(tmp_path / "ids") == contents(tmp_path / "whole")


@pytest.mark.usefixtures("small_chunks")
def test_of_two_encoders_into_one_folder_the_second_replaces_and_mixes_nothing(texts, tmp_path):
    one, two = Encoder(asked(texts)), Encoder(asked(texts))
    next(iter(one))
    with pytest.raises(
        SettingError,
        match="holds a corpus; .* replace it: --overwrite, go on with it: --resume",
    ):
        list(two)
    one, two = Encoder(asked(texts, resume=True)), Encoder(asked(texts, resume=True))
    list(one)
    before = contents(tmp_path / "ids")
    with pytest.raises(SettingError, match="ids has changed meanwhile; give the command again"):
        list(two)
    assert contents(tmp_path / "ids") == before


@pytest.mark.usefixtures("small_chunks")
def test_chunks_change_nothing(texts, tmp_path, monkeypatch):
    list(Encoder(asked(texts)))
    monkeypatch.setattr(encode, "CHUNK", 10**6)
    list(Encoder(asked(texts, out=str(tmp_path / "one"))))
    assert contents(tmp_path / "ids") == contents(tmp_path / "one")


@pytest.mark.usefixtures("small_chunks")
def test_going_on_with_something_else_is_refused(texts, tmp_path):
    next(iter(Encoder(asked(texts))))
    with pytest.raises(FolderError, match="is not finished; go on with the same command and --resume"):
        Encoded.read(tmp_path / "ids")
    with pytest.raises(
        SettingError,
        match="holds a corpus; .* replace it: --overwrite, go on with it: --resume",
    ):
        Encoder(asked(texts))
    with pytest.raises(SettingError, match="documents was 'line'"):
        Encoder(asked(texts, resume=True, documents="file"))
    train_tokenizer(["other"], vocab=260, closed=False).write(tmp_path / "other")
    with pytest.raises(SettingError, match="was begun with another --tokenizer"):
        Encoder(asked(texts, resume=True, tokenizer=str(tmp_path / "other")))
    texts.write_text("".join(reversed(LINES)))
    with pytest.raises(SettingError, match="the texts have changed"):
        list(Encoder(asked(texts, resume=True)))
    list(Encoder(asked(texts, overwrite=True)))
    assert len(Encoded.read(tmp_path / "ids")) == 40


def test_a_folder_that_could_lose_something_is_refused(texts, tmp_path):
    with pytest.raises(SettingError, match="lies in --out"):
        Encoder(asked(texts, out=str(tmp_path)))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(SettingError, match=r"holds notes\.txt, which is no corpus's"):
        Encoder(asked(texts, out=str(tmp_path / "mine"), overwrite=True))
    with pytest.raises(SettingError, match="is a file; give a folder"):
        Encoder(asked(texts, out=str(tmp_path / "mine" / "notes.txt")))
    closed = tmp_path / "closed"
    train_tokenizer(LINES, vocab=300).write(closed)
    with pytest.raises(SettingError, match="ends texts with '</s>'"):
        Encoder(asked(texts, tokenizer=str(closed)))
    train_tokenizer(LINES, vocab=300, kind="wordpiece").write(closed)
    with pytest.raises(SettingError, match=r"ends texts with '\[SEP\]'"):
        Encoder(asked(texts, tokenizer=str(closed)))


def test_texts_without_text_are_refused_and_leave_no_corpus(texts, tmp_path):
    texts.write_text(" \n\n \n")
    with pytest.raises(DataError, match="there is no text to encode"):
        list(Encoder(asked(texts)))
    assert not (tmp_path / "ids" / FACTS).exists()


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (IDS, lambda raw: raw[:-4], "does not hold"),
        (IDS, lambda raw: raw[:8] + bytes([raw[8] ^ 1]) + raw[9:], "not those that were written"),
        (DOCUMENTS, lambda raw: raw[:-1], "does not hold"),
        (DOCUMENTS, lambda raw: bytes([raw[0] ^ 1]) + raw[1:], "not those that were written"),
        (FACTS, lambda raw: b"{}", "does not describe a corpus"),
        (FACTS, lambda raw: raw.replace(b'"documents": 40', b'"documents": -40'), "does not hold"),
        (FACTS, lambda raw: raw.replace(b'"documents": 40', b'"documents": true'), "does not describe"),
        ("tokenizer.json", lambda raw: b"[", "tokenizer.json"),
    ],
)  # fmt: skip
def test_a_damaged_corpus_is_refused_by_name(texts, tmp_path, name, change, said):
    list(Encoder(asked(texts)))
    path = tmp_path / "ids" / name
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ClearheadError, match=said):
        Encoded.read(tmp_path / "ids")


def test_ids_beyond_the_vocabulary_are_refused(texts, tmp_path):
    list(Encoder(asked(texts)))
    train_tokenizer(["a"], vocab=259, closed=False).write(tmp_path / "ids")
    with pytest.raises(FolderError, match="holds ids that its tokenizer has not"):
        Encoded.read(tmp_path / "ids")


def test_options_that_would_do_nothing_are_refused(texts, tmp_path):
    list(Encoder(asked(texts)))
    ids = {"data": [str(tmp_path / "ids")], "out": str(tmp_path / "run")}
    for given_, said in (
        ({"documents": "line"}, "--documents is for files of texts"),
        ({"vocab": 500}, "--vocab is of a new tokenizer"),
        ({"data": [str(texts), *ids["data"]]}, "stands alone"),
    ):
        with pytest.raises(SettingError, match=said):
            LanguageRun(Language(**(SMALL | ids | given_)))
    train_tokenizer(["other"], vocab=260, closed=False).write(tmp_path / "other")
    with pytest.raises(SettingError, match="was encoded with another tokenizer"):
        LanguageRun(Language(**(SMALL | ids), tokenizer=str(tmp_path / "other")))


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(min_size=1, max_size=40).filter(str.strip), min_size=1, max_size=14), st.booleans())
def test_every_id_is_learned_once_whatever_the_documents(tmp_path, documents, blocks):
    """Of few documents the end of each is kept aside; the bytes are those of the texts."""
    tokenizer = train_tokenizer(LINES, vocab=300, closed=False)
    tokenizer.write(tmp_path / "t")
    (tmp_path / "d.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
    given_ = {
        "data": [str(tmp_path / "d.jsonl")],
        "tokenizer": str(tmp_path / "t"),
        "out": str(tmp_path / "c"),
    }
    *_, last = Encoder(Encode(**given_, overwrite=True))
    corpus = Encoded.read(tmp_path / "c")
    flat = [id for ids in ids_of(tokenizer, documents) for id in ids]
    assert np.fromfile(tmp_path / "c" / IDS, "<i4").tolist() == flat
    kept, aside = corpus.parts(0)
    assert sum(part.rows[:, 1].sum() - part.rows[:, 0].sum() for part in (kept, aside)) == len(flat)
    assert kept.bytes + aside.bytes == last.facts.bytes == sum(len(text.encode()) for text in documents)
    loaded = type("L", (), {"tokenizer": tokenizer})()
    whole = corpus.pieces(loaded, context=5, blocks=blocks)
    assert whole.spans == Pieces.of(ids_of(tokenizer, documents), context=5, blocks=blocks).spans
