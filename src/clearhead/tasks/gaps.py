"""Texts with masks that are longer than a model takes: which part of them each mask is looked at in."""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from math import inf

from clearhead.errors import DataError
from clearhead.settings import Reading
from clearhead.tasks.examples import refuse_stride
from clearhead.text.encoding import Encoding
from clearhead.text.windows import kept, spread


@dataclass(frozen=True, slots=True)
class Part:
    """Some of a text's tokens within what stands around them, and which masks are looked at here: where each
    stands in it, in the order of the text."""

    encoding: Encoding
    masks: tuple[int, ...]


def parts_of(
    whole: Encoding, mask: int, *, name: str, limit: int | None, reading: Reading, side: str
) -> list[Part]:
    """A text as it is read: whole where it fits. A longer one is refused unless it may be cut (at `side`),
    which loses no mask, or read in windows: then each mask is looked at in the one where most tokens stand to
    its nearer side, an end of the text being none; of equals in the first.

    Raises `DataError`, beginning with `name`.
    """
    if reading.long != "window":
        refuse_stride(reading)
    places = [at for at, id in enumerate(whole.ids) if id == mask]
    if limit is None or len(whole.ids) <= limit:
        return [Part(whole, tuple(places))]
    said = f"{name}: the text has {len(whole.ids)} tokens, the model takes {limit}"
    inside = [at for at, source in enumerate(whole.sources) if source >= 0]
    room = limit - (len(whole.ids) - len(inside))
    if reading.long == "truncate":
        stay = set(inside[kept(len(inside), room=room, side=side)])
        if lost := sum(at not in stay for at in places):
            raise DataError(f"{said}, and {lost} of its masks would be cut; use --long window")
        return [part(whole, stay, masks=places)]
    if reading.long != "window":
        raise DataError(f"{said}; shorten it, or read it in windows with --long window")
    windows = spread(len(inside), room=room, stride=reading.stride, name=name)

    def near(window: range, at: int) -> float:
        before = inf if window.start == 0 else at - window.start
        behind = inf if window.stop == len(inside) else window.stop - 1 - at
        return min(before, behind)

    owners: dict[range, list[int]] = {}
    for at in places:
        own = inside.index(at)
        best = max((w for w in windows if own in w), key=lambda w: (near(w, own), -w.start))
        owners.setdefault(best, []).append(at)
    return [part(whole, set(inside[w.start : w.stop]), masks=masks) for w, masks in owners.items()]


def part(whole: Encoding, own: Set[int], *, masks: Sequence[int]) -> Part:
    """These of the text's tokens, and all that stand around it."""
    stay = [at for at, source in enumerate(whole.sources) if source < 0 or at in own]
    encoding = Encoding(
        ids=tuple(whole.ids[at] for at in stay),
        segments=tuple(whole.segments[at] for at in stay),
        offsets=tuple(whole.offsets[at] for at in stay),
        sources=tuple(whole.sources[at] for at in stay),
        dropped=len(whole.ids) - len(stay),
    )
    return Part(encoding, tuple(stay.index(at) for at in masks))
