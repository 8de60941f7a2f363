"""Answers in texts: where in a context the answer to a question begins and ends (Rajpurkar et al. 2016;
Devlin et al. 2018, sections 4.2 and 4.3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from unicodedata import category

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data.questions import Place, Question
from clearhead.model.layout import Layout
from clearhead.tasks.examples import Example
from clearhead.text.encoding import Encoding

CONTEXT = 1  # which text of a pair it is
NONE = (0, 0)  # the first token, as both ends: no answer in this window


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible answer: `context[start:end]` is `answer`, in characters; its probability among all possible
    answers and none."""

    answer: str
    start: int
    end: int
    score: float


@dataclass(frozen=True)
class AnswerResult:
    """The answer to one question: `context[start:end]`, or None where there is none.

    `score` is its probability among all possible answers and none, `no_answer_score` that of none, and
    `margin` by how much the score of none is above the best answer's, before any softmax, which a threshold
    is held against. `candidates` are the best answers, no two of one place, best first. A question that was
    not asked has no numbers. `tokens` went through the model in `windows`, `dropped` did not fit.
    """

    answer: str | None
    start: int | None
    end: int | None
    score: float | None
    no_answer_score: float | None
    margin: float | None
    candidates: tuple[Candidate, ...]
    tokens: int
    dropped: int
    windows: int = 1


class Places(NamedTuple):
    """Possible answers: where they begin and end in the context, in characters, and their scores, the sums of
    both logits."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    scores: NDArray[np.float64]

    def some(self, which: NDArray[Any]) -> "Places":
        """Those of a mask, or of numbers in order."""
        return Places(self.starts[which], self.ends[which], self.scores[which])

    def and_others(self, others: "Places") -> "Places":
        """All of both."""
        return Places(*(np.concatenate(pair) for pair in zip(self, others, strict=True)))

    def best(self, count: int) -> "Places":
        """The first of them by score; of equal ones the one that begins, and then ends, first."""
        return self.some(np.lexsort((self.ends, self.starts, -self.scores))[:count])


NOWHERE = Places(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0))


@dataclass(frozen=True)
class Spans:
    """The best possible answers of a question, the score of none, and `total`, the logarithm of the sum of
    exp(score) over all possible answers and none."""

    best: Places
    none: float
    total: float


def targets(example: Example, question: Question) -> list[tuple[int, int]]:
    """The tokens that an answer begins and ends with, in each window that holds all of the first right one;
    the first token in the others, which stands for none (Devlin et al. 2018, section 4.3).

    All of an answer is what tokens show of it: white space at its edges, and characters that the tokenizer
    leaves out, are no part that a window could lack.
    """
    if not question.answers:
        return [NONE] * len(example.windows)
    place, text = question.answers[0], question.context
    touched = [touching(window, place, text=text) for window in example.windows]
    ends = [window.offsets[at] for window, some in zip(example.windows, touched, strict=True) for at in some]
    if not ends or (example.dropped and cut_off(place, example, text=text)):
        return [NONE] * len(example.windows)
    start = max(place.start, min(start for start, _ in ends))
    end = min(place.end, max(end for _, end in ends))
    return [
        (some[0], some[-1])
        if some and window.offsets[some[0]][0] <= start and window.offsets[some[-1]][1] >= end
        else NONE
        for window, some in zip(example.windows, touched, strict=True)
    ]


def touching(window: Encoding, place: Place, *, text: str) -> list[int]:
    """The context's tokens that show something of a place."""
    shared = [(at, shared_by(window.offsets[at], place)) for at in context_of(window)]
    return [at for at, (start, end) in shared if start < end and shows(text[start:end])]


def shared_by(offsets: tuple[int, int], place: Place) -> tuple[int, int]:
    """The characters that a token and a place have both, from the first to before the second."""
    return max(offsets[0], place.start), min(offsets[1], place.end)


def cut_off(place: Place, example: Example, *, text: str) -> bool:
    """Whether a part of a place that shows something lies where a context was cut."""
    ends = [window.offsets[at] for window in example.windows for at in context_of(window)]
    first, last = min(start for start, _ in ends), max(end for _, end in ends)
    beyond = text[place.start : max(first, place.start)] + text[min(last, place.end) : place.end]
    return shows(beyond)


def shows(text: str) -> bool:
    """Whether a text has more than white space and control characters, visible to nobody."""
    return any(not sign.isspace() and category(sign) not in ("Cc", "Cf") for sign in text)


def context_of(window: Encoding) -> list[int]:
    """The places of the context's tokens."""
    return [at for at, source in enumerate(window.sources) if source == CONTEXT]


