"""The rules by which a decoder's next token is chosen, on plain arrays, one text at a time.

A rule that changes logits, or log-probabilities, answers with an array of the same shape [vocab]; −inf marks
a token that must not be chosen, and what is −inf already stays so. A rule that chooses answers with an id. Of
equally likely tokens the one with the lowest id comes first. "Prince" is *Understanding Deep Learning*,
section 12.7.3, with its companion notebook 12.4.
"""

import math
from collections.abc import Callable, Collection, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from clearhead.errors import DataError, SettingError
from clearhead.reference.layers import Array, float64, softmax

# ---- choosing ----------------------------------------------------------------------------------------------


def log_softmax(logits: ArrayLike) -> Array:
    """The logarithms of the probabilities, over the last axis; −inf stays −inf, but not all may be.

    Shape: as logits. The largest number is subtracted first, which keeps exp from overflowing.
    """
    x = float64(logits)
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def greedy(logits: ArrayLike) -> int:
    """The most likely token. Source: Prince."""
    return kth_most_likely(logits, 1)


def kth_most_likely(logits: ArrayLike, k: int) -> int:
    """The k-th most likely token, counted from 1; that of 1 is `greedy`. Source: Prince."""
    return int(ranked(logits)[refuse_count("k", k, most=np.size(logits)) - 1])


def sample(logits: ArrayLike, uniform: float) -> int:
    """The token drawn by a uniform number, 0 ≤ uniform < 1.

    Tokens lie side by side in the order of their ids, each as wide as it is likely; the answer is the one in
    which the number falls. Raises DataError where no token is left. Source: Prince.
    """
    if not 0.0 <= uniform < 1.0:
        raise SettingError(f"uniform={uniform} must be at least 0 and below 1")
    ends = softmax(allowed(logits)).cumsum()
    return int(np.searchsorted(ends, uniform * ends[-1], side="right"))


# ---- changing logits ---------------------------------------------------------------------------------------


def tempered(logits: ArrayLike, temperature: float) -> Array:
    """Logits divided by the temperature: below 1 likely tokens gain, above 1 unlikely ones.

    Source: Ackley et al. 1985; Holtzman et al. 2020, section 3.3.
    """
    if not 0.0 < temperature < math.inf:
        raise SettingError(f"temperature={temperature} must be above 0; for the most likely token use greedy")
    return float64(logits) / temperature


def top_k(logits: ArrayLike, k: int) -> Array:
    """The k most likely tokens, and those as likely as the k-th. A k above the vocabulary keeps all.

    Source: Fan et al. 2018; Prince.
    """
    x = float64(logits)
    return np.where(x >= x[kth_most_likely(x, min(refuse_count("k", k), x.size))], x, -np.inf)


def nucleus(logits: ArrayLike, threshold: float) -> Array:
    """The most likely tokens, from the top, until their probabilities sum to the threshold or more.

    The token that passes the threshold is kept, so there is always one; 1 keeps all.
    Source: Holtzman et al. 2020, section 3.1; Prince.
    """
    if not 0.0 < threshold <= 1.0:
        raise SettingError(f"top_p={threshold} must be above 0 and at most 1")
    x = float64(logits)
    if threshold == 1.0:  # a sum of many tokens may round to 1 before the last
        return x
    order = ranked(x)
    sums = softmax(x)[order].cumsum()
    before = np.concatenate([[0.0], sums[:-1]])
    return only(x, order[before < threshold])


def min_p(logits: ArrayLike, share: float) -> Array:
    """The tokens at least as likely as this share of the most likely one.

    Source: Nguyen et al. 2025, section 3.
    """
    if not 0.0 <= share <= 1.0:
        raise SettingError(f"min_p={share} must be at least 0 and at most 1")
    probability = softmax(logits)
    return np.where(probability >= share * probability.max(), float64(logits), -np.inf)


def repetition_penalty(logits: ArrayLike, seen: Collection[int], *, penalty: float) -> Array:
    """Tokens seen before lose: their logits are divided by the penalty, and negative ones multiplied.

    How often a token was seen makes no difference; 1 changes nothing.
    Source: Keskar et al. 2019, section 4.1, there for positive logits; its published code multiplies negative
    ones, which division would make more likely.
    """
    if not 0.0 < penalty < math.inf:
        raise SettingError(f"repetition_penalty={penalty} must be above 0")
    x = float64(logits).copy()
    ids = np.unique(np.asarray(list(seen), dtype=int))
    x[ids] = np.where(x[ids] < 0.0, x[ids] * penalty, x[ids] / penalty)
    return x


