"""Projections to queries, keys and values, heads, and the seam to the kernel."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.engine.dropout import Dropout
from clearhead.engine.watching import Meeting, Point
from clearhead.model.cache import Span
from clearhead.model.config import Config, Positions, Rotary
from clearhead.model.kernels import Context, Drop, Heads, KvHeads, Recalled, Sight, Source, fused
from clearhead.model.layout import Layout
from clearhead.model.linear import Linear
from clearhead.model.positions import Turn


class Projections(Linear):
    """Queries, keys and values in one product, or those of them that are given: fewer calls, the same
    numbers."""

    def __init__(self, config: Config, parts: tuple[int, ...] | None = None):
        self.parts = parts or config.projected
        super().__init__(config.width, sum(self.parts), bias=config.biases[0])

    @property
    def matrices(self) -> tuple[Tensor, ...]:
        """The weight of each projection, as views."""
        return self.weight.split(self.parts)


class Attention(nn.Module):
    """Multi-head self-attention (Vaswani et al. 2017, section 3.2; Prince, section 12.3).

    Groups of heads may share keys and values (Ainslie et al. 2023, section 2.2).
    """

    def __init__(self, config: Config, layer: int):
        super().__init__()
        self.layer, self.head_width = layer, config.each_head
        self.dropout = config.attention_dropout
        window = config.window_of(layer)
        self.sight = Sight(scale_of(config), window, config.causal)
        self.positions = config.positions
        self.base = base_of(config.positions, local=window is not None)
        self.qkv = Projections(config)
        self.query_norm = nn.RMSNorm(self.head_width, eps=config.epsilon) if config.qk_norm else None
        self.key_norm = nn.RMSNorm(self.head_width, eps=config.epsilon) if config.qk_norm else None
        self.output = Linear(config.projected[0], config.width, bias=config.biases[1])

    def forward(self, x: Float[Tensor, "tokens width"], context: Context) -> Float[Tensor, "tokens width"]:
        """Let each token gather from the tokens of its own text."""
        parts = self.qkv(x, context.drop).split(self.qkv.parts, dim=-1)
        queries, keys, values = (part.unflatten(-1, (-1, self.head_width)) for part in parts)
        if self.query_norm and self.key_norm:
            queries, keys = self.query_norm(queries), self.key_norm(keys)
        if isinstance(self.positions, Rotary) and self.base:
            facts, base = self.positions, self.base
            turn = context.turn(base, make=lambda: Turn.of(context.layout, facts, base=base, like=queries))
            queries, keys = turn(queries), turn(keys)
        parts = zip((Point.Q, Point.K, Point.V), (queries, keys, values), strict=True)
        queries, keys, values = (context.seen(point, part, layer=self.layer) for point, part in parts)
        sight = self.sight if context.bias is None else replace(self.sight, bias=context.bias)
        spans = context.spans(self.layer, keys=keys, values=values)
        mixed = context.attend(
            context.layout,
            queries=queries,
            keys=keys,
            values=values,
            sight=sight,
            drop=context.dropping(self.dropout),
            spans=spans,
        )
        if context.watches:
            layout = context.layout
            spans = spans or spans_of(layout.placed, layout.begins, keys=keys, values=values)
            meeting = Meeting(queries, spans, sight)
            mixed = context.seen(Point.Z, mixed, layer=self.layer, meeting=meeting)
        return self.output(mixed.flatten(1), context.drop)


class Recall(nn.Module):
    """Multi-head attention of a decoder's tokens to all that the encoder has read of the text they answer
    (Vaswani et al. 2017, section 3.2.3)."""

    def __init__(self, config: Config, layer: int):
        super().__init__()
        self.layer, self.head_width, self.scale = layer, config.each_head, scale_of(config)
        self.dropout = config.attention_dropout
        queries, *others = config.projected
        self.query = Projections(config, (queries,))
        self.memory = Projections(config, tuple(others))
        self.output = Linear(queries, config.width, bias=config.biases[1])

    def remember(
        self, stream: Float[Tensor, "tokens width"], drop: Dropout | None = None
    ) -> tuple[Float[Tensor, "tokens kv_heads head_width"], Float[Tensor, "tokens kv_heads head_width"]]:
        """Keys and values of the encoder's stream: the same for every token that asks."""
        keys, values = self.memory(stream, drop).split(self.memory.parts, dim=-1)
        return keys.unflatten(-1, (-1, self.head_width)), values.unflatten(-1, (-1, self.head_width))

    def forward(self, x: Float[Tensor, "tokens width"], context: Context) -> Float[Tensor, "tokens width"]:
        """Let each token gather from the text that its own text answers."""
        queries = self.query(x, context.drop).unflatten(-1, (-1, self.head_width))
        queries = context.seen(Point.CROSS_Q, queries, layer=self.layer)
        if context.cache:
            spans = context.cache.sources(self.layer, context.layout)
            mixed = beside(context.layout, queries, spans=spans, scale=self.scale)
        else:
            assert context.source, "whoever calls a decoder says what it answers"
            keys, values = self.remember(context.source.stream, context.drop)
            drop = context.dropping(self.dropout)
            mixed = across(
                context.source, queries=queries, keys=keys, values=values, scale=self.scale, drop=drop
            )
            read, order = context.source.layout.slices, context.layout.order if context.watches else ()
            spans = spans_of([read[text] for text in order], [0] * len(order), keys=keys, values=values)
        if context.watches:
            meeting = Meeting(queries, spans, Sight(self.scale))
            mixed = context.seen(Point.CROSS_Z, mixed, layer=self.layer, meeting=meeting)
        return self.output(mixed.flatten(1), context.drop)


