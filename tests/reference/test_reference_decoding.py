"""Rules of decoding: small examples by hand, laws for all numbers, and the published code."""

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from transformers.generation import logits_process as published

from clearhead.errors import DataError, SettingError
from clearhead.reference.decoding import (
    greedy,
    kth_most_likely,
    log_softmax,
    min_p,
    nucleus,
    repeating,
    repetition_penalty,
    sample,
    tempered,
    top_k,
    without,
)
from clearhead.reference.layers import softmax

NEVER = -math.inf
FIVE = np.log([0.1, 0.4, 0.05, 0.3, 0.15])  # ranks: 1, 3, 4, 0, 2

numbers = st.floats(-20, 20, allow_nan=False, width=64)
logits = st.integers(1, 12).flatmap(lambda size: arrays(np.float64, size, elements=numbers))
# Whole numbers: ties, and gaps too wide for rounding to decide.
coarse = st.integers(1, 12).flatmap(lambda size: arrays(np.float64, size, elements=st.integers(-4, 4)))
distinct = st.lists(st.integers(-30, 30), min_size=1, max_size=12, unique=True).map(lambda x: np.array(x) / 4)
shares = st.floats(0.01, 1.0)


def kept(logits):
    return set(np.flatnonzero(logits > NEVER).tolist())


def warped(processor, logits, ids=()):
    """What a published processor makes of one text's logits."""
    texts = torch.tensor([list(ids)], dtype=torch.long)
    return processor(texts, torch.tensor(logits)[None].clone())[0].numpy()


# ---- choosing ----------------------------------------------------------------------------------------------


def test_the_ranks_of_five_tokens():
    assert [kth_most_likely(FIVE, k) for k in range(1, 6)] == [1, 3, 4, 0, 2]
    assert greedy(FIVE) == 1


@given(coarse)
def test_greedy_takes_the_first_of_the_most_likely_and_ranks_hold_every_token_once(x):
    assert greedy(x) == kth_most_likely(x, 1) == int(np.argmax(x))
    ranks = [kth_most_likely(x, k) for k in range(1, len(x) + 1)]
    assert sorted(ranks) == list(range(len(x)))
    assert (np.diff(x[ranks]) <= 0).all()


@pytest.mark.parametrize(
    ("uniform", "token"),
    [(0.0, 0), (0.09, 0), (0.11, 1), (0.49, 1), (0.51, 2), (0.56, 3), (0.86, 4), (0.99, 4)],
)
def test_a_uniform_number_falls_into_one_of_the_tokens_side_by_side(uniform, token):
    assert sample(FIVE, uniform) == token


@given(logits)
def test_evenly_spread_numbers_draw_each_token_as_often_as_it_is_likely(x):
    count = 300
    drawn = np.bincount([sample(x, (i + 0.5) / count) for i in range(count)], minlength=len(x))
    np.testing.assert_allclose(drawn / count, softmax(x), rtol=0, atol=1.01 / count)


@given(logits, st.sets(st.integers(0, 11)), st.floats(0, 1, exclude_max=True))
def test_what_must_not_be_chosen_is_never_drawn(x, banned, uniform):
    banned = {token for token in banned if token < len(x)}
    assume(len(banned) < len(x))
    assert sample(without(x, banned), uniform) not in banned


def test_the_largest_number_below_one_draws_the_last_token_that_can_be_drawn():
    largest = np.nextafter(1.0, 0.0)
    for count in range(1, 200):
        assert sample([*[0.1] * count, NEVER], largest) == count - 1


def test_where_no_token_is_left_that_is_said():
    with pytest.raises(DataError, match="no token is left"):
        sample([NEVER, NEVER], 0.5)


@given(logits)
def test_log_softmax_is_the_logarithm_of_softmax_and_torchs(x):
    np.testing.assert_allclose(np.exp(log_softmax(x)), softmax(x), rtol=1e-12)
    np.testing.assert_allclose(log_softmax(x), torch.log_softmax(torch.tensor(x), 0), rtol=0, atol=1e-12)


# ---- changing logits ---------------------------------------------------------------------------------------


