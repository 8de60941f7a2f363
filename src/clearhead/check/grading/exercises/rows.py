"""Attention with tokens in rows: causal, and with padding."""

import math
from typing import Any

import numpy as np

from clearhead import reference
from clearhead.check.grading.exercise import Arguments, Exercise, Law, Random, Wrong, draw, table
from clearhead.check.grading.exercises.softmax import softened

SCALES = table(
    (
        "not-scaled",
        "scale",
        "The dot products are not divided.",
        "They are divided by √d, the root of the number of entries of a key.",
    ),
    ("divided-by-width", "scale", "The dot products are divided by d.", "They are divided by √d."),
    (
        "over-queries",
        "axis",
        "Softmax runs over the queries.",
        "It runs over the keys: every row of QKᵀ sums to one.",
    ),
)
MASKS = table(
    (
        "mask-inverted",
        "mask",
        "What should be hidden is seen, and what should be seen is hidden.",
        "Hidden keys get −inf before softmax; seen ones stay as they are.",
    ),
    ("no-mask", "mask", "Nothing is hidden.", "Hidden keys get −inf before softmax."),
    (
        "mask-added",
        "mask",
        "The mask's 0 and 1 are added to the dot products.",
        "Hidden keys get −inf; adding 1 only makes a key somewhat more likely.",
    ),
    (
        "mask-multiplied",
        "mask",
        "The dot products are multiplied by the mask's 0 and 1.",
        "Hidden keys get −inf: a dot product of 0 still has exp(0) = 1.",
    ),
    (
        "mask-after-softmax",
        "mask",
        "The attentions are set to 0 after softmax, so the rest sums to less than one.",
        "The mask comes before softmax, which makes the rest sum to one.",
    ),
    (
        "hidden-queries",
        "mask",
        "The mask hides queries: whole rows.",
        "It hides keys: columns.",
    ),
)
CAUSAL = table(
    (
        "off-by-one-less",
        "mask",
        "A token does not see itself.",
        "It sees itself and all before it: key j ≤ query i.",
    ),
    (
        "off-by-one-more",
        "mask",
        "A token sees the one that follows.",
        "It sees itself and all before it: key j ≤ query i.",
    ),
)
D = "softmax(QKᵀ / √d) V"


def attention(queries: Any, keys: Any, *, values: Any, seen: np.ndarray, wrong: Wrong) -> np.ndarray:
    """Attention where `seen` [queries, keys] is true, with mistakes."""
    scores = queries @ keys.T
    width = keys.shape[1]
    if "not-scaled" not in wrong:
        scores = scores / (width if "divided-by-width" in wrong else math.sqrt(width))
    if "mask-inverted" in wrong:
        seen = ~seen
    if "no-mask" in wrong:
        seen = np.ones_like(seen)
    if "mask-added" in wrong:
        scores = scores + seen
    elif "mask-multiplied" in wrong:
        scores = scores * seen
    elif "mask-after-softmax" not in wrong:
        scores = np.where(seen, scores, -np.inf)
    # Whoever sees nothing gets NaN, as plain code has it.
    shares = softened(scores, frozenset(), axis=0 if "over-queries" in wrong else 1)
    return (shares * seen if "mask-after-softmax" in wrong else shares) @ values


# ---- causal ------------------------------------------------------------------------------------------------


def causal_twin(arguments: Arguments, wrong: Wrong) -> np.ndarray:
    queries, keys, values = arguments
    ahead = np.arange(len(keys)) - np.arange(len(queries))[:, None]
    last = -1 if "off-by-one-less" in wrong else 1 if "off-by-one-more" in wrong else 0
    return attention(queries, keys, values=values, seen=ahead <= last, wrong=wrong)


def three(random: Random, size: int) -> Arguments:
    tokens, width = [(1, 1), (2, 1), (2, 2), (3, 2), (2, 3), (3, 3), (4, 2), (4, 4), (5, 3)][size]
    return tuple(draw(random, size, shape=(tokens, width)) for _ in range(3))


