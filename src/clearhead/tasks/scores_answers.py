"""How well answers agree with the right ones, by the rules that SQuAD was published with."""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class AnswerMetrics:
    """Exact match and F1 over words, 0 to 100, after the published normalisation (Rajpurkar et al. 2016,
    section 6.1); of questions with and without an answer by themselves (2018, section 4), None where there
    are none. `best_f1` is what a threshold for no answer would reach on these questions, which knows them:
    a little hopeful. `loss` is over windows, in nats, where it was computed.
    """

    texts: int
    exact_match: float
    f1: float
    has_answer: int
    has_answer_exact: float | None
    has_answer_f1: float | None
    no_answer: int
    no_answer_exact: float | None
    best_f1: float
    best_f1_threshold: float
    loss: float | None = None

    def summary(self) -> dict[str, Any]:
        """The scores for metrics.jsonl."""
        return {"eval_loss": self.loss, "eval_exact_match": self.exact_match, "eval_f1": self.f1}


def normalised(answer: str) -> list[str]:
    """The words that count: lower case, without ASCII punctuation and English articles."""
    return ARTICLES.sub(" ", answer.lower().translate(PUNCTUATION)).split()


def exact(said: str, right: str) -> float:
    """1 where both are the same words."""
    return float(normalised(said) == normalised(right))


def overlap(said: str, right: str) -> float:
    """F1 over the words of both; where one has none, 1 if both have none."""
    ours, theirs = normalised(said), normalised(right)
    if not ours or not theirs:
        return float(ours == theirs)
    common = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * common / (len(ours) + len(theirs))


def best_of(said: str, right: Sequence[str]) -> tuple[float, float]:
    """Exact match and F1 with the right answer that is nearest; none is right where there is no answer. Right
    answers of no word that counts are left out, as published."""
    kept = [one for one in right if normalised(one)] or [""]
    return max(exact(said, one) for one in kept), max(overlap(said, one) for one in kept)


def measure(
    said: Sequence[str | None],
    right: Sequence[Sequence[str]],
    *,
    best: Sequence[str],
    margins: Sequence[float],
) -> AnswerMetrics:
    """Scores of answers (None: no answer); `best` is what each would be if there had to be one, and `margins`
    by how much the score of none is above its."""
    pairs = [best_of(one or "", answers) for one, answers in zip(said, right, strict=True)]
    held = [bool(answers) for answers in right]
    whole, threshold = best_threshold(best, right, margins=margins)

    def mean(values: list[float]) -> float | None:
        return 100 * sum(values) / len(values) if values else None

    groups: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for pair, has in zip(pairs, held, strict=True):
        groups[has].append(pair)
    return AnswerMetrics(
        texts=len(pairs),
        exact_match=mean([one for one, _ in pairs]) or 0.0,
        f1=mean([two for _, two in pairs]) or 0.0,
        has_answer=len(groups[True]),
        has_answer_exact=mean([one for one, _ in groups[True]]),
        has_answer_f1=mean([two for _, two in groups[True]]),
        no_answer=len(groups[False]),
        no_answer_exact=mean([one for one, _ in groups[False]]),
        best_f1=whole,
        best_f1_threshold=threshold,
    )


def best_threshold(
    best: Sequence[str], right: Sequence[Sequence[str]], *, margins: Sequence[float]
) -> tuple[float, float]:
    """The highest F1 that a threshold for no answer reaches, and the threshold: the margin above which there
    is none. As published, it begins with no answer anywhere and lets one after the other in, surest first."""
    current = top = float(sum(not answers for answers in right))
    threshold = 0.0
    for index in sorted(range(len(margins)), key=margins.__getitem__):
        current += best_of(best[index], right[index])[1] if right[index] else -bool(best[index])
        if current > top:
            top, threshold = current, margins[index]
    return 100 * top / max(1, len(margins)), threshold
