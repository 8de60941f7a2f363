"""Our own folder: `model_type: clearhead`, the facts as JSON, tensors by our own names."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from clearhead.errors import FolderError
from clearhead.reference.attention import AttentionWeights
from clearhead.reference.block import BlockFacts, BlockWeights, Sight
from clearhead.reference.families.decoders import grouped_heads
from clearhead.reference.families.native_positions import positions, rotary
from clearhead.reference.families.published import FillNames, optional, refuse_other, shared_heads
from clearhead.reference.layers import Activation, Affine, Array, gelu, gelu_tanh, relu, silu, tanh
from clearhead.reference.stored import Shape, Tensors, affine, choice, field, possible, two
from clearhead.reference.whole import Embedding, Head, Pooling, WholeModel

ACTIVATIONS: dict[str, Activation] = {
    "relu": relu,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "tanh": tanh,
    "silu": silu,
}
POOLINGS: dict[str, Pooling] = {"cls": "cls", "mean": "mean", "max": "max", "last": "last"}
NORMS: dict[str, Literal["layer", "rms"]] = {"layer": "layer", "rms": "rms"}
LANGUAGE = "language_head.weight"
FILL = FillNames("fill.dense", "fill.norm", "fill.output.weight", "fill.bias")
# Facts that mean other arithmetic; encoder–decoders have them, a stack alone does not.
ALONE = {
    "decoder_layers": 0,
    "scale_scores": True,
    "scale_output": False,
    "language_bias": False,
    "target_vocab": None,
}
Facts = Mapping[str, Any]


class Heads(NamedTuple):
    """How many heads there are of queries, and of keys and values, and how wide each is."""

    heads: int
    kv_heads: int
    width: int

    @property
    def rows(self) -> tuple[int, int, int]:
        """Rows of query, key and value, which are stored one below the other."""
        return self.heads * self.width, self.kv_heads * self.width, self.kv_heads * self.width


def read_clearhead(path: Path, config: Facts) -> WholeModel:
    """A model made here, with whatever facts it has; those that are not computed here are refused by name.

    Source: as for the published families, fact by fact.
    """
    facts = field(config, "facts", kind=dict)
    refuse_other(facts, ALONE)
    if "head" not in config:
        raise FolderError("config.json lacks the field 'head'; it is null for a model without one")
    head = config["head"] if config["head"] is None else field(config, "head", kind=dict)
    layers = field(facts, "layers", kind=int)
    shapes = body_shapes(facts) | head_shapes(head, facts) | language_shapes(facts) | fill_shapes(facts)
    arrays = Tensors(path).take(shapes)
    tokens = arrays["embedding.tokens.weight"]
    kind = (facts.get("fill") or {}).get("activation", "gelu")
    tied = optional(facts, "language_head", default=False) and optional(facts, "tied", default=True)
    return WholeModel(
        name=str(path),
        facts=block_facts(facts),
        embedding=Embedding(
            tokens=tokens,
            positions=positions(facts, arrays.get("embedding.positions.weight")),
            segments=arrays.get("embedding.segments.weight"),
            norm=possible(arrays, "embedding.norm"),
            widen=possible(arrays, "embedding.widen"),
            scale=embedding_scale(facts),
        ),
        blocks=tuple(block(arrays, f"encoder.blocks.{i}", heads=heads_of(facts)) for i in range(layers)),
        final_norm=possible(arrays, "encoder.norm"),
        head=native_head(arrays, head),
        sights=sights(facts),
        language=tokens if tied else arrays.get(LANGUAGE),
        fill=FILL.fill(arrays, tokens, activation=choice("fill.activation", kind, choices=ACTIVATIONS)),
    )


def heads_of(facts: Facts) -> Heads:
    """The heads; null or nothing as kv_heads means as many as of queries, and as head_width an even share."""
    width, heads = field(facts, "width", kind=int), field(facts, "heads", kind=int)
    kv_heads = grouped_heads(heads, at_least_one(facts, "kv_heads") or heads)
    return Heads(heads, kv_heads, at_least_one(facts, "head_width") or width // shared_heads(width, heads))


def block_facts(facts: Facts) -> BlockFacts:
    """What all blocks have in common."""
    norm_first = field(facts, "norm_first", kind=bool)
    for name, without in (("first_norm", False), ("parallel", True)):
        if not norm_first and facts.get(name) is without:
            raise FolderError(
                f"config.json has {name}={str(without).lower()} with norm_first=false; there is no such block"
            )
    return BlockFacts(
        heads=heads_of(facts).heads,
        activation=choice("activation", facts.get("activation"), choices=ACTIVATIONS),
        norm_first=norm_first,
        epsilon=field(facts, "epsilon", kind=float),
        gated=optional(facts, "gated", default=False),
        norm=choice("norm", facts.get("norm", "layer"), choices=NORMS),
        parallel=optional(facts, "parallel", default=False),
    )


def embedding_scale(facts: Facts) -> float:
    """What token vectors are multiplied with."""
    return math.sqrt(field(facts, "width", kind=int)) if field(facts, "scale_embedding", kind=bool) else 1.0


def sights(facts: Facts) -> tuple[Sight, ...]:
    """Each `global_every`-th block, from the first, sees the whole text, and the others their window.

    In a causal model, only what of both is to the left. `local_base` is the rotary base of the blocks with a
    window; null means the same as the others'.
    """
    table = field(facts, "positions", kind=dict)
    turns = local = None
    if table["kind"] == "rotary":
        turns = local = rotary(table, heads_of(facts).width)
        if table.get("local_base") is not None:
            local = turns._replace(base=field(table, "local_base", kind=float))
    causal = optional(facts, "causal", default=False)
    window, every = (at_least_one(facts, name) for name in ("window", "global_every"))
    whole = Sight(causal=causal, rotary=turns)
    narrow = whole if window is None else Sight(window=window, causal=causal, rotary=local)
    layers = range(field(facts, "layers", kind=int))
    return tuple(whole if every is not None and i % every == 0 else narrow for i in layers)


def at_least_one(facts: Facts, name: str) -> int | None:
    """A whole number of at least 1, or null, or nothing, which means null."""
    if facts.get(name) is None:
        return None
    if field(facts, name, kind=int) < 1:
        raise FolderError(f"config.json has {name}={facts[name]}; it must be null or at least 1")
    return field(facts, name, kind=int)


def body_shapes(facts: Facts) -> dict[str, Shape]:
    """Every tensor but the heads'."""
    width = field(facts, "width", kind=int)
    segments = field(facts, "segments", kind=int)
    norm_bias = norm_has_bias(facts)
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
    for i in range(field(facts, "layers", kind=int)):
        shapes |= block_shapes(facts, f"encoder.blocks.{i}", first=i == 0)
    if block_facts(facts).norm_first:
        shapes |= two("encoder.norm", width, bias=norm_bias)
    return shapes


