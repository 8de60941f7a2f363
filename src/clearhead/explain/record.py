"""Record what a model did: attention and activations of any call, as it runs, on the path it takes anyway.

    with record(model, layers=[3]) as seen:
        model.predict(["great bread"])
    seen.attention[0][3]  # of the first text: (heads, queries, keys)

Nothing is computed twice but the weights that were asked for, and no bit of an answer changes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from clearhead.engine.watching import Meeting, Point, watching
from clearhead.explain.asked import CROSS_PATTERN, MADE_AT, PATTERN, Asked, Some, What, network_of
from clearhead.explain.patterns import pattern
from clearhead.infer.batches import CALLS
from clearhead.infer.model import Model
from clearhead.model.kernels import Context
from clearhead.model.layout import Batch, Layout
from clearhead.model.transformer import Transformer

WHOLE = (Point.K, Point.V)
HEADED = (Point.Q, Point.K, Point.V, Point.Z, Point.CROSS_Q, Point.CROSS_Z)
Points = dict[str, dict[int, Tensor]]


@dataclass(frozen=True, eq=False)
class Record:
    """What was seen of one text. `ids` are the tokens that went through the layers (of an answer all but one
    that ended it), `queries` the positions whose rows were kept, `heads` those that were (None: all),
    `source` what an answer's model read."""

    ids: tuple[int, ...]
    queries: tuple[int, ...]
    heads: tuple[int, ...] | None
    points: Points
    source: "Record | None" = None

    def __getitem__(self, what: str) -> dict[int, Tensor]:
        """By layer: `[heads, queries, keys]` of a pattern, `[queries, heads, head_width]` of q and z,
        `[tokens, kv_heads, head_width]` of k and v, `[queries, width]` of the stream."""
        return self.points.get(what, {})

    @property
    def attention(self) -> dict[int, Float[Tensor, "heads queries keys"]]:
        """Weights of self-attention, by layer."""
        return self[PATTERN]

    @property
    def cross(self) -> dict[int, Float[Tensor, "heads queries source"]]:
        """Weights of a decoder's attention to what it read, by layer."""
        return self[CROSS_PATTERN]


