"""Laws that hold for every kind of tokenizer and every text (A02, A04, A09, A35)."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_folders import LITERALS, PUBLISHED, published_folders

from clearhead.text import Tokenizer

PIECES = [
    *(*LITERALS, "[unused0]", "<|padding|>", "|||IP_ADDRESS|||", "<s>NOTUSED"),
    *(
        "the",
        "cat",
        " ",
        "  ",
        " " * 9,
        "\n",
        "\t",
        "\r\n",
        "é",
        "e\u0301",
        "\u0301",
        "中",
        "か\u3099",
        "ﬁ",
        "İ",
        "½",
    ),
    *(
        "🤷🏽‍♀️",
        "\u200d",
        "\0",
        "\ufeff",
        "\ud800",
        "\udc00",
        "\ud83d",
        "ש",
        "ع",
        "ก",
        "▁",
        "Ġ",
        "##a",
        "\u2028",
        "\x85",
    ),
]
TEXTS = st.text(max_size=20) | st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
LOSSLESS = {"gpt2", "gpt2_begin", "trained", "roberta", "roberta_rules", "bart", "bart_rules"}


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory) -> dict[str, Tokenizer]:
    folders = published_folders(tmp_path_factory.mktemp("kinds"))
    assert sorted(folders) == sorted(PUBLISHED)
    return {kind: Tokenizer.read(folder) for kind, folder in folders.items()}


def content(encoding, row):
    return [entry for entry, special in zip(row, encoding.special, strict=True) if not special]


@pytest.mark.parametrize("kind", PUBLISHED)
@settings(max_examples=150, deadline=None)
@given(text=TEXTS, second=TEXTS, limit=st.integers(4, 24))
def test_every_text_keeps_the_laws(kind, text, second, limit, tokenizers):
    tokenizer = tokenizers[kind]
    whole, pair = tokenizer.encode([text, (text, second)])
    for encoding in (whole, pair):
        assert len(encoding.ids) == len(encoding.segments) == len(encoding.offsets) == len(encoding.special)
        assert tokenizer.control_ids.isdisjoint(content(encoding, encoding.ids))
        assert all(0 <= id < tokenizer.vocab_size for id in encoding.ids)
        assert encoding.dropped == 0
    spans = content(whole, whole.offsets)
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    assert all(
        first <= later
        for before, after in pairwise(spans)
        for first, later in zip(before, after, strict=True)
    )
    assert content(pair, pair.ids) == content(whole, whole.ids) + alone(tokenizer, second)
    if tokenizer.lossless:
        expected = "".join("\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in text)
        assert tokenizer.decode(whole.ids) == expected
    for item, uncut in ((text, whole), ((text, second), pair)):
        (cut,) = tokenizer.encode([item], limit=limit)
        assert len(cut.ids) == min(limit, len(uncut.ids))
        assert cut.dropped == len(uncut.ids) - len(cut.ids)
        assert [entry for entry in cut.special if entry] == [entry for entry in uncut.special if entry]
    (cut,) = tokenizer.encode([text], limit=limit)
    assert content(cut, cut.ids) == content(whole, whole.ids)[: len(content(cut, cut.ids))]


def alone(tokenizer, text):
    (found,) = tokenizer.encode([text])
    return content(found, found.ids)


@pytest.mark.parametrize("kind", PUBLISHED)
@settings(max_examples=60, deadline=None)
@given(items=st.lists(TEXTS | st.tuples(TEXTS, TEXTS), max_size=6), limit=st.none() | st.integers(4, 24))
def test_a_list_of_texts_is_encoded_as_each_alone(kind, items, limit, tokenizers):
    together = tokenizers[kind].encode(items, limit=limit)
    assert together == [tokenizers[kind].encode([item], limit=limit)[0] for item in items]


def test_byte_level_kinds_lose_nothing_unless_they_normalise(tokenizers):
    assert {kind for kind in PUBLISHED if tokenizers[kind].lossless} == LOSSLESS


@pytest.mark.parametrize("kind", PUBLISHED)
def test_sixteen_threads_get_what_one_gets(kind, tokenizers):
    tokenizer = tokenizers[kind]
    calls = [
        (["the cat sat", "x" * 40], 7),
        ([("the cat </s> sat", "[SEP] on the mat " * 3)], 19),
        (["the  cat", ("é ↻", "")], None),
        ([], 5),
    ]
    expected = [tokenizer.encode(texts, limit=limit) for texts, limit in calls]

    def work(number: int) -> int:
        return sum(
            tokenizer.encode(texts, limit=limit) == result
            for call in range(250)
            for (texts, limit), result in [
                (calls[(call + number) % len(calls)], expected[(call + number) % len(calls)])
            ]
        )

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(work, range(16))) == [250] * 16
