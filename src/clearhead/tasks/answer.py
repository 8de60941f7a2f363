"""Answers in texts: where in a context the answer to a question begins and ends (Rajpurkar et al. 2016;
Devlin et al. 2018, sections 4.2 and 4.3)."""

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Spans:
    """Every possible answer of a question: its places in characters, its score before any softmax, and the
    score of none."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    scores: NDArray[np.float64]
    none: float


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
    if not ends or cut_off(place, example, text=text):
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
    """Whether a part of a place that shows something lies where the context was cut."""
    ends = [window.offsets[at] for window in example.windows for at in context_of(window)]
    first, last = min(start for start, _ in ends), max(end for _, end in ends)
    beyond = text[place.start : max(first, place.start)] + text[min(last, place.end) : place.end]
    return example.dropped > 0 and shows(beyond)


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
    logits: Sequence[Float[Tensor, "tokens 2"]], example: Example, *, context: str, most: int
) -> Spans:
    """All answers of at most `most` tokens that windows hold, each place once, with the best of its scores
    (the sum of both logits); white space around an answer is none of it. The score of none is the lowest that
    a window gives its first token: a window without the answer says nothing of the others."""
    starts, ends, scores, none = [], [], [], np.inf
    for window, own in zip(example.windows, logits, strict=True):
        numbers = own.double().numpy()
        none = min(none, float(numbers[0].sum()))
        inside = np.array(context_of(window), dtype=np.int64)
        if not len(inside):
            continue
        offsets = np.array([window.offsets[at] for at in inside], dtype=np.int64)
        first = np.repeat(np.arange(len(inside)), min(most, len(inside)))
        last = first + np.tile(np.arange(min(most, len(inside))), len(inside))
        first, last = first[last < len(inside)], last[last < len(inside)]
        starts.append(offsets[first, 0])
        ends.append(offsets[last, 1])
        scores.append(numbers[inside[first], 0] + numbers[inside[last], 1])
    if not starts:
        empty = np.empty(0, dtype=np.int64)
        return Spans(empty, empty, np.empty(0), none)
    bare = np.array([not sign.isspace() for sign in context])
    return once(
        np.concatenate(starts), np.concatenate(ends), scores=np.concatenate(scores), bare=bare, none=none
    )


def once(
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    *,
    scores: NDArray[np.float64],
    bare: NDArray[np.bool_],
    none: float,
) -> Spans:
    """Each place once, with the best of its scores, without white space around it; `bare` says which
    characters of the context are none."""
    count = len(bare)
    places = np.arange(count)
    ahead = np.minimum.accumulate(np.where(bare, places, count)[::-1])[::-1]  # the next that is bare
    behind = np.maximum.accumulate(np.where(bare, places, -1)) + 1  # one after the last that is
    starts, ends = ahead[np.minimum(starts, count - 1)], behind[np.maximum(ends, 1) - 1]
    held = starts < ends
    starts, ends, scores = starts[held], ends[held], scores[held]
    keys = starts * (count + 1) + ends
    order = np.lexsort((-scores, keys))
    firsts = order[np.unique(keys[order], return_index=True)[1]]
    return Spans(starts[firsts], ends[firsts], scores[firsts], none)


def result_of(
    spans: Spans, example: Example, *, context: str, best: int, threshold: float | None
) -> AnswerResult:
    """The answer that spans say, and the `best` of them. There is none where the score of none is above the
    best one's by more than the threshold; without a threshold, where the context has no token."""
    about = {"tokens": example.tokens, "dropped": example.dropped, "windows": len(example.windows)}
    every = np.append(spans.scores, spans.none)
    shares = np.exp(every - every.max())
    shares = shares / shares.sum()
    if not len(spans.scores):
        return AnswerResult(None, None, None, 1.0, 1.0, None, (), **about)
    # Of equal scores the one that begins, and then ends, first.
    order = np.lexsort((spans.ends, spans.starts, -spans.scores))[:best]
    found = tuple(
        Candidate(context[start:end], start, end, float(shares[at]))
        for at in order.tolist()
        for start, end in [(int(spans.starts[at]), int(spans.ends[at]))]
    )
    margin, nothing = float(spans.none - spans.scores[order[0]]), float(shares[-1])
    if threshold is not None and margin > threshold:
        return AnswerResult(None, None, None, nothing, nothing, margin, found, **about)
    top = found[0]
    return AnswerResult(top.answer, top.start, top.end, top.score, nothing, margin, found, **about)


def skipped() -> AnswerResult:
    """The result of a question that was not asked."""
    return AnswerResult(None, None, None, None, None, None, (), 0, 0)
