"""What went in comes out (A01)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_folders import bert, byte_level, bytes_only, gpt2, unigram
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers

from clearhead.errors import DataError
from clearhead.text import Tokenizer, train_tokenizer

SPACED = [
    "one , two ; it 's ( fine ) ?",
    "   three spaces first",
    "tab\tand\n\nnewlines  ",
    "don 't",
    " one space first",
    "\r\n",
    "",
    "🤷🏽‍♀️ 👨‍👩‍👧‍👦",
    "cafe\u0301 café ﬁ ½ \u00a0 \u200b \ufeff \u0000",
    "<s> </s> [SEP] <|endoftext|> ▁ Ġ",
]


@pytest.fixture(scope="module")
def tokenizer():
    return byte_level()


def round_trip(tokenizer: Tokenizer, text: str) -> str:
    return tokenizer.decode(tokenizer.encode([text])[0].ids)


@pytest.mark.parametrize("text", SPACED)
def test_a_byte_level_tokenizer_loses_nothing(text):
    for tokenizer in (byte_level(), bytes_only(), Tokenizer(gpt2())):
        assert tokenizer.lossless
        assert round_trip(tokenizer, text) == text


@settings(max_examples=500, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_a_byte_level_tokenizer_loses_nothing_of_any_text(text, tokenizer):
    assert round_trip(tokenizer, text) == text


def test_a_word_piece_decoder_cleans_up_after_itself(tmp_path):
    tokenizer = bert(tmp_path)
    assert not tokenizer.lossless
    assert round_trip(tokenizer, "The cat, running!") == "the cat, running!"


def test_special_tokens_are_skipped_and_ids_beyond_the_vocabulary_too():
    tokenizer = byte_level()
    (found,) = tokenizer.encode([("the ", "cat")])
    assert tokenizer.decode([*found.ids, 99_999]) == "the cat"
    assert tokenizer.decode([]) == ""


def with_part(part, value):
    core = gpt2()
    setattr(core, part, value)
    return core


def with_added(*tokens):
    core = gpt2()
    core.add_tokens(list(tokens))
    return core


BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False)
SPLIT = pre_tokenizers.Split("x", "isolated")


@pytest.mark.parametrize(
    ("core", "lossless"),
    [
        (gpt2(), True),
        (gpt2(add_prefix_space=True), False),
        (with_part("normalizer", normalizers.NFC()), False),
        (with_part("normalizer", normalizers.Lowercase()), False),
        (with_part("normalizer", normalizers.Sequence([])), True),
        (with_part("pre_tokenizer", pre_tokenizers.Sequence([SPLIT, BYTES])), True),
        (
            with_part(
                "pre_tokenizer", pre_tokenizers.Sequence([pre_tokenizers.Split("x", "removed"), BYTES])
            ),
            False,
        ),
        (with_part("pre_tokenizer", pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), BYTES])), False),
        (with_part("decoder", decoders.WordPiece()), False),
        (with_added("<tool>", "   "), True),
        (with_added("日本"), True),
        (with_added(AddedToken("<tool>", rstrip=True)), False),
        (with_added("é"), False),  # the library takes it for the byte E9
        (with_part("model", models.BPE({"x": 0, "Ġ": 1}, [])), False),
        (unigram(), False),
    ],
)
@settings(max_examples=30, deadline=None)
@given(text=st.lists(st.sampled_from(["x", " ", "é", "E", "<tool>", "日本", "e\u0301", "\n"])).map("".join))
def test_lossless_is_said_only_where_it_is_true(core, lossless, text):
    tokenizer = Tokenizer(core.from_str(core.to_str()))
    assert tokenizer.lossless == lossless
    if lossless:
        assert round_trip(tokenizer, text) == text


def test_a_lower_casing_tokenizer_is_not_lossless():
    tokenizer = train_tokenizer(["The Cat"], vocab=300, lowercase=True)
    assert not tokenizer.lossless
    assert round_trip(tokenizer, " The  Cat ") == " the  cat "


def test_names_and_ids_are_two_ways():
    tokenizer = byte_level()
    for token, id in tokenizer.vocabulary().items():
        assert tokenizer.name(id) == token
    assert list(tokenizer.vocabulary().values()) == list(range(tokenizer.vocab_size))
    tokenizer.vocabulary().clear()
    assert tokenizer.vocabulary()


@pytest.mark.parametrize("id", [-1, 258, 2**40])
def test_an_id_that_does_not_exist_has_no_name(id):
    with pytest.raises(DataError, match=f"no id {id}; its ids are below 258"):
        bytes_only().name(id)
