"""Ids of corpora by the quicker library: those of `plain`, or `plain` itself."""

import json
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Core

from clearhead.tasks import pieces
from clearhead.tasks.pieces import ids_of
from clearhead.text.bulk import SAMPLES, sample
from clearhead.text.train import train_tokenizer

LINES = [
    "the soup was good, and it's 12 o'clock </s>",
    "naïve Straße 漢字 \x00\x85",
    "def f(x):\n    return x",
]
KINDS = {"bpe": {}, "lower": {"lowercase": True}}


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request):
    pytest.importorskip("fastokens")
    return train_tokenizer(LINES * 9, vocab=330, closed=False, **KINDS[request.param])


def test_byte_level_pairs_take_it(tokenizer):
    assert tokenizer.bulk != tokenizer.plain


@settings(deadline=None, max_examples=200)
@given(st.lists(st.text(), max_size=5))
def test_it_gives_the_same_ids(tokenizer, texts):
    assert tokenizer.bulk(texts) == tokenizer.plain(texts)


def test_a_text_is_no_control_token_there_either(tokenizer):
    (ids,) = tokenizer.bulk(["a </s> <s>"])
    assert not tokenizer.control_ids & set(ids) and tokenizer.decode(ids) == "a </s> <s>"


@pytest.mark.parametrize("kind", ["wordpiece", "characters"])
def test_kinds_that_it_does_not_have_go_without(kind):
    made = train_tokenizer(LINES, vocab=300, kind=kind)
    assert made.bulk == made.plain


def test_one_that_gives_other_ids_is_not_taken(monkeypatch):
    """As a stored dropout of merges would make it, or a fault of its own."""
    pytest.importorskip("fastokens")
    made = train_tokenizer(LINES * 9, vocab=330, closed=False)
    rules = json.loads(made.__reduce__()[1][0])
    rules["model"]["merges"].pop()
    other = json.dumps(rules)
    monkeypatch.setattr(Core, "to_str", lambda self: other)
    assert made.bulk == made.plain


def test_the_sample_is_the_same_every_time():
    words = ["a", "</s>", "Ġthe"]
    assert sample(words) == sample(reversed(words)) and len(sample(words)) == SAMPLES


def test_documents_have_the_same_ids_however_many_are_encoded_together(monkeypatch):
    made = train_tokenizer(LINES * 9, vocab=330, closed=False)
    right = list(ids_of(made, LINES * 5))
    assert right[1] == [0, *made.plain([LINES[1]])[0], 1]
    for size in (1, 30, 100):
        monkeypatch.setattr(pieces, "AT_ONCE", size)
        assert list(ids_of(made, LINES * 5)) == right


def test_it_is_not_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastokens", None)
    made = train_tokenizer(LINES, vocab=300, closed=False)
    assert made.bulk == made.plain
