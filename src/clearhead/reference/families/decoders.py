"""What published decoders have in common: rotary positions in two spellings, and the language head."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.errors import FolderError
from clearhead.reference.families.published import optional
from clearhead.reference.layers import Array
from clearhead.reference.rotary import Linear, Llama3, Rotary, turning
from clearhead.reference.stored import Shape, Tensors, choice, field

Table = Mapping[str, Any]
BASE = 10000.0  # the published default of all families here


def grouped_heads(heads: int, kv_heads: int) -> int:
    """The number of heads of keys and values, each of which answers as many heads as any other."""
    if kv_heads < 1 or heads < 1 or heads % kv_heads:
        raise FolderError(
            f"config.json has {heads} heads and {kv_heads} of keys and values; "
            "the first must be a multiple of the second"
        )
    return kv_heads


# ---- rotary positions --------------------------------------------------------------------------------------

# Fields of any table of rotary parameters, and those of each kind of scaling. Others would be ignored by the
# published code, and here nothing is ignored that may be meant to change numbers.
EVERY = {"rope_type", "type", "rope_theta", "partial_rotary_factor"}
KINDS = {
    "default": EVERY,
    "linear": {*EVERY, "factor"},
    "llama3": {
        *EVERY,
        "factor",
        "low_freq_factor",
        "high_freq_factor",
        "original_max_position_embeddings",
    },
}


def read_rotary(config: Table, head_width: int, *, theta: str = "rope_theta", share: float = 1.0) -> Rotary:
    """How queries and keys turn, in the older spelling of published configs or in the newer.

    Older: a base of its own and `rope_scaling` with a kind (`type` or `rope_type`), null for none. Newer:
    `rope_parameters` with everything. Where a file has both, the published code reads `rope_scaling`; a base
    and a share inside the table precede those outside. `theta` is the name of the base outside, and `share`
    the value of the share where the table has none.
    """
    name = "rope_scaling" if config.get("rope_scaling") else "rope_parameters"
    table = field(config, name, kind=dict) if config.get(name) else {}
    kind = table.get("rope_type", table.get("type", "default"))
    allowed = choice("rope_type", kind, choices=KINDS)
    if unknown := sorted(set(table) - allowed):
        raise FolderError(f"config.json has {', '.join(unknown)} in {name}; {kind!r} does not use that here")
    share = optional(table, "partial_rotary_factor", default=share)
    columns = turning(head_width, share)
    if not 0.0 < share <= 1.0 or columns < 2 or columns % 2:
        raise FolderError(
            f"config.json has heads of width {head_width}, of which {share} turns; "
            f"{columns} columns cannot be turned in pairs"
        )
    if "rope_theta" in table:
        base = field(table, "rope_theta", kind=float)
    else:
        base = optional(config, theta, default=BASE)
    if base <= 0.0:
        raise FolderError(f"config.json has {theta}={base}; the base of rotary positions must be above 0")
    match kind:
        case "linear":
            return Rotary(base, share, scaling=Linear(above_zero(table, "factor")))
        case "llama3":
            return Rotary(base, share, scaling=llama3(config, table))
    return Rotary(base, share)


def llama3(config: Table, table: Table) -> Llama3:
    """The original length may stand outside the table, which then precedes; without it, it is the present."""
    original = "original_max_position_embeddings"
    if original in config:
        table = {**table, original: config[original]}
    elif original not in table:
        table = {**table, original: field(config, "max_position_embeddings", kind=int)}
    low, high = above_zero(table, "low_freq_factor"), above_zero(table, "high_freq_factor")
    if high <= low:
        raise FolderError(
            f"config.json has low_freq_factor={low} and high_freq_factor={high}; the second must be larger"
        )
    return Llama3(
        factor=above_zero(table, "factor"), low=low, high=high, original=field(table, original, kind=int)
    )


def above_zero(table: Table, name: str) -> float:
    number = field(table, name, kind=float)
    if number <= 0.0:
        raise FolderError(f"config.json has {name}={number}; it must be above 0")
    return number


# ---- the language head -------------------------------------------------------------------------------------


def head_shapes(config: Table, tensors: Tensors, *, name: str, shape: Shape, tied: bool) -> dict[str, Shape]:
    """The head's matrix, if the file holds it or must.

    A tied one may be left out. So may any other by a class that is a body only (its name ends in Model, not
    in LMHeadModel).
    """
    classes = config.get("architectures") or []
    body = any(kind.endswith("Model") and not kind.endswith("LMHeadModel") for kind in classes)
    return {name: shape} if name in tensors or not (tied or body) else {}


def language_matrix(path: Path, own: Array | None, *, embedding: Array, tied: bool) -> Array | None:
    """What hidden vectors are multiplied with. A tied matrix may be stored twice, if both are equal."""
    if tied and own is not None and not np.array_equal(own, embedding):
        raise FolderError(
            f"{path} has tie_word_embeddings=true, but stores a language head that differs from the "
            "embedding; if it is meant, set tie_word_embeddings to false in config.json"
        )
    return embedding if tied else own
