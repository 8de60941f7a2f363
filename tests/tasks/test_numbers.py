"""Numbers to learn: scores know them as they stand, and what float32 cannot hold is not learned from."""

import warnings

import numpy as np
import pytest
import torch

from clearhead.data.rows import Row
from clearhead.errors import DataError
from clearhead.tasks.regress import Regression
from clearhead.tasks.scores_numbers import measure_numbers


def rows(values):
    return [Row(f"text {n}", str(value), "data.csv", n, {}) for n, value in enumerate(values, 1)]


@pytest.mark.parametrize("start", [0, 2**24, 1_700_000_000])
def test_scores_are_of_the_numbers_as_they_stand(start):
    task, values = Regression(), [start + n for n in range(60)]
    outputs = torch.arange(60.0).flip(0).unsqueeze(-1)
    right = measure_numbers(outputs[:, 0].double().numpy(), np.array(values, dtype=np.float64))
    assert task.metrics(outputs, task.targets(rows(values))) == right
    assert right.spearman == pytest.approx(-1)
    assert task.loss(outputs, task.targets(rows(values))).dtype == torch.float32


@pytest.mark.parametrize(
    "values", [range(1_700_000_000, 1_700_000_060), [1e-50, 2e-50], range(2**24, 2**24 + 60)]
)
def test_numbers_that_float32_cannot_tell_apart_are_refused(values):
    with pytest.raises(DataError, match=r"data.csv: a model computes in float32, .* subtract their mean"):
        Regression().check_learnable(rows(values))


@pytest.mark.parametrize("values", [[0.1, 0.1], [0.3, 0.1 + 0.2, 1], [1e6, 1e6 + 60], [1e-30, 3e-30], [7]])
def test_numbers_that_float32_rounds_a_little_are_learned_from(values):
    Regression().check_learnable(rows(values))


@pytest.mark.parametrize("unit", [1e-3, 1e-170, 1e-200, 1e-320])
def test_numbers_that_are_almost_one_have_the_scores_that_there_are(unit):
    outputs, right = np.array([0.1, 0.4, 0.3]), np.array([1.0, 2.0, 4.0]) * unit
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = measure_numbers(outputs, right)
    assert found.spearman == pytest.approx(0.5)
    assert found.pearson == pytest.approx(np.corrcoef(outputs, [1, 2, 4])[0, 1], abs=1e-3)
    assert (found.r2 is None) == (unit < 1e-160)
