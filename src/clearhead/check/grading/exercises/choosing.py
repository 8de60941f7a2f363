"""Decoding, one token at a time: greedy, the k-th best, a sample, top-k, and the nucleus."""

from typing import Any

import numpy as np

from clearhead.check.grading.exercise import Arguments, Exercise, Law, Random, Wrong, distinct, table
from clearhead.check.grading.numbers import single
from clearhead.reference import decoding, softmax

LOGITS = "logits [vocab], one number for each token"
BOOK = "Prince, Understanding Deep Learning, section 12.7.3, notebook 12.4"


def ranked(logits: Any, *, ascending: bool = False, last: bool = False) -> np.ndarray:
    """Ids from the most likely; of equal ones the lowest id first, or the last."""
    x = np.asarray(logits, dtype=float)
    order = np.argsort(x if ascending else -x, kind="stable")
    return np.array(sorted(order, key=lambda token: (-x[token], -token))) if last else order


def logits_of(random: Random, size: int) -> np.ndarray:
    return distinct(random, size, count=size + 2)


# ---- greedy, k-th best -------------------------------------------------------------------------------------


def best_twin(arguments: Arguments, wrong: Wrong) -> int:
    """The k-th best token, k = 1 where none is given."""
    x = np.asarray(arguments[0], dtype=float)
    k = arguments[1] - 1 if len(arguments) > 1 else 0
    k += int("counted-from-zero" in wrong)
    if "absolute" in wrong:
        x = np.abs(x)
    if "always-the-best" in wrong:
        k = 0
    order = ranked(x, ascending="least-likely" in wrong, last="last-of-ties" in wrong)
    if "rank-of-the-token" in wrong:
        return int(np.argsort(order)[k])
    if "one-too-far" in wrong:
        return int(order[k]) + 1
    return int(order[k])


def tied(random: Random, size: int) -> Arguments:
    """Logits, some of which are equal."""
    x = random.integers(-3, 3, size=size + 1).astype(float)
    return (x if size < 5 else x + 0.5,)


BEST = table(
    (
        "least-likely",
        "order",
        "The order is from the smallest logit: argmin, or a sort that ascends.",
        "The most likely token has the largest logit.",
    ),
    (
        "absolute",
        "size",
        "The size of the logit counts and its sign does not.",
        "A negative logit is less likely than a positive one.",
    ),
    (
        "one-too-far",
        "result",
        "The id is one too large: tokens are counted from 1.",
        "Ids count from 0.",
    ),
)
GREEDY = Exercise(
    name="greedy",
    accepts=("greedy", "choose_greedy", "greedy_token"),
    parameters=("logits",),
    contract=f"{LOGITS} → the id of the most likely one; of equally likely ones the lowest id.",
    equation="argmax_w logits_w",
    source=BOOK,
    right=decoding.greedy,
    twin=best_twin,
    inputs=tied,
    mistakes=(
        *BEST,
        *table(
            (
                "last-of-ties",
                "order",
                "Of equally likely tokens the last is taken.",
                "The lowest id is taken, as argmax does.",
            ),
        ),
    ),
    laws=(
        Law(
            "no token has a larger logit",
            lambda arguments, first, _: arguments[0][int(first)] == arguments[0].max(),
        ),
    ),
    form=single,
    starter="""\
def greedy(logits):
    # Replace this line
    token = 0
    return token
""",
)
KTH_BEST = Exercise(
    name="kth_best",
    accepts=("kth_best", "kth_most_likely", "get_kth_most_likely_token"),
    parameters=("logits", "k"),
    contract=f"{LOGITS}, and k from 1 → the id of the k-th most likely one; k = 1 is greedy.",
    equation="the token that has k − 1 larger logits than its own",
    source=BOOK,
    right=decoding.kth_most_likely,
    twin=best_twin,
    inputs=lambda random, size: (logits_of(random, size), int(random.integers(1, size + 3))),
    mistakes=(
        *BEST,
        *table(
            (
                "counted-from-zero",
                "count",
                "k = 0 is taken for the most likely token, so the answer is one place too far.",
                "k counts from 1: k = 1 is the most likely token.",
            ),
            (
                "always-the-best",
                "count",
                "The most likely token is taken whatever k is.",
                "It is the k-th.",
            ),
            (
                "rank-of-the-token",
                "result",
                "The place of token k − 1 in the order is returned.",
                "It is the token at place k: the order holds ids, and the answer is its entry k − 1.",
            ),
        ),
    ),
    laws=(
        Law(
            "k − 1 logits are larger",
            lambda arguments, first, _: (arguments[0] > arguments[0][int(first)]).sum() == arguments[1] - 1,
        ),
    ),
    form=single,
    starter="""\
def kth_best(logits, k):
    # 1. Sort the tokens by their logits
    # 2. Take the k-th, counted from 1
    # Replace this line
    token = 0
    return token
""",
)