def test_the_two_or_four_most_likely_of_five():
    np.testing.assert_array_equal(top_k(FIVE, 2), [NEVER, FIVE[1], NEVER, FIVE[3], NEVER])
    assert kept(top_k(FIVE, 4)) == {0, 1, 3, 4}


def test_tokens_as_likely_as_the_kth_are_kept_and_what_is_banned_stays_banned():
    assert kept(top_k([1.0, 2.0, 1.0, 0.0], 2)) == {0, 1, 2}
    assert kept(top_k([1.0, NEVER, 0.0], 3)) == {0, 2}


@given(distinct, st.integers(1, 15))
def test_top_k_keeps_k_and_of_one_is_greedy(x, k):
    assert len(kept(top_k(x, k))) == min(k, len(x))
    assert kept(top_k(x, 1)) == {greedy(x)}


@given(coarse, st.integers(1, 15))
def test_top_k_is_the_published_one(x, k):
    np.testing.assert_array_equal(top_k(x, k), warped(published.TopKLogitsWarper(k), x))


@pytest.mark.parametrize(
    ("threshold", "tokens"),
    [(0.01, {1}), (0.39, {1}), (0.41, {1, 3}), (0.69, {1, 3}), (0.71, {1, 3, 4}), (0.94, {0, 1, 3, 4})],
)
def test_the_nucleus_grows_until_the_threshold_is_passed(threshold, tokens):
    assert kept(nucleus(FIVE, threshold)) == tokens


def test_the_nucleus_of_equally_likely_tokens_has_the_lowest_ids():
    assert kept(nucleus([0.0] * 4, 0.6)) == {0, 1, 2}


@given(logits)
def test_a_nucleus_of_one_keeps_all(x):
    np.testing.assert_array_equal(nucleus(x, 1.0), x)


def test_a_nucleus_of_one_keeps_what_a_sum_would_lose():
    assert kept(nucleus([0.0, -50.0, -50.0], 1.0)) == {0, 1, 2}


@given(logits, shares)
def test_the_nucleus_is_the_smallest_set_of_the_most_likely_that_reaches_the_threshold(x, threshold):
    probability = softmax(x)
    inside = kept(nucleus(x, threshold))
    assert greedy(x) in inside
    total = probability[list(inside)].sum()
    assert total >= threshold - 1e-12
    least = min(probability[token] for token in inside)
    assert total - least < threshold + 1e-12 or threshold == 1.0
    assert all(probability[token] <= least for token in set(range(len(x))) - inside)


@given(distinct, shares)
def test_the_nucleus_is_the_published_one(x, threshold):
    # Where a sum falls on the threshold, rounding decides, here and there.
    sums = np.sort(softmax(x))[::-1].cumsum()
    assume(np.abs(sums - threshold).min() > 1e-9)
    np.testing.assert_array_equal(nucleus(x, threshold), warped(published.TopPLogitsWarper(threshold), x))


def test_min_p_is_a_share_of_the_most_likely():
    assert kept(min_p(FIVE, 0.3)) == {1, 3, 4}
    assert kept(min_p(FIVE, 0.2)) == {0, 1, 3, 4}
    assert kept(min_p([*FIVE, NEVER], 0.0)) == {0, 1, 2, 3, 4}


@given(coarse, st.floats(0.0, 1.0))
def test_min_p_is_the_published_one_and_keeps_the_most_likely(x, share):
    ratio = softmax(x) / softmax(x).max()
    assume(np.abs(ratio[ratio < 1.0] - share).min(initial=1.0) > 1e-9)
    found = min_p(x, share)
    np.testing.assert_array_equal(found, warped(published.MinPLogitsWarper(share), x))
    assert greedy(x) in kept(found)


@given(logits, st.floats(0.1, 10.0))
def test_temperature_divides_and_never_changes_the_ranks(x, temperature):
    found = tempered(x, temperature)
    np.testing.assert_array_equal(found, warped(published.TemperatureLogitsWarper(temperature), x))
    np.testing.assert_allclose(found * temperature, x, rtol=1e-14, atol=1e-300)


