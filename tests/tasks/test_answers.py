"""Spans, their probabilities, and the scores that SQuAD was published with."""

import tracemalloc
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.questions import Place, Question
from clearhead.model.layout import Layout
from clearhead.tasks.answer import result_of, span_loss, spans_of, targets
from clearhead.tasks.examples import Example
from clearhead.tasks.scores_answers import best_of, measure, normalised
from clearhead.text.encoding import Encoding


def window(offsets, *, before=2):
    """`before` tokens of a question (the first special), then tokens of a context, then a special one."""
    count = len(offsets)
    every = [(0, 0)] * before + list(offsets) + [(0, 0)]
    sources = (-1, *(0 for _ in range(before - 1)), *(1 for _ in range(count)), -1)
    return Encoding(tuple(range(len(every))), (0,) * len(every), tuple(every), sources, 0)


def numbers(window, start, end):
    return torch.tensor([start, end], dtype=torch.float32).T.reshape(len(window.ids), 2)


def test_the_published_normalisation():
    assert normalised("The  Cat, an a-b; A dog!") == ["cat", "ab", "dog"]
    assert best_of("the cat", ["Cat."]) == (1.0, 1.0)
    assert best_of("", []) == (1.0, 1.0) and best_of("cat", []) == (0.0, 0.0)
    assert best_of("big cat", ["cat", "dog"]) == (0.0, pytest.approx(2 / 3))
    assert best_of("the", ["an"]) == (1.0, 1.0)  # articles alone: no word that counts, like no answer


def test_scores_of_questions_with_and_without_an_answer():
    found = measure(
        ["cat", None, "dog", None], [["cat"], ["cat"], [], []],
        best=["cat", "cat", "dog", "x"], margins=[-5.0, 1.0, -1.0, 3.0],
    )  # fmt: skip
    assert (found.exact_match, found.has_answer_exact, found.no_answer_exact) == (50, 50, 50)
    # From no answer anywhere (2 right), letting in the surest: cat (3), dog (2), cat (3), x (2).
    assert (found.best_f1, found.best_f1_threshold) == (75, -5.0)


def test_every_place_is_there_once_with_its_best_score_and_without_space_around_it():
    context = " ab  c"
    first, second = window([(0, 3), (3, 5), (5, 6)]), window([(3, 5), (5, 6)])
    logits = [
        numbers(first, [0.0, 0, 1, 2, 3, 0], [0.0, 0, 4, 5, 6, 0]),
        numbers(second, [-1.0, 0, 7, 8, 0], [-1.0, 0, 9, 10, 0]),
    ]
    found = spans_of(logits, Example((first, second)), context=context, most=30, best=20)
    places = {(start, end): score for start, end, score in zip(*found.best, strict=True)}
    # "ab" is the first token, or the first two; "c" alone, or from the space; in two windows each.
    assert places == {(1, 3): 6.0, (1, 6): 7.0, (5, 6): 18.0}
    assert found.none == -2.0  # the lowest of the windows


def test_probabilities_of_all_answers_and_none_sum_to_1():
    some = window([(0, 2), (3, 5)])
    logits = [numbers(some, [0.25, 0, 1, 0, 0], [0.25, 0, 0, 2, 0])]
    spans = spans_of(logits, Example((some,)), context="ab cd", most=30, best=20)
    found = result_of(spans, Example((some,)), context="ab cd", threshold=None)
    assert (found.answer, found.start, found.end, found.margin) == ("ab cd", 0, 5, -2.5)
    assert sum(one.score for one in found.candidates) + found.no_answer_score == pytest.approx(1)
    assert [one.answer for one in found.candidates] == ["ab cd", "cd", "ab"]
    spans = spans_of(logits, Example((some,)), context="ab cd", most=30, best=1)
    none = result_of(spans, Example((some,)), context="ab cd", threshold=-3.0)
    assert none.answer is None and none.start is None and none.score == none.no_answer_score
    assert len(none.candidates) == 1 and none.no_answer_score == found.no_answer_score


