"""Tokenizers out of GGUF files give the ids of the published code, and text stays text."""

import random
import re
import unicodedata

import pytest
from gguf_files import CONTROLS, byte_level_facts, decoder, sentencepiece_facts, write
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers
from transformers.integrations.gguf import convert_gguf_tokenizer, get_gguf_tokenizer

from clearhead.checkpoint.gguf.container import read
from clearhead.checkpoint.gguf.words import CUTS, tokenizer_of
from clearhead.errors import FolderError
from clearhead.text.tokenizer import Tokenizer

FRAGMENTS = [
    *"the cat sat on the mat, it's what they'd DO: I'LL 'S 't we're".split(),
    *"naïve café Straße 東京都 привет مرحبا हिन्दी 👩‍👩‍👧 🇩🇪 e\u0301 ﬁ Ⅷ ² ½ ٣ x²".split(),
    *"0 1 12 123 1234567 3.14 1,000 0x1F a1b2 2024-11-30 v1.2.3 50%".split(),
    *[" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n ", "\u00a0", "\u3000", "\u200b"],
    *"def f(x): return x+1 # ok </s> <s> <unk> <0x0A> ▁the Ġthe {} [] == != -> \\n $5 __init__".split(),
]
CHANCE = random.Random(0)
TEXTS = [
    "",
    *FRAGMENTS,
    *("".join(CHANCE.choices(FRAGMENTS, k=CHANCE.randint(1, 12))) for _ in range(150)),
    *(" ".join(CHANCE.choices(FRAGMENTS, k=CHANCE.randint(1, 12))) for _ in range(150)),
]


def ours_and_theirs(tmp_path, words):
    """Our tokenizer, and the published code's; in both, control tokens in a text are text."""
    path = write(tmp_path / "tiny.gguf", decoder(words=words, width=32))
    tokenizer_of(read(path), limit=64).write(tmp_path / "folder")
    theirs, _ = convert_gguf_tokenizer(*get_gguf_tokenizer(str(path))[:2])
    theirs.encode_special_tokens = True
    return Tokenizer.read(tmp_path / "folder"), theirs


def content(tokenizer, text):
    encoding = tokenizer.encode([text])[0]
    return [id for id, special in zip(encoding.ids, encoding.special, strict=True) if not special]


def published(theirs, text):
    return theirs.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize(
    "pre", [None, "default", "gpt-2", "qwen2", "deepseek-r1-qwen", "llama-bpe", "llama3"]
)
def test_ids_are_those_of_the_published_codes_own_reader(tmp_path, pre):
    ours, theirs = ours_and_theirs(tmp_path, byte_level_facts(pre))
    assert len(TEXTS) > 300
    for text in TEXTS:
        if pre == "qwen2":  # its published folders compose accents first; that reader leaves it out
            text = unicodedata.normalize("NFC", text)
        assert content(ours, text) == published(theirs, text), text
        if pre != "qwen2":
            assert ours.decode(content(ours, text)) == text


def test_smollms_digits_stand_alone_as_its_published_folder_says(tmp_path):
    ours, theirs = ours_and_theirs(tmp_path, byte_level_facts("smollm"))
    for text in TEXTS:  # that reader leaves the digits out, which shows only after several spaces
        if not re.search(r"\s\s[\d²½Ⅷ]", text):
            assert content(ours, text) == published(theirs, text), text
    theirs.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), theirs.pre_tokenizer])
    for text in TEXTS:
        assert content(ours, text) == published(theirs, text), text
        assert ours.decode(content(ours, text)) == text


def test_qwens_texts_are_composed_first(tmp_path):
    ours, _ = ours_and_theirs(tmp_path, byte_level_facts("qwen2"))
    assert content(ours, "cafe\u0301") == content(ours, "café")


def test_whole_words_come_first_where_the_vocabulary_says_llama_3(tmp_path):
    facts = byte_level_facts("llama-bpe")
    facts["tokenizer.ggml.tokens"] = [*facts["tokenizer.ggml.tokens"], "zebra"]
    facts["tokenizer.ggml.token_type"] = [*facts["tokenizer.ggml.token_type"], 1]
    ours, _ = ours_and_theirs(tmp_path, facts)
    assert content(ours, "zebra") == [len(facts["tokenizer.ggml.tokens"]) - 1]


@settings(max_examples=100)
@given(text=st.text(max_size=30) | st.lists(st.sampled_from(FRAGMENTS + CONTROLS), max_size=8).map("".join))
def test_text_that_looks_like_a_control_token_is_text(tmp_path_factory, text):
    ours = made_once(tmp_path_factory)
    assert not ours.control_ids & set(content(ours, text))
    assert ours.decode(content(ours, text)) == text


ONCE = {}


