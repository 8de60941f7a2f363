"""Attention over a row of texts: who sees whom is decided here, by the layout, and nowhere else.

All kernels share one signature and give the same numbers; they are chosen by the layout's device, never by
the number of rows. Where a window is given, a query sees the keys at most that many places away. Scores are
scaled dot products (Vaswani et al. 2017, equation 1; Prince, equation 12.9).
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
BLOCK = 64  # queries at a time where a window is given, at least


@runtime_checkable
class Kernel(Protocol):
    """queries, keys, values of all texts → for each query the mix of its own text's values."""

    def __call__(
        self,
        layout: Layout,
        *,
        queries: Heads,
        keys: Heads,
        values: Heads,
        scale: float,
        window: int | None,
        drop: Drop | None,
    ) -> Heads: ...


def grouped(
    layout: Layout,
    *,
    queries: Heads,
    keys: Heads,
    values: Heads,
    scale: float,
    window: int | None = None,
    drop: Drop | None = None,
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
        if window is None or group.length <= window + 1:
            mix = fused(q=q, k=k, v=v, scale=scale, drop=drop)
        else:
            mix = sliding(q=q, k=k, v=v, scale=scale, window=window, drop=drop)
        mixed.append(mix.transpose(1, 2).flatten(0, 1))
    mixed.append(queries.new_zeros(layout.spare, *queries.shape[1:]))
    return torch.cat(mixed)


def fused(
    *, q: Tensor, k: Tensor, v: Tensor, scale: float, drop: Drop | None, seen: Tensor | None = None
) -> Tensor:
    """Attention within texts of equal length, `[texts, heads, length, head_width]`; `seen[query, key]`."""
    if drop is None:
        return scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=scale)
    scores = q @ k.transpose(-1, -2) * scale
    if seen is not None:
        scores = scores.masked_fill(~seen, -torch.inf)
    return drop(scores.softmax(-1)) @ v


def sliding(*, q: Tensor, k: Tensor, v: Tensor, scale: float, window: int, drop: Drop | None) -> Tensor:
    """Attention within a window: queries by the block, each against the keys it can reach and no others."""
    length, size = q.shape[2], max(BLOCK, window)
    mixes = []
    for start in range(0, length, size):
        end = min(start + size, length)
        low, high = max(0, start - window), min(length, end + window)
        far = torch.arange(start, end)[:, None] - torch.arange(low, high)
        seen = far.abs().le(window).to(q.device)
        near = {"q": q[:, :, start:end], "k": k[:, :, low:high], "v": v[:, :, low:high]}
        mixes.append(fused(**near, scale=scale, drop=drop, seen=seen))
    return torch.cat(mixes, dim=2)


def explicit(
    layout: Layout,
    *,
    queries: Heads,
    keys: Heads,
    values: Heads,
    scale: float,
    window: int | None = None,
    drop: Drop | None = None,
) -> Heads:
    """The textbook, one text at a time: softmax of queries times keys, times values. The truth in tests."""
    mixed = torch.zeros_like(queries)
    for rows in layout.slices:
        scores = torch.einsum("qhd,khd->hqk", queries[rows], keys[rows]) * scale
        if window is not None:
            places = torch.arange(rows.stop - rows.start, device=scores.device)
            scores = scores.masked_fill((places[:, None] - places).abs() > window, -torch.inf)
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
