"""One block: attend, in a decoder recall what was read, then a feed-forward network; each is added."""

from collections.abc import Callable
from functools import partial

from jaxtyping import Float
from torch import Tensor, nn

from clearhead.engine.watching import Point
from clearhead.model.attention import Attention, Recall
from clearhead.model.config import Config, Norm
from clearhead.model.kernels import Context
from clearhead.model.linear import Linear, activation_for

Tokens = Float[Tensor, "tokens width"]


def norm_for(config: Config, width: int | None = None) -> nn.Module:
    """The norm of the stream, or of `width` numbers."""
    width = width or config.width
    match config.norm:
        case Norm.LAYER:
            return nn.LayerNorm(width, eps=config.epsilon, bias=config.norm_bias)
        case Norm.RMS:
            return nn.RMSNorm(width, eps=config.epsilon)


class FeedForward(nn.Module):
    """Two layers with an activation between, the same for each token (Vaswani et al. 2017, equation 2).

    Gated, the first layer is twice as wide and its second half, as it is, multiplies the activation of the
    first (Shazeer 2020, equation 5).
    """

    def __init__(self, config: Config):
        super().__init__()
        self.gated, self.dropout = config.gated, config.hidden_dropout
        # Gated, the activation concerns half of what the first layer gives; else it comes in the same pass.
        self.expand = Linear(
            config.width,
            config.hidden * (2 if config.gated else 1),
            bias=config.bias,
            activation=None if config.gated else config.activation,
        )
        self.activation = activation_for(config.activation)
        self.contract = Linear(config.hidden, config.width, bias=config.bias)

    def forward(self, x: Tokens, context: Context) -> Tokens:
        """Change each token by itself."""
        x = self.expand(x, context.drop)
        if self.gated:
            x, gate = x.chunk(2, dim=-1)
            x = self.activation(x) * gate
        # A rate that is put in place of the architecture's adds no place to drop at.
        return self.contract(context.dropped(x, self.dropout) if self.dropout else x, context.drop)


class Block(nn.Module):
    """Attention and feed-forward, residual connections, layer norm (Vaswani et al. 2017, section 3.1)."""

    def __init__(self, config: Config, layer: int, *, recalls: bool = False):
        super().__init__()
        bare = layer == 0 and config.norm_first and not config.first_norm
        self.layer, self.norm_first, self.parallel = layer, config.norm_first, config.parallel
        self.attended_dropout = config.dropout if config.attended_dropout is None else config.attended_dropout
        self.dropout = config.dropout
        self.attention = Attention(config, layer)
        self.attention_norm = nn.Identity() if bare else norm_for(config)
        self.recall = Recall(config, layer) if recalls else None
        self.recall_norm = norm_for(config) if recalls else None
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = norm_for(config)

    def forward(self, x: Tokens, context: Context) -> Tokens:
        """One step of the stream."""
        seen, gathers = partial(context.seen, layer=self.layer), self.attended_dropout
        change = partial(self.change, context=context)
        attend = partial(change, self.attention, point=Point.ATTN_OUT, rate=gathers)
        think = partial(change, self.feed_forward, point=Point.MLP_OUT, rate=self.dropout)
        x = seen(Point.RESID_PRE, x)
        if self.parallel:
            x = x + attend(self.attention_norm(x)) + think(self.feed_forward_norm(x))
            return seen(Point.RESID_POST, x)
        x = seen(Point.RESID_MID, self.residual(x, self.attention_norm, change=attend))
        if self.recall and self.recall_norm:
            recall = partial(change, self.recall, point=Point.CROSS_ATTN_OUT, rate=gathers)
            x = seen(Point.RESID_MID_CROSS, self.residual(x, self.recall_norm, change=recall))
        return seen(Point.RESID_POST, self.residual(x, self.feed_forward_norm, change=think))

    def change(self, part: nn.Module, x: Tokens, *, point: Point, rate: float, context: Context) -> Tokens:
        """What a part adds to the stream."""
        return context.dropped(context.seen(point, part(x, context), layer=self.layer), rate)

    def residual(self, x: Tokens, norm: nn.Module, *, change: Callable[[Tensor], Tensor]) -> Tokens:
        """Add a change to the stream; where the norm stands is all that families differ in."""
        if self.norm_first:
            return x + change(norm(x))
        return norm(x + change(x))
