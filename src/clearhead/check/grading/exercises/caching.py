"""Attention of new tokens, with a cache of keys and values of those before them."""

from typing import Any

import numpy as np

from clearhead import reference
from clearhead.check.grading.exercise import Arguments, Exercise, Law, Random, Wrong, draw, table
from clearhead.check.grading.exercises.rows import SCALES, attention


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
EXERCISES = (CACHED,)
