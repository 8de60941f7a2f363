"""Linear layers, and the activations that follow them."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from clearhead.engine.dropout import Dropout
from clearhead.engine.products import product
from clearhead.model.config import Activation

# Names of an activation in oneDNN. What is not here is computed after the product: its ReLU makes 0 of NaN.
FUSED = {
    Activation.GELU: ("gelu", "none"),
    Activation.GELU_TANH: ("gelu", "tanh"),
    Activation.TANH: ("tanh", ""),
    Activation.SILU: ("swish", ""),
}


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
        case Activation.SILU:
            return nn.SiLU()


class GeluTanh(nn.Module):
    """x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))) (Hendrycks & Gimpel 2016, section 2).

    Written out: torch's fused kernel computes the last numbers of each thread's share in another way, so that
    a number's bits would depend on how many others there are. Where a gradient is wanted nobody is promised
    that, and the fused one is taken: its gradient reads and writes a quarter as much."""

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        if x.requires_grad and torch.is_grad_enabled():
            return functional.gelu(x, approximate="tanh")
        inner = (x + 0.044715 * (x * x * x)) * 0.7978845608028654
        return 0.5 * x * (1 + inner.tanh())


ACTIVATED = {kind: activation_for(kind) for kind in Activation}


def linear(
    x: Tensor, weight: Tensor, *, bias: Tensor | None = None, activation: Activation | None = None
) -> Tensor:
    """activation(x · weightᵀ + bias), `[rows, outputs]`: a row's bits are the same in every company."""
    made, done = product(x, weight, bias=bias, pointwise=FUSED.get(activation) if activation else None)
    return made if done or activation is None else ACTIVATED[activation](made)


class Linear(nn.Linear):
    """A layer of `linear`; `activation` follows where one is given."""

    adapter: Any  # what is added to the outputs, from inputs and dropout (LoRA)

    def __init__(self, inputs: int, outputs: int, *, bias: bool = True, activation: Activation | None = None):
        super().__init__(inputs, outputs, bias=bias)
        self.activation, self.adapter = activation, None
        self.autocast: torch.dtype | None = None  # in training, what products are computed in

    def forward(self, x: Tensor, drop: Dropout | None = None) -> Tensor:
        """activation(x · weightᵀ + bias), row by row; `drop` is that of training, for an adapter."""
        if self.autocast and torch.is_grad_enabled():  # the weights themselves stay as exact as they are
            made = linear(x.to(self.autocast), self.weight.to(self.autocast)).to(x.dtype)
            made = made if self.bias is None else made + self.bias
        elif self.adapter is None:
            return linear(x, self.weight, bias=self.bias, activation=self.activation)
        else:
            made = linear(x, self.weight, bias=self.bias)
        if self.adapter:
            made = made + self.adapter(x, drop)
        return ACTIVATED[self.activation](made) if self.activation else made
