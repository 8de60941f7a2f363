"""x · weightᵀ + bias on a CPU: by oneDNN, which torch brings along, where it can be; else by torch.

A row has the same bits in every company, and an activation that oneDNN knows is computed before the numbers
leave the cache (docs/decisions/0010).
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import local
from typing import Any
from weakref import finalize, ref

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional

ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
NARROW = 64
STEADY = 2 if ONEDNN else 8  # a multiple of rows at which a row's bits do not depend on how many there are
QUICK = {torch.float32} | (
    {torch.bfloat16} if ONEDNN and torch.ops.mkldnn._is_mkldnn_bf16_supported() else set()
)
Pointwise = tuple[str, str]  # oneDNN's name of an activation, and which form of it
PLAIN: Pointwise = ("none", "")

# Weights laid out for products with few rows: the same bits, in less time (decision 10), within `laid_out`
# alone. By id: the weight, its state and bits, the copy, and whether one row has there the bits of any.
PACKED: dict[int, tuple[ref[Tensor], tuple[int, int], int, Tensor, bool]] = {}
PACKED_ROWS, SHARE = 16, 4
WITHIN = local()


def within() -> bool:
    """Whether this thread takes copies."""
    return bool(getattr(WITHIN, "on", False))


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
    return (PACKED and within() and known(weight)) or (weight, True)


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


def onednn(x: Tensor, weight: Tensor, *, bias: Tensor | None = None, pointwise: Pointwise = PLAIN) -> Tensor:
    """pointwise(x · weightᵀ + bias) in one pass, without gradients."""
    (laid, alone), (name, kind) = packed_of(weight), pointwise
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


def product(
    x: Tensor, weight: Tensor, *, bias: Tensor | None, pointwise: Pointwise | None
) -> tuple[Tensor, bool]:
    """x · weightᵀ + bias, `[rows, outputs]`, and whether `pointwise` has been applied to it."""
    if (
        not (ONEDNN and x.is_cpu and x.dtype == weight.dtype and x.dtype in QUICK and x.dim() == 2)
        or differs()
    ):
        return padded(x, weight, bias=bias), False
    if torch.is_grad_enabled() and any(part is not None and part.requires_grad for part in (x, weight, bias)):
        return Product.apply(x, weight, bias), False
    return onednn(x, weight, bias=bias, pointwise=pointwise or PLAIN), pointwise is not None


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
