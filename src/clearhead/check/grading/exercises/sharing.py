"""Attention to another text, and with keys that several heads share."""

from typing import Any

import numpy as np

from clearhead import reference
from clearhead.check.grading.exercise import Arguments, Exercise, Law, Random, Wrong, draw, table
from clearhead.check.grading.exercises.rows import SCALES, attention


def plain(queries: Any, keys: Any, *, values: Any, wrong: Wrong) -> np.ndarray:
    """Attention that sees everything, with mistakes."""
    return attention(queries, keys, values=values, seen=np.ones((len(queries), len(keys)), bool), wrong=wrong)


# ---- to another text ---------------------------------------------------------------------------------------


def crossed(x: Any, memory: Any, *weights: Any) -> np.ndarray:
    """The reference in the plain order of arguments."""
    query, key, value = weights
    return reference.attend(
        reference.linear(x, query), reference.linear(memory, key), values=reference.linear(memory, value)
    )


def cross_twin(arguments: Arguments, wrong: Wrong) -> np.ndarray:
    x, memory, query, key, value = arguments
    if "sides-exchanged" in wrong:
        x, memory = memory, x
    source = memory if "keys-of-own-text" not in wrong else x
    values = x if wrong & {"values-of-own-text", "keys-of-own-text"} else memory
    if "queries-and-keys-exchanged" in wrong:
        query, key = key, query
    if "weights-not-transposed" in wrong:
        query, key, value = query.T, key.T, value.T
    values = values if "values-not-projected" in wrong else values @ value.T
    return plain(x @ query.T, source @ key.T, values=values, wrong=wrong)


def cross_inputs(random: Random, size: int) -> Arguments:
    width, target, source = [
        (1, 1, 2),
        (1, 2, 2),
        (2, 1, 2),
        (2, 2, 2),
        (2, 2, 3),
        (2, 3, 2),
        (3, 2, 4),
        (3, 4, 3),
        (4, 3, 5),
    ][size]
    x, memory = draw(random, size, shape=(target, width)), draw(random, size, shape=(source, width))
    return (x, memory, *(draw(random, size, shape=(width, width)) for _ in range(3)))


CROSS = Exercise(
    name="cross_attention",
    accepts=("cross_attention",),
    parameters=("x", "memory", "Wq", "Wk", "Wv"),
    contract=(
        "x [target, width] asks, memory [source, width] is another text; Wq, Wk and Wv are [width, "
        "width] and are "
        "multiplied as x Wᵀ. The result is [target, width]."
    ),
    equation="softmax(QKᵀ / √width) V, Q = x Wqᵀ, K = memory Wkᵀ, V = memory Wvᵀ",
    source="Vaswani et al. 2017, section 3.2.3; Prince, Understanding Deep Learning, section 12.8",
    right=crossed,
    twin=cross_twin,
    inputs=cross_inputs,
    mistakes=(
        *SCALES,
        *table(
            (
                "sides-exchanged",
                "sides",
                "The memory asks, and x answers.",
                "Queries come from x; keys and values from the memory.",
            ),
            (
                "keys-of-own-text",
                "sides",
                "Keys and values come from x: this is self-attention.",
                "They come from the memory.",
            ),
            (
                "values-of-own-text",
                "sides",
                "The values come from x.",
                "They come from the memory, as the keys do.",
            ),
            (
                "queries-and-keys-exchanged",
                "weights",
                "x is multiplied by Wk and the memory by Wq.",
                "Wq belongs to queries, Wk to keys.",
            ),
            ("weights-not-transposed", "weights", "It is x W.", "It is x Wᵀ: weights are [out, in]."),
            (
                "values-not-projected",
                "values",
                "The memory itself is weighted.",
                "Its values are: memory Wvᵀ.",
            ),
        ),
    ),
    laws=(
        Law(
            "permuting the memory changes nothing",
            lambda _, first, second: bool(np.allclose(first, second, atol=1e-4)),
            other=lambda given: (given[0], given[1][::-1], *given[2:]),
        ),
        Law(
            "with an empty Wv nothing comes from the memory",
            lambda _, __, second: bool(np.allclose(second, 0.0, atol=1e-5)),
            other=lambda given: (*given[:4], 0.0 * given[4]),
        ),
    ),
    starter="""\
import numpy as np


def cross_attention(x, memory, Wq, Wk, Wv):
    # Replace this line
    return np.zeros_like(x)
""",
)


