"""Schemes of tags: what is read, what is refused, and what entities tags spell."""

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.schemes import (
    Place,
    WrongTag,
    as_bio,
    check_tags,
    places,
    scheme_of,
    spelled,
)

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def entities():
    """Rows of entities of two types, side by side or apart, as BIO."""
    part = st.one_of(
        st.just(["O"]),
        st.tuples(st.sampled_from(["PER", "LOC"]), st.integers(1, 3)).map(
            lambda one: [f"B-{one[0]}", *[f"I-{one[0]}"] * (one[1] - 1)]
        ),
    )
    return st.lists(part, max_size=8).map(lambda some: [tag for one in some for tag in one])


@pytest.mark.parametrize(
    ("tags", "scheme", "bio"),
    [
        ("O B-PER I-PER O", "BIO", "O B-PER I-PER O"),
        ("O O", "BIO", "O O"),
        ("I-PER I-PER B-PER O I-LOC", "IOB1", "B-PER I-PER B-PER O B-LOC"),
        ("I-PER I-LOC", "IOB1", "B-PER B-LOC"),
        ("B-PER I-PER E-PER S-LOC O S-PER", "IOBES", "B-PER I-PER I-PER B-LOC O B-PER"),
        ("B-PER L-PER U-LOC", "BILOU", "B-PER I-PER B-LOC"),
        ("B-creative-work I-creative-work", "BIO", "B-creative-work I-creative-work"),
    ],
)
def test_the_scheme_is_told_from_the_tags(tags, scheme, bio):
    row = tags.split()
    check_tags(row)
    assert scheme_of([row]) == scheme
    assert as_bio(row, scheme) == tuple(bio.split())


@pytest.mark.parametrize(
    ("rows", "place", "said"),
    [
        (["B-PER O I-PER"], 2, "I-PER follows O, and in BIO an entity begins with B-; write B-PER"),
        (["O B-PER I-LOC"], 2, "I-LOC follows B-PER, and in BIO"),
        (["I-PER", "O B-PER"], 0, "I-PER follows nothing, and in BIO"),
        (
            ["B-PER O", "S-LOC"],
            0,
            "B-PER is the last word of an entity, which IOBES marks with E-, or",
        ),
        (["O E-PER"], 1, "E-PER follows O, and in IOBES an entity begins with B- or is S- alone"),
        (["B-PER E-LOC"], 1, "E-LOC follows B-PER, and in IOBES"),
        (["U-PER B-LOC I-LOC"], 2, "I-LOC is the last word of an entity, which BILOU marks with L-"),
        (["S-PER U-PER"], 1, "the tag 'U-PER' is not IOBES, in which other rows are"),
    ],
)
def test_a_tag_that_its_scheme_does_not_allow_there_is_refused(rows, place, said):
    rows = [row.split() for row in rows]
    scheme = scheme_of(rows)
    with pytest.raises(WrongTag) as wrong:
        _ = [as_bio(row, scheme) for row in rows]
    assert str(wrong.value).startswith(said) and wrong.value.place == place


@pytest.mark.parametrize("tag", ["PER", "X-PER", "B-", "B- ", "B", "", "o", "b-PER", "B_PER"])
def test_a_tag_without_a_known_prefix_is_none(tag):
    with pytest.raises(WrongTag, match="is neither O nor a type after one of 'B-', 'I-', 'E-', 'S-', 'L-'"):
        check_tags(["O", tag])


@given(entities())
def test_what_is_valid_stays_as_it_is_and_comes_back_from_every_scheme(tags):
    assert as_bio(tags, "BIO") == tuple(tags)
    assert places(tags) == places(tags, strict=True)
    for scheme in ("IOBES", "BILOU"):
        other = spelled(tags, scheme)
        assert as_bio(other, scheme) == tuple(tags)
        assert places(other) == places(tags)
    first = [
        f"I{tag[1:]}" if tag[0] == "B" and not (place and tags[place - 1][2:] == tag[2:]) else tag
        for place, tag in enumerate(tags)
    ]
    assert as_bio(first, "IOB1") == tuple(tags)


@given(st.lists(st.sampled_from(TAGS), max_size=12))
def test_any_tags_spell_entities_that_follow_each_other(tags):
    found = places(tags)
    assert all(one.begin < one.end <= len(tags) for one in found)
    assert all(one.end <= other.begin for one, other in pairwise(found))
    assert {place for one in found for place in range(one.begin, one.end)} == {
        place for place, tag in enumerate(tags) if tag != "O"
    }
    assert set(places(tags, strict=True)) == {one for one in found if tags[one.begin][0] == "B"}


def test_what_goes_on_with_nothing_begins_an_entity_unless_strict():
    tags = ["O", "I-PER", "I-PER", "I-LOC", "B-LOC"]
    assert places(tags) == [Place("PER", 1, 3), Place("LOC", 3, 4), Place("LOC", 4, 5)]
    assert places(tags, strict=True) == [Place("LOC", 4, 5)]


def test_labels_without_a_prefix_spell_entities_of_neighbours_that_are_alike():
    assert places(["PER", "PER", "O", "LOC", "PER"]) == [
        Place("PER", 0, 2), Place("LOC", 3, 4), Place("PER", 4, 5),
    ]  # fmt: skip


def entities_of(tags):
    """seqeval's rule, written out: between two tags an entity ends, and one begins, or it goes on."""
    found, begin, before, kind = [], None, "O", ""
    for place, tag in enumerate([*tags, "O"]):
        prefix, _, new = tag.partition("-")
        ends = before in "ESLU" or prefix in "BSUO" or new != kind
        if begin is not None and ends:
            found.append(Place(kind, begin, place))
            begin = None
        if prefix != "O" and (prefix in "BSU" or before in "OESLU" or new != kind):
            begin = place
        before, kind = prefix, new
    return found


@pytest.mark.parametrize("prefixes", ["BIES", "BILU", "BIESLU"])
def test_behind_a_last_word_no_entity_is_open(prefixes):
    assert places(["S-P", "I-P", "I-P"]) == [Place("P", 0, 1), Place("P", 1, 3)]
    assert places(["S-P", "I-P", "I-P"], strict=True) == [Place("P", 0, 1)]
    kinds = "P" if len(prefixes) > 4 else "PQ"
    every = ["O", *(f"{prefix}-{kind}" for prefix in prefixes for kind in kinds)]
    for length in range(5):
        for tags in product(every, repeat=length):
            right = entities_of(tags)
            assert places(tags) == right, tags
            told = [one for one in right if tags[one.begin][0] in "BSU"]
            assert places(tags, strict=True) == told, tags
