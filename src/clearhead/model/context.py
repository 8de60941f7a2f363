"""What all layers share in one call: computed once, handed down frozen.

The context travels with the call, not with the model, so that two threads may use one model at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from clearhead.model.kernels import Kernel, kernel_for
from clearhead.model.layout import Layout
from clearhead.model.positions import Turn


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
        """Zero each number with the rate's probability and scale the others, so that the mean stays.

        Sixteen random bits decide for a number, four numbers a draw: a tenth of what `bernoulli_` costs. The
        rate is thereby rounded to a multiple of 1/65536, and the scale follows it.
        """
        chances = round(self.rate_of(rate) * 65536)
        if chances == 0:
            return x
        draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64)
        draws.random_(-(2**63), None, generator=self.generator)
        kept = draws.view(torch.int16)[: x.numel()].view(x.shape) >= chances - 32768
        return x * torch.where(kept, x.new_tensor(65536 / (65536 - chances)), x.new_zeros(()))


@dataclass(frozen=True, eq=False)
class Context:
    """How the texts lie, which kernel attends, and how numbers are dropped (in training only)."""

    layout: Layout
    attend: Kernel
    drop: Dropout | None = None
    turns: dict[float, Turn] = field(
        default_factory=dict
    )  # by base; filled by the first block that needs one

    @classmethod
    def of(cls, layout: Layout, *, attend: Kernel | None = None, drop: Dropout | None = None) -> "Context":
        """A context with the kernel of the layout's device, unless one is given."""
        return cls(layout, attend or kernel_for(layout.device), drop)

    def turn(self, base: float, *, like: Tensor) -> Turn:
        """How each token's queries and keys are turned, computed once a call."""
        if base not in self.turns:
            self.turns[base] = Turn.of(self.layout, head_width=like.shape[-1], base=base, like=like)
        return self.turns[base]

    def dropped(self, x: Tensor, rate: float) -> Tensor:
        """Apply dropout in training, nothing otherwise."""
        return self.drop(x, rate) if self.drop else x

    def dropping(self, rate: float) -> Callable[[Tensor], Tensor] | None:
        """Dropout at this rate as a function, None where nothing would be dropped."""
        if self.drop and self.drop.rate_of(rate):
            return partial(self.drop, rate=rate)
        return None