def made_once(factory):
    if "smollm" not in ONCE:
        ONCE["smollm"], _ = ours_and_theirs(factory.mktemp("words"), byte_level_facts("smollm"))
    return ONCE["smollm"]


def test_a_token_that_is_matched_as_it_is_stays_one(tmp_path):
    """User-defined tokens (`<think>`) are part of a text and no control tokens."""
    facts = byte_level_facts("qwen2")
    count = len(facts["tokenizer.ggml.tokens"])
    facts["tokenizer.ggml.tokens"] = [*facts["tokenizer.ggml.tokens"], "<think>", "two words", "[PAD402]"]
    facts["tokenizer.ggml.token_type"] = [*facts["tokenizer.ggml.token_type"], 4, 4, 5]
    ours, _ = ours_and_theirs(tmp_path, facts)
    assert content(ours, "a<think>") == [*content(ours, "a"), count]
    assert content(ours, "two words") == [count + 1] and ours.decode([count + 1]) == "two words"
    assert ours.vocab_size == count + 2  # what only fills up the table is left out
    assert ours.control_ids == {0, 1, 2}


@pytest.mark.parametrize(
    ("told", "around"),
    [
        ({}, (0, 0)),
        ({"tokenizer.ggml.add_bos_token": False}, (0, 0)),
        ({"tokenizer.ggml.add_bos_token": True}, (1, 0)),
        ({"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_eos_token": True}, (1, 1)),
        ({"tokenizer.ggml.pre": "llama-bpe"}, (1, 0)),
        ({"tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.add_bos_token": False}, (0, 0)),
    ],
)
def test_the_tokens_around_a_text_are_those_that_the_file_asks_for(tmp_path, told, around):
    ours, _ = ours_and_theirs(tmp_path, byte_level_facts("smollm") | told)
    inner = content(ours, "the cat")
    before, after = around
    assert ours.encode(["the cat"])[0].ids == (*[1] * before, *inner, *[2] * after)


def test_a_token_around_each_text_must_be_named(tmp_path):
    facts = byte_level_facts() | {"tokenizer.ggml.add_bos_token": True}
    del facts["tokenizer.ggml.bos_token_id"]
    with pytest.raises(
        FolderError, match="a bos_token is to stand around each text, and the file names none"
    ):
        ours_and_theirs(tmp_path, facts)


def test_sentencepieces_ids_are_those_of_the_published_codes_own_reader(tmp_path):
    ours, theirs = ours_and_theirs(tmp_path, sentencepiece_facts())
    for text in TEXTS:
        # Before a space that reader adds none, as SentencePiece does, and it makes control tokens of pieces.
        if not text.startswith((" ", "▁")) and "s>" not in text:
            assert content(ours, text) == published(theirs, text), text
    assert ours.tokens(" the") == ["<s>", "▁", "▁the"]
    assert ours.encode([""])[0].ids == (1,)
    assert ours.unknown_id == 0 and ours.control_ids == {1, 2}


def test_what_sentencepiece_does_not_know_is_bytes(tmp_path):
    ours, _ = ours_and_theirs(tmp_path, sentencepiece_facts())
    assert ours.tokens("é\n")[1:] == ["▁", "é", "<0x0A>"]
    assert ours.tokens("☃")[1:] == ["▁", "<0xE2>", "<0x98>", "<0x83>"]
    for text in ("the cat sat", "hello ☃ world\n", "</s><s>"):
        assert ours.decode(content(ours, text)) == text
    assert not ours.control_ids & set(content(ours, "</s><s> </s>"))


def test_scores_are_needed_where_there_are_no_merges(tmp_path):
    facts = sentencepiece_facts()
    with pytest.raises(FolderError, match="tokens and 3 scores"):
        ours_and_theirs(tmp_path, facts | {"tokenizer.ggml.scores": [0.0, 1.0, 2.0]})
    del facts["tokenizer.ggml.scores"]
    with pytest.raises(FolderError, match="does not say tokenizer.ggml.scores"):
        ours_and_theirs(tmp_path, facts)


def test_a_token_that_is_there_twice_is_named(tmp_path):
    facts = byte_level_facts()
    facts["tokenizer.ggml.tokens"][300] = facts["tokenizer.ggml.tokens"][299]
    with pytest.raises(FolderError, match="is there twice"):
        ours_and_theirs(tmp_path, facts)


def test_a_merge_of_what_is_no_token_is_refused(tmp_path):
    facts = byte_level_facts()
    with pytest.raises(FolderError, match="the tokenizer's parts do not fit together"):
        ours_and_theirs(tmp_path, facts | {"tokenizer.ggml.merges": ["qq zz"]})


def test_every_way_to_cut_is_known_by_its_names():
    assert {"default", "smollm", "qwen2", "llama-bpe", "gpt-2"} <= CUTS.keys()
