"""The learned bias of a distance between query and key."""

from typing import Any

import numpy as np

from clearhead.check.grading.exercise import Arguments, Exercise, Law, Wrong, table


def bias_of(table_: Any, queries: int, *more: int) -> np.ndarray:
    """The reference: the entry of every distance, cut to what the table holds."""
    entries, (keys,) = np.asarray(table_, dtype=float), more
    most = len(entries) // 2
    ahead = np.arange(keys) - np.arange(queries)[:, None]
    return entries[np.clip(ahead, -most, most) + most]


def bias_twin(arguments: Arguments, wrong: Wrong) -> np.ndarray:
    entries, queries, keys = np.asarray(arguments[0], dtype=float), arguments[1], arguments[2]
    most = len(entries) // 2
    ahead = np.arange(keys) - np.arange(queries)[:, None]
    if "sign-of-the-distance" in wrong:
        ahead = -ahead
    if "distance-without-sign" in wrong:
        ahead = np.abs(ahead)
    if "wrapped" in wrong:
        return entries[(ahead + most) % len(entries)]
    places = np.clip(ahead, -most, most) + most
    if "one-place-off" in wrong:
        places = np.minimum(places + 1, len(entries) - 1)
    if "far-ones-get-nothing" in wrong:
        return np.where(np.abs(ahead) > most, 0.0, entries[places])
    return entries[places]


RELATIVE_BIAS = Exercise(
    name="relative_bias",
    accepts=("relative_bias", "relative_position_bias"),
    parameters=("table", "queries", "keys"),
    contract=(
        "table [2m + 1] holds a number for each distance key − query from −m to m; those further "
        "away share the last "
        "of their side. The result [queries, keys] is what one head adds to its dot products."
    ),
    equation="bias(i, j) = table[clip(j − i, −m, m) + m]",
    source=(
        "Shaw et al. 2018, section 3.2, for the clipped distance; Raffel et al. 2020, section "
        "2.1, for the bias"
    ),
    right=bias_of,
    twin=bias_twin,
    inputs=lambda random, size: (
        np.round(random.normal(size=2 * int(random.integers(1, 2 + size // 3)) + 1), 2),
        int(random.integers(1, size + 3)),
        int(random.integers(1, size + 3)),
    ),
    mistakes=table(
        (
            "sign-of-the-distance",
            "sign",
            "The distance is query − key.",
            "It is key − query: what is to the right is positive.",
        ),
        (
            "distance-without-sign",
            "sign",
            "Only how far away a key is counts.",
            "Left and right have entries of their own.",
        ),
        (
            "one-place-off",
            "place",
            "The entry after the right one is taken.",
            "Distance 0 is the middle, entry m.",
        ),
        (
            "wrapped",
            "far",
            "Far distances begin again at the other end.",
            "They share the last entry of their side.",
        ),
        (
            "far-ones-get-nothing",
            "far",
            "Distances beyond m get 0.",
            "They share the last entry of their side.",
        ),
    ),
    laws=(
        Law(
            "equal distances get equal numbers",
            lambda _, first, __: bool(np.allclose(first[1:, 1:], first[:-1, :-1], atol=1e-4)),
        ),
        Law(
            "the diagonal is the middle of the table",
            lambda given, first, _: bool(
                np.allclose(np.diag(first), given[0][len(given[0]) // 2], atol=1e-4)
            ),
        ),
    ),
    starter="""\
import numpy as np


def relative_bias(table, queries, keys):
    # Replace this line
    return np.zeros((queries, keys))
""",
)
EXERCISES = (RELATIVE_BIAS,)
