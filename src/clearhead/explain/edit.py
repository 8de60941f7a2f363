"""Change what a model computes while it does: leave a head out, put numbers of another run in.

    with edit(model, ablate(layer=3, head=5)):
        model.predict(["great bread"])

The model's weights stay as they are, and other threads' calls too.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from clearhead.engine.watching import WATCHERS, Meeting, Point
from clearhead.errors import SettingError
from clearhead.explain.asked import CROSS, MADE_AT, names_of, network_of, numbers
from clearhead.explain.patterns import pattern
from clearhead.explain.record import Seen
from clearhead.infer.model import Model
from clearhead.model.kernels import Context
from clearhead.model.layout import Batch
from clearhead.model.transformer import Transformer


@dataclass(frozen=True)
class Edit:
    """A change of one text's numbers at a point: from `[tokens, …]` and the positions of these tokens to new
    ones of the same shape ("pattern": from `[heads, queries, keys]`). `text` is the number of the only text
    that is changed, in the order of the call; `encoder` whether it is for a translator's encoder."""

    point: str
    layer: int
    change: Callable[[Tensor, range], Tensor]
    text: int | None = None
    encoder: bool = False


def ablate(
    layer: int,
    head: int,
    *,
    by: float = 0.0,
    cross: bool = False,
    encoder: bool = False,
    text: int | None = None,
) -> Edit:
    """What a head has gathered times `by`: 0 leaves it out (Michel et al. 2019)."""

    def scaled(z: Tensor, _: range) -> Tensor:
        if not -z.shape[1] <= head < z.shape[1]:
            raise SettingError(f"head={head}: the model has {z.shape[1]}, 0 to {z.shape[1] - 1}")
        factors = torch.ones(z.shape[1], dtype=z.dtype)
        factors[head] = by
        return z * factors[:, None]

    return Edit("cross_z" if cross else "z", layer, scaled, text, encoder)


def patch(
    point: str,
    layer: int,
    *,
    value: Tensor,
    places: range | None = None,
    text: int | None = None,
    encoder: bool = False,
) -> Edit:
    """Numbers of another run in place of this one's (Vig et al. 2020; Meng et al. 2022): `value` for the
    positions `places`, or for all from the first one on."""

    if point in MADE_AT:
        raise SettingError(f"patch at {point}: it is made of weights; change them with Edit({point!r}, …)")
    if not isinstance(value, Tensor):
        raise SettingError(f"patch at {point}: the value is {type(value).__name__}, not a tensor")

    def put(x: Tensor, here: range) -> Tensor:
        at = range(len(value)) if places is None else places
        if value.shape[1:] != x.shape[1:] or len(value) != len(at):
            raise SettingError(
                f"patch at {point}: the value has the shape {[*value.shape]}, the model's numbers there have "
                f"{[*x.shape]}; give {len(at)} rows of {[*x.shape[1:]]}"
            )
        found = x.clone()
        for row, place in zip(value, at, strict=True):
            if place in here:
                found[place - here.start] = row.to(x.dtype)
        return found

    return Edit(point, layer, put, text, encoder)


@dataclass(frozen=True, eq=False)
class Editor:
    """Changes of the calls of one network."""

    network: Transformer
    edits: tuple[Edit, ...]

    def begins(self, network: Any, batch: Batch, *, context: Context) -> "Call | None":
        """A call that is to be changed."""
        if network is not self.network:
            return None
        decoding = context.cache is not None or context.source is not None
        reading = network.config.translates and not decoding
        edits = [one for one in self.edits if one.encoder == reading]
        if context.cache is not None and any(one.text is not None for one in edits):
            raise SettingError("an edit of one text (text=…) is for calls without a cache; leave text out")
        return Call(self.network, tuple(edits), context) if edits else None

    def ended(self, trail: object, *, name: object, prompt: tuple[int, ...], tokens: int) -> None:
        """Nothing to keep."""


