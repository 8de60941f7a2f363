"""Scores where a text may have any number of labels, from logits and the right labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearhead.tasks.scores import ClassScore, area_under_curve


@dataclass(frozen=True)
class LabelScore(ClassScore):
    """How one label fares. `given` counts the texts that were given it, `texts` those that have it; `auroc`
    is None where all texts have it or none."""

    given: int
    auroc: float | None


@dataclass(frozen=True)
class SeveralMetrics:
    """Scores over a set of texts, all between 0 and 1 but `loss` (nats a text, the mean over its labels).

    `accuracy` is the share of texts whose labels are all right and none missing (subset accuracy).
    `micro_f1` counts every label of every text alike, `macro_f1` every label of the model; `auroc` is the
    mean over labels, None where it is for one of them.
    """

    texts: int
    loss: float
    accuracy: float
    micro_f1: float
    macro_f1: float
    auroc: float | None
    classes: tuple[LabelScore, ...]

    def summary(self) -> dict[str, Any]:
        """The single numbers, under the names of the field (`eval_…`), for logs."""
        names = ("loss", "accuracy", "micro_f1", "macro_f1", "auroc")
        return {f"eval_{name}": getattr(self, name) for name in names}


def measure_several(
    logits: NDArray[np.float64], targets: NDArray[np.bool_], *, labels: tuple[str, ...]
) -> SeveralMetrics:
    """All scores from logits `(texts, labels)` and which labels are right, of the same shape."""
    given = logits > 0  # a probability above 0.5
    hits, right, guessed = (table.sum(0) for table in (given & targets, targets, given))
    classes = []
    for number, label in enumerate(labels):
        found, true, said = int(hits[number]), int(right[number]), int(guessed[number])
        area = area_under_curve(logits[:, number], targets[:, number])
        numbers = (ratio(found, said), ratio(found, true), ratio(2 * found, true + said))
        classes.append(LabelScore(label, *numbers, true, said, area))
    areas = [score.auroc for score in classes if score.auroc is not None]
    losses = np.maximum(logits, 0) - logits * targets + np.log1p(np.exp(-np.abs(logits)))
    return SeveralMetrics(
        texts=len(logits),
        loss=float(losses.mean()),
        accuracy=float((given == targets).all(-1).mean()),
        micro_f1=ratio(2 * int(hits.sum()), int(right.sum() + guessed.sum())),
        macro_f1=float(np.mean([score.f1 for score in classes])),
        auroc=sum(areas) / len(labels) if len(areas) == len(labels) else None,
        classes=tuple(classes),
    )


def ratio(part: int, whole: int) -> float:
    """0 where there are no cases."""
    return part / whole if whole else 0.0
