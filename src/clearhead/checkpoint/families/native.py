"""Our own folder: `model_type: clearhead`, the facts as JSON, tensors by our own names."""

from dataclasses import asdict
from dataclasses import fields as names_of
from typing import Any, get_args, get_type_hints

from clearhead.checkpoint.family import Family, Rule
from clearhead.checkpoint.places import positions, spelled
from clearhead.checkpoint.translate import Fields
from clearhead.errors import FolderError
from clearhead.model.config import (
    Activation,
    Config,
    Fill,
    Head,
    Norm,
    Over,
    Pooling,
)

CHOICES = {"activation": Activation, "norm": Norm, "pooling": Pooling, "over": Over}

BLOCK = (
    "attention.qkv.{p}",
    "attention.query_norm.{p}",
    "attention.key_norm.{p}",
    "attention.output.{p}",
    "attention_norm.{p}",
    "feed_forward.expand.{p}",
    "feed_forward.contract.{p}",
    "feed_forward_norm.{p}",
)
RECALL = ("recall.query.{p}", "recall.memory.{p}", "recall.output.{p}", "recall_norm.{p}")
OURS = (
    *(f"{embedding}.{part}" for embedding in ("embedding", "decoder_embedding") for part in (
        "tokens.weight", "positions.weight", "segments.weight", "norm.{p}", "widen.{p}"
    )),
    *(f"{side}.{part}" for side in ("encoder", "decoder") for part in ("relative.weight", "norm.{p}")),
    *("encoder.blocks.{i}." + part for part in BLOCK),
    *("decoder.blocks.{i}." + part for part in (*BLOCK, *RECALL)),
    "head.dense.{p}",
    "head.norm.{p}",
    "head.output.{p}",
    "language_head.{p}",
    "language_bias",
    "fill.dense.{p}",
    "fill.norm.{p}",
    "fill.output.weight",
    "fill.bias",
)  # fmt: skip


def facts(kind: type, values: dict[str, Any], *, source: str) -> Any:
    """A dataclass of facts from JSON; unknown facts are refused by name."""
    known = {field.name for field in names_of(kind)}
    if unknown := sorted(set(values) - known):
        raise FolderError(f"{source}: unknown facts {', '.join(unknown)}; a newer version may know them")
    ready = dict(values)
    for name, choice in CHOICES.items():
        if name in ready:
            ready[name] = choice(ready[name])
    for name, hint in get_type_hints(kind).items():
        switch = hint is bool or bool in get_args(hint)
        unset = ready.get(name) is None and hint is not bool
        if name in ready and switch and not (isinstance(ready[name], bool) or unset):
            raise FolderError(f"{source}: {name}={ready[name]!r} must be true or false")
    if ready.get("fill") is not None:
        ready["fill"] = facts(Fill, ready["fill"], source=source)
    if "positions" in ready:
        ready["positions"] = positions(ready["positions"], source)
    return kind(**ready)


def config(fields: Fields) -> Config:
    """Facts as they stand."""
    return facts(Config, fields("facts"), source=fields.source)


def head(fields: Fields, names: set[str]) -> Head | None:
    """The head as it stands."""
    value = fields("head", None)
    return facts(Head, value, source=fields.source) if value else None


def new_head(fields: Fields) -> Head:
    """The mean of all tokens and one layer."""
    return Head(labels=0, pooling=Pooling.MEAN, dense=False)


def fields(config: Config, head: Head | None) -> dict[str, Any]:
    """The facts as JSON."""
    body = "Decoder" if config.causal else "Translator" if config.translates else "Encoder"
    named = "Classifier" if head and head.labels else body
    return {
        "model_type": "clearhead",
        "architectures": [f"Clearhead{named}"],
        "facts": asdict(config) | {"positions": spelled(config.positions)},
        "head": asdict(head) if head else None,
    }


FAMILY = Family(
    "clearhead",
    config,
    head,
    fields,
    tuple(Rule(name, (name,)) for name in OURS),
    new_head,
)
