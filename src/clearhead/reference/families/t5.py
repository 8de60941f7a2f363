"""T5, as published (Raffel et al. 2020), and its version 1.1, which FLAN-T5 has as well."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.reference.attention import Sight
from clearhead.reference.block import BlockFacts, BlockWeights, DecoderBlockWeights
from clearhead.reference.families.published import ACTIVATIONS, optional
from clearhead.reference.families.translators import (
    HEAD,
    SHARED,
    attention,
    refuse_one_stack,
    table,
    table_shapes,
)
from clearhead.reference.layers import Affine, Array
from clearhead.reference.relative import Relative, relative_buckets
from clearhead.reference.stored import Shape, Tensors, affine, choice, field, two
from clearhead.reference.translator import Decoder, WholeTranslator
from clearhead.reference.whole import Embedding, WholeModel

Config = Mapping[str, Any]
BIAS = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"
# Old files hold a table of distances between texts, which nothing reads.
IGNORED = ("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",)
SCALED = "scale_decoder_outputs"
# What feed_forward_proj may say; the exact GELU is not meant by "gated-gelu".
PROJECTIONS: dict[str, tuple[bool, str]] = {
    **{word: (False, word) for word in ACTIVATIONS},
    **{f"gated-{word}": (True, word) for word in ACTIVATIONS},
    "gated-gelu": (True, "gelu_new"),
}


def read_t5(path: Path, config: Config) -> WholeTranslator:
    """RMS norm before, relative positions in buckets, dot products as they are, no biases.

    Where the head is the embedding's matrix, vectors are multiplied by width^(−1/2) before it.
    Source: Raffel et al. 2020, section 2.1; Shazeer 2020 for the gate; the details of the published code.
    """
    gated, word = choice("feed_forward_proj", config.get("feed_forward_proj", "relu"), choices=PROJECTIONS)
    refuse_one_stack(config, {"is_gated_act": gated, "dense_act_fn": word})
    width, layers = field(config, "d_model", kind=int), field(config, "num_layers", kind=int)
    deep = (
        layers if config.get("num_decoder_layers") is None else field(config, "num_decoder_layers", kind=int)
    )
    buckets = optional(config, "relative_attention_num_buckets", default=32)
    distance = optional(config, "relative_attention_max_distance", default=128)
    for causal in (False, True):  # both stacks must be able to use their table
        relative_buckets([0], buckets=buckets, distance=distance, causal=causal)
    tensors = Tensors(path)
    shape = (field(config, "vocab_size", kind=int), width)
    scaled, head = head_of(config, tensors)
    shapes = stack_shapes(config, "encoder", layers=layers, buckets=buckets, gated=gated)
    shapes |= stack_shapes(config, "decoder", layers=deep, buckets=buckets, gated=gated)
    words = head if SHARED[0] in head else SHARED
    shapes |= table_shapes(tensors, words, shape=shape) | table_shapes(tensors, head, shape=shape)
    arrays = tensors.take(shapes, ignored=IGNORED)
    facts = BlockFacts(
        heads=field(config, "num_heads", kind=int),
        activation=ACTIVATIONS[word],
        norm_first=True,
        epsilon=optional(config, "layer_norm_epsilon", default=1e-6),
        gated=gated,
        norm="rms",
    )
    embedding = Embedding(tokens=table(path, arrays, names=words), positions=None, segments=None, norm=None)
    near, far = (Relative(arrays[f"{name}.{BIAS}"], distance) for name in ("encoder", "decoder"))
    return WholeTranslator(
        name=str(path),
        encoder=WholeModel(
            name=str(path),
            facts=facts,
            embedding=embedding,
            blocks=tuple(block(arrays, f"encoder.block.{i}", last=1) for i in range(layers)),
            final_norm=affine(arrays, "encoder.final_layer_norm"),
            head=None,
            sights=(Sight(relative=near, scaled=False),) * layers,
        ),
        decoder=Decoder(
            facts=facts,
            embedding=embedding,
            blocks=tuple(decoder_block(arrays, f"decoder.block.{i}") for i in range(deep)),
            final_norm=affine(arrays, "decoder.final_layer_norm"),
            sight=Sight(causal=True, relative=far, scaled=False),
        ),
        language=table(path, arrays, names=head),
        scale=width**-0.5 if scaled else 1.0,
    )


def head_of(config: Config, tensors: Tensors) -> tuple[bool, tuple[str, ...]]:
    """Whether vectors are scaled before the head, and the names under which the head's matrix may lie.

    Older files say both by tie_word_embeddings. Newer ones always say true there, which means nothing; they
    say with scale_decoder_outputs whether vectors are scaled, and a head that is not the embedding's is
    simply stored.
    """
    tied = optional(config, "tie_word_embeddings", default=True)
    scaled = optional(config, SCALED, default=tied)
    if not tied and SCALED not in config:
        return scaled, (HEAD,)
    if not scaled and HEAD in tensors:
        return scaled, (HEAD,)
    return scaled, (*SHARED, HEAD)


def stack_shapes(config: Config, name: str, *, layers: int, buckets: int, gated: bool) -> dict[str, Shape]:
    """Every tensor of a stack."""
    width, hidden = field(config, "d_model", kind=int), field(config, "d_ff", kind=int)
    heads = field(config, "num_heads", kind=int)
    inner = heads * field(config, "d_kv", kind=int)
    shapes: dict[str, Shape] = {f"{name}.{BIAS}": (buckets, heads)}
    attentions = ("SelfAttention", "EncDecAttention") if name == "decoder" else ("SelfAttention",)
    for i in range(layers):
        block = f"{name}.block.{i}.layer"
        for place, kind in enumerate(attentions):
            for part in ("q", "k", "v"):
                shapes |= two(f"{block}.{place}.{kind}.{part}", inner, width, bias=False)
            shapes |= two(f"{block}.{place}.{kind}.o", width, inner, bias=False)
            shapes |= two(f"{block}.{place}.layer_norm", width, bias=False)
        last = f"{block}.{len(attentions)}"
        for part in ("wi_0", "wi_1") if gated else ("wi",):
            shapes |= two(f"{last}.DenseReluDense.{part}", hidden, width, bias=False)
        shapes |= two(f"{last}.DenseReluDense.wo", width, hidden, bias=False)
        shapes |= two(f"{last}.layer_norm", width, bias=False)
    return shapes | two(f"{name}.final_layer_norm", width, bias=False)


def block(arrays: Mapping[str, Array], name: str, *, last: int) -> BlockWeights:
    """`last` is the number of the layer that is the feed-forward network."""
    dense = f"{name}.layer.{last}.DenseReluDense"
    if f"{dense}.wi.weight" in arrays:
        expand = affine(arrays, f"{dense}.wi")
    else:
        pair = [arrays[f"{dense}.{part}.weight"] for part in ("wi_0", "wi_1")]
        expand = Affine(np.concatenate(pair), None)
    return BlockWeights(
        attention=attention(arrays, f"{name}.layer.0.SelfAttention", parts="qkvo"),
        attention_norm=affine(arrays, f"{name}.layer.0.layer_norm"),
        expand=expand,
        contract=affine(arrays, f"{dense}.wo"),
        feed_forward_norm=affine(arrays, f"{name}.layer.{last}.layer_norm"),
    )


def decoder_block(arrays: Mapping[str, Array], name: str) -> DecoderBlockWeights:
    return DecoderBlockWeights(
        own=block(arrays, name, last=2),
        recall=attention(arrays, f"{name}.layer.1.EncDecAttention", parts="qkvo"),
        recall_norm=affine(arrays, f"{name}.layer.1.layer_norm"),
    )
