"""Beam search over a table of what follows what, and which finished hypothesis is best."""

from typing import Any

import numpy as np

from clearhead.check.grading.exercise import (
    NOTHING,
    Arguments,
    Exercise,
    Law,
    Random,
    Wrong,
    table,
)
from clearhead.check.grading.numbers import single
from clearhead.reference import decoding


def searched(log_probabilities: Any, beams: int, *more: int) -> list[int]:
    """The reference: the best hypothesis after token 0."""
    rows = np.asarray(log_probabilities, dtype=float)
    (length,) = more
    found = decoding.beam_search(lambda ids: rows[ids[-1]], [0], beams=beams, most=length)
    return list(found[0].tokens)


def beam_twin(arguments: Arguments, wrong: Wrong) -> list[int]:
    rows, beams, length = np.asarray(arguments[0], dtype=float), arguments[1], arguments[2]
    beams = 1 if "one-beam" in wrong else beams
    if "probabilities-summed" in wrong:
        rows = np.exp(rows)
    running: list[tuple[tuple[int, ...], float]] = [((0,), 0.0)]
    for _ in range(length - int("one-token-less" in wrong)):
        continued = []
        for ids, total in running:
            own = []
            for token, score in enumerate(rows[0 if "always-from-the-start" in wrong else ids[-1]]):
                own.append(((*ids, token), score if "last-score-only" in wrong else total + score))
            own.sort(key=lambda one: -one[1])
            continued += own[:1] if "best-of-each-beam" in wrong and len(running) >= beams else own
        continued.sort(key=lambda one: one[1] if "worst-kept" in wrong else -one[1])
        running = continued[:beams]
    best = running[-1] if "last-beam-returned" in wrong else running[0]
    return list(best[0] if "start-returned" in wrong else best[0][1:])


