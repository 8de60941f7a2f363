"""DistilBERT (Sanh et al. 2019): half of BERT's blocks under other names, no segments."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clearhead.reference.attention import AttentionWeights
from clearhead.reference.block import BlockFacts, BlockWeights
from clearhead.reference.families.bert import plain_name
from clearhead.reference.families.published import (
    FillNames,
    activation,
    output_shapes,
    over_tokens,
    shared_heads,
    tokens_head,
)
from clearhead.reference.layers import Array, relu
from clearhead.reference.stored import Shape, Tensors, affine, field, two
from clearhead.reference.whole import Embedding, Head, WholeModel

# Other heads, and a table of numbers 0, 1, 2, … that old versions stored.
FILL = FillNames("vocab_transform", "vocab_layer_norm", "vocab_projector.weight", "vocab_projector.bias")
IGNORED = (
    "vocab_transform.",
    "vocab_layer_norm.",
    "vocab_projector.",
    "embeddings.position_ids",
)
EPSILON = 1e-12  # written into the published code, and no field of config.json


def read_distilbert(path: Path, config: Mapping[str, Any]) -> WholeModel:
    """logits = classifier(relu(pre_classifier(first token's vector))).

    Source: Sanh et al. 2019, section 3, with the head of the published code. Sinusoidal positions, which a
    config may ask for, are stored like learned ones.
    """
    width = field(config, "dim", kind=int)
    layers = field(config, "n_layers", kind=int)
    tensors = Tensors(path, rename=lambda name: plain_name(name, prefix="distilbert."))
    tagger = over_tokens(config)
    shapes = distilbert_shapes(config) | output_shapes(tensors, tagger, width=width)
    classifier = "classifier.weight" in tensors and not tagger
    if classifier:
        shapes |= two("pre_classifier", width, width)
        shapes |= two("classifier", tensors.shape("classifier.weight")[0], width)
    sizes = (field(config, "vocab_size", kind=int), width, width)
    shapes |= FILL.shapes(config, tensors, sizes=sizes, biases=(True, True, True))
    arrays = tensors.take(shapes, ignored=IGNORED)
    tokens = arrays["embeddings.word_embeddings.weight"]
    return WholeModel(
        name=str(path),
        facts=BlockFacts(
            heads=shared_heads(width, field(config, "n_heads", kind=int)),
            activation=activation(config, "activation"),
            epsilon=EPSILON,
        ),
        embedding=Embedding(
            tokens=tokens,
            positions=arrays["embeddings.position_embeddings.weight"],
            segments=None,
            norm=affine(arrays, "embeddings.LayerNorm"),
        ),
        blocks=tuple(block(arrays, f"transformer.layer.{i}") for i in range(layers)),
        final_norm=None,
        head=tokens_head(arrays, tagger)
        if tagger
        else Head(
            pooling="cls",
            dense=affine(arrays, "pre_classifier"),
            activation=relu,
            output=affine(arrays, "classifier"),
        )
        if classifier
        else None,
        fill=FILL.fill(arrays, tokens, activation=activation(config, "activation")),
    )


def distilbert_shapes(config: Mapping[str, Any]) -> dict[str, Shape]:
    """Every tensor of the body."""
    width = field(config, "dim", kind=int)
    hidden = field(config, "hidden_dim", kind=int)
    shapes: dict[str, Shape] = {
        "embeddings.word_embeddings.weight": (field(config, "vocab_size", kind=int), width),
        "embeddings.position_embeddings.weight": (field(config, "max_position_embeddings", kind=int), width),
        **two("embeddings.LayerNorm", width),
    }
    for i in range(field(config, "n_layers", kind=int)):
        name = f"transformer.layer.{i}"
        for layer in ("q_lin", "k_lin", "v_lin", "out_lin"):
            shapes |= two(f"{name}.attention.{layer}", width, width)
        shapes |= two(f"{name}.sa_layer_norm", width)
        shapes |= two(f"{name}.ffn.lin1", hidden, width)
        shapes |= two(f"{name}.ffn.lin2", width, hidden)
        shapes |= two(f"{name}.output_layer_norm", width)
    return shapes


def block(arrays: Mapping[str, Array], name: str) -> BlockWeights:
    return BlockWeights(
        attention=AttentionWeights(
            query=affine(arrays, f"{name}.attention.q_lin"),
            key=affine(arrays, f"{name}.attention.k_lin"),
            value=affine(arrays, f"{name}.attention.v_lin"),
            output=affine(arrays, f"{name}.attention.out_lin"),
        ),
        attention_norm=affine(arrays, f"{name}.sa_layer_norm"),
        expand=affine(arrays, f"{name}.ffn.lin1"),
        contract=affine(arrays, f"{name}.ffn.lin2"),
        feed_forward_norm=affine(arrays, f"{name}.output_layer_norm"),
    )
