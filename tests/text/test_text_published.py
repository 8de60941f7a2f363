"""Every kind of published tokenizer folder gives the ids that the published reader gives."""

import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from text_folders import PUBLISHED as KINDS
from text_folders import published_folders
from transformers import AutoTokenizer

from clearhead.text import Tokenizer

SEGMENTLESS = {"roberta", "roberta_spaced", "roberta_rules", "modernbert", "xlmr", "camembert", "trained"}
SEGMENTLESS |= {"bart", "bart_rules", "t5", "t5_pieces", "xlmr_pieces", "marian", "marian_separate"}
TEXTS = [
    "the cat sat on the mat",
    " The  CAT,\tsat; on\r\nthe mat!  ",
    "cafe\u0301 café NAI\u0308VE ﬁ ½ İ ß Å",
    "🤷🏽‍♀️ x 🤷 \u200d\ufe0f",
    "\u0000a\u0000 \ufeff \ufffd \u00a0 \u2028 \u0085 \x7f",
    "مرحبا بالعالم שלום עולם 中文a中 สวัสดีชาวโลก か\u3099が",
    "the    cat\n\n\n   ca     t  " + " " * 30 + "x",
    "I'm you're don 't",
    "▁the ▁ ##a Ġthe",
    "",
    "   ",
    "\n",
]
LONG = ["x" * 100_000, "aa" * 100_000, " " * 200_000, "é" * 100_000, "ab c" * 20_000]
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=15) | st.lists(
    st.sampled_from(
        ["the", " ", "  ", "cat", "\n", "\t", "é", "e\u0301", "中", ",", "A", "▁", "☃", "\u2028"]
    ),
    max_size=12,
).map("".join)


@pytest.fixture(scope="module")
def readers(tmp_path_factory):
    """Kind → (ours, the published one with special tokens in texts read as text)."""
    folders = published_folders(tmp_path_factory.mktemp("published"))
    assert sorted(folders) == sorted(KINDS)
    return {
        kind: (Tokenizer.read(folder), AutoTokenizer.from_pretrained(folder, split_special_tokens=True))
        for kind, folder in folders.items()
    }


def theirs(published, item, **options):
    texts = item if isinstance(item, tuple) else (item,)
    if len(texts) == 2 and not texts[1]:  # it takes an empty second text for none
        found = {name: rows[0] for name, rows in published([texts[0]], [texts[1]], **options).items()}
    else:
        found = published(*texts, **options)
    return found["input_ids"], found.get("token_type_ids", [0] * len(found["input_ids"]))


def check(kind, readers, item, **limits):
    ours, published = readers[kind]
    (found,) = ours.encode([item], limit=limits.get("max_length"))
    ids, segments = theirs(published, item, **limits)
    assert list(found.ids) == ids, (kind, item)
    if not kind.startswith("marian"):  # whose models have no segments, and whose reader counts them wrongly
        assert list(found.segments) == segments, (kind, item)


@pytest.mark.parametrize("kind", KINDS)
def test_single_texts(kind, readers):
    for text in TEXTS:
        check(kind, readers, text)


@pytest.mark.parametrize("kind", KINDS)
def test_pairs(kind, readers):
    for first in TEXTS:
        for second in ("the cat", TEXTS[3], ""):
            check(kind, readers, (first, second))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("marian")])
def test_pairs_cut_to_a_limit(kind, readers):
    for limit in range(5, 30):
        for pair in ((TEXTS[0], TEXTS[1]), ("the", TEXTS[0]), (TEXTS[5], "x")):
            check(kind, readers, pair, max_length=limit, truncation="longest_first")


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(first=ANY, second=ANY, limit=st.integers(5, 25))
def test_any_texts(kind, readers, first, second, limit):
    assume(
        not any(token in text for token in readers[kind][1].all_special_tokens for text in (first, second))
    )
    check(kind, readers, first)
    item = second if kind.startswith("marian") else (first, second)  # of pairs nothing is published for it
    check(kind, readers, item, max_length=limit, truncation="longest_first")


@pytest.mark.parametrize("kind", KINDS)
def test_control_tokens_in_texts_are_text_also_where_the_published_reader_obeys_them(kind, readers):
    """SentencePiece's unigram pieces hold `<s>` and `</s>`: there `split_special_tokens` does not help."""
    ours, published = readers[kind]
    for token in published.all_special_tokens:
        (found,), (letter,) = ours.encode([token]), ours.encode(["a"])
        controls = [[id for id in read.ids if id in ours.control_ids] for read in (found, letter)]
        assert controls[0] == controls[1], (kind, token)  # those around a text, and no other


@pytest.mark.parametrize("kind", KINDS)
def test_very_long_texts_in_no_time(kind, readers):
    for text in LONG:
        begin = time.perf_counter()
        readers[kind][0].encode([text], limit=512)
        assert time.perf_counter() - begin < 20, kind  # a second here; quadratic work would take minutes
        check(kind, readers, text, max_length=512, truncation=True)


@pytest.mark.parametrize("kind", KINDS)
def test_the_special_tokens_have_the_published_roles(kind, readers):
    ours, published = readers[kind]
    for role, id in ours.roles.items():
        assert getattr(published, f"{role}_id") == id
    missing = {role for role, token in published.special_tokens_map.items() if role not in ours.roles}
    assert all(getattr(published, f"{role}_id") >= ours.vocab_size for role in missing)


@pytest.mark.parametrize("kind", sorted(SEGMENTLESS))
def test_a_model_without_segments_gets_none(kind, readers):
    assert set(readers[kind][0].encode([("the cat", "sat")])[0].segments) == {0}
