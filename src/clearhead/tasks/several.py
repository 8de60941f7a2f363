"""Text classification with any number of labels for a text: a yes or no for each label."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from clearhead.checkpoint.labels import Problem
from clearhead.data.labels import check_known
from clearhead.data.rows import Row
from clearhead.tasks.examples import Example
from clearhead.tasks.scores_several import SeveralMetrics, measure_several

THRESHOLD = 0.5  # a label is given where its probability is above


@dataclass(frozen=True)
class SeveralResult:
    """The answer for one text: the labels whose probability is above 0.5, and that of each label.

    The probabilities are independent and do not sum to 1. `tokens`, `dropped` and `windows` as in `Result`. A
    text that was skipped has `labels` None and no scores.
    """

    labels: tuple[str, ...] | None
    scores: dict[str, float]
    tokens: int
    dropped: int
    windows: int = 1


@dataclass(frozen=True)
class SeveralLabels:
    """The task for a model with these labels, in the order of its outputs."""

    labels: tuple[str, ...]
    name: str = "classify"
    problem: Problem = Problem.MULTI

    def check(self, rows: Sequence[Row]) -> None:
        """DataError, with file and row, at the first label that is not one of the model's."""
        check_known(rows, self.labels)

    def targets(self, rows: Sequence[Row]) -> Float[Tensor, "texts labels"]:
        """1 for the labels of each row, 0 for the others; the caller has checked that all are known."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        found = torch.zeros(len(rows), len(self.labels))
        for place, row in enumerate(rows):
            found[place, [numbers[name] for name in row.names]] = 1
        return found

    def loss(
        self, logits: Float[Tensor, "texts labels"], targets: Float[Tensor, "texts labels"]
    ) -> Float[Tensor, ""]:
        """The sum over texts of the mean over labels of −ln(probability of the right yes or no), in nats.

        Published as BCEWithLogitsLoss, whose mean is over both.
        """
        return binary_cross_entropy_with_logits(logits, targets, reduction="sum") / len(self.labels)

    def size(self, targets: Float[Tensor, "texts labels"]) -> float:
        """What the loss of these texts is divided by: their number."""
        return float(len(targets))

    def results(
        self, logits: Float[Tensor, "texts labels"], examples: Sequence[Example]
    ) -> list[SeveralResult]:
        """One result a text, in order."""
        found = []
        for row, example in zip(logits.double().sigmoid().tolist(), examples, strict=True):
            scores = dict(zip(self.labels, row, strict=True))
            given = tuple(label for label, score in scores.items() if score > THRESHOLD)
            found.append(SeveralResult(given, scores, example.tokens, example.dropped, len(example.windows)))
        return found

    def skipped(self) -> SeveralResult:
        """The result of a text that was not asked about."""
        return SeveralResult(None, {}, 0, 0)

    def metrics(
        self, logits: Float[Tensor, "texts labels"], targets: Float[Tensor, "texts labels"]
    ) -> SeveralMetrics:
        """How well the logits agree with the right labels."""
        return measure_several(logits.double().numpy(), targets.bool().numpy(), labels=self.labels)
