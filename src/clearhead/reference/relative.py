"""Relative positions: what a head adds to a dot product depends on how far the key lies from the query."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from clearhead.errors import FolderError
from clearhead.reference.layers import Array


class Relative(NamedTuple):
    """A learned number for each bucket of distances and each head, shared by all blocks of a stack.

    table: [buckets, heads]. distance: from where on all distances share the last bucket.
    """

    table: Array
    distance: int

    def bias(self, outputs: int, inputs: int, *, causal: bool) -> Array:
        """What is added to the dot products of each head: [heads, outputs, inputs]. Both count from the same
        first token; in a causal text no bucket is spent on what lies to the right.

        Source: Raffel et al. 2020, section 2.1.
        """
        ahead = np.arange(inputs) - np.arange(outputs)[:, None]
        places = relative_buckets(ahead, buckets=len(self.table), distance=self.distance, causal=causal)
        return self.table[places].transpose(2, 0, 1)


def relative_buckets(ahead: ArrayLike, *, buckets: int, distance: int, causal: bool) -> np.ndarray:
    """The bucket of each distance, a whole number from 0 to buckets − 1, same shape as `ahead`.

    `ahead` is the place of the key minus that of the query. Unless `causal`, the first half of the buckets is
    for keys to the left and the query's own, the second half for keys to the right; causal keys to the right
    share bucket 0, and are not seen anyway. Of n buckets for one side the first n / 2 hold one distance each;
    the others grow evenly in their logarithm, and the last one holds all from `distance` on.
    Raises FolderError if a side has fewer than two buckets, or `distance` lies within those of one each.
    Source: Raffel et al. 2020, section 2.1, for buckets that grow with the logarithm; the rule itself is that
    of the published code, here in whole numbers, which do not round.
    """
    ahead = np.asarray(ahead)
    side = buckets if causal else buckets // 2
    if side < 2 or distance <= side // 2:
        raise FolderError(
            f"{buckets} buckets for distances up to {distance} cannot grow with the logarithm; "
            f"there must be at least {2 if causal else 4} buckets, and a distance above {side // 2}"
        )
    apart = np.maximum(-ahead, 0) if causal else np.abs(ahead)
    table = np.array([bucket(d, side, distance=distance) for d in range(int(apart.max(initial=0)) + 1)])
    return table[apart] if causal else table[apart] + side * (ahead > 0)


def bucket(apart: int, side: int, *, distance: int) -> int:
    """The bucket of one distance among those of one side."""
    exact = side // 2
    if apart < exact:
        return apart
    steps = side - exact
    # The k-th edge lies at exact · (distance / exact)^(k / steps); its steps-th power is a quotient of whole
    # numbers.
    passed = [k for k in range(steps) if distance**k * exact ** (steps - k) <= apart**steps]
    return exact + passed[-1]