@dataclass(eq=False)
class Piece:
    """What one call saw of one text: its tokens from the position `begin` on."""

    owner: "Seen"
    begin: int
    ids: tuple[int, ...]
    places: list[int]
    before: object = None  # the trail up to here
    points: Points = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The position behind its last token."""
        return self.begin + len(self.ids)


@dataclass(eq=False)
class Seen:
    """What a recorder has seen: one `Record` a text, in the order of calls and of texts within a call; of a
    text that was read in windows, one a window; of answers, one for each that was given, the best first."""

    network: Transformer
    asked: Asked
    found: dict[Any, Record | Piece] = field(default_factory=dict)
    read: dict[tuple[int, ...], Piece] = field(default_factory=dict)  # by an encoder that is answered
    read_as: dict[Layout, list[Piece]] = field(default_factory=dict)
    answers: dict[Any, Piece] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.found)

    def __getitem__(self, text: int) -> Record:
        return self.record_of(sorted(self.found)[text])

    def __iter__(self) -> Iterator[Record]:
        return map(self.record_of, sorted(self.found))

    @property
    def records(self) -> list[Record]:
        """One a text, in order."""
        return list(self)

    def record_of(self, name: Any) -> Record:
        """What was seen of the text of this name."""
        one = self.found[name]
        return one if isinstance(one, Record) else joined([one], self.asked, source=self.answers.get(name))

    @property
    def attention(self) -> list[dict[int, Tensor]]:
        """Weights of self-attention: `[text][layer]`, each `(heads, queries, keys)`."""
        return [record.attention for record in self]

    @property
    def sources(self) -> list[Record]:
        """What an encoder has read that is answered, each different text once."""
        return [joined([piece], self.asked) for piece in self.read.values()]

    def begins(self, network: Any, batch: Batch, *, context: Context) -> "Call | None":
        """A call that is to be watched."""
        if network is not self.network:
            return None
        layout, cache = context.layout, context.cache
        ids = [tuple(batch.ids[rows].tolist()) for rows in layout.slices]
        begins = dict(zip(layout.order, layout.begins, strict=True))
        pieces = [self.piece(own, begins[index], later=cache is not None) for index, own in enumerate(ids)]
        if cache is not None:
            for index, piece in enumerate(pieces):
                piece.before, cache.trails[index] = cache.trails[index], piece
        elif network.config.translates and context.source is None:
            self.read_as[layout] = pieces
            self.read |= dict(zip(ids, pieces, strict=True))
        else:
            call = next(CALLS)
            names = layout.names or [(call, index) for index in range(len(ids))]
            self.found |= dict(zip(names, pieces, strict=True))
            if context.source is not None:
                read = self.read_as.pop(context.source.layout, [])
                self.answers |= dict(zip(names, read, strict=False))
        decoding = network.config.translates and (cache is not None or context.source is not None)
        layers = self.asked.decoder_layers if decoding else self.asked.layers
        return Call(self.asked, layers, context, pieces)

    def piece(self, ids: tuple[int, ...], begin: int, *, later: bool) -> Piece:
        """Nothing yet of these tokens. Of an answer whose end is not known, rows that count from there are
        chosen when it is."""
        every = list(range(begin, begin + len(ids)))
        if later and self.asked.counted_from_the_end:
            return Piece(self, begin, ids, every)
        kept = set(self.asked.places(begin + len(ids)))
        return Piece(self, begin, ids, [place for place in every if place in kept])

    def ended(self, trail: object, *, name: object, prompt: tuple[int, ...], tokens: int) -> None:
        """An answer that was made in steps is whole."""
        pieces = list[Piece]()
        while isinstance(trail, Piece):
            if trail.owner is self:
                pieces.append(trail)
            trail = trail.before
        if pieces:
            source = self.read.get(prompt)
            self.found[name] = joined(pieces[::-1], self.asked, tokens=tokens, source=source)


@dataclass(frozen=True, eq=False)
class Call:
    """One call that is watched; `pieces` in the caller's order."""

    asked: Asked
    layers: frozenset[int]
    context: Context
    pieces: list[Piece]

    @torch.no_grad()
    def seen(self, point: Point, x: Tensor, *, layer: int, meeting: Meeting | None) -> Tensor:
        """Keep what was asked for, and let it go on as it came."""
        names = self.asked.points(point) if layer in self.layers or point is Point.EMBED else ()
        for name in names:
            for place, (index, lying) in enumerate(
                zip(self.context.layout.order, self.context.layout.placed, strict=True)
            ):
                piece = self.pieces[index]
                if name in MADE_AT and meeting and place in meeting.weights:
                    rows = [at - piece.begin for at in piece.places]
                    numbers = meeting.weights[place][:, rows]
                    numbers = numbers if self.asked.heads is None else numbers[list(self.asked.heads)]
                elif name in MADE_AT:
                    assert meeting
                    numbers = pattern(
                        meeting,
                        meeting.spans[place],
                        lying=lying,
                        begin=piece.begin,
                        places=piece.places,
                        heads=self.asked.heads,
                    )
                else:
                    numbers = self.rows(point, x[lying], piece=piece)
                piece.points.setdefault(name, {})[layer] = numbers
        return x

    def rows(self, point: Point, x: Tensor, *, piece: Piece) -> Tensor:
        """The rows and heads of one text that are kept; of keys and values all rows."""
        if point not in WHOLE:
            x = x[[place - piece.begin for place in piece.places]]
        if point in HEADED and self.asked.heads is not None:
            every = piece.owner.network.config.heads
            x = x[:, sorted({head * x.shape[1] // every for head in self.asked.heads})]
        return x.clone() if point in WHOLE else x


def joined(
    pieces: Sequence[Piece], asked: Asked, *, tokens: int | None = None, source: Piece | None = None
) -> Record:
    """One record of what calls have seen of a text, one after another, as far as `tokens`. A token that was
    taken back is left out, with all that came after it."""
    stops = [piece.end if tokens is None else min(piece.end, tokens) for piece in pieces]
    for at in range(len(pieces) - 1, 0, -1):
        stops[at - 1] = min(stops[at - 1], pieces[at].begin, stops[at])
    wanted = set(asked.places(stops[-1]))
    parts: dict[str, dict[int, list[Tensor]]] = {}
    ids, queries = list[int](), list[int]()
    for piece, stop in zip(pieces, stops, strict=True):
        ids += piece.ids[: max(0, stop - piece.begin)]
        rows = [row for row, place in enumerate(piece.places) if place < stop and place in wanted]
        queries += [piece.places[row] for row in rows]
        for name, layers in piece.points.items():
            for layer, numbers in layers.items():
                some = parts.setdefault(name, {}).setdefault(layer, [])
                some.append(cut(name, numbers, rows=rows, tokens=max(0, stop - piece.begin)))
    points = {
        name: {layer: whole(name, some) for layer, some in each.items()} for name, each in parts.items()
    }
    read = None if source is None else joined([source], asked)
    return Record(tuple(ids), tuple(queries), asked.heads, points, read)


def cut(name: str, numbers: Tensor, *, rows: list[int], tokens: int) -> Tensor:
    """The rows that are kept, of keys and values those of the tokens that are."""
    if name in WHOLE:
        return numbers[:tokens]
    at = 1 if name in MADE_AT else 0
    if len(rows) == numbers.shape[at]:
        return numbers
    return numbers.index_select(at, torch.tensor(rows, dtype=torch.long))


def whole(name: str, parts: Sequence[Tensor]) -> Tensor:
    """Rows of all calls; weights of early ones are 0 for keys that came later."""
    if len(parts) == 1:
        return parts[0]
    if name not in MADE_AT:
        return torch.cat(list(parts))
    most = max(part.shape[2] for part in parts)
    return torch.cat([pad(part, (0, most - part.shape[2])) for part in parts], dim=1)


@contextmanager
def record(
    model: Model | Transformer,
    *,
    layers: Some = None,
    heads: Some = None,
    queries: Some | slice = None,
    what: What = None,
) -> Iterator[Seen]:
    """Record calls of this model that this thread makes in here: predict, embed, generate, a training step.

    `layers` and `heads` are numbers from 0 (negative: from the last), `queries` positions of tokens whose
    rows are kept, all where not given; `what` are names of a `Point`, "pattern" (the weights of attention, in
    training before dropout) or "cross_pattern". Raises `SettingError` for what the model does not have.
    """
    network = network_of(model)
    seen = Seen(network, Asked.of(network, layers=layers, heads=heads, queries=queries, what=what))
    with watching(seen):
        yield seen
