"""Changes of low rank beside the matrices of layers."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from clearhead.engine.dropout import Dropout
from clearhead.engine.products import within
from clearhead.model.linear import linear


@dataclass(frozen=True, eq=False)
class Change:
    """A change of low rank to these rows of a layer's matrix: scale · up · down, with down `[rank, inputs]`
    and up `[rows, rank]` (Hu et al. 2021, section 4.1)."""

    rows: slice
    down: Tensor
    up: Tensor
    scale: float


class Adapter(nn.Module):
    """What is added to a layer's matrix, which stays as it is: the sum of its changes. `dropout` is the share
    of the inputs that a change does not see in training."""

    def __init__(self, changes: Sequence[Change], *, outputs: int, dropout: float = 0.0):
        super().__init__()
        self.outputs, self.dropout = outputs, dropout
        self.rows, self.scales = [one.rows for one in changes], [one.scale for one in changes]
        self.kept: tuple[Tensor, Tensor] | None = None  # the factors, to be laid out as weights are
        self.downs = nn.ParameterList([nn.Parameter(one.down) for one in changes])
        self.ups = nn.ParameterList([nn.Parameter(one.up) for one in changes])

    def factors(self) -> tuple[Tensor, Tensor]:
        """Two matrices whose product is the sum of all changes: `[all ranks, inputs]`, `[outputs, all
        ranks]`."""
        if self.kept and within():
            return self.kept
        ups = [
            functional.pad(up * scale, (0, 0, rows.start, self.outputs - rows.stop))
            for up, scale, rows in zip(self.ups, self.scales, self.rows, strict=True)
        ]
        return torch.cat([*self.downs]), torch.cat(ups, dim=1)

    def forward(self, x: Tensor, drop: Dropout | None) -> Tensor:
        """What is added to the layer's outputs, `[rows, outputs]`."""
        down, up = self.factors()
        return linear(linear(drop.at(x, self.dropout) if drop else x, down), up)