@given(st.text(alphabet="a b", min_size=1, max_size=40), st.data())
def test_the_best_of_many_windows_are_those_of_all_places_together(context, data):
    """Tokens of any length, white space among them; windows that begin at equal steps."""
    cuts = sorted({0, len(context), *data.draw(st.lists(st.integers(0, len(context)), max_size=15))})
    tokens = list(pairwise(cuts))
    room = data.draw(st.integers(1, len(tokens)))
    step, most = data.draw(st.integers(1, room)), data.draw(st.integers(1, 5))
    begins = range(0, max(1, len(tokens) - room + step), step)
    windows = [window(tokens[begin : begin + room]) for begin in begins]
    chance = np.random.default_rng(len(tokens) * 7 + room)
    logits = [torch.from_numpy(chance.integers(-3, 3, (len(one.ids), 2)) / 2) for one in windows]
    right = {}
    for one, own in zip(windows, logits, strict=True):
        inside = [at for at, source in enumerate(one.sources) if source == 1]
        for first, last in product(inside, inside):
            part = context[one.offsets[first][0] : one.offsets[last][1]]
            if 0 <= last - first < most and part.strip():
                start = one.offsets[first][0] + len(part) - len(part.lstrip())
                place = start, start + len(part.strip())
                right[place] = max(right.get(place, -9.0), float(own[first, 0] + own[last, 1]))
    none = min(float(own[0].sum()) for own in logits)
    found = spans_of(logits, Example(tuple(windows)), context=context, most=most, best=4)
    ordered = sorted((-score, *place) for place, score in right.items())[:4]
    assert [(-score, start, end) for start, end, score in zip(*found.best, strict=True)] == ordered
    assert found.none == none
    assert found.total == pytest.approx(np.log(sum(np.exp([*right.values(), none]))))


def test_memory_does_not_grow_with_the_number_of_windows():
    context, peaks = "ab " * 4000, []
    for count in (400, 4000):
        tokens = [(3 * at, 3 * at + 2) for at in range(count)]
        windows = tuple(window(tokens[begin : begin + 100]) for begin in range(0, count - 50, 50))
        logits = [torch.zeros(len(one.ids), 2) for one in windows]
        tracemalloc.start()
        spans_of(logits, Example(windows), context=context, most=100, best=20)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0]


@pytest.mark.parametrize(
    ("place", "right"), [((0, 2), (2, 2)), ((1, 5), (2, 3)), ((3, 9), (3, 4)), ((0, 11), (0, 0))]
)
def test_an_answer_counts_in_a_window_that_holds_all_of_it(place, right):
    some = replace(window([(0, 2), (3, 5), (6, 9)]), dropped=1)
    question = Question("?", "ab cd efg h", (Place(*place),), "f", 1)
    assert targets(Example((some,)), question) == [right]


CONTEXT = "ab \u200bcd\u00ad ef\n"  # the tokens: ab, cd, ef


@pytest.mark.parametrize(
    ("place", "right"),
    [
        ((2, 6), (3, 3)), ((3, 6), (3, 3)), ((4, 7), (3, 3)), ((4, 8), (3, 3)), ((2, 8), (3, 3)),
        ((2, 11), (3, 4)), ((8, 11), (4, 4)), ((0, 4), (2, 2)), ((0, 11), (2, 4)), ((2, 4), (0, 0)),
    ],
)  # fmt: skip
def test_what_no_token_shows_is_no_part_of_an_answer(place, right):
    for offsets in ([(0, 2), (4, 6), (8, 10)], [(0, 2), (2, 6), (7, 11)], [(0, 2), (2, 7), (7, 10)]):
        assert targets(Example((window(offsets),)), Question("?", CONTEXT, (Place(*place),), "f", 1)) == [
            right
        ]


def test_an_answer_that_windows_or_a_cut_leave_in_part_is_in_none():
    question = Question("?", CONTEXT, (Place(2, 10),), "f", 1)
    first, second, both = window([(0, 2), (4, 6)]), window([(8, 10)]), window([(4, 6), (8, 10)])
    assert targets(Example((first, second)), question) == [(0, 0), (0, 0)]
    assert targets(Example((first, both)), question) == [(0, 0), (2, 3)]
    assert targets(Example((replace(first, dropped=1),)), question) == [(0, 0)]
    question = Question("?", CONTEXT, (Place(2, 8),), "f", 1)  # what lies beyond the cut is nothing to see
    assert targets(Example((replace(first, dropped=1),)), question) == [(3, 3)]
    assert targets(Example((replace(window([]), dropped=3),)), question) == [(0, 0)]


def test_a_window_without_the_answer_points_at_its_first_token():
    question = Question("?", "ab cd", (), "f", 1)
    assert targets(Example((window([(0, 2)]),)), question) == [(0, 0)]


def test_the_loss_is_the_mean_of_both_ends_summed_over_windows():
    lengths = (5, 3, 5, 0, 4)
    layout = Layout.of(lengths)
    torch.manual_seed(0)
    logits = torch.randn(layout.tokens, 2)
    right = torch.tensor([[1, 4], [0, 0], [2, 2], [0, 0], [3, 3]])
    expected = 0.0
    for rows, ends, length in zip(layout.slices, right.tolist(), lengths, strict=True):
        if length:
            sure = logits[rows].double().log_softmax(0)
            expected -= float(sure[ends[0], 0] + sure[ends[1], 1]) / 2
    assert float(span_loss(logits, layout, targets=right)) == pytest.approx(expected, rel=1e-6)
