"""From the scores of a classifier to the rows of tables."""

from dataclasses import dataclass

from clearhead.explain.wording import percent
from clearhead.tasks.scores import Metrics
from clearhead.tasks.scores_several import SeveralMetrics
from clearhead.tasks.scores_tags import TagMetrics

MOST_IN_MATRIX, MOST_PAIRS, MOST_CLASSES = 12, 15, 40
NO_CASE = "–"


@dataclass(frozen=True)
class Cell:
    """Texts of one label that were guessed to have one label, and their share of the former's texts."""

    texts: int
    share: float
    right: bool


def matrix(metrics: Metrics) -> list[tuple[str, list[Cell]]]:
    """Each label with the cells of its texts, in the order of labels; none for too many labels."""
    if len(metrics.classes) > MOST_IN_MATRIX:
        return []
    rows = []
    for right, (score, counts) in enumerate(zip(metrics.classes, metrics.confusion, strict=True)):
        total = max(1, sum(counts))
        cells = [Cell(texts, texts / total, right == guess) for guess, texts in enumerate(counts)]
        rows.append((score.label, cells))
    return rows


def confused_pairs(metrics: Metrics) -> list[tuple[str, str, str, str]]:
    """The labels that are confused most often: label, what it was taken for, texts, share of its texts."""
    texts_of = {score.label: score.texts for score in metrics.classes}
    pairs = [
        (one.texts, one.texts / texts_of[one.label], one.label, one.taken_for) for one in metrics.confused
    ]
    pairs.sort(key=lambda pair: pair[:2], reverse=True)
    return [(right, guess, f"{texts:,}", percent(share)) for texts, share, right, guess in pairs[:MOST_PAIRS]]


def calibration_rows(metrics: Metrics) -> list[tuple[str, str, str, str]]:
    """The best probability from and to, texts, its mean, and the share that is right; of bins with texts."""
    return [
        (
            f"{part.low:.1f} to {part.high:.1f}",
            f"{part.texts:,}",
            percent(part.confidence),
            percent(part.accuracy),
        )
        for part in metrics.calibration
        if part.texts
    ]


def class_rows(metrics: Metrics | SeveralMetrics) -> list[tuple[str, str, str, str, str]]:
    """Label, precision, recall, F1 and texts; of many labels those with the lowest F1.

    A ratio without cases is 0 in `Metrics`; here it is a dash, because nothing was got wrong.
    """
    scores = [(score, score.given) for score in metrics.classes]
    if len(scores) > MOST_CLASSES:
        scores = sorted(scores, key=lambda pair: pair[0].f1)[:MOST_CLASSES]
    return [
        (
            score.label,
            percent(score.precision) if guesses else NO_CASE,
            percent(score.recall) if score.texts else NO_CASE,
            percent(score.f1) if guesses or score.texts else NO_CASE,
            f"{score.texts:,}",
        )
        for score, guesses in scores
    ]


def type_rows(metrics: TagMetrics) -> list[tuple[str, str, str, str, str]]:
    """Type, precision, recall, F1 and entities; of many types those with the lowest F1."""
    scores = list(metrics.classes)
    if len(scores) > MOST_CLASSES:
        scores = sorted(scores, key=lambda score: score.f1)[:MOST_CLASSES]
    return [
        (
            score.label,
            percent(score.precision) if score.given else NO_CASE,
            percent(score.recall) if score.entities else NO_CASE,
            percent(score.f1) if score.given or score.entities else NO_CASE,
            f"{score.entities:,}",
        )
        for score in scores
    ]
