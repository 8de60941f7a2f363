"""Texts that are there twice, and rows held out of training."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.data.rows import Row
from clearhead.data.split import Duplicates, split, split_freely, without_duplicates
from clearhead.errors import DataError, SettingError
from clearhead.learn.place import digest_of_rows


def labelled(*labels):
    return [Row(f"text {i}", label, "reviews.csv", i, {}) for i, label in enumerate(labels, start=1)]


def test_the_first_of_two_equal_texts_is_kept(row):
    rows = [row("a", "1"), row("b", "1"), row(" A\n", "1"), row("b", "2"), row("STRASSE"), row("straße")]
    kept, found = without_duplicates(rows)
    assert kept == [rows[0], rows[1], rows[4]]
    assert found == Duplicates(dropped=3, contradicting=1)


def test_texts_that_differ_are_all_kept(row):
    rows = [row("a b"), row("a  b"), row("ab")]
    assert without_duplicates(rows) == (rows, Duplicates(0, 0))
    assert without_duplicates([]) == ([], Duplicates(0, 0))


def test_pairs_are_the_same_if_both_of_their_texts_are():
    def pair(one, two):
        return Row(one, "1", "pairs.csv", 1, {}, pair=two)

    different = [
        pair("a", "b\0c"),
        pair("a\0b", "c"),
        pair("a", "b"),
        pair("b", "a"),
        Row("a\0b", "1", "p", 1, {}),
    ]
    assert without_duplicates(different)[0] == different
    same = [pair(" A", "b\n"), pair("a ", " B"), pair("a", "b")]
    assert without_duplicates(same) == (same[:1], Duplicates(2, 0))


def test_two_labels_contradict_one_whose_name_looks_like_both():
    rows = [Row("a", "b|c", "x.jsonl", n, {}, labels) for n, labels in enumerate([("b", "c"), ("b|c",)], 1)]
    assert without_duplicates(rows)[1] == Duplicates(1, 1)
    assert digest_of_rows(rows[:1]) != digest_of_rows(rows[1:])


@pytest.mark.parametrize("number", [0, 1])
def test_a_single_number_says_that_two_rows_are_needed(number):
    with pytest.raises(DataError, match="give at least two rows"):
        split_freely(labelled("1.5")[:number], part=0.1, seed=0)
    assert len(split_freely(labelled("1.5", "2"), part=0.1, seed=0)[1]) == 1


SIZES = st.dictionaries(st.sampled_from("abcdef"), st.integers(2, 30), min_size=1)


@settings(deadline=None)  # a busy machine is no failure
@given(sizes=SIZES, share=st.floats(0.05, 0.5), seed=st.integers(0, 99), data=st.data())
def test_each_label_keeps_its_share(sizes, share, seed, data):
    labels = [label for label, size in sizes.items() for _ in range(size)]
    rows = labelled(*data.draw(st.permutations(labels)))
    training, held = split(rows, part=share, seed=seed)
    assert sorted([*training, *held], key=rows.index) == rows
    assert training == sorted(training, key=rows.index)
    assert held == sorted(held, key=rows.index)
    assert held
    wanted = max(1, round(share * len(rows)))
    assert len(held) <= wanted
    left, taken = Counter(row.label for row in training), Counter(row.label for row in held)
    for label, size in sizes.items():
        assert left[label] >= 1
        assert abs(taken[label] - size * wanted / len(rows)) < 1
    assert (training, held) == split(rows, part=share, seed=seed)


@settings(deadline=None)  # a busy machine is no failure
@given(number=st.integers(1, 60), seed=st.integers(0, 9))
def test_a_number_of_rows_is_met(number, seed):
    rows = labelled(*"ab" * 50)
    training, held = split(rows, part=number, seed=seed)
    assert (len(training), len(held)) == (100 - number, number)


def test_another_seed_holds_out_other_rows():
    rows = labelled(*"ab" * 50)
    assert len({tuple(row.row for row in split(rows, part=0.1, seed=seed)[1]) for seed in range(20)}) == 20


def test_a_seed_holds_out_the_same_rows_for_ever():
    rows = labelled(*"aab" * 10)
    assert [row.row for row in split(rows, part=0.2, seed=1)[1]] == [3, 13, 14, 20, 21, 29]


def test_a_label_with_one_row_stays_in_training():
    rows = labelled("rare", *["common"] * 9)
    for seed in range(20):
        training, held = split(rows, part=0.5, seed=seed)
        assert rows[0] in training
        assert len(held) == 5


def test_many_rare_labels_leave_less_to_hold_out_than_a_share_asks_for():
    rows = labelled(*["common"] * 100, *(f"rare {i}" for i in range(50)))
    training, held = split(rows, part=0.1, seed=0)
    assert len(held) == 11
    assert {row.label for row in training} == {row.label for row in rows}
    with pytest.raises(DataError) as caught:
        split(rows, part=15, seed=0)
    assert str(caught.value) == (
        "reviews.csv: 15 rows cannot be held out of 150 with each label's share kept and each label left in "
        "training, 11 can; give more rows of the rare labels, or a file with --validation"
    )


def test_the_row_left_over_comes_from_the_label_cut_most():
    rows = labelled(*"a" * 14, *"b" * 16)  # a tenth: 1.4 and 1.6 rows
    assert [row.label for row in split(rows, part=0.1, seed=0)[1]] == ["a", "b", "b"]


@pytest.mark.parametrize("labels", ["ab" * 5, "ba" * 5])
def test_a_tie_between_labels_does_not_hang_on_the_order_of_rows(labels):
    assert [row.label for row in split(labelled(*labels), part=1, seed=0)[1]] == ["a"]


def test_rows_without_labels_are_held_out_too():
    training, held = split(labelled(*[None] * 20), part=0.1, seed=0)
    assert (len(training), len(held)) == (18, 2)


def test_a_small_share_holds_out_one_row():
    assert len(split(labelled(*"aabb"), part=0.01, seed=0)[1]) == 1


@pytest.mark.parametrize("labels", ["", "a", "ab", "abc"])
def test_too_few_rows_are_refused(labels):
    with pytest.raises(DataError, match="1 row cannot be held out of"):
        split(labelled(*labels), part=0.1, seed=0)
    with pytest.raises(DataError, match="1 row cannot be held out of"):
        split(labelled(*labels), part=1, seed=0)


@pytest.mark.parametrize("part", [4, 5, 100])
def test_all_rows_cannot_be_held_out(part):
    with pytest.raises(DataError, match="cannot be held out of 4"):
        split(labelled(*"aabb"), part=part, seed=0)


@pytest.mark.parametrize("part", [0, -1, 0.0, 1.0, 1.5, -0.1, float("nan")])
def test_a_part_that_is_no_share_and_no_number_is_refused(part):
    with pytest.raises(SettingError, match="use a share between 0 and 1, or a number of rows"):
        split(labelled(*"aabb"), part=part, seed=0)
