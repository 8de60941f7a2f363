"""Attention to another text, with keys that heads share, and step by step with a cache."""

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
        return np.stack([np.sum(outputs, axis=0)] * heads)
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


# ---- with a cache ------------------------------------------------------------------------------------------


def stepped(q: Any, k: Any, *more: Any) -> np.ndarray:
    """The reference: the new tokens' part of causal attention over old and new ones."""
    v, keys, values = more
    every = np.concatenate([keys, k])
    ahead = np.zeros((len(keys), np.shape(q)[1]))
    whole = reference.attend(
        np.concatenate([ahead, q]), every, values=np.concatenate([values, v]), causal=True
    )
    return whole[len(keys) :]


def stepped_twin(arguments: Arguments, wrong: Wrong) -> np.ndarray:
    q, k, v, keys, values = arguments
    old, new = len(keys), len(k)
    if "new-before-old" in wrong:
        every, all_values = np.concatenate([k, keys]), np.concatenate([v, values])
    else:
        every, all_values = np.concatenate([keys, k]), np.concatenate([values, v])
    start = 0 if "aligned-to-the-first-key" in wrong else old
    ahead = np.arange(old + new) - (np.arange(new)[:, None] + start)
    seen = ahead <= 0
    if "no-mask-among-new" in wrong:
        seen = np.ones_like(seen)
    if "itself-not-seen" in wrong:
        seen = ahead < 0
    if "cache-not-used" in wrong:
        every, all_values, seen = k, v, np.tril(np.ones((new, new), bool))
    if "only-the-cache" in wrong:
        every, all_values, seen = keys, values, np.ones((new, old), bool)
    if "values-not-cached" in wrong:
        all_values = np.concatenate([np.zeros_like(values), v])
    return attention(q, every, values=all_values, seen=seen, wrong=wrong)


def stepped_inputs(random: Random, size: int) -> Arguments:
    old, new, width = [
        (1, 1, 1),
        (1, 2, 1),
        (2, 1, 1),
        (2, 2, 1),
        (2, 2, 2),
        (3, 2, 2),
        (1, 3, 2),
        (4, 3, 3),
        (5, 2, 4),
    ][size]
    shapes = [(new, width)] * 3 + [(old, width)] * 2
    return tuple(draw(random, size, shape=shape) for shape in shapes)


CACHED = Exercise(
    name="cached_step",
    accepts=("cached_step", "attention_with_cache"),
    parameters=("q", "k", "v", "cached_keys", "cached_values"),
    contract=(
        "q, k and v [new, d] belong to one or several new tokens, cached_keys and cached_values "
        "[old, d] to those "
        "before them. The result [new, d] is what causal attention over all tokens gives the new ones."
    ),
    equation="rows old to old + new − 1 of causal softmax(QKᵀ / √d) V over all tokens",
    source="Vaswani et al. 2017, section 3.2.3: a text computed in steps is the same as at once",
    right=stepped,
    twin=stepped_twin,
    inputs=stepped_inputs,
    mistakes=(
        *SCALES,
        *table(
            (
                "aligned-to-the-first-key",
                "mask",
                "The mask begins at the first key: the position is not moved on by what is cached.",
                "New token i stands at old + i and sees everything up to there.",
            ),
            (
                "no-mask-among-new",
                "mask",
                "New tokens see those after them.",
                "Token i sees the cache and new tokens 0 to i.",
            ),
            ("itself-not-seen", "mask", "A new token does not see itself.", "It sees itself, too."),
            ("cache-not-used", "cache", "Only the new tokens are seen.", "The cache comes before them."),
            (
                "only-the-cache",
                "cache",
                "Only the cache is seen.",
                "New keys and values are joined to it first.",
            ),
            ("new-before-old", "cache", "New keys stand before the cached ones.", "They come after."),
            ("values-not-cached", "values", "The cached values are zeros.", "Keys and values are both kept."),
        ),
    ),
    laws=(
        Law(
            "a later new token changes no earlier output",
            lambda _, first, second: bool(np.allclose(first[:-1], second[:-1], atol=1e-4)),
            other=lambda given: (
                *(np.concatenate([x[:-1], x[-1:] + 1.0]) for x in given[:3]),
                *given[3:],
            ),
        ),
    ),
    starter="""\
import numpy as np


def cached_step(q, k, v, cached_keys, cached_values):
    # Replace this line
    return np.zeros_like(q)
""",
)
EXERCISES = (CROSS, GROUPED, CACHED)
