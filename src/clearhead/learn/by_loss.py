"""A course whose best model is the one with the lowest loss on what was kept aside."""

from typing import Any

from clearhead.learn.course import Course


class ByLoss(Course):
    """Learns from texts without labels, or from pairs of texts."""

    metric = "loss"
    digest: str  # SHA-256 of all that is learned from and chosen by
    validation: Any  # what is scored, as the objective is

    def data(self) -> str:
        """That digest."""
        return self.digest

    def value_of(self, metrics: Any) -> float:
        """The lower the loss, the better."""
        return -float(metrics.loss)

    def share(self) -> float:
        """By tokens."""
        return sum(self.validation.lengths) / sum(self.trainer.objective.lengths)