def norm_has_bias(facts: Facts) -> bool:
    """Whether norms have a shift; RMS norms never do."""
    return optional(facts, "norm_bias", default=True) and facts.get("norm", "layer") == "layer"


def block_shapes(facts: Facts, name: str, *, first: bool) -> dict[str, Shape]:
    """Every tensor of one block; qkv_bias and output_bias, null or absent, are as bias."""
    width, hidden = field(facts, "width", kind=int), field(facts, "hidden", kind=int)
    heads = heads_of(facts)
    bias = optional(facts, "bias", default=True)
    qkv_bias, output_bias = (
        bias if facts.get(own) is None else field(facts, own, kind=bool)
        for own in ("qkv_bias", "output_bias")
    )
    norm_bias = norm_has_bias(facts)
    shapes = two(f"{name}.attention.qkv", sum(heads.rows), width, bias=qkv_bias)
    if optional(facts, "qk_norm", default=False):
        shapes |= two(f"{name}.attention.query_norm", heads.width, bias=False)
        shapes |= two(f"{name}.attention.key_norm", heads.width, bias=False)
    shapes |= two(f"{name}.attention.output", width, heads.rows[0], bias=output_bias)
    if not first or optional(facts, "first_norm", default=True):
        shapes |= two(f"{name}.attention_norm", width, bias=norm_bias)
    expanded = 2 * hidden if optional(facts, "gated", default=False) else hidden
    shapes |= two(f"{name}.feed_forward.expand", expanded, width, bias=bias)
    shapes |= two(f"{name}.feed_forward.contract", width, hidden, bias=bias)
    return shapes | two(f"{name}.feed_forward_norm", width, bias=norm_bias)