@dataclass(frozen=True)
class Call:
    """One call that is changed."""

    network: Transformer
    edits: tuple[Edit, ...]
    context: Context

    @cached_property
    def numbers(self) -> list[int]:
        """The number of each text in its call, in the order of the batch."""
        layout = self.context.layout
        names = layout.names or range(len(layout.lengths))
        return [name[1] if isinstance(name, tuple) else name for name in names]  # type: ignore[misc]

    def seen(self, point: Point, x: Tensor, *, layer: int, meeting: Meeting | None) -> Tensor:
        """The numbers, changed where that was asked for."""
        for one in sorted(self.edits, key=lambda one: one.point not in MADE_AT):  # weights come first
            if MADE_AT.get(one.point, one.point) == point and one.layer == layer:
                x = self.changed(one, x, meeting=meeting)
        return x

    def changed(self, one: Edit, x: Tensor, *, meeting: Meeting | None) -> Tensor:
        """All rows, those of the text or texts that an edit is for changed."""
        found, layout = x.clone(), self.context.layout
        for place, (index, lying, begin) in enumerate(
            zip(layout.order, layout.placed, layout.begins, strict=True)
        ):
            if one.text is not None and self.numbers[index] != one.text:
                continue
            here = range(begin, begin + lying.stop - lying.start)
            if one.point in MADE_AT:
                assert meeting
                span = meeting.spans[place]
                before = meeting.weights.get(place)
                if before is None:
                    before = pattern(meeting, span, lying=lying, begin=begin, places=here)
                weights = self.same(one, one.change(before, here), like=before)
                meeting.weights[place] = weights
                group = before.shape[0] // span.values.shape[0]
                values = span.values.repeat_interleave(group, 0)
                found[lying] = (weights[..., span.first :] @ values).transpose(0, 1)
            else:
                found[lying] = self.same(one, one.change(x[lying], here), like=x[lying])
        return found

    def same(self, one: Edit, given: Tensor, *, like: Tensor) -> Tensor:
        """What a change gave back, where it has the shape that came."""
        if not isinstance(given, Tensor) or given.shape != like.shape:
            said = [*given.shape] if isinstance(given, Tensor) else type(given).__name__
            raise SettingError(f"the edit of {one.point} gave {said} back for numbers of {[*like.shape]}")
        return given


@contextmanager
def edit(model: Model | Transformer, *edits: Edit) -> Iterator[None]:
    """Change this model's calls that this thread makes in here. Recorders see what was changed.

    Raises `SettingError` for a point, layer or head that is not there.
    """
    network = network_of(model)
    config, checked = network.config, list[Edit]()
    for one in edits:
        if not isinstance(one, Edit):
            raise SettingError(f"{type(one).__name__} is no edit; make one with ablate, patch or Edit")
        names_of(one.point, config)
        depth = config.layers if one.encoder or not config.translates else config.decoder_layers
        (layer,) = numbers(one.layer, "layer", count=depth or 0)
        checked.append(replace(one, layer=layer))
        if one.point == Point.EMBED and layer:
            raise SettingError(f"layer={one.layer}: vectors of tokens are seen once, at layer 0")
        if one.encoder and one.point in CROSS:
            raise SettingError(f"{one.point} is of the decoder; leave encoder=True out")
        if one.encoder and not config.translates:
            raise SettingError("encoder=True is for models that read a text and answer with another")
    others = WATCHERS.get()
    outer = [one for one in others if isinstance(one, Editor) and one.network is network]
    editor = Editor(network, (*(one for own in outer for one in own.edits), *checked))
    others = tuple(one for one in others if one not in outer)
    before = tuple(one for one in others if not isinstance(one, Seen))
    after = tuple(one for one in others if isinstance(one, Seen))
    token = WATCHERS.set((*before, editor, *after))
    try:
        yield
    finally:
        WATCHERS.reset(token)
