"""Our own folder with decoder_layers above 0: an encoder and a decoder, the facts as JSON."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.errors import FolderError
from clearhead.reference.attention import AttentionWeights, Sight
from clearhead.reference.block import DecoderBlockWeights
from clearhead.reference.families.native import (
    LANGUAGE,
    Heads,
    block,
    block_facts,
    block_shapes,
    embedding_scale,
    heads_of,
    norm_has_bias,
    read_clearhead,
)
from clearhead.reference.families.native_positions import positions, relative, rotary
from clearhead.reference.families.published import optional
from clearhead.reference.layers import Affine, Array
from clearhead.reference.relative import relative_buckets
from clearhead.reference.stored import Shape, Tensors, affine, choice, field, possible, two
from clearhead.reference.translator import Decoder, WholeTranslator
from clearhead.reference.whole import Embedding, WholeModel

Facts = Mapping[str, Any]
BIAS = "language_bias"
# What has no meaning, or none that is settled, where there are two stacks.
PLAIN = {
    "causal": False,
    "segments": 0,
    "fill": None,
    "window": None,
    "embedding_width": None,
    "qk_norm": False,
    "first_norm": True,
    "parallel": False,
}
KINDS = {"sinusoidal": "", "rotary": "", "learned": "positions", "relative": "relative"}
# Per stack: the name of its embedding.
STACKS = {"encoder": "embedding", "decoder": "decoder_embedding"}


def read_ours(path: Path, config: Facts) -> WholeModel | WholeTranslator:
    """A model made here: one stack, or an encoder and a decoder."""
    if optional(field(config, "facts", kind=dict), "decoder_layers", default=0) == 0:
        return read_clearhead(path, config)
    return read_translator(path, config)


def read_translator(path: Path, config: Facts) -> WholeTranslator:
    """An encoder–decoder made here; facts that are not computed here are refused by name.

    Source: as for the published families, fact by fact.
    """
    facts = field(config, "facts", kind=dict)
    refuse_parts(facts, config)
    arrays = Tensors(path).take(shapes_of(facts))
    tokens = arrays["embedding.tokens.weight"]
    target = arrays.get("decoder_embedding.tokens.weight", tokens)
    embedding, written = (
        Embedding(
            tokens=table,
            positions=positions(facts, arrays.get(f"{name}.positions.weight")),
            segments=None,
            norm=possible(arrays, f"{name}.norm"),
            scale=embedding_scale(facts),
        )
        for name, table in (("embedding", tokens), ("decoder_embedding", target))
    )
    layers, heads = field(facts, "layers", kind=int), heads_of(facts)
    return WholeTranslator(
        name=str(path),
        encoder=WholeModel(
            name=str(path),
            facts=block_facts(facts),
            embedding=embedding,
            blocks=tuple(block(arrays, f"encoder.blocks.{i}", heads=heads) for i in range(layers)),
            final_norm=possible(arrays, "encoder.norm"),
            head=None,
            sights=(sight(facts, arrays, stack="encoder"),) * layers,
        ),
        decoder=Decoder(
            facts=block_facts(facts),
            embedding=written,
            blocks=tuple(
                decoder_block(arrays, f"decoder.blocks.{i}", heads=heads)
                for i in range(field(facts, "decoder_layers", kind=int))
            ),
            final_norm=possible(arrays, "decoder.norm"),
            sight=sight(facts, arrays, stack="decoder"),
        ),
        language=arrays.get(LANGUAGE, target),
        bias=arrays.get(BIAS),
        scale=field(facts, "width", kind=int) ** -0.5
        if optional(facts, "scale_output", default=False)
        else 1.0,
    )


def refuse_parts(facts: Facts, config: Facts) -> None:
    """Refuse what an encoder–decoder of ours cannot have, or must."""
    layers = field(facts, "decoder_layers", kind=int)
    if layers < 0:
        raise FolderError(f"config.json has decoder_layers={layers}; it must be at least 0")
    if not optional(facts, "language_head", default=False):
        raise FolderError(
            f"config.json has decoder_layers={layers} without language_head=true; beside an encoder "
            "a decoder is computed here with a language head only"
        )
    for name, plain in PLAIN.items():
        if facts.get(name, plain) != plain:
            raise FolderError(
                f"config.json has {name}={facts[name]!r} with decoder_layers={layers}; "
                f"only {name}={plain!r} is computed there"
            )
    if config.get("head") is not None:
        raise FolderError(
            f"config.json has decoder_layers={layers} with a head over texts; head must be null"
        )


def sight(facts: Facts, arrays: Mapping[str, Array], *, stack: str) -> Sight:
    """What tokens of a stack see of their own text, and what they know of its places."""
    table = field(facts, "positions", kind=dict)
    found = Sight(causal=stack == "decoder", scaled=optional(facts, "scale_scores", default=True))
    match table["kind"]:
        case "rotary":
            return found._replace(rotary=rotary(table, heads_of(facts).width))
        case "relative":
            return found._replace(relative=relative(table, arrays[f"{stack}.relative.weight"]))
    return found


def shapes_of(facts: Facts) -> dict[str, Shape]:
    """Every tensor; target_vocab is null or absent where both halves share one table."""
    width, vocab = field(facts, "width", kind=int), field(facts, "vocab", kind=int)
    norm_bias, heads = norm_has_bias(facts), heads_of(facts)
    table = field(facts, "positions", kind=dict)
    kind = choice("positions.kind", table.get("kind"), choices=KINDS)
    shapes: dict[str, Shape] = {"embedding.tokens.weight": (vocab, width)}
    if facts.get("target_vocab") is not None:
        vocab = field(facts, "target_vocab", kind=int)
        shapes["decoder_embedding.tokens.weight"] = (vocab, width)
    for stack, embedding in STACKS.items():
        if kind == "positions":
            rows = field(table, "count", kind=int) + optional(table, "offset", default=0)
            shapes[f"{embedding}.positions.weight"] = (rows, width)
        if kind == "relative":
            buckets, distance = (field(table, name, kind=int) for name in ("buckets", "distance"))
            relative_buckets([0], buckets=buckets, distance=distance, causal=stack == "decoder")
            shapes[f"{stack}.relative.weight"] = (buckets, heads.heads)
        if field(facts, "embedding_norm", kind=bool):
            shapes |= two(f"{embedding}.norm", width, bias=norm_bias)
        if field(facts, "norm_first", kind=bool):
            shapes |= two(f"{stack}.norm", width, bias=norm_bias)
    for i in range(field(facts, "layers", kind=int)):
        shapes |= block_shapes(facts, f"encoder.blocks.{i}", first=i == 0)
    for i in range(field(facts, "decoder_layers", kind=int)):
        shapes |= block_shapes(facts, f"decoder.blocks.{i}", first=i == 0)
        shapes |= recall_shapes(shapes, f"decoder.blocks.{i}", heads=heads)
        shapes |= two(f"decoder.blocks.{i}.recall_norm", width, bias=norm_bias)
    if not optional(facts, "tied", default=True):
        shapes[LANGUAGE] = (vocab, width)
    return shapes | ({BIAS: (vocab,)} if optional(facts, "language_bias", default=False) else {})


def recall_shapes(shapes: Mapping[str, Shape], name: str, *, heads: Heads) -> dict[str, Shape]:
    """The layers of attention to the memory, which have biases where those of the block's own have."""
    width = shapes[f"{name}.attention.qkv.weight"][1]
    bias, output_bias = (f"{name}.attention.{part}.bias" in shapes for part in ("qkv", "output"))
    queries, *shared = heads.rows
    return (
        two(f"{name}.recall.query", queries, width, bias=bias)
        | two(f"{name}.recall.memory", sum(shared), width, bias=bias)
        | two(f"{name}.recall.output", width, queries, bias=output_bias)
    )


def decoder_block(arrays: Mapping[str, Array], name: str, *, heads: Heads) -> DecoderBlockWeights:
    both = affine(arrays, f"{name}.recall.memory")
    weights = np.split(both.weight, 2)
    biases = [None] * 2 if both.bias is None else np.split(both.bias, 2)
    key, value = (Affine(*pair) for pair in zip(weights, biases, strict=True))
    return DecoderBlockWeights(
        own=block(arrays, name, heads=heads),
        recall=AttentionWeights(
            affine(arrays, f"{name}.recall.query"),
            key,
            value,
            output=affine(arrays, f"{name}.recall.output"),
        ),
        recall_norm=affine(arrays, f"{name}.recall_norm"),
    )
