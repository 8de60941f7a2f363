"""Where two models part: the first layer, point and head at which the same ids give other numbers. The tool
for finding a porting error."""

from dataclasses import dataclass, fields, replace

from torch import Tensor

from clearhead.engine.modes import own_modes
from clearhead.engine.watching import Point
from clearhead.errors import DataError, SettingError
from clearhead.explain.asked import CROSS, MADE_AT
from clearhead.explain.lens import said_by_head
from clearhead.explain.objective import Reading
from clearhead.explain.record import HEADED, Record, record
from clearhead.infer.model import Model
from clearhead.text.encoding import Text

# As they are computed; weights before what heads gather by them.
ORDER = tuple(
    name
    for point in Point
    if point is not Point.EMBED
    for name in (*(made for made, at in MADE_AT.items() if at is point), str(point))
)


@dataclass(frozen=True)
class Gap:
    """How far two models are apart at one point: the largest difference over the largest number there; of
    numbers by head, by head too."""

    stack: str  # "encoder", "decoder", or "" where there is one
    layer: int
    point: str
    difference: float
    heads: tuple[float, ...] = ()

    @property
    def where(self) -> str:
        """In words."""
        return f"{self.stack} layer {self.layer}, {self.point}".strip()


@dataclass(frozen=True)
class Comparison:
    """The gaps in the order in which they are computed, what was read, which facts differ, and the first gap
    above the tolerance; None where the models agree."""

    tokens: tuple[str, ...]
    gaps: tuple[Gap, ...]
    facts: tuple[str, ...]
    first: Gap | None
    tolerance: float

    @property
    def heads(self) -> tuple[int, ...]:
        """The heads that are apart where the models part."""
        apart = self.first.heads if self.first else ()
        return tuple(head for head, gap in enumerate(apart) if not gap <= self.tolerance)


@own_modes()
def compare(
    one: Model, other: Model, *, text: Text, answer: str | None = None, tolerance: float = 1e-4
) -> Comparison:
    """Both models on the same text, point by point. Raises `DataError` where their tokenizers give it other
    ids, `SettingError` where their numbers have other shapes."""
    if one.translates != other.translates:
        raise SettingError("one of the models reads a text and answers with another, the other does not")
    first = Reading.of(one, text, answer=answer)
    second = Reading.of(other, text, answer=answer)
    if answer is None:  # both are shown the first one's answer
        second = replace(second, said=first.said).checked()
    same_ids(first, second)
    facts = different(one, other)
    records, ends = zip(*(seen_of(reading) for reading in (first, second)), strict=True)
    gaps = []
    if one.translates:
        gaps += gaps_of(records[0].source, records[1].source, stack="encoder")
    gaps += gaps_of(*records, stack="decoder" if one.translates else "")
    gaps += ends_of(*ends, reading=first)
    tokens = tuple(one.tokenizer.name(id) for id in first.encoding.ids)
    parted = next((gap for gap in gaps if not gap.difference <= tolerance), None)
    return Comparison(tokens, tuple(gaps), facts, parted, tolerance)


def same_ids(one: Reading, other: Reading) -> None:
    """Refuse two readings of other ids, by the first token at which they part."""
    for part, what in (("encoding", "text"), ("said", "answer")):
        mine, theirs = (getattr(each, part) for each in (one, other))
        mine, theirs = (mine.ids, theirs.ids) if part == "encoding" else (mine, theirs)
        if mine == theirs:
            continue
        pairs = enumerate(zip(mine, theirs, strict=False))
        at = next((place for place, (a, b) in pairs if a != b), min(len(mine), len(theirs)))
        raise DataError(
            f"the tokenizers part before the models do: token {at} of the {what} is "
            f"{said(one.model, mine, at=at)} for {one.model.name} and {said(other.model, theirs, at=at)} for "
            f"{other.model.name}"
        )


def seen_of(reading: Reading) -> tuple[Record, dict[str, Tensor]]:
    """All that one model computes of a text: in its blocks, and behind the last one."""
    config = reading.model.config
    points = [point for point in ORDER if config.translates or point not in CROSS]
    if config.parallel:
        points.remove(Point.RESID_MID)
    with record(reading.model, what=points) as seen:
        stream, batch = reading.run()
    rows = stream[batch.layout.slices[0]]
    return seen[0], {"final norm": rows, "answer": said_by_head(reading, rows, batch=batch)}


def gaps_of(one: Record | None, other: Record | None, *, stack: str) -> list[Gap]:
    """The gaps of one stack, in the order in which they are computed."""
    assert one
    assert other
    found = []
    layers, others = ({at for own in seen.points.values() for at in own} for seen in (one, other))
    if layers != others:
        raise SettingError(f"{stack} the models have {len(layers)} and {len(others)} layers".strip())
    for layer in sorted(layers):
        for point in (point for point in ORDER if layer in one[point]):
            mine, theirs = one[point][layer], other[point].get(layer)
            where = f"{stack} layer {layer}, {point}".strip()
            if theirs is None or theirs.shape != mine.shape:
                shape = "none" if theirs is None else [*theirs.shape]
                raise SettingError(
                    f"{where}: the models' numbers have other shapes: {[*mine.shape]} and {shape}"
                )
            by_head = 0 if point in MADE_AT else 1 if point in HEADED else None
            found.append(gap_of(Gap(stack, layer, point, 0.0), mine, theirs=theirs, by_head=by_head))
    return found


def gap_of(where: Gap, mine: Tensor, *, theirs: Tensor, by_head: int | None = None) -> Gap:
    """How far two tensors of one shape are apart; `by_head` is the dimension of heads."""
    apart = (mine.double() - theirs.double()).abs() / (float(theirs.abs().max()) or 1.0)
    heads = () if by_head is None else tuple(apart.movedim(by_head, 0).flatten(1).amax(1).tolist())
    return replace(where, difference=float(apart.max()), heads=heads)


def ends_of(one: dict[str, Tensor], other: dict[str, Tensor], *, reading: Reading) -> list[Gap]:
    """The gaps behind the last block: of the norm there, and of what the head says."""
    config, found = reading.model.config, []
    layer, stack = config.decoder_layers or config.layers, "decoder" if config.translates else ""
    for point, mine in one.items():
        if mine.shape != other[point].shape:
            shapes = f"{[*mine.shape]} and {[*other[point].shape]}"
            raise SettingError(f"{point}: the models' numbers have other shapes: {shapes}")
        found.append(gap_of(Gap(stack, layer, point, 0.0), mine, theirs=other[point]))
    return found


def different(one: Model, other: Model) -> tuple[str, ...]:
    """The facts of the architectures that differ."""
    return tuple(
        f"{item.name}: {getattr(one.config, item.name)!r} and {getattr(other.config, item.name)!r}"
        for item in fields(one.config)
        if getattr(one.config, item.name) != getattr(other.config, item.name)
    )


def said(model: Model, ids: tuple[int, ...], *, at: int) -> str:
    """A token in words."""
    return repr(model.tokenizer.name(ids[at])) if at < len(ids) else "missing"
