"""Attention kernels with one signature, and the context that hands one to all blocks of a call.

Who sees whom (the mask) is decided here and nowhere else, by the layout: a text's queries meet the keys of
that text only, in a causal model none that come later. A kernel is chosen by the layout's device, never by an
`if` in a block and never by the number of rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from clearhead.engine.dropout import Dropout
from clearhead.engine.watching import WATCHERS, Meeting, Point, Watch
from clearhead.errors import SettingError
from clearhead.model.cache import Cache, Span
from clearhead.model.layout import Batch, Layout, Run, meetings
from clearhead.model.positions import Bias, Turn

Heads = Float[Tensor, "tokens heads head_width"]
KvHeads = Float[Tensor, "tokens kv_heads head_width"]
Recalled = Float[Tensor, "seen kv_heads head_width"]
Drop = Callable[[Tensor], Tensor]
BLOCK = 64  # queries at a time where a window is given, at least
FEW = 16  # new tokens of a text that go one by one past its cache


@dataclass(frozen=True)
class Sight:
    """How dot products are scaled, and whom a token sees of its own text: with a window only so many tokens
    to either side, causally none that come later. `bias` is added to the scaled products."""

    scale: float
    window: int | None = None
    causal: bool = False
    bias: Bias | None = None

    def seen(self, queries: range, keys: range) -> Tensor | None:
        """`[queries, keys]` by their positions, True where seen; None where all is seen."""
        behind, ahead = queries[-1] - keys[0], keys[-1] - queries[0]  # the farthest that is asked about
        reach = max(behind, ahead, 0) if self.window is None else self.window
        later = 0 if self.causal else reach
        if behind <= reach and ahead <= later:
            return None
        apart = torch.arange(queries.start, queries.stop)[:, None] - torch.arange(keys.start, keys.stop)
        return (apart <= reach) & (apart >= -later)

    def mask(self, queries: range, keys: range) -> Tensor | None:
        """What is seen, and the bias where there is one: then `[heads, queries, keys]`, −inf where not."""
        seen = self.seen(queries, keys)
        if self.bias is None:
            return seen
        bias = self.bias(queries, keys)
        return bias if seen is None else bias.masked_fill(~seen, -torch.inf)


@runtime_checkable
class Kernel(Protocol):
    """queries, keys, values of all texts → for each query the mix of its own text's values.

    `spans` are the keys and values of each text in the layout's order of lying, from a cache that has the new
    ones already; without them the texts begin here. Heads may share keys and values in groups.
    """

    def __call__(
        self,
        layout: Layout,
        *,
        queries: Heads,
        keys: KvHeads,
        values: KvHeads,
        sight: Sight,
        drop: Drop | None,
        spans: Sequence[Span] | None,
    ) -> Heads: ...


def grouped(
    layout: Layout,
    *,
    queries: Heads,
    keys: KvHeads,
    values: KvHeads,
    sight: Sight,
    drop: Drop | None = None,
    spans: Sequence[Span] | None = None,
) -> Heads:
    """One fused call for each length: texts of equal length need no mask but the causal one. Spare rows give
    zeros."""
    if spans is not None:
        return remembered(layout, queries, spans=spans, sight=sight)
    sizes = [group.tokens for group in layout.groups] + [layout.spare]
    mixed = []
    for group, *parts in zip(
        layout.groups, *(part.split(sizes) for part in (queries, keys, values)), strict=False
    ):
        if not group.tokens:
            continue
        q, k, v = (part.unflatten(0, (group.texts, group.length)).transpose(1, 2) for part in parts)
        if sight.bias:
            seen = sight.mask(range(group.length), range(group.length))
            mix = fused(q=q, k=k, v=v, scale=sight.scale, drop=drop, seen=seen)
        elif sight.window is None or group.length <= sight.window + 1:
            mix = fused(q=q, k=k, v=v, scale=sight.scale, drop=drop, causal=sight.causal)
        else:
            mix = sliding(q=q, k=k, v=v, sight=sight, drop=drop)
        mixed.append(mix.transpose(1, 2).flatten(0, 1))
    mixed.append(queries.new_zeros(layout.spare, *queries.shape[1:]))
    return torch.cat(mixed)


def fused(
    *,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    drop: Drop | None = None,
    seen: Tensor | None = None,
    causal: bool = False,
) -> Tensor:
    """Attention within texts of equal length, `[texts, heads, length, head_width]`; `seen` as `Sight.mask`
    has it."""
    if (group := q.shape[1] // k.shape[1]) > 1:
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    causal = causal and q.shape[2] > 1
    seen = seen[None] if seen is not None and seen.dim() == 3 else seen
    if drop is None:
        return scaled_dot_product_attention(q, k, v, attn_mask=seen, is_causal=causal, scale=scale)
    scores = q @ k.transpose(-1, -2) * scale
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if seen is not None:
        scores = scores.masked_fill(~seen, -torch.inf) if seen.dtype == torch.bool else scores + seen
    return drop(scores.softmax(-1)) @ v


def sliding(*, q: Tensor, k: Tensor, v: Tensor, sight: Sight, drop: Drop | None) -> Tensor:
    """Attention within a window: queries by the block, each against the keys it can reach and no others."""
    window = sight.window or 0
    length, size = q.shape[2], max(BLOCK, window)
    mixes = []
    for start in range(0, length, size):
        end = min(start + size, length)
        low, high = max(0, start - window), end if sight.causal else min(length, end + window)
        seen = sight.mask(range(start, end), range(low, high))
        near, far_k, far_v = q[:, :, start:end], k[:, :, low:high], v[:, :, low:high]
        mixes.append(fused(q=near, k=far_k, v=far_v, scale=sight.scale, drop=drop, seen=seen))
    return torch.cat(mixes, dim=2)


def remembered(layout: Layout, queries: Heads, *, spans: Sequence[Span], sight: Sight) -> Heads:
    """Each text's new queries against all keys that its cache holds."""
    mixed = torch.zeros_like(queries)
    for rows, start, span in zip(layout.placed, layout.begins, spans, strict=True):
        count = rows.stop - rows.start
        if count > FEW:
            q, k, v = queries[rows].transpose(0, 1)[None], span.keys[None], span.values[None]
            seen = sight.mask(range(start, start + count), range(span.first, start + count))
            mixed[rows] = fused(q=q, k=k, v=v, scale=sight.scale, seen=seen)[0].transpose(0, 1)
            continue
        for step in range(count):
            mixed[rows.start + step] = one(queries[rows.start + step], span, place=start + step, sight=sight)
    return mixed


