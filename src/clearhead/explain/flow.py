"""How the gradient gets through a deep stack with and without residual connections (He et al. 2016; Prince,
section 12.4): measured on new models, layer by layer."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.engine.modes import own_modes
from clearhead.engine.watching import Meeting, Point, watching
from clearhead.errors import SettingError
from clearhead.model.layout import pack
from clearhead.model.transformer import Transformer

ADDED = (Point.ATTN_OUT, Point.CROSS_ATTN_OUT, Point.MLP_OUT)
STREAM = (Point.RESID_PRE, Point.RESID_MID, Point.RESID_MID_CROSS)


@dataclass(eq=False)
class Flow:
    """Watches the stream into each block; `residual` False takes the stream off what a part adds to it, so
    that what comes after is the part's own output alone."""

    network: Transformer
    residual: bool
    streams: dict[int, Tensor] = field(default_factory=dict)
    last: Tensor | None = None

    def begins(self, network: Any, batch: Any, *, context: Any) -> "Flow | None":
        """Calls of this network."""
        return self if network is self.network else None

    def ended(self, trail: object, *, name: object, prompt: tuple[int, ...], tokens: int) -> None:
        """Nothing to keep."""

    def seen(self, point: Point, x: Tensor, *, layer: int, meeting: Meeting | None) -> Tensor:
        """The stream is kept; what is added to it is freed of it where that is asked for."""
        if point in STREAM:
            self.last = x
            if point is Point.RESID_PRE and x.requires_grad:
                x.retain_grad()
                self.streams[layer] = x
        if point in ADDED and not self.residual:
            assert self.last is not None
            return x - self.last
        return x


@dataclass(frozen=True, eq=False)
class GradientFlow:
    """Norms of the gradient of the last block's numbers, taken with random weights, by the stream into each
    block, as shares of that into the last one: `[layers]` with and without residual connections."""

    with_residual: Float[Tensor, " layers"]
    without_residual: Float[Tensor, " layers"]


def gradient_flow(network: Transformer, ids: Sequence[Sequence[int]], *, seed: int = 0) -> GradientFlow:
    """Of this network, trained or new, on these texts of ids."""
    if network.config.translates or network.config.parallel:
        raise SettingError("gradient flow is of a single stack whose blocks add one part at a time")
    found = []
    for residual in (True, False):
        flow = Flow(network, residual)
        with own_modes(learning=True), watching(flow):
            stream = network(pack([list(row) for row in ids]))
            chance = torch.Generator().manual_seed(seed)
            (stream * torch.randn(stream.shape, generator=chance)).sum().backward()
        gradients = [flow.streams[layer].grad for layer in sorted(flow.streams)]
        norms = torch.stack([gradient.norm() for gradient in gradients if gradient is not None])
        found.append(norms / norms[-1])
        network.zero_grad(set_to_none=True)
    return GradientFlow(*found)
