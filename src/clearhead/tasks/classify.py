"""Text classification: one label for a text."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from clearhead.checkpoint.labels import Problem
from clearhead.data.labels import check_known
from clearhead.data.rows import Row
from clearhead.tasks.examples import Example
from clearhead.tasks.scores import Metrics, measure


@dataclass(frozen=True, slots=True)
class Evidence:
    """The sentence that weighs most in a label: `text[start:end]`, of a pair in the second one, and by how
    much the label's probability falls without it."""

    text: str
    start: int
    end: int
    weight: float


@dataclass(frozen=True)
class Result:
    """The answer for one text: `score` is the label's probability, `scores` that of each label.

    `tokens` went through the model in `windows`, `dropped` did not fit. A text that was skipped has no label
    and no scores. `reason` says why there is no label where the model was not sure enough of it.
    """

    label: str | None
    score: float | None
    scores: dict[str, float]
    tokens: int
    dropped: int
    reason: str | None = None
    windows: int = 1
    evidence: Evidence | None = None

    def if_sure(self, least: float) -> "Result":
        """The same, without its label where its probability is below this."""
        if self.score is None or self.score >= least:
            return self
        return replace(self, label=None, reason=f"the best probability is below {least}")


@dataclass(frozen=True)
class Classification:
    """The task for a model with these labels, in the order of its outputs.

    In the loss, a text counts as much as the weight of its label; `smoothing` takes that share of each text's
    target and spreads it evenly over all labels (Szegedy et al. 2015, section 7). Scores know neither.
    """

    labels: tuple[str, ...]
    weights: tuple[float, ...] | None = None
    smoothing: float = 0.0
    name: str = "classify"
    problem: Problem = Problem.SINGLE

    def check(self, rows: Sequence[Row]) -> None:
        """DataError, with file and row, at the first label that is not one of the model's."""
        check_known(rows, self.labels)

    def targets(self, rows: Sequence[Row]) -> Int[Tensor, " texts"]:
        """The number of each row's label; the caller has checked that all are known."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        return torch.tensor([numbers[str(row.label)] for row in rows], dtype=torch.long)

    def loss(
        self, logits: Float[Tensor, "texts labels"], targets: Int[Tensor, " texts"]
    ) -> Float[Tensor, ""]:
        """The sum over texts of −ln(probability of the right label), in nats.

        A sum, not a mean: whoever accumulates divides once, by the size of the step.
        """
        if self.weights is None:
            return cross_entropy(logits, targets, label_smoothing=self.smoothing, reduction="sum")
        # Not the published function's own weights: where labels are smoothed, it weighs each label's share
        # by that label, so that a text would not count as its weight says.
        losses = cross_entropy(logits, targets, label_smoothing=self.smoothing, reduction="none")
        return losses @ logits.new_tensor(self.weights)[targets]

    def size(self, targets: Int[Tensor, " texts"]) -> float:
        """What the loss of these texts is divided by: their number, or the sum of their weights."""
        if self.weights is None:
            return float(len(targets))
        return float(torch.tensor(self.weights, dtype=torch.float64)[targets].sum())

    def results(self, logits: Float[Tensor, "texts labels"], examples: Sequence[Example]) -> list[Result]:
        """One result a text, in order."""
        found = []
        for row, example in zip(logits.double().softmax(-1).tolist(), examples, strict=True):
            scores = dict(zip(self.labels, row, strict=True))
            label = max(scores, key=scores.__getitem__)
            windows = len(example.windows)
            sure = scores[label]
            found.append(Result(label, sure, scores, example.tokens, example.dropped, windows=windows))
        return found

    def skipped(self) -> Result:
        """The result of a text that was not asked about."""
        return Result(None, None, {}, 0, 0)

    def metrics(self, logits: Float[Tensor, "texts labels"], targets: Int[Tensor, " texts"]) -> Metrics:
        """How well the logits agree with the right labels."""
        return measure(logits.double().numpy(), targets.numpy(), labels=self.labels)