def one(query: Float[Tensor, "heads head_width"], span: Span, *, place: int, sight: Sight) -> Tensor:
    """The query at one place of a text. A few new tokens go one by one, so that each has the bits it would
    have had by itself."""
    low = span.first if sight.window is None else max(span.first, place - sight.window)
    seen = slice(low - span.first, place + 1 - span.first)
    # The heads that share a key stand in for queries, so that nothing is copied.
    q = query.view(1, span.keys.shape[0], -1, query.shape[-1])
    k, v = span.keys[None, :, seen], span.values[None, :, seen]
    bias = sight.bias(range(place, place + 1), range(low, place + 1)) if sight.bias else None
    mix = fused(q=q, k=k, v=v, scale=sight.scale, seen=None if bias is None else bias.view(*q.shape[1:3], -1))
    return mix.view_as(query)


def kernel_for(device: torch.device) -> Kernel:
    """The fast kernel of a device."""
    match device.type:
        case "cpu" | "meta":
            return grouped
        case other:
            raise SettingError(f"device {other!r} has no attention kernel yet; use the CPU")


@dataclass(frozen=True, eq=False)
class Source:
    """What a decoder's texts answer: the encoder's stream, how it lies, and where both meet."""

    stream: Float[Tensor, "tokens width"]
    layout: Layout
    runs: tuple[Run, ...]

    @classmethod
    def of(cls, stream: Tensor, layout: Layout, *, answers: Layout) -> "Source":
        """Of texts that lie like this and whose answers, text for text, lie like that."""
        return cls(stream, layout, tuple(meetings(answers, layout)))


@dataclass(frozen=True, eq=False)
class Context:
    """What all layers share in one call: how the texts lie, which kernel attends, how numbers are dropped (in
    training only), what was computed before.

    It travels with the call, not with the model, so that two threads may use one model at a time.
    """

    layout: Layout
    attend: Kernel
    drop: Dropout | None = None
    cache: Cache | None = None
    source: Source | None = None
    bias: Bias | None = None
    turns: dict[float, Turn] = field(default_factory=dict)  # by base; made by the first block that needs one
    watches: tuple[Watch, ...] = ()

    @classmethod
    def of(
        cls,
        layout: Layout,
        *,
        attend: Kernel | None = None,
        drop: Dropout | None = None,
        cache: Cache | None = None,
        source: Source | None = None,
    ) -> "Context":
        """A context with the kernel of the layout's device, unless one is given."""
        return cls(layout, attend or kernel_for(layout.device), drop, cache, source)

    def watched(self, network: object, batch: Batch) -> "Context":
        """The same for a call of this network, with whoever watches it."""
        begun = [watcher.begins(network, batch, context=self) for watcher in WATCHERS.get()]
        return replace(self, watches=tuple(watch for watch in begun if watch)) if begun else self

    def seen(self, point: Point, x: Tensor, *, layer: int, meeting: Meeting | None = None) -> Tensor:
        """Show numbers to whoever watches, and go on with what they give back."""
        for watch in self.watches:
            x = watch.seen(point, x, layer=layer, meeting=meeting)
        return x

    def turn(self, base: float, *, make: Callable[[], Turn]) -> Turn:
        """How each token's queries and keys are turned, computed once a call."""
        if base not in self.turns:
            self.turns[base] = make()
        return self.turns[base]

    def spans(self, layer: int, *, keys: Tensor, values: Tensor) -> list[Span] | None:
        """All keys and values of each text, the new ones put into the cache; None where nothing is cached or
        all texts begin here."""
        return self.cache.remember(layer, self.layout, keys=keys, values=values) if self.cache else None

    def dropped(self, x: Tensor, rate: float) -> Tensor:
        """Apply dropout in training, nothing otherwise."""
        return self.drop(x, rate) if self.drop else x

    def dropping(self, rate: float) -> Drop | None:
        """Dropout at this rate as a function, None where nothing would be dropped."""
        if self.drop and self.drop.rate_of(rate):
            return partial(self.drop, rate=rate)
        return None
