"""Attention over a row of texts: who sees whom is decided here, by the layout, and nowhere else.

All kernels share one signature and give the same numbers; they are chosen by the layout's device, never by
the number of rows. Scores are scaled dot products (Vaswani et al. 2017, equation 1; Prince, equation 12.9).
"""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from clearhead.errors import SettingError
from clearhead.model.layout import Layout

Heads = Float[Tensor, "tokens heads head_width"]
Drop = Callable[[Tensor], Tensor]


@runtime_checkable
class Kernel(Protocol):
    """queries, keys, values of all texts → for each query the mix of its own text's values."""

    def __call__(
        self, layout: Layout, *, queries: Heads, keys: Heads, values: Heads, scale: float, drop: Drop | None
    ) -> Heads: ...


def grouped(
    layout: Layout, *, queries: Heads, keys: Heads, values: Heads, scale: float, drop: Drop | None = None
) -> Heads:
    """One fused call for each length: texts of equal length need no mask. Spare rows give zeros."""
    sizes = [group.tokens for group in layout.groups] + [layout.spare]
    mixed = []
    for group, *parts in zip(
        layout.groups, *(part.split(sizes) for part in (queries, keys, values)), strict=False
    ):
        if not group.tokens:
            continue
        q, k, v = (part.unflatten(0, (group.texts, group.length)).transpose(1, 2) for part in parts)
        if drop:
            weights = drop((q @ k.transpose(-1, -2) * scale).softmax(-1))
            mix = weights @ v
        else:
            mix = scaled_dot_product_attention(q, k, v, scale=scale)
        mixed.append(mix.transpose(1, 2).flatten(0, 1))
    mixed.append(queries.new_zeros(layout.spare, *queries.shape[1:]))
    return torch.cat(mixed)


def explicit(
    layout: Layout, *, queries: Heads, keys: Heads, values: Heads, scale: float, drop: Drop | None = None
) -> Heads:
    """The textbook, one text at a time: softmax of queries times keys, times values. The truth in tests."""
    mixed = torch.zeros_like(queries)
    for rows in layout.slices:
        scores = torch.einsum("qhd,khd->hqk", queries[rows], keys[rows]) * scale
        weights = scores.softmax(-1)
        mixed[rows] = torch.einsum("hqk,khd->qhd", drop(weights) if drop else weights, values[rows])
    return mixed


def kernel_for(device: torch.device) -> Kernel:
    """The fast kernel of a device."""
    match device.type:
        case "cpu" | "meta":
            return grouped
        case other:
            raise SettingError(f"device {other!r} has no attention kernel yet; use the CPU")