def beam_inputs(random: Random, size: int) -> Arguments:
    """Small tables; in larger sizes ones where it shows whether several hypotheses may come from one."""
    vocab = 2 + size // 2
    given: Arguments = ()
    for _ in range(40):
        beams, length = int(random.integers(1, min(4, vocab) + 1)), int(random.integers(1, 3 + size // 2))
        shares = np.maximum(np.round(random.dirichlet(np.full(vocab, 0.7), size=vocab), 2), 0.01)
        given = (np.log(shares + random.uniform(0.0, 1e-3, shares.shape)), beams, length)
        if size < 5 or beam_twin(given, NOTHING) != beam_twin(given, frozenset(["best-of-each-beam"])):
            break
    return given


BEAM_SEARCH = Exercise(
    name="beam_search",
    accepts=("beam_search",),
    parameters=("log_probabilities", "beams", "length"),
    contract=(
        "log_probabilities [vocab, vocab]: row a holds how likely each token is after token a. The "
        "text begins "
        "with token 0. In each of `length` steps every hypothesis is continued by every token, and the best "
        "`beams` of all of them go on. The result is the best one, a list of `length` ids, without "
        "the first token."
    ),
    equation="argmax over hypotheses of Σ_t log Pr(w_t | w_{t−1}), `beams` of them at a time",
    source="Sutskever et al. 2014, section 3.2; Prince, Understanding Deep Learning, section 12.7.3",
    right=searched,
    twin=beam_twin,
    inputs=beam_inputs,
    mistakes=table(
        (
            "one-beam",
            "beams",
            "Only one hypothesis goes on: this is greedy.",
            "The best `beams` of them go on.",
        ),
        (
            "best-of-each-beam",
            "beams",
            "Every hypothesis goes on with its own best token.",
            "All continuations of all hypotheses are compared, and several may come from one.",
        ),
        ("worst-kept", "order", "The least likely ones go on.", "The most likely ones do."),
        (
            "last-beam-returned",
            "result",
            "The last of the beams is returned.",
            "The best is.",
        ),
        (
            "start-returned",
            "start",
            "The first token is returned with the others.",
            "The result holds the new tokens.",
        ),
        (
            "last-score-only",
            "score",
            "Only the last token's log-probability counts.",
            "A hypothesis' score is the sum of all of its own.",
        ),
        (
            "probabilities-summed",
            "score",
            "Probabilities are summed.",
            "Their logarithms are: the probability of a text is the product.",
        ),
        (
            "always-from-the-start",
            "rows",
            "What follows is always read from the row of token 0.",
            "It is read from the row of each hypothesis' last token.",
        ),
        ("one-token-less", "length", "One token is missing.", "There are `length` new tokens."),
    ),
    laws=(Law("there are `length` tokens", lambda arguments, first, _: len(first) == arguments[2]),),
    starter="""\
def beam_search(log_probabilities, beams, length):
    # 1. Begin with one hypothesis: token 0, score 0
    # 2. `length` times: continue every hypothesis by every token, keep the best `beams`
    # 3. Return the best one without its first token
    # Replace this line
    tokens = [0] * length
    return tokens
""",
)


def best_of(totals: Any, lengths: Any, *more: float) -> int:
    """The reference: which total / length^penalty is largest."""
    (penalty,) = more
    scores = [
        decoding.Running((), total).score(length, penalty)
        for total, length in zip(np.asarray(totals, dtype=float), np.asarray(lengths).tolist(), strict=True)
    ]
    return int(np.argmax(scores))


def rank_twin(arguments: Arguments, wrong: Wrong) -> int:
    totals, lengths = np.asarray(arguments[0], dtype=float), np.asarray(arguments[1], dtype=float)
    penalty = arguments[2]
    if "sign" in wrong:
        penalty = -penalty
    if "always-one" in wrong:
        penalty = 1.0
    divided = ((5.0 + lengths) / 6.0) ** penalty if "published-in-2016" in wrong else lengths**penalty
    if "end-not-counted" in wrong:
        divided = (lengths - 1.0) ** penalty
    scores = totals if "no-penalty" in wrong else totals / divided
    if "added" in wrong:
        scores = totals + penalty * lengths
    return int(np.argmin(scores) if "worst" in wrong else np.argmax(scores))


def rank_inputs(random: Random, size: int) -> Arguments:
    count = 2 + size // 2
    lengths = random.integers(2, 9, size=count)
    # Near enough to each other that the penalty decides.
    totals = -np.round(lengths ** random.uniform(-1.0, 2.0) * random.uniform(0.8, 1.25, size=count), 2)
    return (totals, lengths, float(random.choice([0.5, 0.7, 1.3, 2.0])))


BEST_HYPOTHESIS = Exercise(
    name="best_hypothesis",
    accepts=("best_hypothesis",),
    parameters=("totals", "lengths", "length_penalty"),
    contract=(
        "totals [n] are sums of log-probabilities, lengths [n] the numbers of tokens with their end. "
        "The result is "
        "the index of the hypothesis whose total / length^length_penalty is largest."
    ),
    equation="argmax_i totals_i / lengths_i^length_penalty",
    source="Wu et al. 2016, section 7, with the length itself, as present published code has it",
    right=best_of,
    twin=rank_twin,
    inputs=rank_inputs,
    mistakes=table(
        (
            "no-penalty",
            "rule",
            "The totals are compared as they are, so short hypotheses win.",
            "Each is divided by length^length_penalty.",
        ),
        (
            "sign",
            "power",
            "It is multiplied by length^length_penalty.",
            "It is divided by that: totals are negative, and long ones must gain.",
        ),
        ("always-one", "power", "It is divided by the length itself.", "By the length to the power given."),
        (
            "published-in-2016",
            "power base",
            "It is divided by ((5 + length) / 6)^length_penalty, the form of Wu et al. 2016.",
            "This exercise asks for length^length_penalty.",
        ),
        (
            "end-not-counted",
            "power base",
            "One token less is counted.",
            "The end counts, as its log-probability does.",
        ),
        (
            "added",
            "rule",
            "length_penalty · length is added.",
            "The total is divided by a power of the length.",
        ),
        ("worst", "order", "The worst hypothesis is returned.", "The best is: the largest score."),
    ),
    laws=(
        Law(
            "of equally long ones the largest total is best",
            lambda arguments, _, second: int(second) == int(np.argmax(arguments[0])),
            other=lambda arguments: (arguments[0], np.full_like(arguments[1], 3), arguments[2]),
        ),
    ),
    form=single,
    starter="""\
def best_hypothesis(totals, lengths, length_penalty):
    # Replace this line
    return 0
""",
)
EXERCISES = (BEAM_SEARCH, BEST_HYPOTHESIS)
