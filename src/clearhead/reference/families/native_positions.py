"""What our own folders say about positions."""

from collections.abc import Mapping
from typing import Any

from clearhead.errors import FolderError
from clearhead.reference.families.decoders import above_zero
from clearhead.reference.families.published import optional
from clearhead.reference.layers import Array
from clearhead.reference.relative import Relative
from clearhead.reference.rotary import Linear, Llama3, Rotary, turning
from clearhead.reference.stored import field
from clearhead.reference.whole import Fixed

Facts = Mapping[str, Any]


def positions(facts: Facts, learned: Array | None) -> Array | Fixed | None:
    """What is added to token vectors: of a learned table the rows from `offset` on, or fixed ones."""
    table = field(facts, "positions", kind=dict)
    if learned is not None:
        return learned[optional(table, "offset", default=0) :]
    if table["kind"] != "sinusoidal":
        return None
    return "halves" if optional(table, "halves", default=False) else "sinusoidal"


def rotary(table: Facts, head_width: int) -> Rotary:
    """How queries and keys turn: the first `share` of each head's columns, slowed down by `scaling`."""
    share = optional(table, "share", default=1.0)
    columns = turning(head_width, share)
    if not 0.0 < share <= 1.0 or columns < 2 or columns % 2:
        part = "" if share == 1.0 else f", of which {share} turns,"
        raise FolderError(
            f"config.json has a model whose heads of width {head_width}{part} cannot be turned in pairs"
        )
    turns = Rotary(field(table, "base", kind=float), share)
    if table.get("scaling") is None:
        return turns
    scaling = field(table, "scaling", kind=dict)
    match scaling.get("kind"):
        case "linear":
            return turns._replace(scaling=Linear(above_zero(scaling, "factor")))
        case "llama3":
            factor, low, high = (above_zero(scaling, name) for name in ("factor", "low", "high"))
            if high <= low:
                raise FolderError(f"config.json has low={low} and high={high}; the second must be larger")
            return turns._replace(
                scaling=Llama3(factor, low, high, original=field(scaling, "original", kind=int))
            )
    raise FolderError(f"config.json has scaling.kind={scaling.get('kind')!r}; this can be linear, llama3")


def relative(table: Facts, learned: Array) -> Relative:
    """What dot products are moved by; `learned` is [buckets, heads]."""
    return Relative(learned, field(table, "distance", kind=int))
