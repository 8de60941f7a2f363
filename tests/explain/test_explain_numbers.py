"""Numbers as a reader meets them: short, and never better than they are."""

from math import inf, nan

import pytest

from clearhead.explain.summary import compared
from clearhead.explain.tables import class_rows, confused_pairs, matrix
from clearhead.explain.wording import (
    against,
    decimal,
    interval,
    percent,
    probability,
    setting,
    shortened,
    signed,
)


def plain(text):
    return text.replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (0, "0.0 %"),
        (1e-9, "< 0.1 %"),
        (0.0005, "0.1 %"),
        (0.913, "91.3 %"),
        (0.99949, "99.9 %"),
        (0.9995, "> 99.9 %"),
        (1 - 2**-53, "> 99.9 %"),
        (1, "100.0 %"),
        (None, "undefined"),
        (nan, "undefined"),
        (inf, "undefined"),
    ],
)
def test_a_share_reads_100_percent_only_if_it_is_1(share, shown):
    assert plain(percent(share)) == shown


def test_a_probability_of_1_is_one_float64_could_not_tell_from_1():
    assert plain(probability(1.0)) == "> 99.9 %"
    assert plain(probability(0.5)) == "50.0 %"


@pytest.mark.parametrize(
    ("difference", "shown"),
    [
        (0.124, "12.4 points above"),
        (-0.01, "1.0 points below"),
        (0.0003, "less than 0.1 points above"),
        (0, "level with"),
    ],
)
def test_a_difference_says_its_direction(difference, shown):
    assert against(difference) == shown


def test_an_interval_stays_between_0_and_100_percent():
    assert plain(interval(0.913, 1000)) == "89.4 to 92.9 %"
    assert plain(interval(1, 10)) == "72.2 to 100.0 %"
    assert plain(interval(0, 10)) == "0.0 to 27.8 %"


def test_other_numbers_have_three_decimals():
    assert decimal(0.82649) == "0.826"
    assert decimal(-0.5) == "−0.500"
    assert decimal(None) == decimal(nan) == decimal(inf) == "undefined"
    assert signed(-0.176, points=False) == "−0.176"
    assert signed(0.096, points=True) == "+9.6 points"
    assert signed(nan, points=True) == "undefined"


def test_a_long_text_is_cut_at_a_space_if_there_is_one_near():
    assert shortened("word " * 79 + "word") == "word " * 79 + "word"
    assert shortened("word " * 1000) == "word " * 79 + "word …"
    assert shortened(" " * 5000).endswith("…")
    assert shortened("x" * 401) == "x" * 400 + "…"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "not set"),
        (True, "yes"),
        (3e-5, "3e-5"),
        (0.1, "0.1"),
        (3, "3"),
        ([1, 2], "1, 2"),
        ([], "none"),
    ],
)
def test_settings_are_in_words(value, shown):
    assert setting(value) == shown


# Tables.


def test_shade_is_the_share_of_a_label_also_where_it_has_no_text(metrics):
    rows = matrix(metrics([[3, 1], [0, 0]], ("a", "b")))
    assert [[cell.share for cell in cells] for _, cells in rows] == [[0.75, 0.25], [0, 0]]
    assert [[cell.right for cell in cells] for _, cells in rows] == [[True, False], [False, True]]


def test_pairs_are_ordered_by_texts_then_by_share(metrics):
    found = confused_pairs(metrics([[8, 2, 0], [1, 50, 2], [0, 0, 9]], ("a", "b", "c")))
    assert [pair[:3] for pair in found] == [("a", "b", "2"), ("b", "c", "2"), ("b", "a", "1")]


def test_a_ratio_without_cases_is_a_dash(metrics):
    rows = class_rows(metrics([[3, 0, 1], [0, 0, 0], [0, 0, 0]], ("a", "never", "guessed only")))
    assert [tuple(map(plain, row)) for row in rows] == [
        ("a", "100.0 %", "75.0 %", "85.7 %", "4"),
        ("never", "–", "–", "–", "0"),
        ("guessed only", "0.0 %", "–", "0.0 %", "0"),
    ]


def test_of_many_labels_those_with_the_lowest_f1_are_shown(metrics):
    confusion = [[20 if right == guess else 0 for guess in range(60)] for right in range(60)]
    confusion[33][34] = 5
    rows = class_rows(metrics(confusion, tuple(map(str, range(60)))))
    assert len(rows) == 40
    assert {row[0] for row in rows[:2]} == {"33", "34"}


def test_an_undefined_score_has_no_difference(metrics):
    model, baseline = metrics([[3, 1], [1, 3]], ("a", "b")), metrics([[3, 1], [0, 0]], ("a", "b"))
    assert compared(model, baseline)[3][2:] == ("undefined", "undefined")
