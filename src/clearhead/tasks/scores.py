"""Scores of a classifier, from its logits and the right labels."""

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

NUMBERS = 2**20  # that are worked on at once
MATRIX = 500  # labels up to which every pair is counted: beyond, nearly all of them are 0
PAIRS = 1000  # pairs of confused labels that are told at most


@dataclass(frozen=True)
class ClassScore:
    """How one label fares; `texts` have it, `given` got it. A ratio without cases (nothing predicted, nothing
    there) is 0, as is its F1."""

    label: str
    precision: float
    recall: float
    f1: float
    texts: int
    given: int


@dataclass(frozen=True)
class Confused:
    """Texts of one label that got another."""

    label: str
    taken_for: str
    texts: int


@dataclass(frozen=True)
class Bin:
    """The texts whose best probability is above `low` and at most `high`: how many, the mean of that
    probability, and the share that is right (None for no texts)."""

    low: float
    high: float
    texts: int
    confidence: float | None
    accuracy: float | None


@dataclass(frozen=True)
class Metrics:
    """Scores over a set of texts, all between 0 and 1 but `loss` (nats a text) and `matthews_correlation` (−1
    to 1).

    `macro_f1` is the plain mean of F1 over all labels of the model. `auroc` is the mean over labels of
    one-against-the-rest, None where some label has no text or all. `confusion[right][predicted]` counts
    texts, of up to 500 labels (else it is empty); `confused` are the pairs confused most often, up to 1,000.
    """

    texts: int
    loss: float
    accuracy: float
    macro_f1: float
    matthews_correlation: float
    auroc: float | None
    classes: tuple[ClassScore, ...]
    confusion: tuple[tuple[int, ...], ...]
    confused: tuple[Confused, ...]
    calibration: tuple[Bin, ...]
    calibration_error: float

    def summary(self) -> dict[str, Any]:
        """The single numbers, under the names of the field (`eval_…`), for logs."""
        names = ("loss", "accuracy", "macro_f1", "matthews_correlation", "auroc")
        return {f"eval_{name}": getattr(self, name) for name in names}


def measure(logits: NDArray[np.float64], targets: NDArray[np.int64], *, labels: tuple[str, ...]) -> Metrics:
    """All scores from logits `(texts, labels)` and the number of each right label."""
    count = len(labels)
    guesses = logits.argmax(-1)
    bins = calibrated(logits, guesses == targets)
    right, predicted = (np.bincount(some, minlength=count) for some in (targets, guesses))
    hit, total = np.bincount(targets[guesses == targets], minlength=count), len(targets)
    classes = []
    for number, label in enumerate(labels):
        hits = int(hit[number])
        precision = hits / predicted[number] if predicted[number] else 0.0
        recall = hits / right[number] if right[number] else 0.0
        f1 = 2 * hits / (right[number] + predicted[number]) if right[number] + predicted[number] else 0.0
        classes.append(
            ClassScore(
                label, float(precision), float(recall), float(f1), int(right[number]), int(predicted[number])
            )
        )
    top = logits.max(-1, keepdims=True)
    log_sums = top[:, 0] + np.log(np.exp(logits - top).sum(-1))
    losses = log_sums - logits[np.arange(total), targets]
    odds = margins(logits)
    areas = [area_under_curve(odds[:, number], targets == number) for number in range(count)]
    known = [area for area in areas if area is not None]
    return Metrics(
        texts=total,
        loss=float(losses.mean()),
        accuracy=int(hit.sum()) / total,
        macro_f1=float(np.mean([score.f1 for score in classes])),
        matthews_correlation=_matthews(right.tolist(), predicted.tolist(), hits=int(hit.sum())),
        auroc=sum(known) / count if len(known) == count else None,
        classes=tuple(classes),
        confusion=matrix(targets, guesses, count=count) if count <= MATRIX else (),
        confused=confused(targets, guesses, labels=labels),
        calibration=bins,
        calibration_error=calibration_error(bins),
    )