def across(
    source: Source, *, queries: Heads, keys: Recalled, values: Recalled, scale: float, drop: Drop | None
) -> Heads:
    """Each text's queries against all keys of what it answers: one fused call for each pair of lengths. Spare
    rows, and texts that answer nothing, give zeros."""
    mixed = []
    for run in source.runs:
        q = queries[run.start : run.start + run.texts * run.length]
        if not run.seen:
            mixed.append(torch.zeros_like(q))
            continue
        rows = slice(run.source, run.source + run.texts * run.seen)
        q = q.unflatten(0, (run.texts, run.length)).transpose(1, 2)
        k, v = (part[rows].unflatten(0, (run.texts, run.seen)).transpose(1, 2) for part in (keys, values))
        mixed.append(fused(q=q, k=k, v=v, scale=scale, drop=drop).transpose(1, 2).flatten(0, 1))
    mixed.append(queries.new_zeros(len(queries) - sum(map(len, mixed)), *queries.shape[1:]))
    return torch.cat(mixed)


def beside(layout: Layout, queries: Heads, *, spans: Sequence[Span], scale: float) -> Heads:
    """The same for a few tokens a text, from keys and values that are kept: `spans`, as the texts lie. Each
    token goes by itself, also where several texts answer one source, so that each has its own bits."""
    mixed = torch.zeros_like(queries)
    for _, members in groupby(zip(layout.placed, spans, strict=True), key=lambda pair: id(pair[1])):
        lying = list(members)
        rows, span = slice(lying[0][0].start, lying[-1][0].stop), lying[0][1]
        if span.keys.shape[1]:
            each = rows.stop - rows.start, -1, -1, -1
            k, v = span.keys[None].expand(*each), span.values[None].expand(*each)
            q = queries[rows].unflatten(1, (k.shape[1], -1))  # heads that share a key stand in for queries
            mixed[rows] = fused(q=q, k=k, v=v, scale=scale).flatten(1, 2)
    return mixed


def spans_of(placed: Sequence[slice], begins: Sequence[int], *, keys: KvHeads, values: KvHeads) -> list[Span]:
    """The keys and values of each text, which begins there, from its rows; views."""
    both = ((keys[rows].transpose(0, 1), values[rows].transpose(0, 1)) for rows in placed)
    return [Span(k, v, begin) for (k, v), begin in zip(both, begins, strict=True)]


def scale_of(config: Config) -> float:
    """What products of queries and keys are multiplied by."""
    return config.each_head**-0.5 if config.scale_scores else 1.0


def base_of(positions: Positions, *, local: bool) -> float | None:
    """The base of a block's rotary angles, None where positions are no angles."""
    if not isinstance(positions, Rotary):
        return None
    return positions.local_base or positions.base if local else positions.base
