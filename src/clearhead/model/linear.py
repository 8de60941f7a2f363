"""Linear layers, and the activations that follow them.

On a CPU in float32 the product is oneDNN's, which torch brings along: a row has the same bits in every
company, and the activation is computed before the numbers leave the cache (docs/decisions/0010). Elsewhere
it is torch's.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from clearhead.model.config import Activation

ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
# Names of an activation in oneDNN; what is not here is computed after the product.
FUSED = {
    Activation.RELU: ("relu", ""),
    Activation.GELU: ("gelu", "none"),
    Activation.GELU_TANH: ("gelu", "tanh"),
    Activation.TANH: ("tanh", ""),
}
NARROW = 64


def activation_for(activation: Activation) -> nn.Module:
    """The module of an activation."""
    match activation:
        case Activation.RELU:
            return nn.ReLU()
        case Activation.GELU:
            return nn.GELU()
        case Activation.GELU_TANH:
            return GeluTanh()
        case Activation.TANH:
            return nn.Tanh()


class GeluTanh(nn.Module):
    """x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))) (Hendrycks & Gimpel 2016, section 2).

    Written out: torch's fused kernel computes the last numbers of each thread's share in another way, so that
    a number's bits would depend on how many others there are.
    """

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        inner = (x + 0.044715 * (x * x * x)) * 0.7978845608028654
        return 0.5 * x * (1 + inner.tanh())


def onednn(
    x: Tensor, weight: Tensor, *, bias: Tensor | None = None, activation: Activation | None = None
) -> Tensor:
    """activation(x · weightᵀ + bias) in one pass, without gradients."""
    name, kind = FUSED[activation] if activation else ("none", "")
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, name, [], kind)


class Product(torch.autograd.Function):
    """x · weightᵀ + bias by oneDNN, with gradients."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        x, weight, bias = given
        ctx.save_for_backward(x, weight)
        return onednn(x, weight, bias=bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            Product.apply(gradient, weight.t(), None) if needs_x else None,
            gradient.t() @ x if needs_weight else None,
            gradient.sum(0) if needs_bias else None,
        )


class Linear(nn.Linear):
    """A layer whose rows keep their bits in every company; `activation` follows where one is given."""

    def __init__(self, inputs: int, outputs: int, *, bias: bool = True, activation: Activation | None = None):
        super().__init__(inputs, outputs, bias=bias)
        self.fused = activation
        self.activation = activation_for(activation) if activation else None

    def forward(self, x: Tensor) -> Tensor:
        """activation(x · weightᵀ + bias), row by row."""
        quick = ONEDNN and x.is_cpu and x.dtype == self.weight.dtype == torch.float32
        if not quick:
            made = self.padded(x)
        elif torch.is_grad_enabled() and (x.requires_grad or self.weight.requires_grad):
            made = Product.apply(x, self.weight, self.bias)
        else:
            return onednn(x, self.weight, bias=self.bias, activation=self.fused)
        return self.activation(made) if self.activation else made

    def padded(self, x: Tensor) -> Tensor:
        """Torch's product.

        Where outputs and rows are both fewer than 64, MKL shares a product out over its threads in ways that
        depend on the number of rows (docs/decisions/0002); with 64 rows it does not.
        """
        rows = len(x)
        if self.out_features >= NARROW or rows >= NARROW:
            return super().forward(x)
        return super().forward(functional.pad(x, (0, 0, 0, NARROW - rows)))[:rows]
