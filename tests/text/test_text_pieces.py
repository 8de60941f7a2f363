"""SentencePiece's model files where there is no tokenizer.json: T5's, and those of XLM-R's kind."""

import json
import pickle
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_folders import SENTENCES, files, model_folder, pieces, t5_pieces, t5_rules
from transformers import AutoTokenizer

from clearhead.errors import FolderError
from clearhead.text import Tokenizer

ROW = bytes([10, 12, 10, 5]) + b"<unk>" + bytes([21, 0, 0, 0, 0])  # a piece: its text, its score


def t5_folder(folder, model=None, **config):
    return model_folder(folder, "spiece.model", model or t5_pieces(), tokenizer_config_json=config or {})


def t5(folder, model=None, **config):
    config = {"tokenizer_class": "T5Tokenizer", **config}
    return Tokenizer.read(t5_folder(folder, model, **config))


def test_a_model_file_and_what_is_written_from_it_give_the_same_ids_to_us_and_to_the_published_reader(
    tmp_path,
):
    first = t5(tmp_path / "old")
    first.write(tmp_path / "new")
    assert not (tmp_path / "new" / "spiece.model").exists()
    again, published = (read(tmp_path / "new") for read in (Tokenizer.read, AutoTokenizer.from_pretrained))
    for text in [*SENTENCES, "ﬁ ½ ☃ ☃☃", "  the\n\ncat ", ""]:
        ids = list(first.encode([text])[0].ids)
        assert ids == list(again.encode([text])[0].ids) == published(text)["input_ids"]
    assert again.same(first) and again.limit is first.limit is None
    gaps = [first.vocabulary()[f"<extra_id_{number}>"] for number in range(100)]
    assert gaps == sorted(gaps, reverse=True) and gaps[0] == first.vocab_size - 1 == len(published) - 1
    assert gaps == published.convert_tokens_to_ids([f"<extra_id_{number}>" for number in range(100)])
    assert {0, 1, *gaps} == first.control_ids and first.unknown_id == 2


@pytest.mark.parametrize("count", [0, 1, 7])
def test_as_many_gaps_are_added_as_the_folder_says(count, tmp_path):
    tokenizer = t5(tmp_path, extra_ids=count)
    published = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.vocab_size == len(published)
    assert tokenizer.vocabulary() == published.get_vocab()


def test_control_tokens_and_gaps_in_a_text_are_text(tmp_path):
    tokenizer = t5(tmp_path)
    for text in ("<pad>", "</s>", "<extra_id_0>", "the cat </s> sat <extra_id_99>", "</s>" * 3):
        (found,) = tokenizer.encode([text])
        assert [id for id in found.ids if id in tokenizer.control_ids] == [1] and found.ids[-1] == 1


def test_a_text_that_is_cut_keeps_its_end(tmp_path):
    tokenizer = t5(tmp_path)
    for limit in range(1, 9):
        (found,) = tokenizer.encode(["the cat sat on the mat"], limit=limit)
        assert len(found.ids) == limit and found.ids[-1] == 1 and found.dropped


def test_user_defined_pieces_which_published_readers_take_differently_are_refused_by_name(tmp_path):
    with pytest.raises(FolderError, match="spiece.model: the user-defined piece '<b>' is not supported"):
        t5(tmp_path, t5_pieces(user_defined_symbols="<b>,the"))


def test_control_pieces_are_what_the_published_reader_makes_of_them(tmp_path):
    tokenizer = t5(tmp_path, t5_pieces(control_symbols="<c>"))
    published = AutoTokenizer.from_pretrained(tmp_path, split_special_tokens=True)
    assert tokenizer.vocabulary() == published.get_vocab()
    for text in ("a <b> the cat", "<b>the", "other", "café"):
        assert list(tokenizer.encode([text])[0].ids) == published(text)["input_ids"]
    assert tokenizer.vocabulary()["<c>"] in tokenizer.control_ids


