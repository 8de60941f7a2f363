"""What tells where a token stands: vectors added to the stream, or angles by which queries and keys turn."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.model.config import Config, Learned, Positions, Rotary, Sinusoidal
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

    def __init__(self, facts: Learned, width: int):
        super().__init__(facts.count + facts.offset, width)
        self.count, self.offset = facts.count, facts.offset

    def forward(self, layout: Layout, like: Tensor) -> Tensor:  # type: ignore[override]
        """Position vectors `[tokens, width]`; a longer text is the caller's mistake."""
        assert max(layout.lengths, default=0) <= self.count, "the caller keeps texts within the limit"
        return nn.functional.embedding(layout.positions + self.offset, self.weight)


@lru_cache(maxsize=64)
def angles(chunk: int, head_width: int, *, base: float) -> Float[Tensor, "chunk half"]:
    """position · base^(−2i / head_width) for i = 0, 1, … (Su et al. 2021, equation 15), float64; chunks as
    above."""
    places = torch.arange(chunk * CHUNK, (chunk + 1) * CHUNK, dtype=torch.float64)
    return places[:, None] * base ** (-torch.arange(0, head_width, 2, dtype=torch.float64) / head_width)


@dataclass(frozen=True, eq=False)
class Turn:
    """Cosine and sine of each token's angles, `[tokens, 1, head_width]`, to turn queries and keys by."""

    cosine: Tensor
    sine: Tensor

    @classmethod
    def of(cls, layout: Layout, *, head_width: int, base: float, like: Tensor) -> "Turn":
        """The turn of each token of a layout, with the dtype of `like`."""
        longest = max(layout.lengths, default=0)
        chunks = [angles(chunk, head_width, base=base) for chunk in range(max(1, -(-longest // CHUNK)))]
        found = torch.cat(chunks).to(layout.device)[layout.positions].repeat(1, 2).unsqueeze(1)
        return cls(found.cos().to(like), found.sin().to(like))

    def __call__(
        self, x: Float[Tensor, "tokens heads head_width"]
    ) -> Float[Tensor, "tokens heads head_width"]:
        """Turn the pairs (i, i + head_width/2), as published code does (Su et al. 2021, eq. 34)."""
        first, second = x.chunk(2, dim=-1)
        return x * self.cosine + torch.cat([-second, first], dim=-1) * self.sine


def positions_for(config: Config) -> nn.Module | None:
    """The module that gives vectors to add, None where positions are angles."""
    positions: Positions = config.positions
    match positions:
        case Sinusoidal():
            return SinusoidalPositions(config.embedding_width or config.width)
        case Learned():
            return LearnedPositions(positions, config.embedding_width or config.width)
        case Rotary():
            return None
        case _:
            raise NotImplementedError(positions)
