"""Our own folder: `model_type: clearhead`, the facts as JSON, tensors by our own names."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from clearhead.errors import FolderError
from clearhead.reference.attention import AttentionWeights
from clearhead.reference.encoder import (
    BlockFacts,
    BlockWeights,
    Embedding,
    Head,
    Pooling,
    Sight,
    WholeModel,
)
from clearhead.reference.families.published import optional, paired_heads, shared_heads
from clearhead.reference.layers import Activation, Array, gelu, gelu_tanh, relu, tanh
from clearhead.reference.stored import Shape, Tensors, affine, choice, field, possible, thirds, two

ACTIVATIONS: dict[str, Activation] = {"relu": relu, "gelu": gelu, "gelu_tanh": gelu_tanh, "tanh": tanh}
POOLINGS: dict[str, Pooling] = {"cls": "cls", "mean": "mean", "max": "max"}
# Facts that change the arithmetic in ways that are not computed here, with the value that leaves it as it is.
PLAIN = {"norm": "layer", "causal": False, "decoder_layers": 0, "head_width": None, "language_head": False}
Facts = Mapping[str, Any]


def read_clearhead(path: Path, config: Facts) -> WholeModel:
    """A model made here, with whatever facts it has; those that are not computed here are refused by name.

    Source: as for the published families, fact by fact.
    """
    facts = field(config, "facts", kind=dict)
    for name, plain in PLAIN.items():
        if facts.get(name, plain) != plain:
            raise FolderError(
                f"config.json has {name}={facts[name]!r}; only {name}={plain!r} is computed here"
            )
    if "head" not in config:
        raise FolderError("config.json lacks the field 'head'; it is null for a model without one")
    head = config["head"] if config["head"] is None else field(config, "head", kind=dict)
    width = field(facts, "width", kind=int)
    rotary = field(facts, "positions", kind=dict).get("kind") == "rotary"
    block_facts = BlockFacts(
        heads=(paired_heads if rotary else shared_heads)(width, field(facts, "heads", kind=int)),
        activation=choice("activation", facts.get("activation"), choices=ACTIVATIONS),
        norm_first=field(facts, "norm_first", kind=bool),
        epsilon=field(facts, "epsilon", kind=float),
        gated=optional(facts, "gated", default=False),
    )
    arrays = Tensors(path).take(body_shapes(facts) | head_shapes(head, facts))
    return WholeModel(
        name=str(path),
        facts=block_facts,
        embedding=Embedding(
            tokens=arrays["embedding.tokens.weight"],
            positions=positions(facts, arrays),
            segments=arrays.get("embedding.segments.weight"),
            norm=possible(arrays, "embedding.norm"),
            widen=possible(arrays, "embedding.widen"),
            scale=math.sqrt(width) if field(facts, "scale_embedding", kind=bool) else 1.0,
        ),
        blocks=tuple(block(arrays, f"encoder.blocks.{i}") for i in range(field(facts, "layers", kind=int))),
        final_norm=possible(arrays, "encoder.norm"),
        head=native_head(arrays, head),
        sights=sights(facts),
    )


def positions(facts: Facts, arrays: Mapping[str, Array]) -> Array | Literal["sinusoidal"] | None:
    """What is added to token vectors: of a learned table the rows from `offset` on, under rotary nothing."""
    table = field(facts, "positions", kind=dict)
    match table["kind"]:
        case "learned":
            return arrays["embedding.positions.weight"][optional(table, "offset", default=0) :]
        case "sinusoidal":
            return "sinusoidal"
    return None


def sights(facts: Facts) -> tuple[Sight, ...]:
    """Each `global_every`-th block, from the first, sees the whole text, and the others their window.

    `local_base` is the rotary base of the blocks with a window; null means the same as the others'.
    """
    table = field(facts, "positions", kind=dict)
    base = local_base = None
    if table["kind"] == "rotary":
        base = local_base = field(table, "base", kind=float)
        if table.get("local_base") is not None:
            local_base = field(table, "local_base", kind=float)
    window, every = (at_least_one(facts, name) for name in ("window", "global_every"))
    views = []
    for i in range(field(facts, "layers", kind=int)):
        everything = window is None or (every is not None and i % every == 0)
        views.append(Sight(window=None, base=base) if everything else Sight(window, base=local_base))
    return tuple(views)


def at_least_one(facts: Facts, name: str) -> int | None:
    """A whole number of at least 1, or null, or nothing, which means null."""
    if facts.get(name) is None:
        return None
    if field(facts, name, kind=int) < 1:
        raise FolderError(f"config.json has {name}={facts[name]}; it must be null or at least 1")
    return field(facts, name, kind=int)


def body_shapes(facts: Facts) -> dict[str, Shape]:
    """Every tensor but the head's."""
    width = field(facts, "width", kind=int)
    hidden = field(facts, "hidden", kind=int)
    segments = field(facts, "segments", kind=int)
    bias = optional(facts, "bias", default=True)
    norm_bias = optional(facts, "norm_bias", default=True)
    narrow = at_least_one(facts, "embedding_width") or width
    shapes: dict[str, Shape] = {"embedding.tokens.weight": (field(facts, "vocab", kind=int), narrow)}
    positions = field(facts, "positions", kind=dict)
    stored = {"sinusoidal": False, "learned": True, "rotary": False}
    if choice("positions.kind", positions.get("kind"), choices=stored):
        rows = field(positions, "count", kind=int) + optional(positions, "offset", default=0)
        shapes["embedding.positions.weight"] = (rows, narrow)
    if segments > 0:
        shapes["embedding.segments.weight"] = (segments, narrow)
    if field(facts, "embedding_norm", kind=bool):
        shapes |= two("embedding.norm", narrow, bias=norm_bias)
    if facts.get("embedding_width") is not None:
        shapes |= two("embedding.widen", width, narrow)
    norm_first = field(facts, "norm_first", kind=bool)
    first_norm = optional(facts, "first_norm", default=True)
    if not norm_first and not first_norm:
        raise FolderError("config.json has first_norm=false with norm_first=false; there is no such norm")
    for i in range(field(facts, "layers", kind=int)):
        name = f"encoder.blocks.{i}"
        shapes |= two(f"{name}.attention.qkv", 3 * width, width, bias=bias)
        shapes |= two(f"{name}.attention.output", width, width, bias=bias)
        if i > 0 or first_norm:
            shapes |= two(f"{name}.attention_norm", width, bias=norm_bias)
        expanded = 2 * hidden if optional(facts, "gated", default=False) else hidden
        shapes |= two(f"{name}.feed_forward.expand", expanded, width, bias=bias)
        shapes |= two(f"{name}.feed_forward.contract", width, hidden, bias=bias)
        shapes |= two(f"{name}.feed_forward_norm", width, bias=norm_bias)
    if norm_first:
        shapes |= two("encoder.norm", width, bias=norm_bias)
    return shapes