def test_offsets_are_those_of_the_original(tmp_path):
    (found,) = t5(tmp_path).encode(["the ﬁ  cat"])
    spans = ["the ﬁ  cat"[start:end].strip() for start, end in found.offsets]
    assert "".join(dict.fromkeys(spans)).replace("ﬁ", "fi") in ("thefica", "theficat")
    assert list(found.offsets[:-1]) == sorted(found.offsets[:-1])


def test_the_last_bit_of_a_score_is_kept_and_decides_as_in_the_published_reader(tmp_path):
    """The library's own reading of tokenizer.json changes it, and cuts these 11 letters otherwise."""
    scores = {"a": -4.556987285614014, "aa": -6.056031227111816, "aaa": -8.346070289611816}
    scores["aaaa"] = -10.674149513244629
    rows = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0), *scores.items()]
    rules = json.loads(t5_rules().to_str())
    rules["model"]["vocab"] = [list(row) for row in rows]
    rules["added_tokens"] = rules["added_tokens"][:3]
    files(tmp_path, tokenizer_json=rules, config_json={"model_type": "t5"})
    tokenizer, published = Tokenizer.read(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    tokenizer.write(tmp_path / "new")
    assert Tokenizer.read(tmp_path / "new").same(tokenizer)
    assert pickle.loads(pickle.dumps(tokenizer)).same(tokenizer)
    for count in range(1, 200):
        assert list(tokenizer.encode(["a" * count])[0].ids) == published("a" * count)["input_ids"]


@pytest.mark.parametrize("place", [0, 5, -1])
def test_scores_that_are_no_numbers_are_refused(place, tmp_path):
    rules = json.loads(t5_rules().to_str())
    rules["model"]["vocab"][place][1] = float("nan")
    files(tmp_path, tokenizer_json=rules, config_json={"model_type": "t5"})
    with pytest.raises(FolderError, match=r"tokenizer.json does not describe a tokenizer"):
        Tokenizer.read(tmp_path)


@settings(max_examples=300, deadline=None)
@given(cut=st.integers(0, 10**6), byte=st.integers(0, 255), whole=st.booleans())
def test_a_broken_model_is_refused_or_read(cut, byte, whole, tmp_path_factory):
    model = pieces(60, normalization_rule_name="identity", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    place = cut % len(model)
    broken = model[:place] + (bytes([byte]) + model[place + 1 :] if whole else b"")
    folder = tmp_path_factory.mktemp("broken")
    with suppress(FolderError):
        t5(folder, broken).encode(["the cat"])


@pytest.mark.parametrize(
    ("model", "config", "words"),
    [
        (b"", {}, r"spiece.model is not a sentencepiece model \(it holds no pieces"),
        (b"junk" * 9, {}, r"spiece.model is not a sentencepiece model \(.*\); fetch it again"),
        (ROW + ROW[:6], {}, r"spiece.model is not a sentencepiece model \(it ends too early"),
        (ROW, {}, r"takes piece 2 for the unknown one, and '<unk>' has id 0"),
        (None, {"extra_ids": -1}, r"extra_ids=-1 is not known; use a whole number from 0"),
        (None, {"extra_ids": "x"}, r"extra_ids='x' is not known"),
        (None, {"tokenizer_class": "LlamaTokenizer"}, r"spiece.model is a sentencepiece model.*T5Tokenizer"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(model, config, words, tmp_path):
    folder = t5_folder(tmp_path, **{"tokenizer_class": "T5Tokenizer", **config})
    (folder / "spiece.model").write_bytes(t5_pieces() if model is None else model)
    with pytest.raises(FolderError, match=words):
        Tokenizer.read(folder)


def test_pairs_that_are_joined_are_refused_where_the_class_has_scores(tmp_path):
    with pytest.raises(FolderError, match=r"spiece.model is not a Unigram model, and T5Tokenizer has one"):
        t5(tmp_path, t5_pieces(kind="bpe"))
