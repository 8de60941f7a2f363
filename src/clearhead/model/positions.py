"""Vectors that tell where a token stands."""

from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.model.config import Config, Learned, Positions, Sinusoidal
from clearhead.model.layout import Layout

CHUNK = 512


@lru_cache(maxsize=64)
def sinusoids(chunk: int, width: int) -> Float[Tensor, "chunk width"]:
    """Sines in even columns, cosines in odd ones (Vaswani et al. 2017, section 3.5), float64.

    Computed for whole chunks of 512 positions, so that a position has the same bits in every company.
    """
    places = torch.arange(chunk * CHUNK, (chunk + 1) * CHUNK, dtype=torch.float64)
    rates = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = places[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width]


class SinusoidalPositions(nn.Module):
    """Nothing to learn and no longest text."""

    def __init__(self, width: int):
        super().__init__()
        self.width = width

    def forward(self, layout: Layout, like: Tensor) -> Tensor:
        """Position vectors `[tokens, width]` with the dtype of `like`."""
        longest = max(layout.lengths, default=0)
        chunks = [sinusoids(chunk, self.width) for chunk in range(max(1, -(-longest // CHUNK)))]
        return torch.cat(chunks).to(like)[layout.positions]


class LearnedPositions(nn.Embedding):
    """A learned vector for each position up to a limit."""

    def forward(self, layout: Layout, like: Tensor) -> Tensor:  # type: ignore[override]
        """Position vectors `[tokens, width]`; a longer text is the caller's mistake."""
        assert max(layout.lengths, default=0) <= self.num_embeddings, (
            "the caller keeps texts within the limit"
        )
        return nn.functional.embedding(layout.positions, self.weight)


def positions_for(config: Config) -> nn.Module:
    """The module of a config's kind of positions."""
    positions: Positions = config.positions
    match positions:
        case Sinusoidal():
            return SinusoidalPositions(config.width)
        case Learned(count=count):
            return LearnedPositions(count, config.width)
        case _:
            raise NotImplementedError(positions)
