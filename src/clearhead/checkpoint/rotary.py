"""Rotary positions in published configs: `rope_parameters`, and the fields that were before it."""

from collections.abc import Mapping
from math import inf
from typing import Any

from clearhead.checkpoint.translate import Fields
from clearhead.errors import FolderError
from clearhead.model.config import LinearScaling, Llama3Scaling, Rotary, Scaling

BASE = 10000.0
LLAMA3 = {
    "factor": "factor",
    "low_freq_factor": "low",
    "high_freq_factor": "high",
    "original_max_position_embeddings": "original",
}
KINDS = ("default", "linear", "llama3")
KNOWN = {"rope_type", "type", "rope_theta", "partial_rotary_factor", *LLAMA3}
WHY = {
    "dynamic": "the angles of a token would change with the length of its text",
}


def read_rotary(
    fields: Fields, *, base: str = "rope_theta", share: str | None = None, portion: float = 1.0
) -> Rotary:
    """Facts from either spelling; `share`, where a family turns only a part of each head, is its older field
    and `portion` the published default."""
    count = fields.fact("positions", "max_position_embeddings", default=2048)
    stated: dict[str, Any] = {}
    for name in ("rope_parameters", "rope_scaling"):  # of both, the published code hears the older one
        table = fields(name, None) or {}
        if not isinstance(table, Mapping):
            raise FolderError(f"{fields.source}: {name}={table!r} is no table of rotary parameters")
        kind = kind_of(table, fields)
        if unknown := sorted(set(table) - KNOWN):
            raise FolderError(
                f"{fields.source}: {name} has {unknown[0]!r}, which is not supported; "
                "take it out if the model was trained without"
            )
        stated |= table
        if {"rope_type", "type"} & table.keys():
            stated |= {"rope_type": kind, "type": kind}
    turned, older = stated.get("partial_rotary_factor"), fields(share or "partial_rotary_factor", portion)
    turned = older if turned is None else turned
    if share:
        fields.require(partial_rotary_factor=turned)
    elif turned not in (1, None):
        raise FolderError(f"{fields.source}: partial_rotary_factor={turned!r} is not supported, only 1.0")
    theta = stated.get("rope_theta", fields(base, BASE))
    positive(base, theta, fields=fields)
    if share and positive(share, turned, fields=fields) > 1:
        raise FolderError(f"{fields.source}: {share}={turned} must be at most 1, a whole head")
    fields.spelled |= {f"scaling.{ours}": name for name, ours in LLAMA3.items()} | {
        "high": "high_freq_factor"
    }
    part = float(turned) if share else 1.0
    return Rotary(count, float(theta), share=part, scaling=scaling_of(stated, fields))


def kind_of(stated: Mapping[str, Any], fields: Fields) -> str:
    """What kind of angles a table states; one that is not supported is refused with the reason."""
    kind = stated.get("rope_type") or stated.get("type") or "default"
    if not isinstance(kind, str) or kind not in KINDS:
        why = f" ({WHY[kind]})" if isinstance(kind, str) and kind in WHY else ""
        raise FolderError(
            f"{fields.source}: rope_type={kind!r} is not supported{why}; supported: {', '.join(KINDS)}"
        )
    return kind


def scaling_of(stated: Mapping[str, Any], fields: Fields) -> Scaling | None:
    """How the angles are slowed down so that longer texts fit."""
    match kind_of(stated, fields):
        case "linear":
            return LinearScaling(float(number(stated, "factor", fields=fields)))
        case "llama3":
            found = {ours: number(stated, name, fields=fields) for name, ours in LLAMA3.items()}
            return Llama3Scaling(**found)
        case _:
            return None


def number(stated: Mapping[str, Any], name: str, *, fields: Fields) -> Any:
    """One number that a scaling needs; the length of before may stand outside the table."""
    value = stated.get(name, fields(name, None) if name.startswith("original") else None)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FolderError(f"{fields.source}: the rotary scaling needs {name}, a number; it has {value!r}")
    return value


def positive(name: str, value: Any, *, fields: Fields) -> float:
    """A field's value, where it is a number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < inf:
        raise FolderError(f"{fields.source}: {name}={value!r} must be a number above 0")
    return value


def write_rotary(facts: Rotary, *, base: str = "rope_theta", share: str | None = None) -> dict[str, Any]:
    """Fields in the older spelling, which all versions read."""
    said: dict[str, Any] = {base: facts.base, "max_position_embeddings": facts.count}
    match facts.scaling:
        case None:
            said["rope_scaling"] = None
        case LinearScaling(factor=factor):
            said["rope_scaling"] = {"rope_type": "linear", "type": "linear", "factor": factor}
        case Llama3Scaling() as scaling:
            table = {name: getattr(scaling, ours) for name, ours in LLAMA3.items()}
            said["rope_scaling"] = {"rope_type": "llama3", **table}
    return said | ({share: facts.share} if share else {})


def rotary_base(fields: Fields, *, kind: str, older: str, default: float) -> float:
    """The base of rotary angles for one kind of block, from rope_parameters or its older field."""
    fields.require(rope_scaling=None)
    usual = fields(older, default)
    table = fields("rope_parameters", None) or {kind: {}}
    stated = table.get(kind) if isinstance(table, dict) else None
    if not isinstance(stated, dict):
        raise FolderError(f"{fields.source}: rope_parameters={table!r} says nothing of {kind!r}")
    for name in ("rope_type", "type"):
        if stated.get(name, "default") != "default":
            raise FolderError(f"{fields.source}: {name}={stated[name]!r} is not supported, only 'default'")
    name = "rope_theta" if "rope_theta" in stated else older
    return float(positive(name, stated.get("rope_theta", usual), fields=fields))


def two_bases(fields: Fields) -> tuple[float, float | None]:
    """ModernBERT's: that of blocks which see the whole text, and that of blocks with a window."""
    base = rotary_base(fields, kind="full_attention", older="global_rope_theta", default=160000.0)
    local = rotary_base(fields, kind="sliding_attention", older="local_rope_theta", default=10000.0)
    return base, local