@given(logits)
def test_a_low_temperature_is_greedy_and_a_high_one_is_chance(x):
    assume(len(x) == 1 or np.diff(np.sort(x))[-1] > 1e-3)
    np.testing.assert_allclose(softmax(tempered(x, 1e-6))[greedy(x)], 1.0)
    np.testing.assert_allclose(softmax(tempered(x, 1e9)), 1.0 / len(x), rtol=1e-6)


def test_the_penalty_divides_what_is_above_zero_and_multiplies_what_is_below():
    found = repetition_penalty([3.0, -3.0, 1.0, -1.0, NEVER], [0, 1, 1, 1, 4], penalty=1.5)
    np.testing.assert_array_equal(found, [2.0, -4.5, 1.0, -1.0, NEVER])


@given(logits, st.lists(st.integers(0, 11), max_size=20), st.floats(1.0, 3.0))
def test_the_penalty_is_the_published_one_and_never_makes_a_token_more_likely(x, seen, penalty):
    seen = [token for token in seen if token < len(x)]
    found = repetition_penalty(x, seen, penalty=penalty)
    np.testing.assert_array_equal(
        found, warped(published.RepetitionPenaltyLogitsProcessor(penalty), x, seen) if seen else x
    )
    assert (found <= x).all()
    np.testing.assert_array_equal(repetition_penalty(x, seen, penalty=1.0), x)


def test_a_token_that_would_complete_a_row_of_tokens_once_more_is_repeating():
    ids = [1, 2, 3, 1, 2, 4, 1, 2]
    assert repeating(ids, 3) == {3, 4}
    assert repeating(ids, 2) == {3, 4}
    assert repeating(ids, 1) == {1, 2, 3, 4}
    assert repeating(ids, 4) == set()
    assert repeating([7, 7], 3) == repeating([], 2) == repeating([], 1) == set()
    assert repeating([7, 7], 2) == {7}


@given(st.lists(st.integers(0, 3), max_size=12), st.integers(1, 5))
def test_repeating_is_what_the_definition_says(ids, size):
    def grams(text):
        return [tuple(text[i : i + size]) for i in range(len(text) - size + 1)]

    expected = set()
    if len(ids) >= size - 1:
        expected = {token for token in range(4) if tuple([*ids, token][-size:]) in grams(ids)}
    assert repeating(ids, size) == expected


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(1, 5))
def test_repeating_is_the_published_rule(ids, size):
    x = np.zeros(4)
    processed = warped(published.NoRepeatNGramLogitsProcessor(size), x, ids)
    np.testing.assert_array_equal(without(x, repeating(ids, size)), processed)


@given(coarse, st.integers(1, 5), shares)
def test_rules_leave_their_argument_alone_and_change_no_logit_that_they_keep(x, k, share):
    before = x.copy()
    for found in (top_k(x, k), nucleus(x, share), min_p(x, share), without(x, [0])):
        assert all(found[token] == x[token] for token in kept(found))
    repetition_penalty(x, [0], penalty=2.0)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda: kth_most_likely(FIVE, 0), "k=0 must be at least 1 and at most 5"),
        (lambda: kth_most_likely(FIVE, 6), "k=6 must be at least 1 and at most 5"),
        (lambda: top_k(FIVE, 0), "k=0 must be at least 1"),
        (lambda: nucleus(FIVE, 0.0), "top_p=0.0 must be above 0 and at most 1"),
        (lambda: nucleus(FIVE, 1.1), "top_p=1.1"),
        (lambda: min_p(FIVE, -0.1), "min_p=-0.1 must be at least 0 and at most 1"),
        (
            lambda: tempered(FIVE, 0.0),
            "temperature=0.0 must be above 0; for the most likely token use greedy",
        ),
        (lambda: repetition_penalty(FIVE, [0], penalty=0.0), "repetition_penalty=0.0 must be above 0"),
        (lambda: repeating([1, 2], 0), "no_repeat_ngram_size=0 must be at least 1"),
        (lambda: sample(FIVE, 1.0), "uniform=1.0 must be at least 0 and below 1"),
    ],
)
def test_what_cannot_work_is_refused_by_name(rule, message):
    with pytest.raises(SettingError, match=message):
        rule()