def block(arrays: Mapping[str, Array], name: str) -> BlockWeights:
    query, key, value = thirds(affine(arrays, f"{name}.attention.qkv"))
    return BlockWeights(
        attention=AttentionWeights(query, key, value, output=affine(arrays, f"{name}.attention.output")),
        attention_norm=possible(arrays, f"{name}.attention_norm"),
        expand=affine(arrays, f"{name}.feed_forward.expand"),
        contract=affine(arrays, f"{name}.feed_forward.contract"),
        feed_forward_norm=affine(arrays, f"{name}.feed_forward_norm"),
    )


def head_shapes(head: Facts | None, facts: Facts) -> dict[str, Shape]:
    """Every tensor of the head."""
    shapes: dict[str, Shape] = {}
    width = field(facts, "width", kind=int)
    if head is not None and field(head, "dense", kind=bool):
        shapes |= two("head.dense", width, width, bias=optional(head, "bias", default=True))
    if head is not None and optional(head, "dense_norm", default=False):
        shapes |= two("head.norm", width, bias=optional(facts, "norm_bias", default=True))
    if head is not None and field(head, "labels", kind=int) > 0:
        shapes |= two("head.output", head["labels"], width)
    return shapes


def native_head(arrays: Mapping[str, Array], head: Facts | None) -> Head | None:
    if head is None:
        return None
    return Head(
        pooling=choice("head.pooling", head.get("pooling"), choices=POOLINGS),
        dense=possible(arrays, "head.dense"),
        activation=choice("head.activation", head.get("activation", "tanh"), choices=ACTIVATIONS),
        norm=possible(arrays, "head.norm"),
        output=possible(arrays, "head.output"),
    )
