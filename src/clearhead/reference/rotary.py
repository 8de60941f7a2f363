"""Rotary positions: queries and keys are turned by angles that grow with the position.

Models read texts longer than those they learned from where the turn is slowed down: evenly, or only in the
pairs of columns that turn slowly anyway.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from clearhead.reference.layers import Array, float64


class Linear(NamedTuple):
    """Every pair turns `factor` times slower, as if positions were that much closer together.

    Source: Chen et al. 2023, equation 4.
    """

    factor: float

    def slowed(self, speed: Array) -> Array:
        return speed / self.factor


class Llama3(NamedTuple):
    """Pairs that turn seldom within the `original` length go `factor` times slower, and quick ones as before.

    Seldom is fewer than `low` turns, quick is more than `high`, and in between the share of the old speed
    grows evenly with the number of turns.
    Source: the published code of Llama 3.1; Grattafiori et al. 2024, section 3.2, name the base alone.
    """

    factor: float
    low: float
    high: float
    original: int

    def slowed(self, speed: Array) -> Array:
        turns = self.original * speed / (2.0 * np.pi)
        kept = np.clip((turns - self.low) / (self.high - self.low), 0.0, 1.0)
        return speed * (kept + (1.0 - kept) / self.factor)


class Rotary(NamedTuple):
    """How queries and keys of one block turn.

    base: that of the speeds. share: the part of each head's columns, from the first, that turns at all.
    scaling: what slows the speeds down, or None.
    """

    base: float
    share: float = 1.0
    scaling: Linear | Llama3 | None = None


def turning(head_width: int, share: float) -> int:
    """How many columns of a head turn: the share, rounded down."""
    return int(head_width * share)


def turned(x: ArrayLike, *, base: float, share: float = 1.0, scaling: Linear | Llama3 | None = None) -> Array:
    """Queries or keys of one head, each turned by angles that grow with its position.

    Of the n columns that turn, columns j and j + n / 2 are read as the real and imaginary part of one number,
    which turns by base^(−2j / n) radians from one position to the next, or slower under `scaling`. A dot
    product of a query and a key turned so depends on their distance alone. Positions count from 0 and have no
    end.
    Shapes: x [tokens, head_width], n even; the result is as x.
    Source: Su et al. 2021, section 3.2.2, as complex numbers like its equation 12; the paper pairs columns 2j
    and 2j + 1, published models j and j + n / 2: the same up to the order of columns. Black et al. 2022,
    section 2.1.1, for a part of the columns.
    """
    x = float64(x)
    tokens, head_width = x.shape
    columns = turning(head_width, share)
    real, imaginary = np.split(x[:, :columns], 2, axis=1)
    pairs = columns // 2
    speed = base ** (-np.arange(pairs) / pairs)
    if scaling is not None:
        speed = scaling.slowed(speed)
    angle = np.arange(tokens)[:, None] * speed
    product = (real + 1j * imaginary) * np.exp(1j * angle)
    return np.concatenate([product.real, product.imag, x[:, columns:]], axis=1)
