"""Texts with masks that are longer than a model takes: which part of them each mask is looked at in."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from clearhead.errors import DataError
from clearhead.settings import Reading
from clearhead.text.encoding import Encoding


@dataclass(frozen=True, slots=True)
class Part:
    """Some of a text's tokens within what stands around them, and which masks are looked at here: where each
    stands in it, in the order of the text."""

    encoding: Encoding
    masks: tuple[int, ...]


def parts_of(whole: Encoding, mask: int, *, name: str, limit: int | None, reading: Reading) -> list[Part]:
    """A text as it is read: whole where it fits. A longer one is refused unless it may be cut, which loses no
    mask, or read in windows: then each mask is looked at in the one where most tokens stand to its nearer
    side, an end of the text being none; of equals in the first.

    Raises `DataError`, beginning with `name`.
    """
    places = [at for at, id in enumerate(whole.ids) if id == mask]
    if limit is None or len(whole.ids) <= limit:
        return [Part(whole, tuple(places))]
    said = f"{name}: the text has {len(whole.ids)} tokens, the model takes {limit}"
    inside = [at for at, source in enumerate(whole.sources) if source >= 0]
    room = limit - (len(whole.ids) - len(inside))
    if reading.long == "truncate":
        if lost := sum(at > inside[room - 1] for at in places):
            raise DataError(f"{said}, and {lost} of its masks would be cut; use --long window")
        return [part(whole, range(inside[0], inside[0] + room), masks=places)]
    if reading.long != "window":
        raise DataError(f"{said}; shorten it, or read it in windows with --long window")
    step = reading.stride or -(-room // 2)
    if step > room:
        raise DataError(f"{name}: --stride {step} skips tokens, for a window has room for {room}")
    first, last = inside[0], inside[-1]
    begins = range(first, last + 1, step)
    windows = [range(begin, min(begin + room, last + 1)) for begin in begins]
    windows = windows[: 1 + next(at for at, window in enumerate(windows) if window.stop > last)]

    def near(window: range, at: int) -> float:
        before = float("inf") if window.start == first else at - window.start
        behind = float("inf") if window.stop > last else window.stop - 1 - at
        return min(before, behind)

    chosen = [max((w for w in windows if at in w), key=lambda w: (near(w, at), -w.start)) for at in places]
    used = sorted(set(chosen), key=lambda window: window.start)
    return [
        part(whole, window, masks=[at for at, own in zip(places, chosen, strict=True) if own == window])
        for window in used
    ]


def part(whole: Encoding, kept: range, *, masks: Sequence[int]) -> Part:
    """The tokens of a range, and all that stand around a text."""
    stay = [at for at, source in enumerate(whole.sources) if source < 0 or at in kept]
    rows = (whole.ids, whole.segments, whole.offsets, whole.sources)
    ids, segments, offsets, sources = (tuple(row[at] for at in stay) for row in rows)
    found = replace(whole, ids=ids, segments=segments, sources=sources)  # type: ignore[arg-type]
    found = replace(found, offsets=offsets, dropped=len(whole.ids) - len(stay))  # type: ignore[arg-type]
    return Part(found, tuple(stay.index(at) for at in masks))
