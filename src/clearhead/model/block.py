"""One block: attend, then a feed-forward network, each added to the stream."""

from collections.abc import Callable
from functools import partial

from jaxtyping import Float
from torch import Tensor, nn

from clearhead.model.attention import Attention, Linear
from clearhead.model.config import Activation, Config
from clearhead.model.context import Context

Tokens = Float[Tensor, "tokens width"]


def activation_for(activation: Activation) -> nn.Module:
    """The module of an activation."""
    match activation:
        case Activation.RELU:
            return nn.ReLU()
        case Activation.GELU:
            return nn.GELU()
        case Activation.GELU_TANH:
            return GeluTanh()


class GeluTanh(nn.Module):
    """x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))) (Hendrycks & Gimpel 2016, section 2).

    Written out: torch's fused kernel computes the last numbers of each thread's share in another way, so that
    a number's bits would depend on how many others there are.
    """

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        inner = (x + 0.044715 * (x * x * x)) * 0.7978845608028654
        return 0.5 * x * (1 + inner.tanh())


class FeedForward(nn.Module):
    """Two layers with an activation between, the same for each token (Vaswani et al. 2017, equation 2)."""

    def __init__(self, config: Config):
        super().__init__()
        self.expand = Linear(config.width, config.hidden)
        self.activation = activation_for(config.activation)
        self.contract = Linear(config.hidden, config.width)

    def forward(self, x: Tokens) -> Tokens:
        """Change each token by itself."""
        return self.contract(self.activation(self.expand(x)))


class Block(nn.Module):
    """Attention and feed-forward, residual connections, layer norm (Vaswani et al. 2017, section 3.1)."""

    def __init__(self, config: Config):
        super().__init__()
        self.norm_first = config.norm_first
        self.dropout = config.dropout
        self.attention = Attention(config)
        self.attention_norm = nn.LayerNorm(config.width, eps=config.epsilon)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(config.width, eps=config.epsilon)

    def forward(self, x: Tokens, context: Context) -> Tokens:
        """One step of the stream."""
        x = self.residual(
            x, self.attention_norm, change=partial(self.attention, context=context), context=context
        )
        return self.residual(x, self.feed_forward_norm, change=self.feed_forward, context=context)

    def residual(
        self, x: Tokens, norm: nn.Module, *, change: Callable[[Tensor], Tensor], context: Context
    ) -> Tokens:
        """Add a change to the stream; where the norm stands is all that families differ in."""
        if self.norm_first:
            return x + context.dropped(change(norm(x)), self.dropout)
        return norm(x + context.dropped(change(x), self.dropout))