# ---- sampling ----------------------------------------------------------------------------------------------


def sample_twin(arguments: Arguments, wrong: Wrong) -> int:
    x, uniform = np.asarray(arguments[0], dtype=float), arguments[1]
    if "no-exp" in wrong:
        shares = x / x.sum()
    else:
        shares = np.full(len(x), 1.0 / len(x)) if "all-alike" in wrong else softmax(x)
    order = np.arange(len(x))
    if "by-likelihood" in wrong:
        order = ranked(x)
    if "from-the-end" in wrong:
        order = order[::-1]
    sums = shares[order] if "not-summed" in wrong else shares[order].cumsum()
    passed = sums > uniform
    place = int(np.argmax(passed)) if passed.any() else len(x) - 1
    if "token-before" in wrong:
        place = max(place - 1, 0)
    return int(np.argmax(x)) if "greedy" in wrong else int(order[place])


SAMPLE = Exercise(
    name="sample",
    accepts=("sample", "sample_token"),
    parameters=("logits", "uniform"),
    contract=(
        f"{LOGITS}, and a number 0 ≤ uniform < 1 → an id. Tokens lie side by side in the order of "
        "their ids, each "
        "as wide as softmax makes it likely; the answer is the one in which the number falls."
    ),
    equation="the smallest w with Σ_{v ≤ w} softmax[logits]_v > uniform",
    source=BOOK,
    right=decoding.sample,
    twin=sample_twin,
    inputs=lambda random, size: (logits_of(random, size), float(random.random())),
    mistakes=table(
        (
            "greedy",
            "rule",
            "The most likely token is taken.",
            "It is drawn: less likely ones have their share.",
        ),
        (
            "all-alike",
            "shares",
            "All tokens are equally likely.",
            "Softmax of the logits says how likely each is.",
        ),
        (
            "no-exp",
            "shares",
            "The logits are divided by their sum.",
            "Softmax makes probabilities of them.",
        ),
        (
            "by-likelihood",
            "order",
            "The most likely token lies first.",
            "They lie in the order of their ids.",
        ),
        ("from-the-end", "order", "The last id lies first.", "They lie in the order of their ids."),
        (
            "not-summed",
            "sums",
            "The number is compared with each probability by itself.",
            "It is compared with the sum of the probabilities up to there.",
        ),
        (
            "token-before",
            "place",
            "The token before the one in which the number falls is taken.",
            "It is the first whose sum lies above the number.",
        ),
    ),
    laws=(
        Law(
            "the number 0 falls in the first token",
            lambda _, __, second: int(second) == 0,
            other=lambda arguments: (arguments[0], 0.0),
        ),
    ),
    form=single,
    starter="""\
def sample(logits, uniform):
    # 1. Softmax
    # 2. Sum the probabilities from the first token on
    # 3. Find the first token whose sum lies above uniform
    # Replace this line
    token = 0
    return token
""",
)
EXERCISES = (GREEDY, KTH_BEST, SAMPLE)
