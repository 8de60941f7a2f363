"""BART, as published (Lewis et al. 2020), and how Marian's folders are like its own."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from clearhead.reference.attention import Sight
from clearhead.reference.block import BlockFacts
from clearhead.reference.families.published import activation, optional, shared_heads
from clearhead.reference.families.translators import (
    HEAD,
    SHARED,
    decoder_blocks,
    encoder_blocks,
    refuse_one_stack,
    stack_shapes,
    table,
    table_shapes,
)
from clearhead.reference.layers import Array
from clearhead.reference.stored import Shape, Tensors, field, possible, two
from clearhead.reference.translator import Decoder, WholeTranslator
from clearhead.reference.whole import Embedding, Fixed, WholeModel

Config = Mapping[str, Any]
BIAS = "final_logits_bias"
OFFSET = 2  # rows of the table of positions before the first position's
# Fields of old files that the published code no longer reads; other values meant other arithmetic. (Not so
# extra_pos_embeddings, which says 0 in some files and 2 in others.)
PLAIN = {
    "normalize_before": False,
    "normalize_embedding": True,
    "add_final_layer_norm": False,
    "static_position_embeddings": False,
    "tie_word_embeddings": True,
}


class Names(NamedTuple):
    """Under which names the tables of tokens lie, and how large they are; the target's is also the head."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    source_vocab: int
    target_vocab: int


def read_bart(path: Path, config: Config) -> WholeTranslator:
    """Norm after, learned positions, a norm of the embedding; source, target and head share one table.

    Source: Lewis et al. 2020, section 2.1, with the details of the published code.
    """
    refuse_one_stack(config, PLAIN)
    width, count = (field(config, name, kind=int) for name in ("d_model", "max_position_embeddings"))
    vocab = field(config, "vocab_size", kind=int)
    tensors = open_tensors(path)
    names = Names((*SHARED, HEAD), (*SHARED, HEAD), vocab, vocab)
    shapes = body_shapes(config, names, tensors=tensors)
    for stack in ("encoder", "decoder"):
        shapes[f"{stack}.embed_positions.weight"] = (OFFSET + count, width)
        shapes |= two(f"{stack}.layernorm_embedding", width)
    arrays = tensors.take(shapes, ignored=("encoder.version", "decoder.version"))
    positions = tuple(arrays[f"{stack}.embed_positions.weight"][OFFSET:] for stack in ("encoder", "decoder"))
    return whole(path, config, arrays=arrays, names=names, positions=positions)


def open_tensors(path: Path) -> Tensors:
    """The tensors without the prefix that a model with a head puts before those of its body."""
    return Tensors(path, rename=lambda name: name.removeprefix("model."))


def body_shapes(config: Config, names: Names, *, tensors: Tensors) -> dict[str, Shape]:
    """Every tensor but those of positions and of norms of the embedding."""
    width = field(config, "d_model", kind=int)
    shapes = table_shapes(tensors, names.source, shape=(names.source_vocab, width))
    shapes |= table_shapes(tensors, names.target, shape=(names.target_vocab, width))
    if BIAS in tensors:
        shapes[BIAS] = (1, names.target_vocab)
    for stack in ("encoder", "decoder"):
        shapes |= stack_shapes(
            stack,
            field(config, f"{stack}_layers", kind=int),
            width=width,
            hidden=field(config, f"{stack}_ffn_dim", kind=int),
            recalls=stack == "decoder",
        )
    return shapes


def whole(
    path: Path,
    config: Config,
    *,
    arrays: Mapping[str, Array],
    names: Names,
    positions: tuple[Array | Fixed, ...],
) -> WholeTranslator:
    """The whole model; `positions` are those of the source and of the target."""
    width = field(config, "d_model", kind=int)
    facts, embeddings = [], []
    for stack, tokens, place in zip(("encoder", "decoder"), names[:2], positions, strict=True):
        facts.append(
            BlockFacts(
                heads=shared_heads(width, field(config, f"{stack}_attention_heads", kind=int)),
                activation=activation(config, "activation_function", default="gelu"),
            )
        )
        embeddings.append(
            Embedding(
                tokens=table(path, arrays, names=tokens),
                positions=place,
                segments=None,
                norm=possible(arrays, f"{stack}.layernorm_embedding"),
                scale=math.sqrt(width) if optional(config, "scale_embedding", default=False) else 1.0,
            )
        )
    return WholeTranslator(
        name=str(path),
        encoder=WholeModel(
            name=str(path),
            facts=facts[0],
            embedding=embeddings[0],
            blocks=encoder_blocks(arrays, field(config, "encoder_layers", kind=int)),
            final_norm=None,
            head=None,
        ),
        decoder=Decoder(
            facts=facts[1],
            embedding=embeddings[1],
            blocks=decoder_blocks(arrays, field(config, "decoder_layers", kind=int)),
            final_norm=None,
            sight=Sight(causal=True),
        ),
        language=embeddings[1].tokens,
        bias=arrays[BIAS][0] if BIAS in arrays else None,
    )
