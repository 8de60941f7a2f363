"""Projections to queries, keys and values, heads, and the seam to the kernel."""

from jaxtyping import Float
from torch import Tensor, nn

from clearhead.model.config import Config, Positions, Rotary
from clearhead.model.kernels import Context, Sight
from clearhead.model.linear import Linear
from clearhead.model.positions import Turn


class Projections(Linear):
    """Queries, keys and values in one product: a third of the calls, the same numbers."""

    def __init__(self, config: Config):
        super().__init__(config.width, sum(config.projected), bias=config.biases[0])
        self.parts = config.projected

    @property
    def matrices(self) -> tuple[Tensor, ...]:
        """The weight of each projection, as views."""
        return self.weight.split(self.parts)


class Attention(nn.Module):
    """Multi-head self-attention (Vaswani et al. 2017, section 3.2; Prince, section 12.3).

    Groups of heads may share keys and values (Ainslie et al. 2023, section 2.2).
    """

    def __init__(self, config: Config, layer: int):
        super().__init__()
        self.layer, self.head_width = layer, config.each_head
        self.dropout = config.attention_dropout
        window = config.window_of(layer)
        self.sight = Sight(self.head_width**-0.5, window, config.causal)
        self.positions = config.positions
        self.base = base_of(config.positions, local=window is not None)
        self.qkv = Projections(config)
        self.query_norm = nn.RMSNorm(self.head_width, eps=config.epsilon) if config.qk_norm else None
        self.key_norm = nn.RMSNorm(self.head_width, eps=config.epsilon) if config.qk_norm else None
        self.output = Linear(config.projected[0], config.width, bias=config.biases[1])

    def forward(self, x: Float[Tensor, "tokens width"], context: Context) -> Float[Tensor, "tokens width"]:
        """Let each token gather from the tokens of its own text."""
        parts = self.qkv(x, context.drop).split(self.qkv.parts, dim=-1)
        queries, keys, values = (part.unflatten(-1, (-1, self.head_width)) for part in parts)
        if self.query_norm and self.key_norm:
            queries, keys = self.query_norm(queries), self.key_norm(keys)
        if isinstance(self.positions, Rotary) and self.base:
            facts, base = self.positions, self.base
            turn = context.turn(base, make=lambda: Turn.of(context.layout, facts, base=base, like=queries))
            queries, keys = turn(queries), turn(keys)
        mixed = context.attend(
            context.layout,
            queries=queries,
            keys=keys,
            values=values,
            sight=self.sight,
            drop=context.dropping(self.dropout),
            spans=context.spans(self.layer, keys=keys, values=values),
        )
        return self.output(mixed.flatten(1), context.drop)


def base_of(positions: Positions, *, local: bool) -> float | None:
    """The base of a block's rotary angles, None where positions are no angles."""
    if not isinstance(positions, Rotary):
        return None
    return positions.local_base or positions.base if local else positions.base
