"""Smoothed labels against torch, and the learning rate of 2017 as it is printed."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import DataError, SettingError
from clearhead.reference import inverse_root_rate, sinusoidal_positions, smoothed_cross_entropy


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
def test_smoothed_cross_entropy_is_torchs(smoothing):
    random = np.random.default_rng(0)
    logits, targets = random.normal(0.0, 3.0, (7, 11)), random.integers(11, size=7)
    theirs = torch.nn.functional.cross_entropy(
        torch.from_numpy(logits), torch.from_numpy(targets), reduction="none", label_smoothing=smoothing
    )
    found = smoothed_cross_entropy(logits, targets, smoothing=smoothing)
    np.testing.assert_allclose(found, theirs.numpy(), rtol=0, atol=1e-13)


def test_smoothed_cross_entropy_by_hand():
    # Two words, both half likely: ln 2 whatever is wanted. Then 3 : 1, of which 0.95 and 0.05 are wanted.
    np.testing.assert_allclose(smoothed_cross_entropy([[0.0, 0.0]], [1], smoothing=0.1), np.log(2.0))
    found = smoothed_cross_entropy([[np.log(3.0), 0.0]], [0], smoothing=0.1)
    np.testing.assert_allclose(found, -0.95 * np.log(0.75) - 0.05 * np.log(0.25))


def test_an_impossible_token_costs_nothing_where_it_is_not_wanted():
    np.testing.assert_allclose(smoothed_cross_entropy([[0.0, 0.0, -np.inf]], [0]), np.log(2.0))
    assert smoothed_cross_entropy([[0.0, 0.0, -np.inf]], [0], smoothing=0.1)[0] == np.inf
    assert smoothed_cross_entropy(np.zeros((0, 3)), np.zeros(0, int)).shape == (0,)


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, float("nan")])
def test_a_smoothing_that_is_none_is_refused(smoothing):
    with pytest.raises(SettingError, match="must be at least 0 and below 1"):
        smoothed_cross_entropy([[0.0, 0.0]], [0], smoothing=smoothing)


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ([0], r"int64 of shape \(1,\); give one id for each of 2"),
        ([0.0, 1.0], "float64 of shape"),
        ([0, 3], "go from 0 to 3; the vocabulary has 0 to 2"),
        ([-100, 1], "go from -100 to 1"),
    ],
)
def test_targets_that_do_not_fit_are_refused(targets, message):
    with pytest.raises(DataError, match=message):
        smoothed_cross_entropy(np.zeros((2, 3)), targets)


def test_the_rate_rises_evenly_to_its_peak_at_the_end_of_warm_up_and_falls_with_the_root():
    rates = np.array([inverse_root_rate(step, width=512, warm_up=4000) for step in range(1, 16001)])
    assert rates.argmax() + 1 == 4000
    np.testing.assert_allclose(rates[3999], (512 * 4000) ** -0.5)
    np.testing.assert_allclose(rates[3999], 6.98771e-4, rtol=1e-5)
    np.testing.assert_allclose(np.diff(rates[:4000]), rates[0])
    np.testing.assert_allclose(rates[15999], rates[3999] / 2.0)


@given(st.integers(1, 10**6), st.integers(1, 4096), st.integers(1, 10**5))
def test_the_rate_is_the_printed_minimum(step, width, warm_up):
    rate = inverse_root_rate(step, width=width, warm_up=warm_up)
    rising = step / (width**0.5 * warm_up**1.5)
    falling = 1.0 / (width * step) ** 0.5
    np.testing.assert_allclose(rate, rising if step <= warm_up else falling)


@pytest.mark.parametrize("name", ["step", "width", "warm_up"])
def test_numbers_below_one_are_refused(name):
    numbers = {"step": 1, "width": 1, "warm_up": 1, name: 0}
    with pytest.raises(SettingError, match=f"{name}=0 must be at least 1"):
        inverse_root_rate(numbers.pop("step"), **numbers)


@given(st.integers(1, 9), st.integers(1, 33))
def test_halves_are_the_same_columns_in_another_order(count, width):
    table, halves = (sinusoidal_positions(count, width, halves=flag) for flag in (False, True))
    sines = (width + 1) // 2
    np.testing.assert_array_equal(halves[:, :sines], table[:, 0::2])
    np.testing.assert_array_equal(halves[:, sines:], table[:, 1::2])
