"""What published encoder–decoders have in common: a table stored under several names, stacked layers."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.errors import FolderError
from clearhead.reference.attention import AttentionWeights
from clearhead.reference.block import BlockWeights, DecoderBlockWeights
from clearhead.reference.families.published import refuse_other
from clearhead.reference.layers import Array
from clearhead.reference.stored import Shape, Tensors, affine, two

HEAD = "lm_head.weight"
SHARED = ("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight")


def refuse_one_stack(config: Mapping[str, Any], plain: Mapping[str, Any]) -> None:
    """Refuse what is not an encoder beside a decoder, and other values of fields than `plain` has."""
    refuse_other(config, {"is_encoder_decoder": True, "is_decoder": False, **plain})


# ---- one table under several names -------------------------------------------------------------------------


def table_shapes(tensors: Tensors, names: tuple[str, ...], *, shape: Shape) -> dict[str, Shape]:
    """A table under each of the names by which it is stored; without any, the first is missing."""
    return dict.fromkeys([name for name in names if name in tensors] or names[:1], shape)


def table(path: Path, arrays: Mapping[str, Array], *, names: tuple[str, ...]) -> Array:
    """The table that all of the names stand for. Raises FolderError where two of them differ."""
    first, *others = [name for name in names if name in arrays]
    for other in others:
        if not np.array_equal(arrays[first], arrays[other]):
            raise FolderError(
                f"{path} stores {first} and {other}, which are one table by its config.json, and differ; "
                "keep the one that is meant"
            )
    return arrays[first]


# ---- blocks as BART and Marian name them -------------------------------------------------------------------


def stack_shapes(name: str, layers: int, *, width: int, hidden: int, recalls: bool) -> dict[str, Shape]:
    """Every tensor of the blocks of a stack; `recalls` where they attend to a memory too."""
    shapes: dict[str, Shape] = {}
    attentions = ("self_attn", "encoder_attn") if recalls else ("self_attn",)
    for i in range(layers):
        block = f"{name}.layers.{i}"
        for attention in attentions:
            for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                shapes |= two(f"{block}.{attention}.{part}", width, width)
            shapes |= two(f"{block}.{attention}_layer_norm", width)
        shapes |= two(f"{block}.fc1", hidden, width)
        shapes |= two(f"{block}.fc2", width, hidden)
        shapes |= two(f"{block}.final_layer_norm", width)
    return shapes


def encoder_blocks(arrays: Mapping[str, Array], layers: int) -> tuple[BlockWeights, ...]:
    return tuple(block(arrays, f"encoder.layers.{i}") for i in range(layers))


def decoder_blocks(arrays: Mapping[str, Array], layers: int) -> tuple[DecoderBlockWeights, ...]:
    return tuple(
        DecoderBlockWeights(
            own=block(arrays, name),
            recall=attention(arrays, f"{name}.encoder_attn"),
            recall_norm=affine(arrays, f"{name}.encoder_attn_layer_norm"),
        )
        for name in (f"decoder.layers.{i}" for i in range(layers))
    )


def block(arrays: Mapping[str, Array], name: str) -> BlockWeights:
    return BlockWeights(
        attention=attention(arrays, f"{name}.self_attn"),
        attention_norm=affine(arrays, f"{name}.self_attn_layer_norm"),
        expand=affine(arrays, f"{name}.fc1"),
        contract=affine(arrays, f"{name}.fc2"),
        feed_forward_norm=affine(arrays, f"{name}.final_layer_norm"),
    )


def attention(
    arrays: Mapping[str, Array],
    name: str,
    *,
    parts: Iterable[str] = ("q_proj", "k_proj", "v_proj", "out_proj"),
) -> AttentionWeights:
    query, key, value, output = (affine(arrays, f"{name}.{part}") for part in parts)
    return AttentionWeights(query, key, value, output=output)
