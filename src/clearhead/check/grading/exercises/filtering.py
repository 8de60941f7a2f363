"""Decoding: which tokens are left to choose from, top-k and the nucleus."""

from typing import Any

import numpy as np

from clearhead.check.grading.exercise import Arguments, Exercise, Law, Random, Wrong, table
from clearhead.check.grading.exercises.choosing import BOOK, LOGITS, logits_of, ranked
from clearhead.reference import decoding, softmax

FILLED = table(
    (
        "filled-with-zero",
        "fill",
        "The other tokens get the logit 0.",
        "They get −inf: a logit of 0 still has a probability, often a large one.",
    ),
    (
        "filled-with-minimum",
        "fill",
        "The other tokens get the smallest of the logits.",
        "They get −inf, so that their probability is 0.",
    ),
    (
        "filled-with-large-number",
        "fill",
        "The other tokens get −1e9.",
        "They get −inf: it stays what it is when something is added, and where none is left it can be seen.",
    ),
    (
        "probabilities",
        "fill",
        "The probabilities of those that are kept are returned, and 0 for the others.",
        "Logits are returned; softmax comes after.",
    ),
    (
        "in-order-of-likelihood",
        "order",
        "The result lies in the order of likelihood.",
        "Every token stays at its own place.",
    ),
    (
        "least-likely-kept",
        "side",
        "The least likely tokens are kept.",
        "The most likely ones are.",
    ),
)


def kept_only(x: np.ndarray, kept: np.ndarray, *, wrong: Wrong) -> np.ndarray:
    """The logits of the kept ids, and what fills the other places."""
    fill = -np.inf
    if "filled-with-zero" in wrong:
        fill = 0.0
    if "filled-with-minimum" in wrong:
        fill = x.min()
    if "filled-with-large-number" in wrong:
        fill = -1e9
    result = np.full(len(x), fill)
    result[kept] = x[kept]
    if "probabilities" in wrong:
        result = softmax(result)
    return result[ranked(x)] if "in-order-of-likelihood" in wrong else result


def top_k_twin(arguments: Arguments, wrong: Wrong) -> Any:
    x, k = np.asarray(arguments[0], dtype=float), arguments[1]
    k += int("one-more" in wrong) - int("one-less" in wrong)
    by = np.abs(x) if "by-size" in wrong else x
    order = ranked(by, ascending="least-likely-kept" in wrong)
    return kept_only(x, order[:k], wrong=wrong)


TOP_K = Exercise(
    name="top_k",
    accepts=("top_k", "topk", "top_k_filter"),
    parameters=("logits", "k"),
    contract=f"{LOGITS}, no two equal, and k from 1 → the same logits, −inf for all but the k most likely.",
    equation="logits_w where fewer than k are larger, else −inf",
    source="Fan et al. 2018; " + BOOK,
    right=decoding.top_k,
    twin=top_k_twin,
    inputs=lambda random, size: (logits_of(random, size), int(random.integers(1, size + 3))),
    mistakes=(
        *FILLED,
        *table(
            ("one-more", "count", "k + 1 tokens are kept.", "k are."),
            ("one-less", "count", "k − 1 tokens are kept.", "k are."),
            (
                "by-size",
                "side",
                "The logits furthest from 0 are kept.",
                "The largest are: a negative logit is an unlikely token.",
            ),
        ),
    ),
    laws=(
        Law(
            "k tokens are left",
            lambda arguments, first, _: (first > -np.inf).sum() == min(arguments[1], len(first)),
        ),
        Law(
            "what is left is as it was",
            lambda arguments, first, _: bool(
                np.allclose(first[first > -np.inf], arguments[0][first > -np.inf], atol=1e-4)
            ),
        ),
    ),
    starter="""\
def top_k(logits, k):
    # 1. Find the k most likely tokens
    # 2. -inf for all others
    # Replace this line
    return logits
""",
)


def nucleus_twin(arguments: Arguments, wrong: Wrong) -> Any:
    x, threshold = np.asarray(arguments[0], dtype=float), arguments[1]
    order = ranked(x, ascending="least-likely-kept" in wrong)
    shares = softmax(x)
    if "logits-summed" in wrong:
        shares = x
    if "each-above-threshold" in wrong:
        return kept_only(x, np.flatnonzero(shares >= threshold), wrong=wrong)
    if "in-order-of-ids" in wrong:
        order = np.arange(len(x))
    sums = shares[order].cumsum()
    kept = np.concatenate([[0.0], sums[:-1]]) < threshold
    if "crossing-dropped" in wrong:
        kept = sums < threshold
    if "one-more" in wrong:
        kept = np.concatenate([[True], kept[:-1]])
    if "mask-not-put-back" in wrong:
        return kept_only(x, np.flatnonzero(kept), wrong=wrong)
    return kept_only(x, order[kept], wrong=wrong)


def nucleus_inputs(random: Random, size: int) -> Arguments:
    return (logits_of(random, size), float(np.round(random.uniform(0.2, 0.98), 2)))


NUCLEUS = Exercise(
    name="nucleus",
    accepts=("nucleus", "top_p", "nucleus_filter"),
    parameters=("logits", "threshold"),
    contract=(
        f"{LOGITS}, and 0 < threshold < 1 → the same logits, −inf for all but the most likely tokens, "
        "taken from "
        "the top until their probabilities sum to the threshold or more."
    ),
    equation="the smallest set of the most likely tokens with Σ softmax[logits] ≥ threshold",
    source="Holtzman et al. 2020, section 3.1; " + BOOK,
    right=decoding.nucleus,
    twin=nucleus_twin,
    inputs=nucleus_inputs,
    mistakes=(
        *FILLED,
        *table(
            (
                "crossing-dropped",
                "count",
                "The token that passes the threshold is dropped; where the first one does, none is left.",
                "It is kept: the sum must reach the threshold.",
            ),
            (
                "one-more",
                "count",
                "One token more is kept, after the threshold is passed.",
                "The token that passes it is the last.",
            ),
            (
                "each-above-threshold",
                "sums",
                "Tokens are kept that are as likely as the threshold by themselves.",
                "It is the sum from the most likely on that is compared.",
            ),
            (
                "logits-summed",
                "sums",
                "The logits are summed.",
                "Their probabilities are: softmax comes first.",
            ),
            (
                "in-order-of-ids",
                "side",
                "The sum runs in the order of ids.",
                "It runs from the most likely token down.",
            ),
            (
                "mask-not-put-back",
                "order",
                "The mask lies in the order of likelihood and is used in that of ids.",
                "What is kept is said of ids: order[kept], not kept itself.",
            ),
        ),
    ),
    laws=(
        Law("at least one token is left", lambda _, first, __: bool((first > -np.inf).any())),
        Law(
            "what is left is as likely as the threshold says",
            lambda arguments, first, _: softmax(arguments[0])[first > -np.inf].sum() >= arguments[1] - 1e-6,
        ),
    ),
    starter="""\
def nucleus(logits, threshold):
    # 1. Softmax, and sort from the most likely
    # 2. Keep tokens until their sum reaches the threshold
    # 3. -inf for all others
    # Replace this line
    return logits
""",
)
EXERCISES = (TOP_K, NUCLEUS)