def repeating(ids: Sequence[int], size: int) -> set[int]:
    """The tokens that would end the text with `size` tokens in a row which it holds already.

    Source: Paulus et al. 2017, section 2.5 (there for three).
    """
    refuse_count("no_repeat_ngram_size", size)
    ids = [int(token) for token in ids]
    grams = [tuple(ids[start : start + size]) for start in range(len(ids) - size + 1)]
    last = tuple(ids[len(ids) - size + 1 :])
    return {gram[-1] for gram in grams if gram[:-1] == last}


def without(logits: ArrayLike, tokens: Collection[int]) -> Array:
    """Logits with −inf for these tokens."""
    x = float64(logits).copy()
    x[list(tokens)] = -np.inf
    return x


# ---- beam search -------------------------------------------------------------------------------------------


class Hypothesis(NamedTuple):
    """What may follow a prompt: the new tokens, and the sum of their log-probabilities / length^penalty."""

    tokens: tuple[int, ...]
    score: float


class Running(NamedTuple):
    """A hypothesis that is not finished, and the plain sum of its log-probabilities."""

    tokens: tuple[int, ...]
    total: float

    def score(self, length: int, penalty: float) -> float:
        return self.total / length**penalty


def beam_search(
    next_log_probabilities: Callable[[list[int]], ArrayLike],
    prompt: Sequence[int],
    *,
    beams: int,
    most: int,
    ends: Collection[int] = (),
    length_penalty: float = 1.0,
    early_stopping: bool | Literal["never"] = False,
) -> list[Hypothesis]:
    """The best continuations that a search finds which follows only `beams` of them at a time, best first.

    `next_log_probabilities(ids)` judges every token that may follow: [vocab]. In each step all running
    hypotheses are continued by all tokens. Of the best `beams` of these, those that end with one of `ends`
    are finished, each by itself; the best `beams` of the others run on. After `most` new tokens the best
    `beams` are finished as they are. The prompt counts neither for scores nor for lengths; the end does.

    With `early_stopping` the search is over as soon as `beams` hypotheses are finished. Without, it goes on
    until the best running one would not be better than the worst of the best `beams` finished ones if it
    ended now; "never": if it ended at the length that is best for it, which is certain, since no
    log-probability is above 0.

    The result has at most `beams` hypotheses; take as many as wanted. Raises SettingError.
    Source: Sutskever et al. 2014, section 3.2; Wu et al. 2016, section 7, whose length penalty is
    ((5 + length) / 6)^α where that of present published code is length^α; Prince.
    """
    refuse_count("num_beams", beams)
    refuse_count("max_new_tokens", most)
    running, finished = [Running((), 0.0)], list[Hypothesis]()
    for length in range(1, most + 1):
        continued = continuations(next_log_probabilities, list(prompt), running=running)
        ended = [one for one in continued[:beams] if length == most or one.tokens[-1] in ends]
        finished += [Hypothesis(one.tokens, one.score(length, length_penalty)) for one in ended]
        finished = sorted(finished, key=lambda one: -one.score)[:beams]
        running = [one for one in continued if one.tokens[-1] not in ends][:beams]
        if not running or (early_stopping is True and len(finished) == beams):
            break
        at = most if early_stopping == "never" and length_penalty > 0.0 else length
        if len(finished) == beams and running[0].score(at, length_penalty) <= finished[-1].score:
            break
    return finished


def continuations(
    next_log_probabilities: Callable[[list[int]], ArrayLike], prompt: list[int], *, running: list[Running]
) -> list[Running]:
    """Every possible continuation of every running hypothesis by one token, best first."""
    found = []
    for one in running:
        for token, log_probability in enumerate(float64(next_log_probabilities([*prompt, *one.tokens]))):
            if log_probability > -np.inf:
                found.append(Running((*one.tokens, token), one.total + float(log_probability)))
    return sorted(found, key=lambda one: -one.total)


# ---- what the rules share ----------------------------------------------------------------------------------


def ranked(logits: ArrayLike) -> np.ndarray:
    """All ids, the most likely first."""
    return np.argsort(-float64(logits), kind="stable")


def only(x: Array, tokens: np.ndarray) -> Array:
    """x with −inf for all tokens but these."""
    kept = np.full_like(x, -np.inf)
    kept[tokens] = x[tokens]
    return kept


def allowed(logits: ArrayLike) -> Array:
    """The logits, if they allow any token at all."""
    x = float64(logits)
    if not (x > -np.inf).any():
        raise DataError("no token is left to choose from; every one has probability 0")
    return x


def refuse_count(name: str, count: int, *, most: int | None = None) -> int:
    """The count itself, if it is at least 1 and not above `most`."""
    if count < 1 or (most is not None and count > most):
        raise SettingError(
            f"{name}={count} must be at least 1" + ("" if most is None else f" and at most {most}")
        )
    return count