def calibrated(logits: NDArray[np.float64], right: NDArray[np.bool_]) -> tuple[Bin, ...]:
    """Ten bins of the best probability, of equal width (Guo et al. 2017)."""
    best = 1 / np.exp(logits - logits.max(-1, keepdims=True)).sum(-1)
    places = np.clip(np.ceil(10 * best).astype(int) - 1, 0, 9)
    found = []
    for place in range(10):
        here = places == place
        texts = int(here.sum())
        shares = (float(best[here].mean()), float(right[here].mean())) if texts else (None, None)
        found.append(Bin(place / 10, (place + 1) / 10, texts, *shares))
    return tuple(found)


def calibration_error(bins: tuple[Bin, ...]) -> float:
    """The mean over texts of |accuracy − confidence| of their bin (Guo et al. 2017, equation 3)."""
    total = sum(part.texts for part in bins)
    gaps = [
        part.texts * abs(part.accuracy - part.confidence)
        for part in bins
        if part.accuracy is not None and part.confidence is not None
    ]
    return sum(gaps) / total


def matrix(
    targets: NDArray[np.int64], guesses: NDArray[np.int64], *, count: int
) -> tuple[tuple[int, ...], ...]:
    """How many texts of each label got which."""
    found = np.zeros((count, count), dtype=np.int64)
    np.add.at(found, (targets, guesses), 1)
    return tuple(map(tuple, found.tolist()))


def confused(
    targets: NDArray[np.int64], guesses: NDArray[np.int64], *, labels: tuple[str, ...]
) -> tuple[Confused, ...]:
    """The pairs of labels that were confused, the most texts first, equal ones in the order of labels."""
    wrong = targets != guesses
    pairs, texts = np.unique(np.stack([targets[wrong], guesses[wrong]]), axis=1, return_counts=True)
    order = np.argsort(-texts, kind="stable")[:PAIRS]
    rows = zip(*pairs[:, order].tolist(), texts[order].tolist(), strict=True)
    return tuple(Confused(labels[right], labels[guess], number) for right, guess, number in rows)


def _matthews(right: list[int], predicted: list[int], *, hits: int) -> float:
    """Gorodkin 2004, equation 8: Matthews' correlation for any number of labels, from how many texts have
    each and got each; 0 where one side is constant."""
    total = sum(right)
    covariance = hits * total - sum(r * p for r, p in zip(right, predicted, strict=True))
    spread = (total**2 - sum(p * p for p in predicted)) * (total**2 - sum(r * r for r in right))
    return covariance / sqrt(spread) if spread else 0.0


def margins(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log-odds of each label, (texts, labels): ranked as its probability is, but not saturating at 1."""
    found = np.empty_like(logits)
    block = max(1, NUMBERS // logits.shape[1])
    for start in range(0, len(logits), block):
        found[start : start + block] = _margins(logits[start : start + block])
    return found


def _margins(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    top, best = logits.max(-1, keepdims=True), logits.argmax(-1)[:, None]
    powers, others = np.exp(logits - top), np.zeros_like(logits)
    # What stands to the left and to the right of each: the whole sum less one would round its rest away.
    others[:, 1:] += powers[:, :-1].cumsum(-1)
    others[:, :-1] += powers[:, :0:-1].cumsum(-1)[:, ::-1]
    np.put_along_axis(others, best, 1.0, -1)
    found = logits - top - np.log(others)
    # Next to the best label the others may be too small for a power; they are held to the best of themselves.
    rest = logits.copy()
    np.put_along_axis(rest, best, -np.inf, -1)
    second = rest.max(-1, keepdims=True)
    np.put_along_axis(found, best, top - second - np.log(np.exp(rest - second).sum(-1, keepdims=True)), -1)
    return found


def area_under_curve(scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> float | None:
    """Share of (positive, negative) pairs in the right order, ties half (Hanley & McNeil 1982)."""
    positives = int(positive.sum())
    negatives = len(positive) - positives
    if not positives or not negatives:
        return None
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    return float((ranks[inverse][positive].sum() - positives * (positives + 1) / 2) / (positives * negatives))
