"""Linear layers, the activations that follow them, and dropout."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from clearhead.engine.products import product, within
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


@dataclass(frozen=True, eq=False)
class Change:
    """A change of low rank to these rows of a layer's matrix: scale · up · down, with down `[rank, inputs]`
    and up `[rows, rank]` (Hu et al. 2021, section 4.1)."""

    rows: slice
    down: Tensor
    up: Tensor
    scale: float


class Adapter(nn.Module):
    """What is added to a layer's matrix, which stays as it is: the sum of its changes. `dropout` is the share
    of the inputs that a change does not see in training."""

    def __init__(self, changes: Sequence[Change], *, outputs: int, dropout: float = 0.0):
        super().__init__()
        self.outputs, self.dropout = outputs, dropout
        self.rows, self.scales = [one.rows for one in changes], [one.scale for one in changes]
        self.kept: tuple[Tensor, Tensor] | None = None  # the factors, to be laid out as weights are
        self.downs = nn.ParameterList([nn.Parameter(one.down) for one in changes])
        self.ups = nn.ParameterList([nn.Parameter(one.up) for one in changes])

    def factors(self) -> tuple[Tensor, Tensor]:
        """Two matrices whose product is the sum of all changes: `[all ranks, inputs]`, `[outputs, all
        ranks]`."""
        if self.kept and within():
            return self.kept
        ups = [
            functional.pad(up * scale, (0, 0, rows.start, self.outputs - rows.stop))
            for up, scale, rows in zip(self.ups, self.scales, self.rows, strict=True)
        ]
        return torch.cat([*self.downs]), torch.cat(ups, dim=1)

    def forward(self, x: Tensor, drop: "Dropout | None") -> Tensor:
        """What is added to the layer's outputs, `[rows, outputs]`."""
        down, up = self.factors()
        return linear(linear(drop.at(x, self.dropout) if drop else x, down), up)


class Linear(nn.Linear):
    """A layer of `linear`; `activation` follows where one is given."""

    adapter: Adapter | None

    def __init__(self, inputs: int, outputs: int, *, bias: bool = True, activation: Activation | None = None):
        super().__init__(inputs, outputs, bias=bias)
        self.activation, self.adapter = activation, None
        self.autocast: torch.dtype | None = None  # in training, what products are computed in

    def forward(self, x: Tensor, drop: "Dropout | None" = None) -> Tensor:
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


@dataclass(frozen=True, eq=False)
class Dropout:
    """Dropout with its own stream of random numbers (Srivastava et al. 2014), so that a run can be repeated.

    `rate` stands for the rates of the architecture where it is given.
    """

    generator: torch.Generator
    rate: float | None = None

    def rate_of(self, rate: float) -> float:
        """The rate in force where the architecture has `rate`."""
        return rate if self.rate is None else self.rate

    def __call__(self, x: Tensor, rate: float) -> Tensor:
        """Drop at the rate in force where the architecture has `rate`."""
        return self.at(x, self.rate_of(rate))

    def at(self, x: Tensor, rate: float) -> Tensor:
        """Zero each number with the rate's probability and scale the others, so that the mean stays.

        Sixteen random bits decide for a number, four numbers a draw: a tenth of what `bernoulli_` costs. The
        rate is thereby rounded to a multiple of 1/65536, and the scale follows it.
        """
        chances = min(round(rate * 65536), 65535)
        if chances == 0:
            return x
        draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64)
        draws.random_(-(2**63), None, generator=self.generator)
        kept = draws.view(torch.int16)[: x.numel()].view(x.shape) >= chances - 32768
        return x * torch.where(kept, x.new_tensor(65536 / (65536 - chances)), x.new_zeros(()))