# ---- shared keys -------------------------------------------------------------------------------------------


def grouped(queries: Any, keys: Any, *more: Any) -> np.ndarray:
    """The reference: heads h · group to (h + 1) · group − 1 share key h."""
    group = len(queries) // len(keys)
    return np.stack(
        [
            reference.attend(query, keys[head // group], values=more[0][head // group])
            for head, query in enumerate(queries)
        ]
    )


def grouped_twin(arguments: Arguments, wrong: Wrong) -> np.ndarray:
    queries, keys, values = arguments
    heads, shared = len(queries), len(keys)
    owners = np.arange(heads) // (heads // shared)
    if "dealt-in-turn" in wrong:
        owners = np.arange(heads) % shared
    if "first-for-all" in wrong:
        owners = 0 * owners
    if "backwards" in wrong:
        owners = owners[::-1]
    by_value = np.arange(heads) % shared if "values-dealt-in-turn" in wrong else owners
    outputs = [
        plain(queries[head], keys[owners[head]], values=values[by_value[head]], wrong=wrong)
        for head in range(heads)
    ]
    if "heads-summed" in wrong:
        return np.sum(outputs, axis=0)
    return np.stack(outputs)


def grouped_inputs(random: Random, size: int) -> Arguments:
    heads, shared, tokens, width = [
        (1, 1, 2, 1), (2, 1, 2, 1), (2, 2, 2, 1), (4, 2, 2, 1), (4, 2, 2, 2),
        (4, 2, 3, 2), (6, 2, 2, 3), (6, 3, 3, 2), (8, 2, 4, 4),
    ][size]  # fmt: skip
    shapes = [(heads, tokens, width), (shared, tokens, width), (shared, tokens, width)]
    return tuple(draw(random, size, shape=shape) for shape in shapes)


GROUPED = Exercise(
    name="grouped_attention",
    accepts=("grouped_attention", "grouped_query_attention", "gqa"),
    parameters=("Q", "K", "V"),
    contract=(
        "Q [heads, tokens, d], K and V [kv_heads, tokens, d]; heads is a multiple of kv_heads, and "
        "neighbouring heads "
        "share a key and value. The result is [heads, tokens, d]."
    ),
    equation="head h: softmax(Q_h K_gᵀ / √d) V_g, g = ⌊h · kv_heads / heads⌋",
    source="Ainslie et al. 2023, section 2.2",
    right=grouped,
    twin=grouped_twin,
    inputs=grouped_inputs,
    mistakes=(
        *SCALES,
        *table(
            (
                "dealt-in-turn",
                "group",
                "Keys are dealt to heads in turn: 0, 1, 0, 1.",
                "Neighbours share one: 0, 0, 1, 1 (repeat, not tile).",
            ),
            (
                "values-dealt-in-turn",
                "group",
                "Values are dealt to heads in turn, keys are not.",
                "A head's key and value belong together.",
            ),
            ("first-for-all", "group", "All heads share the first key.", "Every group has one of its own."),
            ("backwards", "group", "The groups are in reverse.", "The first heads share the first key."),
            ("heads-summed", "result", "The heads are summed.", "Each has its own output."),
        ),
    ),
    laws=(
        Law(
            "twice the values give twice the output",
            lambda _, first, second: bool(np.allclose(2.0 * first, second, atol=1e-3)),
            other=lambda given: (given[0], given[1], 2.0 * given[2]),
        ),
        Law(
            "with values all one every output is one",
            lambda _, __, second: bool(np.allclose(second, 1.0, atol=1e-4)),
            other=lambda given: (given[0], given[1], np.ones_like(given[2])),
        ),
    ),
    starter="""\
import numpy as np


def grouped_attention(Q, K, V):
    # Replace this line
    return np.zeros_like(Q)
""",
)


EXERCISES = (CROSS, GROUPED)
