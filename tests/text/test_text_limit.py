"""Long texts are cut where it can be seen, or refused with both lengths (A08, A09)."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from text_folders import WORDS, bert, byte_level
from transformers import BertTokenizerFast

from clearhead.errors import DataError, SettingError


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def published():
    return BertTokenizerFast(vocab={word: index for index, word in enumerate(WORDS)})


@pytest.fixture(scope="module")
def bytes_tokenizer():
    return byte_level()


def cats(count: int) -> str:
    return " ".join(["cat"] * count)


@pytest.mark.parametrize(("length", "dropped"), [(31, 0), (32, 0), (33, 1), (200, 168)])
def test_the_limit_counts_special_tokens_and_exactly_the_limit_drops_nothing(length, dropped, tokenizer):
    short, found = tokenizer.encode(["the", cats(length - 2)], limit=32)
    assert short.dropped == 0
    assert found.dropped == dropped
    assert len(found.ids) == length - dropped
    assert found.ids[0] == 2
    assert found.ids[-1] == 3


def test_two_texts_that_differ_only_behind_the_limit_can_be_told_by_what_was_dropped(tokenizer):
    first, second = tokenizer.encode([cats(30), cats(30) + " the mat"], limit=32)
    assert first.ids == second.ids
    assert (first.dropped, second.dropped) == (0, 2)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=30), limit=st.integers(2, 40))
def test_truncation_keeps_a_prefix_and_counts_the_rest(text, limit, bytes_tokenizer):
    (whole,) = bytes_tokenizer.encode([text])
    (found,) = bytes_tokenizer.encode([text], limit=limit)
    assert len(found.ids) <= limit
    assert len(found.ids) + found.dropped == len(whole.ids)
    assert found.dropped == 0 or len(found.ids) == limit
    kept = len(found.ids) - 1
    for of_found, of_whole in (
        (found.ids, whole.ids),
        (found.offsets, whole.offsets),
        (found.special, whole.special),
    ):
        assert of_found[:kept] == of_whole[:kept]
        assert of_found[kept:] == of_whole[-1:]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=st.integers(0, 12), second=st.integers(1, 12), limit=st.integers(4, 20))
def test_a_pair_is_cut_as_the_published_reader_cuts_it(first, second, limit, tokenizer, published):
    pair = (" ".join("the" for _ in range(first)), " ".join("cat" for _ in range(second)))
    (found,) = tokenizer.encode([pair], limit=limit)
    expected = published(*pair, truncation="longest_first", max_length=limit)
    assert list(found.ids) == expected["input_ids"]
    assert list(found.segments) == expected["token_type_ids"]
    assert found.dropped == first + second + 3 - len(found.ids)


def test_nothing_but_special_tokens_may_fit(tokenizer):
    single, pair = tokenizer.encode(["the cat", ("the", "cat")], limit=3)
    assert (single.ids, single.dropped) == ((2, WORDS.index("the"), 3), 1)
    assert (pair.ids, pair.dropped) == ((2, 3, 3), 2)


def test_a_limit_below_the_special_tokens_is_refused(tokenizer):
    with pytest.raises(
        SettingError, match="limit=1 has no room for the 2 special tokens; make it at least 2"
    ):
        tokenizer.encode(["the"], limit=1)
    with pytest.raises(SettingError, match="limit=2 has no room for the 3 special tokens"):
        tokenizer.encode(["the", ("the", "cat")], limit=2)


def test_a_long_text_may_be_refused_with_its_index_and_both_lengths(tokenizer):
    texts = ["the", cats(30), cats(31), cats(198)]
    assert [e.dropped for e in tokenizer.encode(texts[:2], limit=32, long="error")] == [0, 0]
    with pytest.raises(DataError, match="text 2 has 33 tokens and the limit is 32, special tokens included"):
        tokenizer.encode(texts, limit=32, long="error")
    with pytest.raises(DataError, match="text 0 has 33 tokens and the limit is 32"):
        tokenizer.encode([(cats(15), cats(15))], limit=32, long="error")


def test_a_long_pair_word_is_refused(tokenizer):
    with pytest.raises(SettingError, match="long='window' is not known; use 'truncate' or 'error'"):
        tokenizer.encode(["the"], long="window")


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        ({"model_max_length": 512}, 512),
        ({"model_max_length": 512.0}, 512),
        ({"max_len": 64}, 64),
        ({"model_max_length": 1000000000000000019884624838656}, None),
        ({"model_max_length": 1e30}, None),
        ({"model_max_length": 0}, None),
        ({"model_max_length": None}, None),
        ({"do_lower_case": True}, None),
    ],
)
def test_the_stated_limit_is_read_if_it_is_one(config, limit, tmp_path):
    assert bert(tmp_path, **config).limit == limit


def test_results_come_in_order_and_no_texts_give_no_results(tokenizer):
    assert tokenizer.encode([]) == []
    texts = ["the", ("cat", "mat"), "", "on the mat"]
    assert tokenizer.encode(texts) == [tokenizer.encode([text])[0] for text in texts]


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ("the cat", "list of texts and was given one string"),
        (["the", ("a", "b", "c")], "text 1 must be a string or a pair"),
        (["the", "cat", ("a", 5)], "text 2 must be a string or a pair"),
    ],
)
def test_what_is_not_a_text_is_refused_by_its_index(texts, words, tokenizer):
    with pytest.raises(DataError, match=words):
        tokenizer.encode(texts)