def last_changed(arguments: Arguments) -> Arguments:
    """The same with another last token."""
    return tuple(np.concatenate([x[:-1], x[-1:] + 1.0]) for x in arguments)


CAUSAL_ATTENTION = Exercise(
    name="causal_attention",
    accepts=("causal_attention", "causal_self_attention", "masked_self_attention"),
    parameters=("Q", "K", "V"),
    contract=(
        "Q, K and V are [tokens, d], a token in each row. Token i sees tokens 0 to i. The "
        "result is [tokens, d]."
    ),
    equation=D + ", where key j counts for query i if j ≤ i",
    source=(
        "Vaswani et al. 2017, equation 1 and section 3.2.3; Prince, Understanding Deep Learning, "
        "section 12.7.2"
    ),
    right=lambda queries, keys, values: reference.attend(queries, keys, values=values, causal=True),
    twin=causal_twin,
    inputs=three,
    mistakes=(*SCALES, *(one for one in MASKS if one.name != "hidden-queries"), *CAUSAL),
    laws=(
        Law(
            "a later token changes no earlier output",
            lambda _, first, second: bool(np.allclose(first[:-1], second[:-1], atol=1e-4)),
            other=last_changed,
        ),
    ),
    starter="""\
import numpy as np


def causal_attention(Q, K, V):
    # 1. Dot products, scaled
    # 2. -inf where a key comes after the query
    # 3. Softmax over the keys, times the values
    # Replace this line
    return np.zeros_like(V)
""",
)


# ---- padding -----------------------------------------------------------------------------------------------


def padded_twin(arguments: Arguments, wrong: Wrong) -> np.ndarray:
    queries, keys, values, mask = arguments
    kept = np.asarray(mask) > 0
    seen = np.broadcast_to(kept[:, None] if "hidden-queries" in wrong else kept, (len(queries), len(keys)))
    return attention(queries, keys, values=values, seen=seen, wrong=wrong)


def padded(queries: Any, keys: Any, *more: Any) -> np.ndarray:
    """The reference of only those keys and values that are seen."""
    values, mask = more
    kept = np.asarray(mask) > 0
    return reference.attend(queries, np.asarray(keys)[kept], values=np.asarray(values)[kept])


def padded_inputs(random: Random, size: int) -> Arguments:
    queries, keys, values = three(random, size)
    mask = np.ones(len(keys), dtype=np.int64)
    mask[random.integers(1, len(keys) + 1) :] = 0
    return queries, keys, values, mask


MASKED_ATTENTION = Exercise(
    name="masked_attention",
    accepts=("masked_attention", "padded_attention", "attention_with_mask"),
    parameters=("Q", "K", "V", "mask"),
    contract=(
        "Q, K and V are [tokens, d]; mask [tokens] is 1 for a token of the text and 0 for padding, "
        "which no query "
        "sees. The result is [tokens, d], that of padding too."
    ),
    equation=D + ", where key j counts if mask_j = 1",
    source="Vaswani et al. 2017, equation 1; the mask as published models have it: 1 is kept",
    right=padded,
    twin=padded_twin,
    inputs=padded_inputs,
    mistakes=(*SCALES, *MASKS),
    laws=(
        Law(
            "what stands in the padding changes nothing",
            lambda _, first, second: bool(np.allclose(first, second, atol=1e-4)),
            other=lambda given: (given[0], *(x + (given[3] == 0)[:, None] for x in given[1:3]), given[3]),
        ),
    ),
    starter="""\
import numpy as np


def masked_attention(Q, K, V, mask):
    # 1. Dot products, scaled
    # 2. -inf where the mask is 0
    # 3. Softmax over the keys, times the values
    # Replace this line
    return np.zeros_like(V)
""",
)
EXERCISES = (CAUSAL_ATTENTION, MASKED_ATTENTION)
