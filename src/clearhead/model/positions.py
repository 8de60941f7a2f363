"""What tells where a token stands: vectors added to the stream, or angles by which queries and keys turn."""

from dataclasses import dataclass, field
from functools import lru_cache
from math import log, pi

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from clearhead.model.config import (
    Config,
    Learned,
    LinearScaling,
    Llama3Scaling,
    Relative,
    Rotary,
    Sinusoidal,
)
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
    """Nothing to learn."""

    def __init__(self, facts: Sinusoidal, width: int):
        super().__init__()
        self.width, self.halves = width, facts.halves

    def forward(self, layout: Layout, like: Tensor) -> Tensor:
        """Position vectors `[tokens, width]` with the dtype of `like`."""
        chunks = [sinusoids(chunk, self.width) for chunk in range(max(1, -(-layout.reach // CHUNK)))]
        table = torch.cat(chunks)
        if self.halves:
            table = torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)
        return table.to(like)[layout.positions]


class LearnedPositions(nn.Embedding):
    """A learned vector for each position up to a limit."""

    def __init__(self, facts: Learned, width: int):
        super().__init__(facts.count + facts.offset, width)
        self.count, self.offset = facts.count, facts.offset

    def forward(self, layout: Layout, like: Tensor) -> Tensor:  # type: ignore[override]
        """Position vectors `[tokens, width]`; a longer text is the caller's mistake."""
        assert layout.reach <= self.count, "the caller keeps texts within the limit"
        return nn.functional.embedding(layout.positions + self.offset, self.weight)


def speeds(facts: Rotary, *, turned: int, base: float) -> Float[Tensor, " half"]:
    """Radians from one position to the next of each pair: base^(−2i / turned) for i = 0, 1, … (Su et al.
    2021, equation 15), scaled, float64."""
    plain = base ** (-torch.arange(0, turned, 2, dtype=torch.float64) / turned)
    match facts.scaling:
        case None:
            return plain
        case LinearScaling(factor=factor):
            return plain / factor
        case Llama3Scaling(factor=factor, low=low, high=high, original=original):
            turns = original * plain / (2 * pi)  # within the longest text of before
            blend = ((turns - low) / (high - low)).clamp(0, 1)
            return plain * (blend + (1 - blend) / factor)


@lru_cache(maxsize=256)
def turns(chunk: int, facts: Rotary, *, turned: int, base: float) -> Float[Tensor, "2 chunk turned"]:
    """Cosine and sine of position · speed, float64, for whole chunks as above; each twice, for both of a
    pair."""
    places = torch.arange(chunk * CHUNK, (chunk + 1) * CHUNK, dtype=torch.float64)
    angles = (places[:, None] * speeds(facts, turned=turned, base=base)).repeat(1, 2)
    return torch.stack([angles.cos(), angles.sin()])


@dataclass(frozen=True, eq=False)
class Turn:
    """Cosine and sine of each token's angles, `[tokens, 1, turned]`, to turn queries and keys by."""

    cosine: Tensor
    sine: Tensor

    @classmethod
    def of(cls, layout: Layout, facts: Rotary, *, base: float, like: Tensor) -> "Turn":
        """The turn of each token of a layout, for heads and with the dtype of `like`."""
        turned = facts.turned(like.shape[-1])
        first = min(layout.begins, default=0) // CHUNK
        chunks = range(first, max(first + 1, -(-layout.reach // CHUNK)))
        table = torch.cat([turns(chunk, facts, turned=turned, base=base) for chunk in chunks], dim=1)
        places = (layout.positions - first * CHUNK).clamp(min=0)  # spare rows stand at 0
        cosine, sine = table.to(layout.device)[:, places, None].to(like)
        return cls(cosine, sine)

    def __call__(
        self, x: Float[Tensor, "tokens heads head_width"]
    ) -> Float[Tensor, "tokens heads head_width"]:
        """Turn the pairs (i, i + turned/2), as published code does (Su et al. 2021, eq. 34); the rest
        stays."""
        x, rest = x.split([self.cosine.shape[-1], x.shape[-1] - self.cosine.shape[-1]], dim=-1)
        first, second = x.chunk(2, dim=-1)
        x = x * self.cosine + torch.cat([-second, first], dim=-1) * self.sine
        return torch.cat([x, rest], dim=-1) if rest.shape[-1] else x


@dataclass(frozen=True, eq=False)
class Bias:
    """What is added to the scores of each distance, `[heads, 2 · reach − 1]`, from −(reach − 1) on: keys
    behind the query first. Made once a call; blocks share what was cut out of it."""

    table: Float[Tensor, "heads distances"]
    cut: dict[tuple[range, range], Tensor] = field(default_factory=dict)

    def __call__(self, queries: range, keys: range) -> Float[Tensor, "heads queries keys"]:
        """For queries and keys at these positions."""
        if (queries, keys) not in self.cut:
            apart = torch.arange(keys.start, keys.stop) - torch.arange(queries.start, queries.stop)[:, None]
            self.cut[queries, keys] = self.table[:, apart + self.table.shape[1] // 2]
        return self.cut[queries, keys]


class RelativePositions(nn.Embedding):
    """A learned number for each head and bucket of distances (Raffel et al. 2020, section 2.1). Causally
    all buckets are of keys behind; else half of them of keys ahead."""

    def __init__(self, facts: Relative, heads: int, *, causal: bool):
        super().__init__(facts.buckets, heads)
        self.facts, self.causal = facts, causal

    def forward(self, layout: Layout) -> Bias:  # type: ignore[override]
        """The biases of all distances in these texts."""
        apart = torch.arange(1 - layout.reach, max(1, layout.reach))
        return Bias(nn.functional.embedding(self.buckets(apart), self.weight).T)

    def buckets(self, apart: Int[Tensor, " distances"]) -> Int[Tensor, " distances"]:
        """The bucket of each distance, position of the key minus that of the query."""
        count, distance = self.facts.buckets, self.facts.distance
        ahead, far = torch.zeros_like(apart), (-apart).clamp(min=0)
        if not self.causal:
            count //= 2
            ahead, far = (apart > 0) * count, apart.abs()
        single = count // 2
        # float32, as published: at a border between buckets the last bit decides.
        share = (far.clamp(min=1).float() / single).log() / log(distance / single)
        grown = (single + (share * (count - single)).long()).clamp(max=count - 1)
        return ahead + far.where(far < single, grown)


def positions_for(config: Config) -> nn.Module | None:
    """The module that gives vectors to add, None where positions are angles or biases."""
    match config.positions:
        case Sinusoidal() as facts:
            return SinusoidalPositions(facts, config.embedding_width or config.width)
        case Learned() as facts:
            return LearnedPositions(facts, config.embedding_width or config.width)
        case Rotary() | Relative():
            return None
