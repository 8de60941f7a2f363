"""Long texts are taken apart where it changes no id, so that memory does not grow with them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.text import tokenizer as module
from clearhead.text import words
from clearhead.text.train import train_tokenizer

TEXTS = ["the soup was good, it's 3,50 € and they've 12 of them. Ünïté привет 東京 🙂\n\n  twice "] * 3
pieces = st.sampled_from(
    [*"ab 's1 é\n\t.,_", "  ", "'ll", "they've", " 12", "привет", "🙂", "\u0301", "\u00a0"]
)


@pytest.fixture(params=["bpe", "lowercase", "characters"])
def tokenizer(request):
    kind = "characters" if request.param == "characters" else "bpe"
    return train_tokenizer(TEXTS, vocab=320, kind=kind, lowercase=request.param == "lowercase", closed=False)


@settings(deadline=None, max_examples=150)
@given(st.lists(pieces, max_size=40).map("".join), st.integers(1, 9))
def test_a_text_taken_apart_has_its_ids(text, size):
    for kind in ("bpe", "characters"):
        made = train_tokenizer(TEXTS, vocab=320, kind=kind, closed=False)
        (right,) = made.plain([text])
        before = words.PART, module.PART
        words.PART = module.PART = size
        try:
            assert made.plain([text, "a b"])[0] == right
            assert "".join(words.parts(text)) == text
        finally:
            words.PART, module.PART = before


def test_what_may_be_cut_is_what_is_known_to_be_safe(tokenizer):
    assert tokenizer._cuts == (tokenizer.lossless and tokenizer.unknown_id is None)
