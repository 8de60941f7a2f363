"""Dropout whose random numbers can be drawn again."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Dropout:
    """Dropout with its own stream of random numbers (Srivastava et al. 2014), so that a run can be repeated.

    `rate` stands for the rates of the architecture where it is given.
    """

    generator: torch.Generator
    rate: float | None = None

    def rate_of(self, rate: float) -> float:
        """The rate in force where the architecture has `rate`."""
        return rate if self.rate is None else self.rate

    def __call__(self, x: Tensor, rate: float) -> Tensor:
        """Drop at the rate in force where the architecture has `rate`."""
        return self.at(x, self.rate_of(rate))

    def at(self, x: Tensor, rate: float) -> Tensor:
        """Zero each number with the rate's probability and scale the others, so that the mean stays.

        Sixteen random bits decide for a number, four numbers a draw: a tenth of what `bernoulli_` costs. The
        rate is thereby rounded to a multiple of 1/65536, and the scale follows it.
        """
        chances = min(round(rate * 65536), 65535)
        if chances == 0:
            return x
        draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64)
        draws.random_(-(2**63), None, generator=self.generator)
        kept = draws.view(torch.int16)[: x.numel()].view(x.shape) >= chances - 32768
        return x * torch.where(kept, x.new_tensor(65536 / (65536 - chances)), x.new_zeros(()))