def block(arrays: Mapping[str, Array], name: str, *, heads: Heads) -> BlockWeights:
    stacked = affine(arrays, f"{name}.attention.qkv")
    ends = np.cumsum(heads.rows)[:2]
    weights = np.split(stacked.weight, ends)
    biases = [None] * 3 if stacked.bias is None else np.split(stacked.bias, ends)
    query, key, value = (Affine(*pair) for pair in zip(weights, biases, strict=True))
    return BlockWeights(
        attention=AttentionWeights(
            query,
            key,
            value,
            output=affine(arrays, f"{name}.attention.output"),
            query_norm=arrays.get(f"{name}.attention.query_norm.weight"),
            key_norm=arrays.get(f"{name}.attention.key_norm.weight"),
        ),
        attention_norm=possible(arrays, f"{name}.attention_norm"),
        expand=affine(arrays, f"{name}.feed_forward.expand"),
        contract=affine(arrays, f"{name}.feed_forward.contract"),
        feed_forward_norm=affine(arrays, f"{name}.feed_forward_norm"),
    )


def language_shapes(facts: Facts) -> dict[str, Shape]:
    """The matrix of the language head, if there is one that is not the embedding's."""
    if not optional(facts, "language_head", default=False):
        return {}
    if not optional(facts, "tied", default=True):
        return {LANGUAGE: (field(facts, "vocab", kind=int), field(facts, "width", kind=int))}
    if facts.get("embedding_width") is not None:
        raise FolderError("config.json has tied=true with embedding_width; the matrix would be too narrow")
    return {}


def head_shapes(head: Facts | None, facts: Facts) -> dict[str, Shape]:
    """Every tensor of the head over texts."""
    shapes: dict[str, Shape] = {}
    width = field(facts, "width", kind=int)
    if head is not None and field(head, "dense", kind=bool):
        shapes |= two("head.dense", width, width, bias=optional(head, "bias", default=True))
    if head is not None and optional(head, "dense_norm", default=False):
        if not head["dense"]:
            raise FolderError(
                "config.json has head.dense_norm=true with dense=false; it is that layer's norm"
            )
        shapes |= two("head.norm", width, bias=norm_has_bias(facts))
    if head is not None and field(head, "labels", kind=int) > 0:
        shapes |= two("head.output", head["labels"], width)
    return shapes


def native_head(arrays: Mapping[str, Array], head: Facts | None) -> Head | None:
    if head is None:
        return None
    over = {"texts": True, "tokens": False, "spans": False}
    texts = choice("head.over", head.get("over", "texts"), choices=over)
    return Head(
        pooling=choice("head.pooling", head.get("pooling"), choices=POOLINGS) if texts else None,
        dense=possible(arrays, "head.dense"),
        activation=choice("head.activation", head.get("activation", "tanh"), choices=ACTIVATIONS),
        norm=possible(arrays, "head.norm"),
        output=possible(arrays, "head.output"),
    )


def fill_shapes(facts: Facts) -> dict[str, Shape]:
    """Every tensor of the head for masked tokens, if there is one."""
    if (fill := facts.get("fill")) is None:
        return {}
    width, vocab = facts["width"], facts["vocab"]
    narrow = at_least_one(facts, "embedding_width") or width
    shapes = two("fill.dense", narrow, width, bias=optional(fill, "bias", default=True))
    shapes |= two("fill.norm", narrow, bias=norm_has_bias(facts))
    if not optional(fill, "tied", default=True):
        shapes["fill.output.weight"] = (vocab, narrow)
    return shapes | ({"fill.bias": (vocab,)} if optional(fill, "output_bias", default=True) else {})
