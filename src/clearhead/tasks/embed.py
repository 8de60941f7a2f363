"""Pairs of texts → vectors → how well they tell what belongs together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from clearhead.data.couples import Couple
from clearhead.tasks.scores_numbers import correlation, ranks

SCALE = 20.0
TOP = 10
AT_ONCE = 256  # texts that are compared with all others together
Vectors = NDArray[np.float64]


@dataclass(frozen=True)
class RetrievalScores:
    """How well each text finds what belongs to it among all second texts (`candidates`), by cosine: the mean
    of 1 / place of the first right one within ten (MRR@10), the share of right ones within 1, 5 and 10
    (recall), and nDCG@10 (Järvelin & Kekäläinen 2002) with gains of 0 and 1. `texts` is how many look. A
    second text that belongs to the same text in any row is right; the text itself, where it is not, is left
    out. `loss` is that of training, with all candidates."""

    texts: int
    candidates: int
    loss: float
    mrr_at_10: float
    recall_at_1: float
    recall_at_5: float
    recall_at_10: float
    ndcg_at_10: float

    def summary(self) -> dict[str, Any]:
        """The scores for metrics.jsonl."""
        names = ("loss", "mrr_at_10", "recall_at_1", "recall_at_5", "recall_at_10", "ndcg_at_10")
        return {f"eval_{name}": getattr(self, name) for name in names}


@dataclass(frozen=True)
class SimilarityScores:
    """How well the cosine of two texts' vectors agrees with the scores that are given: Pearson's correlation,
    and Spearman's (of ranks, ties at their mean); None where one side is constant. `loss` is the mean squared
    difference, scores divided by the largest that was learned from where that is known, else by their own."""

    texts: int
    loss: float
    pearson: float | None
    spearman: float | None

    def summary(self) -> dict[str, Any]:
        """The scores for metrics.jsonl."""
        return {f"eval_{name}": getattr(self, name) for name in ("loss", "pearson", "spearman")}


PairScores = RetrievalScores | SimilarityScores


class Belonging:
    """What belongs to what, over all pairs: texts by number, and which second texts are right for a first one
    and which first ones for a second."""

    def __init__(self, couples: Sequence[Couple]):
        numbers: dict[str, int] = {}

        def number(text: str) -> int:
            return numbers.setdefault(text, len(numbers))

        self.anchors = [number(couple.anchor) for couple in couples]
        self.positives = [number(couple.positive) for couple in couples]
        self.negatives = [None if c.negative is None else number(c.negative) for c in couples]
        self.texts = list(numbers)
        self.right: dict[int, set[int]] = {}
        for one, other in zip(self.anchors, self.positives, strict=True):
            self.right.setdefault(one, {one}).add(other)
        self.asking: dict[int, set[int]] = {}
        for one, other in zip(self.anchors, self.positives, strict=True):
            self.asking.setdefault(other, {other}).add(one)

    def hidden(self, rows: Sequence[int], columns: Sequence[int], *, right: Mapping[int, set[int]]) -> Tensor:
        """Which candidates (columns) are no negatives of a row, for they are right for it, or it itself; the
        one on the diagonal stays, for it is the answer. [rows, columns]"""
        places: dict[int, list[int]] = {}
        for place, column in enumerate(columns):
            places.setdefault(column, []).append(place)
        found = torch.zeros(len(rows), len(columns), dtype=torch.bool)
        for place, row in enumerate(rows):
            found[place, [other for text in right[row] for other in places.get(text, ())]] = True
            found[place, place] = False
        return found


def contrastive(
    ones: Float[Tensor, "pairs width"],
    candidates: Float[Tensor, "candidates width"],
    *,
    hidden: Tensor,
    scale: float,
) -> Tensor:
    """−log of the share that each text gives its own candidate (that of its number) among all that are not
    hidden, by scale · cosine, summed over texts (van den Oord et al. 2018, equation 4; with the others of a
    batch as negatives: Henderson et al. 2017, section 4)."""
    logits = scale * normalize(ones, dim=-1) @ normalize(candidates, dim=-1).T
    logits = logits.masked_fill(hidden, -torch.inf)
    return cross_entropy(logits, torch.arange(len(ones), device=logits.device), reduction="sum")


def cosine_errors(ones: Tensor, others: Tensor, *, scores: Tensor) -> Tensor:
    """The squared difference of each pair's cosine to its score, summed (Reimers & Gurevych 2019, section 3,
    regression)."""
    cosines = (normalize(ones, dim=-1) * normalize(others, dim=-1)).sum(-1)
    return ((cosines - scores) ** 2).sum()


def unit(vectors: Vectors) -> Vectors:
    """The same with length 1; one of zeros stays."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def retrieval(
    couples: Sequence[Couple],
    vectors: Mapping[str, Vectors],
    *,
    candidates: Mapping[str, Vectors],
    scale: float,
) -> RetrievalScores:
    """All scores of pairs whose first texts have these vectors, and whose second ones those of candidates."""
    belonging = Belonging(couples)
    asking = list(dict.fromkeys(belonging.anchors))
    columns = list(dict.fromkeys(belonging.positives))
    place = {text: column for column, text in enumerate(columns)}
    found = unit(np.stack([candidates[belonging.texts[text]] for text in columns]))
    losses, sums = 0.0, np.zeros(5)
    pairs: dict[int, set[int]] = {}
    for one, other in zip(belonging.anchors, belonging.positives, strict=True):
        pairs.setdefault(one, set()).add(place[other])
    for begin in range(0, len(asking), AT_ONCE):
        some = asking[begin : begin + AT_ONCE]
        cosines = unit(np.stack([vectors[belonging.texts[text]] for text in some])) @ found.T
        for text, row in zip(some, cosines, strict=True):
            right = pairs[text]
            if text in place and place[text] not in right:
                row[place[text]] = -np.inf  # itself
            losses += loss_of(row, right, scale=scale)
            sums += gains(np.argsort(-row, kind="stable")[:TOP], right)
    count = len(asking)
    pairs_count = sum(map(len, pairs.values()))
    return RetrievalScores(count, len(columns), losses / pairs_count, *(float(one) / count for one in sums))