def span_loss(
    logits: Float[Tensor, "tokens 2"], layout: Layout, *, targets: Int[Tensor, "windows 2"]
) -> Float[Tensor, ""]:
    """The sum over windows of the mean of two losses in nats, of where an answer begins and where it ends:
    each a softmax over all tokens of the window."""
    total = logits.new_zeros(())
    place = 0
    for group in layout.groups:
        members = torch.tensor(layout.order[place : place + group.texts])
        place += group.texts
        if not group.length:
            continue
        rows = logits[group.start : group.start + group.tokens].unflatten(0, (group.texts, group.length))
        sure = rows.float().log_softmax(1)
        total = total - sure.gather(1, targets[members][:, None]).sum() / 2
    return total


def spans_of(
    logits: Sequence[Float[Tensor, "tokens 2"]], example: Example, *, context: str, most: int, best: int
) -> Spans:
    """The `best` answers of at most `most` tokens that windows hold, each place once, with the best of its
    scores; white space around an answer is none of it. The score of none is the lowest that a window gives
    its first token: a window without the answer says nothing of the others.

    A place is known as soon as all later windows begin behind its first character: then it is counted and, if
    it is not among the best, let go, so that memory does not grow with the number of windows.
    """
    ahead, behind = edges_of(context)
    inside = [np.array(context_of(window), dtype=np.int64) for window in example.windows]
    offsets = [
        np.array([window.offsets[at] for at in own], dtype=np.int64).reshape(-1, 2)
        for window, own in zip(example.windows, inside, strict=True)
    ]
    begins = [min((int(ahead[at]) for at in own[:, 0]), default=len(context)) for own in offsets]
    later = [*np.minimum.accumulate(begins[::-1])[::-1].tolist()[1:], len(context)]
    none, totals, found, waiting = np.inf, list[float](), NOWHERE, NOWHERE
    for window, own in enumerate(logits):
        numbers = own.double().numpy()
        none = min(none, float(numbers[0].sum()))
        first, last = ends_of(len(inside[window]), most=most)
        scores = numbers[inside[window][first], 0] + numbers[inside[window][last], 1]
        places = Places(ahead[offsets[window][first, 0]], behind[offsets[window][last, 1]], scores)
        waiting = once(waiting.and_others(places.some(places.starts < places.ends)))
        known = waiting.starts < later[window]
        totals.append(log_sum(waiting.scores[known]))
        found = found.and_others(waiting.some(known).best(best)).best(best)
        waiting = waiting.some(~known)
    return Spans(found, none, log_sum(np.array([*totals, none])))


def edges_of(context: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each place of a context, and that behind it, where one that begins, or ends, there does so without
    the white space at its edge."""
    count = len(context)
    bare = np.array([not sign.isspace() for sign in context], dtype=bool)
    places = np.arange(count)
    ahead = np.minimum.accumulate(np.where(bare, places, count)[::-1])[::-1]  # the next that is bare
    behind = np.maximum.accumulate(np.where(bare, places, -1)) + 1  # one after the last that is
    return np.append(ahead, count), np.insert(behind, 0, 0)


def ends_of(count: int, *, most: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first and the last of at most so many of `count` tokens, in every way."""
    first = np.repeat(np.arange(count), min(most, count))
    last = first + np.tile(np.arange(min(most, count)), count)
    return first[last < count], last[last < count]


def once(places: Places) -> Places:
    """Each place once, with the best of its scores."""
    order = np.lexsort((-places.scores, places.ends, places.starts))
    ordered = places.some(order)
    new = np.ones(len(order), dtype=bool)
    new[1:] = (ordered.starts[1:] != ordered.starts[:-1]) | (ordered.ends[1:] != ordered.ends[:-1])
    return ordered.some(new)


def log_sum(scores: NDArray[np.float64]) -> float:
    """ln Σ exp(score); −∞ of none."""
    if not len(scores) or scores.max() == -np.inf:
        return -np.inf
    return float(scores.max() + np.log(np.exp(scores - scores.max()).sum()))


def result_of(spans: Spans, example: Example, *, context: str, threshold: float | None) -> AnswerResult:
    """The answer that spans say, and the best of them. There is none where the score of none is above the
    best one's by more than the threshold; without a threshold, where the context has no token."""
    about = {"tokens": example.tokens, "dropped": example.dropped, "windows": len(example.windows)}
    if not len(spans.best.scores):
        return AnswerResult(None, None, None, 1.0, 1.0, None, (), **about)
    shares = np.exp(spans.best.scores - spans.total).tolist()
    found = tuple(
        Candidate(context[start:end], start, end, share)
        for start, end, share in zip(
            spans.best.starts.tolist(), spans.best.ends.tolist(), shares, strict=True
        )
    )
    margin, nothing = float(spans.none - spans.best.scores[0]), float(np.exp(spans.none - spans.total))
    if threshold is not None and margin > threshold:
        return AnswerResult(None, None, None, nothing, nothing, margin, found, **about)
    top = found[0]
    return AnswerResult(top.answer, top.start, top.end, top.score, nothing, margin, found, **about)


def skipped() -> AnswerResult:
    """The result of a question that was not asked."""
    return AnswerResult(None, None, None, None, None, None, (), 0, 0)
