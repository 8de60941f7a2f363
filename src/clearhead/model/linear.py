"""Linear layers, the activations that follow them, and dropout.

On a CPU in float32 the product is oneDNN's, which torch brings along: a row has the same bits in every
company, and the activation is computed before the numbers leave the cache (docs/decisions/0010). Elsewhere
it is torch's.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import local
from typing import Any
from weakref import finalize, ref

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import functional

from clearhead.model.config import Activation

ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
# Names of an activation in oneDNN. What is not here is computed after the product: its ReLU makes 0 of NaN.
FUSED = {
    Activation.GELU: ("gelu", "none"),
    Activation.GELU_TANH: ("gelu", "tanh"),
    Activation.TANH: ("tanh", ""),
    Activation.SILU: ("swish", ""),
}
NARROW = 64
STEADY = 2 if ONEDNN else 8  # a multiple of rows at which a row's bits do not depend on how many there are
QUICK = {torch.float32} | (
    {torch.bfloat16} if ONEDNN and torch.ops.mkldnn._is_mkldnn_bf16_supported() else set()
)


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


# Weights laid out for products with few rows: the same bits, in less time (decision 10), within `laid_out`
# alone. By id: the weight, its state and bits, the copy, and whether one row has there the bits of any.
PACKED: dict[int, tuple[ref[Tensor], tuple[int, int], int, Tensor, bool]] = {}
PACKED_ROWS, SHARE = 16, 4
WITHIN = local()


@contextmanager
def laid_out() -> Iterator[None]:
    """Products in this thread take the copies of weights that were laid out for few rows."""
    WITHIN.on = True
    try:
        yield
    finally:
        WITHIN.on = False


def prepack(weights: Iterable[Tensor]) -> None:
    """Keep a second copy of matrices, laid out for products with a few rows, where all of them take less than
    a quarter of the memory. Whether they are there changes no bit."""
    ready = [one for one in weights if one.dtype in QUICK and one.is_cpu and not one.is_inference()]
    if not ONEDNN or not hasattr(os, "sysconf") or not hasattr(torch.ops.mkldnn, "_reorder_linear_weight"):
        return
    if SHARE * sum(one.nbytes for one in ready) > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
        return
    for weight in ready:
        if known(weight) is None:
            copied = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), PACKED_ROWS)
            rows = torch.linspace(-9, 9, 3 * weight.shape[1]).sin().view(3, -1).to(weight.dtype)
            right, apart = onednn(rows, weight.detach()), [onednn(row[None], copied) for row in rows]
            if torch.equal(onednn(rows, copied), right):  # tried, not trusted
                facts = ref(weight), state(weight), bits(weight), copied, torch.equal(torch.cat(apart), right)
                PACKED[id(weight)] = facts
                finalize(weight, PACKED.pop, id(weight), None)


def state(weight: Tensor) -> tuple[int, int]:
    """What a copy must still have: the version, and the number of threads, which decides on kernels."""
    return weight._version, torch.get_num_threads()


def known(weight: Tensor) -> tuple[Tensor, bool] | None:
    """The copy of a weight, and whether one row has there the bits of any, if its state is what it was."""
    found = PACKED.get(id(weight))
    return found[3:] if found and found[0]() is weight and found[1] == state(weight) else None


def packed_of(weight: Tensor) -> tuple[Tensor, bool]:
    """What `known` says, where copies are taken; else the weight itself."""
    return (PACKED and getattr(WITHIN, "on", False) and known(weight)) or (weight, True)


def forget_changed(weights: Iterable[Tensor]) -> bool:
    """Forget copies of weights that have changed since, by whatever means: the version of a tensor tells
    nothing of fused optimisers and of `.data`. Returns whether there were any."""
    kept = [(one, PACKED[id(one)]) for one in weights if id(one) in PACKED]
    stale = [one for one, (of, _, before, *_) in kept if of() is not one or before != bits(one)]
    for weight in stale:
        del PACKED[id(weight)]
    return bool(stale)


def bits(weight: Tensor) -> int:
    """The sum of a tensor's bits: any change of it is seen, but for one that only moves numbers."""
    flat = weight.detach().contiguous().view(-1)
    kinds = {2: torch.int16, 4: torch.int32}
    return int(flat.view(kinds[flat.itemsize] if flat.nbytes % 8 else torch.int64).sum())


def onednn(
    x: Tensor, weight: Tensor, *, bias: Tensor | None = None, activation: Activation | None = None
) -> Tensor:
    """activation(x · weightᵀ + bias) in one pass, without gradients."""
    (laid, alone), (name, kind) = packed_of(weight), FUSED[activation] if activation else ("none", "")
    if len(x) == 1 and not alone:
        x = functional.pad(x, (0, 0, 0, 1))  # some kernels for one row sum in another order
        return torch.ops.mkldnn._linear_pointwise(x, laid, bias, name, [], kind)[:1]
    return torch.ops.mkldnn._linear_pointwise(x, laid, bias, name, [], kind)


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


def linear(
    x: Tensor, weight: Tensor, *, bias: Tensor | None = None, activation: Activation | None = None
) -> Tensor:
    """activation(x · weightᵀ + bias), `[rows, outputs]`: a row's bits are the same in every company."""
    if (
        not (ONEDNN and x.is_cpu and x.dtype == weight.dtype and x.dtype in QUICK and x.dim() == 2)
        or differs()
    ):
        made = padded(x, weight, bias=bias)
    elif torch.is_grad_enabled() and any(
        part is not None and part.requires_grad for part in (x, weight, bias)
    ):
        made = Product.apply(x, weight, bias)
    elif activation is None or activation in FUSED:
        return onednn(x, weight, bias=bias, activation=activation)
    else:
        made = onednn(x, weight, bias=bias)
    return ACTIVATED[activation](made) if activation else made


def differs() -> bool:
    """Whether something is going on that oneDNN's operation knows nothing of: torch.func, forward
    derivatives."""
    return bool(torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0)


def padded(x: Tensor, weight: Tensor, *, bias: Tensor | None) -> Tensor:
    """Torch's product. Where outputs and rows are both fewer than 64, MKL shares a product out over its
    threads in ways that depend on the number of rows (docs/decisions/0002); with 64 rows it does not."""
    rows = len(x)
    if len(weight) >= NARROW or rows >= NARROW or x.dim() != 2:
        return functional.linear(x, weight, bias)
    return functional.linear(functional.pad(x, (0, 0, 0, NARROW - rows)), weight, bias)[:rows]


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
        if self.kept and getattr(WITHIN, "on", False):
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
