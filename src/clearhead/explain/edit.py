"""Change what a model computes while it does: leave a head out, put numbers of another run in.

    with edit(model, ablate(layer=3, head=5)):
        model.predict(["great bread"])

The model's weights stay as they are, and other threads' calls too.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from clearhead.engine.watching import WATCHERS, Meeting, Point, watching
from clearhead.errors import SettingError
from clearhead.explain.asked import CROSS, MADE_AT, names_of, network_of, numbers, whole_numbers
from clearhead.explain.patterns import pattern
from clearhead.infer.batches import IN_STEPS
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
    head: int | None = None  # where it is of one head

    def __post_init__(self) -> None:
        if not isinstance(self.point, str):
            raise SettingError(f"point={self.point!r} is no name of a point")
        if not callable(self.change):
            raise SettingError(f"change={self.change!r:.60} is no function of numbers and their positions")
        for name in ("layer", "text", "head"):
            given = getattr(self, name)
            if name == "layer" or given is not None:
                whole_numbers([given], name)


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
        factors = torch.ones(z.shape[1], dtype=z.dtype)
        factors[head] = by
        return z * factors[:, None]

    return Edit("cross_z" if cross else "z", layer, scaled, text, encoder, head)


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
        kept = [(row, place - here.start) for row, place in enumerate(at) if place in here]
        if not kept:
            return x
        rows, places_here = (torch.tensor(some) for some in zip(*kept, strict=True))
        return x.index_copy(0, places_here, value[rows].to(x.dtype))

    return Edit(point, layer, put, text, encoder)


@dataclass(frozen=True, eq=False)
class Editor:
    """Changes of the calls of one network."""

    network: Transformer
    edits: tuple[Edit, ...]
    met: set[Edit]  # those of one text that a call had

    def begins(self, network: Any, batch: Batch, *, context: Context) -> "Call | None":
        """A call that is to be changed. Of several editors of a network the last one makes the changes of
        all, in the order in which they came, so that weights are changed before what they give."""
        editors = [one for one in WATCHERS.get() if isinstance(one, Editor) and one.network is network]
        if not editors or editors[0] is not self:
            return None
        decoding = context.cache is not None or context.source is not None
        reading = network.config.translates and not decoding
        edits = [(one, own) for own in editors[::-1] for one in own.edits if one.encoder == reading]
        steps = context.cache is not None or IN_STEPS in (context.layout.names or ())
        if steps and any(one.text is not None for one, _ in edits):
            raise SettingError("an edit of one text (text=…) is for calls without a cache; leave text out")
        if not edits:
            return None
        layout = context.layout
        names = layout.names or range(len(layout.lengths))
        texts = [name[1] if isinstance(name, tuple) else name for name in names]
        for one, own in edits:
            if one.text in texts:
                own.met.add(one)
        ordered = sorted((one for one, _ in edits), key=lambda one: one.point not in MADE_AT)
        return Call(tuple(ordered), texts, context)

    def ended(self, trail: object, *, name: object, prompt: tuple[int, ...], tokens: int) -> None:
        """Nothing to keep."""


@dataclass(frozen=True)
class Call:
    """One call that is changed."""

    edits: tuple[Edit, ...]
    texts: Sequence[Any]  # the number of each text in its call, in the order of the batch
    context: Context

    def seen(self, point: Point, x: Tensor, *, layer: int, meeting: Meeting | None) -> Tensor:
        """The numbers, changed where that was asked for."""
        for one in self.edits:
            if MADE_AT.get(one.point, one.point) == point and one.layer == layer:
                x = self.changed(one, x, meeting=meeting)
        return x

    def changed(self, one: Edit, x: Tensor, *, meeting: Meeting | None) -> Tensor:
        """All rows, those of the text or texts that an edit is for changed."""
        found, layout = x.clone(), self.context.layout
        for place, (index, lying, begin) in enumerate(
            zip(layout.order, layout.placed, layout.begins, strict=True)
        ):
            if one.text is not None and self.texts[index] != one.text:
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

    Raises `SettingError` for a point, layer or head that is not there and, at the end, for a text that no
    call had.
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
        if one.head is not None:
            numbers(one.head, "head", count=config.heads)
        if one.point == Point.EMBED and layer:
            raise SettingError(f"layer={one.layer}: vectors of tokens are seen once, at layer 0")
        if one.encoder and one.point in CROSS:
            raise SettingError(f"{one.point} is of the decoder; leave encoder=True out")
        if one.encoder and not config.translates:
            raise SettingError("encoder=True is for models that read a text and answer with another")
    editor = Editor(network, tuple(checked), set())
    with watching(editor, early=True):
        yield
    if missed := [one for one in checked if one.text is not None and one not in editor.met]:
        texts = missed[0].text
        raise SettingError(f"text={texts}: no call in here had a text of that number; they count from 0")