def loss_of(cosines: Vectors, right: set[int], *, scale: float) -> float:
    """The loss of training for each right one of these candidates, the other right ones left out, summed."""
    logits = scale * cosines
    others = np.delete(logits, list(right))
    return sum(float(np.logaddexp.reduce([logits[one], *others])) - float(logits[one]) for one in right)


def gains(first: NDArray[np.intp], right: set[int]) -> Vectors:
    """Of the first ten candidates: 1 / place of the first right one, the shares of the right ones within 1, 5
    and 10, and nDCG."""
    hits = np.array([place in right for place in first.tolist()], dtype=float)
    worth = 1 / np.log2(np.arange(2, TOP + 2))
    places = np.flatnonzero(hits)
    reciprocal = 1 / (1 + places[0]) if len(places) else 0.0
    recalls = [hits[:most].sum() / len(right) for most in (1, 5, TOP)]
    return np.array([reciprocal, *recalls, hits @ worth[: len(hits)] / worth[: len(right)].sum()])


def similarity(
    couples: Sequence[Couple], vectors: Mapping[str, Vectors], *, largest: float
) -> SimilarityScores:
    """All scores of pairs that have scores, whose texts have these vectors."""
    ones, others = (
        unit(np.stack([vectors[getattr(couple, side)] for couple in couples]))
        for side in ("anchor", "positive")
    )
    cosines = (ones * others).sum(1)
    given = np.array([couple.score for couple in couples], dtype=float)
    return SimilarityScores(
        len(couples),
        float(((cosines - given / largest) ** 2).mean()),
        correlation(cosines, given),
        correlation(ranks(cosines), ranks(given)),
    )


def largest_score(couples: Sequence[Couple]) -> float:
    """What scores are divided by to lie where cosines do: the largest, or 1 where none is above."""
    return max(1.0, *(abs(couple.score or 0.0) for couple in couples))
