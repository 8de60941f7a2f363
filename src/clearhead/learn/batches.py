"""Which texts are learned together, and in which order."""

from collections.abc import Sequence
from typing import Any

import numpy as np

POOL = 16  # batches' worth of texts that are sorted by length together


def epoch_batches(
    lengths: Sequence[int], *, budget: int, seed: int, epoch: int, keys: Sequence[Any] | None = None
) -> list[list[int]]:
    """The batches of one epoch: each text once, at most `budget` tokens a batch (a longer text goes alone).

    Texts are shuffled, then sorted by length (by `keys` where these are there) within pools of about 16
    batches, cut, and the batches shuffled: attention then runs over few groups of equal length. The batches
    of a pool are alike in size, for a small one would move the weights as far as a large one does. The same
    arguments give the same batches.
    """
    random = np.random.default_rng([seed, epoch])
    order = random.permutation(len(lengths)).tolist()
    found: list[list[int]] = []
    # Batches are never quite full: half of one is left for what is lost at their ends.
    for pool in _evenly(order, lengths, budget=POOL * budget - budget // 2):
        by_length = sorted(pool, key=(keys or lengths).__getitem__)
        found += _evenly(by_length, lengths, budget=budget)
    return [found[place] for place in random.permutation(len(found)).tolist()]


def _evenly(order: Sequence[int], lengths: Sequence[int], *, budget: int) -> list[list[int]]:
    """As few parts as the budget allows, cut by the smallest budget that gives no more."""
    parts = _cut(order, lengths, budget=budget)
    low, high = sum(lengths[index] for index in order) // max(1, len(parts)), budget
    while low < high:
        middle = (low + high) // 2
        tried = _cut(order, lengths, budget=middle)
        if len(tried) > len(parts):
            low = middle + 1
        else:
            parts, high = tried, middle
    return parts


def _cut(order: Sequence[int], lengths: Sequence[int], *, budget: int) -> list[list[int]]:
    parts: list[list[int]] = []
    room = 0
    for index in order:
        if not parts or lengths[index] > room:
            parts.append([])
            room = budget
        parts[-1].append(index)
        room -= lengths[index]
    return parts
