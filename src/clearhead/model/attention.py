"""Projections to queries, keys and values, heads, and the seam to the kernel."""

from jaxtyping import Float
from torch import Tensor, nn

from clearhead.model.config import Config, Positions, Rotary
from clearhead.model.context import Context
from clearhead.model.linear import Linear


class Projections(Linear):
    """Queries, keys and values in one product: a third of the calls, the same numbers."""

    def __init__(self, width: int, inner: int, *, bias: bool):
        super().__init__(width, 3 * inner, bias=bias)

    @property
    def matrices(self) -> tuple[Tensor, ...]:
        """The weight of each projection, as views."""
        return self.weight.chunk(3)


class Attention(nn.Module):
    """Multi-head self-attention (Vaswani et al. 2017, section 3.2; Prince, section 12.3)."""

    def __init__(self, config: Config, layer: int):
        super().__init__()
        self.heads, self.head_width = config.heads, config.each_head
        self.dropout = config.attention_dropout
        self.window = config.window_of(layer)
        self.base = base_of(config.positions, local=self.window is not None)
        inner = self.heads * self.head_width
        self.qkv = Projections(config.width, inner, bias=config.bias)
        self.output = Linear(inner, config.width, bias=config.bias)

    def forward(self, x: Float[Tensor, "tokens width"], context: Context) -> Float[Tensor, "tokens width"]:
        """Let each token gather from the tokens of its own text."""
        queries, keys, values = self.qkv(x).unflatten(-1, (3, self.heads, self.head_width)).unbind(1)
        if self.base:
            turn = context.turn(self.base, like=queries)
            queries, keys = turn(queries), turn(keys)
        mixed = context.attend(
            context.layout,
            queries=queries,
            keys=keys,
            values=values,
            scale=self.head_width**-0.5,
            window=self.window,
            drop=context.dropping(self.dropout),
        )
        return self.output(mixed.flatten(1))


def base_of(positions: Positions, *, local: bool) -> float | None:
    """The base of a block's rotary angles, None where positions are no angles."""
    if not isinstance(positions, Rotary):
        return None
    return positions.local_base or positions.base if local else positions.base
