"""Attention as the textbook has it: the kernel that the fast ones are held against."""

from collections.abc import Sequence

import torch

from clearhead.model.cache import Span
from clearhead.model.kernels import Drop, Heads, KvHeads, Sight
from clearhead.model.layout import Layout


def explicit(
    layout: Layout,
    *,
    queries: Heads,
    keys: KvHeads,
    values: KvHeads,
    sight: Sight,
    drop: Drop | None = None,
    spans: Sequence[Span] | None = None,
) -> Heads:
    """The textbook, one text at a time: softmax of queries times keys, times values. The truth in tests."""
    mixed = torch.zeros_like(queries)
    for place, (rows, start) in enumerate(zip(layout.placed, layout.begins, strict=True)):
        first, k, v = start, keys[rows], values[rows]
        if spans:
            span = spans[place]
            first, k, v = span.first, span.keys.transpose(0, 1), span.values.transpose(0, 1)
        k, v = (part.repeat_interleave(queries.shape[1] // part.shape[1], 1) for part in (k, v))
        q = queries[rows]
        scores = torch.einsum("qhd,khd->hqk", q, k) * sight.scale
        apart = torch.arange(start, start + scores.shape[1])[:, None] - torch.arange(
            first, first + scores.shape[2]
        )
        if sight.window is not None:
            scores = scores.masked_fill(apart.abs() > sight.window, -torch.inf)
        if sight.causal:
            scores = scores.masked_fill(apart < 0, -torch.inf)
        if sight.bias:
            scores = scores + sight.bias(range(start, start + len(q)), range(first, first + len(k)))
        weights = scores.softmax(-1)
        mixed[rows] = torch.einsum("hqk,khd->qhd", drop(weights) if drop else weights, v)
    return mixed
