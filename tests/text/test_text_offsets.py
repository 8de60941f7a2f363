"""Offsets are characters of the original string (A02)."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_folders import bert, byte_level, bytes_only, fairseq_unigram, gpt2, rules_folder, unigram
from tokenizers import Tokenizer as Core

from clearhead.text import Tokenizer, train_tokenizer

ACCENTS = (
    "e\u0301 a\u0323\u0301 \u1ea1\u0301 ﬁ İ ß ½ 中 🤷🏽‍♀️ \u200d \u0000 \ufeff \ud800 Ω が か\u3099 \u0301"
)
TEXTS = st.text(max_size=20) | st.lists(st.sampled_from([*ACCENTS, "the", " ", "\n"]), max_size=15).map(
    "".join
)


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory) -> dict[str, Tokenizer]:
    folder = tmp_path_factory.mktemp("kinds")
    return {
        "uncased": bert(folder / "uncased", do_lower_case=True),
        "cased": bert(folder / "cased", do_lower_case=False),
        "bytes": bytes_only(),
        "byte_level": byte_level(),
        "lower": train_tokenizer(["the cat"] * 3, vocab=280, lowercase=True),
        "trimmed": Tokenizer(gpt2()),
        "unigram": Tokenizer(unigram()),
    }


KINDS = ["uncased", "cased", "bytes", "byte_level", "lower", "trimmed", "unigram"]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=300, deadline=None)
@given(text=TEXTS)
def test_offsets_lie_in_the_original_string_and_never_decrease(kind, text, tokenizers):
    (found,) = tokenizers[kind].encode([text])
    spans = [span for span, special in zip(found.offsets, found.special, strict=True) if not special]
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    assert spans == sorted(spans, key=lambda span: span[0])
    assert all(before[1] <= after[1] for before, after in pairwise(spans))
    assert all(span == (0, 0) for span, special in zip(found.offsets, found.special, strict=True) if special)
    assert len(found.ids) == len(found.segments) == len(found.offsets) == len(found.special)


@pytest.mark.parametrize("kind", ["bytes", "byte_level"])
@settings(max_examples=300, deadline=None)
@given(text=TEXTS)
def test_the_offsets_of_a_byte_level_tokenizer_cover_every_character(kind, text, tokenizers):
    (found,) = tokenizers[kind].encode([text])
    border = 0
    for start, end in found.offsets[1:-1]:
        assert start in (border, max(border - 1, 0))  # one character may lie in several tokens
        border = max(border, end)
    assert border == len(text)


def test_all_bytes_of_one_character_point_at_it(tokenizers):
    (found,) = tokenizers["bytes"].encode(["x ↻ y"])
    assert found.offsets == ((0, 0), (0, 1), (1, 2), (2, 3), (2, 3), (2, 3), (3, 4), (4, 5), (0, 0))


def test_a_character_at_the_end_does_not_run_past_it(tokenizers):
    for text in ("x ↻", "x 🤷", "🤷", "e\u0301"):
        (found,) = tokenizers["bytes"].encode([text])
        assert found.offsets[-2] == (len(text) - 1, len(text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the cafe\u0301 x", ["the", "cafe\u0301", "x"]),
        ("the café", ["the", "café"]),
        ("cafe\u0301", ["cafe\u0301"]),
        ("x 🤷🏽‍♀️ y", ["x", "🤷🏽‍♀️", "y"]),
        ("中文", ["中", "文"]),
        ("  The\tCAT ", ["The", "CAT"]),
    ],
)
def test_a_span_gives_the_word_with_its_accents(text, words, tokenizers):
    (found,) = tokenizers["uncased"].encode([text])
    assert [text[start:end] for start, end in found.offsets[1:-1]] == words


def test_offsets_of_a_pair_are_those_of_each_text(tokenizers):
    (found,) = tokenizers["uncased"].encode([("the cat", "on the mat")])
    assert found.offsets == ((0, 0), (0, 3), (4, 7), (0, 0), (0, 2), (3, 6), (7, 10), (0, 0))


def test_offsets_are_trimmed_if_the_published_file_says_so(tokenizers):
    text = "a  big↻ x "
    expected = gpt2().encode(text)
    (found,) = tokenizers["trimmed"].encode([text])
    assert list(found.offsets) == expected.offsets


def test_a_lone_surrogate_keeps_the_offsets_of_what_follows(tokenizers):
    (found,) = tokenizers["uncased"].encode(["the \ud800 \udc00\ud83d cat"])
    assert found.offsets[-2] == (9, 12)
    (pair,) = tokenizers["bytes"].encode(["\ud83d\ude00x"])
    assert pair.offsets[-2] == (2, 3)
    assert tokenizers["bytes"].decode(pair.ids) == "\ufffd\ufffdx"


def test_offsets_are_those_of_the_library_where_no_accent_was_dropped(tokenizers):
    core = Core.from_str(unigram().to_str())
    text = "the cat, abc"
    assert list(tokenizers["unigram"].encode([text])[0].offsets) == core.encode(text).offsets


def test_offsets_are_those_of_the_original_where_sentencepiece_replaced_characters(tmp_path):
    tokenizer = Tokenizer.read(rules_folder(fairseq_unigram(), tmp_path, model_type="xlm-roberta"))
    text = "ﬁ\u3000cat ½ \nＡ"
    (found,) = tokenizer.encode([text])
    assert [tokenizer.name(id) for id in found.ids[1:-1]][:4] == ["▁", "f", "i", "▁cat"]
    spelled = [text[start:end] for start, end in found.offsets[1:-1]]
    assert spelled[1:4] == ["ﬁ", "ﬁ", "cat"]
    assert spelled[-1] == "Ａ"
    assert tokenizer.name(found.ids[-2]) == "A"
