"""Regression: a number for a text."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import mse_loss

from clearhead.checkpoint.labels import Problem
from clearhead.data.labels import numbers
from clearhead.data.rows import Row
from clearhead.errors import DataError
from clearhead.tasks.examples import Example
from clearhead.tasks.scores_numbers import NumberMetrics, measure_numbers

LABELS = ("value",)  # the name of the one output
COARSE = 0.01  # the rounding that is refused, as a share of how far numbers lie from their mean


@dataclass(frozen=True)
class NumberResult:
    """The answer for one text; `tokens`, `dropped`, `windows` as in `Result`. A skipped text has no value."""

    value: float | None
    tokens: int
    dropped: int
    windows: int = 1


@dataclass(frozen=True)
class Regression:
    """The task for a model with one output."""

    labels: tuple[str, ...] = LABELS
    name: str = "classify"
    problem: Problem = Problem.REGRESSION

    def check(self, rows: Sequence[Row]) -> None:
        """DataError, with file and row, at the first label that is no finite number."""
        numbers(rows)

    def check_learnable(self, rows: Sequence[Row]) -> None:
        """DataError for numbers whose differences float32, in which a model computes, cannot hold."""
        given = self.targets(rows)
        error = (given - given.float()).abs().max()
        if given.min() < given.max() and error > COARSE * (given - given.mean()).abs().max():
            raise DataError(
                f"{rows[0].file}: a model computes in float32, which cannot hold these labels, from "
                f"{float(given.min())!r} to {float(given.max())!r}, well enough; "
                "subtract their mean, and scale them to about 1"
            )

    def targets(self, rows: Sequence[Row]) -> Float[Tensor, "texts 1"]:
        """The number of each row, as it stands in the file, in float64: scores are taken from these."""
        return torch.tensor(numbers(rows), dtype=torch.float64).unsqueeze(-1)

    def loss(self, logits: Float[Tensor, "texts 1"], targets: Float[Tensor, "texts 1"]) -> Float[Tensor, ""]:
        """The sum over texts of the squared error, in the kind of the logits."""
        return mse_loss(logits, targets.to(logits.dtype), reduction="sum")

    def size(self, targets: Float[Tensor, "texts 1"]) -> float:
        """What the loss of these texts is divided by: their number."""
        return float(len(targets))

    def results(self, logits: Float[Tensor, "texts 1"], examples: Sequence[Example]) -> list[NumberResult]:
        """One result a text, in order."""
        pairs = zip(logits.double()[:, 0].tolist(), examples, strict=True)
        return [NumberResult(value, one.tokens, one.dropped, len(one.windows)) for value, one in pairs]

    def skipped(self) -> NumberResult:
        """The result of a text that was not asked about."""
        return NumberResult(None, 0, 0)

    def metrics(self, logits: Float[Tensor, "texts 1"], targets: Float[Tensor, "texts 1"]) -> NumberMetrics:
        """How far the outputs are from the right numbers."""
        return measure_numbers(logits.double()[:, 0].numpy(), targets.double()[:, 0].numpy())
