"""Scores of a regression, from its outputs and the right numbers."""

from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class NumberMetrics:
    """Mean squared and mean absolute error; Pearson's correlation and Spearman's (of ranks, ties at their
    mean), None where one side is constant; `r2` is 1 − squared error / variance, None where the right
    numbers are constant, or so near each other that no float64 holds it."""

    texts: int
    mse: float
    mae: float
    pearson: float | None
    spearman: float | None
    r2: float | None

    @property
    def loss(self) -> float:
        """What training lowers: the mean squared error."""
        return self.mse

    def summary(self) -> dict[str, Any]:
        """The single numbers, under the names of the field (`eval_…`), for logs."""
        names = ("loss", "mae", "pearson", "spearman", "r2")
        return {f"eval_{name}": getattr(self, name) for name in names}


def measure_numbers(outputs: NDArray[np.float64], targets: NDArray[np.float64]) -> NumberMetrics:
    """All scores from one output a text and the right number of each."""
    errors = outputs - targets
    squares, spread = (float((part**2).sum()) for part in (errors, targets - targets.mean()))
    ratio = squares / spread if spread else inf
    return NumberMetrics(
        texts=len(targets),
        mse=float((errors**2).mean()),
        mae=float(np.abs(errors).mean()),
        pearson=correlation(outputs, targets),
        spearman=correlation(ranks(outputs), ranks(targets)),
        r2=1 - ratio if np.ptp(targets) and isfinite(ratio) else None,
    )


def correlation(ones: NDArray[np.float64], twos: NDArray[np.float64]) -> float | None:
    """Pearson's correlation; None where a side is constant."""
    if not np.ptp(ones) or not np.ptp(twos):
        return None
    one, two = (side / np.abs(side).max() for side in (ones - ones.mean(), twos - twos.mean()))
    found = float((one / np.linalg.norm(one)) @ (two / np.linalg.norm(two)))
    return min(1.0, max(-1.0, found))


def ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The place of each value in order, from 1; equal ones share the mean of their places."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]
