"""Which texts are learned together, and in which order."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
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
    totals = list(accumulate(lengths[index] for index in order))
    ends = _ends(totals, budget=budget)
    low, high = totals[-1] // len(ends), budget
    while low < high:
        middle = (low + high) // 2
        tried = _ends(totals, budget=middle)
        if len(tried) > len(ends):
            low = middle + 1
        else:
            ends, high = tried, middle
    return [list(order[start:end]) for start, end in pairwise([0, *ends])]


def _ends(totals: Sequence[int], *, budget: int) -> list[int]:
    """Where parts end that each take what has room; `totals` are the tokens up to each text, and its own."""
    ends, done = [0], 0
    while ends[-1] < len(totals):
        ends.append(max(ends[-1] + 1, bisect_right(totals, done + budget, lo=ends[-1])))
        done = totals[ends[-1] - 1]
    return ends[1:]
