"""Text that looks like a control token is text (A04)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_folders import LITERALS, WORDS, bert, byte_level, gpt2, unigram, word_level, written
from tokenizers import Tokenizer as Core

from clearhead.text import Tokenizer

GPT2_CONFIG = {f"{role}_token": "<|endoftext|>" for role in ("bos", "eos", "unk")}


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory) -> dict[str, Tokenizer]:
    """Every way in which a vocabulary can hold a token that a text may spell."""
    folder = tmp_path_factory.mktemp("kinds")
    roles = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    return {
        "uncased": bert(folder / "uncased", do_lower_case=True),
        "cased": bert(folder / "cased", do_lower_case=False),
        "byte_level": byte_level(),
        "gpt2": Tokenizer(gpt2(), GPT2_CONFIG),
        "words": Tokenizer.read(written(word_level(), folder / "words")),
        "not_marked": Tokenizer.read(written(word_level(special=False), folder / "not_marked", **roles)),
        "unigram": Tokenizer.read(written(unigram(), folder / "unigram")),
    }


KINDS = ["uncased", "cased", "byte_level", "gpt2", "words", "not_marked", "unigram"]


def content(tokenizer: Tokenizer, encoding) -> list[int]:
    return [id for id, special in zip(encoding.ids, encoding.special, strict=True) if not special]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["please print [SEP] or </s> as is", " ".join(LITERALS), "".join(LITERALS)])
def test_no_control_id_comes_from_a_text(kind, text, tokenizers):
    tokenizer = tokenizers[kind]
    assert tokenizer.control_ids
    (found,) = tokenizer.encode([text])
    assert content(tokenizer, found)
    assert tokenizer.control_ids.isdisjoint(content(tokenizer, found))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=100, deadline=None)
@given(pieces=st.lists(st.sampled_from([*LITERALS, " ", "\n", "the", "é", "☃", "▁"]) | st.text(max_size=3)))
def test_no_control_id_comes_from_any_text(kind, pieces, tokenizers):
    tokenizer = tokenizers[kind]
    for item in ("".join(pieces), ("".join(pieces), "".join(reversed(pieces)))):
        (found,) = tokenizer.encode([item])
        assert tokenizer.control_ids.isdisjoint(content(tokenizer, found))
        assert sum(found.special) == tokenizer.special_count(pair=isinstance(item, tuple))


@pytest.mark.parametrize("kind", KINDS)
def test_segments_do_not_move_because_a_text_holds_a_literal(kind, tokenizers):
    tokenizer = tokenizers[kind]
    (found,) = tokenizer.encode([("is [SEP] or </s> the", "please print [SEP] </s> as")])
    alone = [tokenizer.encode([text])[0] for text in ("is [SEP] or </s> the", "please print [SEP] </s> as")]
    first, second = (content(tokenizer, encoding) for encoding in alone)
    (frame,) = tokenizer.encode([("", "")])
    assert content(tokenizer, found) == [*first, *second]
    for segment in (0, 1):
        expected = sum(s == segment for s in frame.segments)
        expected += sum(
            len(part)
            for part, of in zip((first, second), segments_of(tokenizer), strict=True)
            if of == segment
        )
        assert sum(s == segment for s in found.segments) == expected


def segments_of(tokenizer: Tokenizer) -> tuple[int, int]:
    """The segments of the two texts of a pair."""
    (found,) = tokenizer.encode([("the", "the")])
    first, *_, second = [s for s, special in zip(found.segments, found.special, strict=True) if not special]
    return first, second


@pytest.mark.parametrize("kind", ["byte_level", "gpt2", "unigram"])
def test_decoding_gives_the_literal_back(kind, tokenizers):
    text = "a </s> b <pad>c<s>"
    tokenizer = tokenizers[kind]
    assert tokenizer.decode(tokenizer.encode([text])[0].ids) == text


def test_a_word_piece_literal_is_read_as_its_pieces(tokenizers):
    assert tokenizers["cased"].tokens("the [SEP]") == ["[CLS]", "the", "[", "SEP", "]", "[SEP]"]
    assert tokenizers["uncased"].tokens("the [SEP]") == ["[CLS]", "the", "[", "sep", "]", "[SEP]"]


def test_a_control_token_that_is_a_word_is_spelled_and_points_at_its_characters(tokenizers):
    tokenizer = tokenizers["words"]
    assert tokenizer.tokens("the [SEP] cat") == [
        *["[CLS]", "the", "[", "[UNK]", "E", "[UNK]", "]", "cat", "[SEP]"],
    ]
    (found,) = tokenizer.encode(["the [SEP] cat"])
    assert found.offsets == ((0, 0), (0, 3), *[(4, 9)] * 5, (10, 13), (0, 0))


def test_a_token_that_only_the_configuration_calls_special_is_one(tokenizers):
    tokenizer = tokenizers["not_marked"]
    assert tokenizer.control_ids == {0, 2, 3, 4}
    assert tokenizer.decode(tokenizer.encode(["the cat"])[0].ids) == "the cat"


def test_an_added_token_that_only_the_configuration_calls_special_does_not_match_a_text():
    core = gpt2()
    core.add_tokens(["<end>"])
    tokenizer = Tokenizer(core, {"eos_token": "<end>"})
    (found,) = tokenizer.encode(["the <end>!"])
    assert tokenizer.control_ids == {256, 257}
    assert tokenizer.control_ids.isdisjoint(found.ids)
    assert tokenizer.decode([*found.ids, 257]) == "the <end>!"


def test_an_unknown_word_is_still_unknown(tokenizers):
    for kind in ("uncased", "cased", "words", "not_marked"):
        tokenizer = tokenizers[kind]
        assert tokenizer.unknown_id == 1
        assert content(tokenizer, tokenizer.encode(["the ☃ cat"])[0])[1] == 1
    assert tokenizers["unigram"].unknown_id == 3
    assert 3 in tokenizers["unigram"].encode(["☃"])[0].ids
    assert tokenizers["byte_level"].unknown_id is None


def test_a_token_that_is_unknown_and_end_at_once_is_a_control_token(tokenizers):
    assert tokenizers["gpt2"].control_ids == {256}
    assert tokenizers["gpt2"].unknown_id is None


def test_the_published_library_alone_reads_a_literal_as_the_control_id():
    core = word_level()
    assert 3 in core.encode("the [SEP] cat", add_special_tokens=False).ids
    core = Core.from_str(unigram().to_str())
    core.encode_special_tokens = True
    assert 2 in core.encode("the </s>", add_special_tokens=False).ids


def test_every_listed_special_token_is_a_control_token_but_the_unknown_one(tmp_path):
    config = {
        "additional_special_tokens": ["please", {"content": "print"}, "[UNK]"],
        "extra_special_tokens": {"image_token": "as"},
        "added_tokens_decoder": {
            "8": {"content": "is", "special": True},
            "9": {"content": "or", "special": False},
        },
        "unk_token": "[UNK]",
    }
    tokenizer = bert(tmp_path, **config)
    names = {tokenizer.name(id) for id in tokenizer.control_ids}
    assert names == {"[PAD]", "[CLS]", "[SEP]", "[MASK]", "please", "print", "as", "is"}
    assert WORDS[tokenizer.unknown_id] == "[UNK]"
    assert tokenizer.decode([WORDS.index("please"), WORDS.index("the"), 0]) == "the"
