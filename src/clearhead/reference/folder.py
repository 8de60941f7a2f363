"""A model folder becomes a WholeModel, by reading config.json and model.safetensors and nothing else of ours.

Two kinds, told apart by `model_type`: "bert" as published, and "clearhead", the folder this package writes.
The tables of names repeat on purpose what `clearhead.checkpoint` knows: a mistake there must not be made
here as well.
"""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.errors import FolderError
from clearhead.reference.attention import AttentionWeights
from clearhead.reference.encoder import BlockFacts, BlockWeights, Embedding, Head, Pooling, WholeModel
from clearhead.reference.layers import Affine, Array, gelu, gelu_tanh, relu
from clearhead.reference.stored import Shape, Tensors, affine, choice, field, read_config, two

BERT_ACTIVATIONS = {"gelu": gelu, "gelu_new": gelu_tanh, "gelu_pytorch_tanh": gelu_tanh, "relu": relu}
# Heads over single tokens, and a table of numbers 0, 1, 2, … that old versions stored.
BERT_IGNORED = ("cls.", "qa_outputs.", "embeddings.position_ids")

ACTIVATIONS = {"relu": relu, "gelu": gelu, "gelu_tanh": gelu_tanh}
POOLINGS: dict[str, Pooling] = {"cls": "cls", "mean": "mean", "max": "max"}
# Facts that change the arithmetic in ways that are not computed here, with the value that leaves it as it is.
PLAIN = {"norm": "layer", "causal": False, "decoder_layers": 0, "gated": False, "bias": True}


def read(folder: str | os.PathLike[str]) -> WholeModel:
    """Read a whole encoder from a folder with config.json and model.safetensors, everything in float64.

    Raises FolderError if a file, field or tensor is missing, unknown or does not fit, or if `model_type` is
    neither "bert" nor "clearhead". Source of the names: the published BERT folders (Devlin et al. 2018);
    ours.
    """
    path = Path(folder)
    config = read_config(path)
    reader = choice(
        "model_type", config.get("model_type"), choices={"bert": read_bert, "clearhead": read_clearhead}
    )
    return reader(path, config)


def shared_heads(width: int, heads: int) -> int:
    if heads < 1 or width % heads:
        raise FolderError(f"config.json has width {width} and {heads} heads; heads must divide the width")
    return heads


# ---- "bert" ------------------------------------------------------------------------------------------------


def read_bert(path: Path, config: Mapping[str, Any]) -> WholeModel:
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise FolderError(
            f"config.json has position_embedding_type={config['position_embedding_type']!r}; "
            "only 'absolute' is computed here"
        )
    if config.get("is_decoder", False):
        raise FolderError("config.json has is_decoder=true; only encoders are computed here")
    width = field(config, "hidden_size", kind=int)
    facts = BlockFacts(
        heads=shared_heads(width, field(config, "num_attention_heads", kind=int)),
        activation=choice("hidden_act", config.get("hidden_act", "gelu"), choices=BERT_ACTIVATIONS),
        epsilon=field({"layer_norm_eps": 1e-12, **config}, "layer_norm_eps", kind=float),
    )
    tensors = Tensors(path / "model.safetensors", rename=plain_bert_name)
    # A tagger's classifier reads every token, and old taggers carry a pooler that they do not use.
    tagger = "BertForTokenClassification" in (config.get("architectures") or [])
    classifier = "classifier.weight" in tensors and not tagger
    pooler = "pooler.dense.weight" in tensors or classifier
    shapes = bert_shapes(config)
    if pooler:
        shapes |= two("pooler.dense", width, width)
    if classifier:
        shapes |= two("classifier", tensors.shape("classifier.weight")[0], width)
    arrays = tensors.take(shapes, ignored=(*BERT_IGNORED, "classifier.") if tagger else BERT_IGNORED)
    head = Head(
        pooling="cls",
        dense=affine(arrays, "pooler.dense") if pooler else None,
        output=affine(arrays, "classifier") if classifier else None,
    )
    return WholeModel(
        name=str(path),
        facts=facts,
        embedding=Embedding(
            tokens=arrays["embeddings.word_embeddings.weight"],
            positions=arrays["embeddings.position_embeddings.weight"],
            segments=arrays["embeddings.token_type_embeddings.weight"],
            norm=affine(arrays, "embeddings.LayerNorm"),
        ),
        blocks=tuple(
            bert_block(arrays, f"encoder.layer.{i}")
            for i in range(field(config, "num_hidden_layers", kind=int))
        ),
        final_norm=None,
        head=head if pooler else None,
    )


def plain_bert_name(name: str) -> str:
    """The name without its model's prefix and with the present spelling of a norm's scale and shift."""
    name = name.removeprefix("bert.")
    name = name.replace("LayerNorm.gamma", "LayerNorm.weight")
    return name.replace("LayerNorm.beta", "LayerNorm.bias")


def bert_shapes(config: Mapping[str, Any]) -> dict[str, Shape]:
    width = field(config, "hidden_size", kind=int)
    hidden = field(config, "intermediate_size", kind=int)
    shapes: dict[str, Shape] = {
        "embeddings.word_embeddings.weight": (field(config, "vocab_size", kind=int), width),
        "embeddings.position_embeddings.weight": (field(config, "max_position_embeddings", kind=int), width),
        "embeddings.token_type_embeddings.weight": (field(config, "type_vocab_size", kind=int), width),
        **two("embeddings.LayerNorm", width),
    }
    for i in range(field(config, "num_hidden_layers", kind=int)):
        block = f"encoder.layer.{i}"
        shapes |= two(f"{block}.attention.self.query", width, width)
        shapes |= two(f"{block}.attention.self.key", width, width)
        shapes |= two(f"{block}.attention.self.value", width, width)
        shapes |= two(f"{block}.attention.output.dense", width, width)
        shapes |= two(f"{block}.attention.output.LayerNorm", width)
        shapes |= two(f"{block}.intermediate.dense", hidden, width)
        shapes |= two(f"{block}.output.dense", width, hidden)
        shapes |= two(f"{block}.output.LayerNorm", width)
    return shapes


def bert_block(arrays: Mapping[str, Array], block: str) -> BlockWeights:
    return BlockWeights(
        attention=AttentionWeights(
            query=affine(arrays, f"{block}.attention.self.query"),
            key=affine(arrays, f"{block}.attention.self.key"),
            value=affine(arrays, f"{block}.attention.self.value"),
            output=affine(arrays, f"{block}.attention.output.dense"),
        ),
        attention_norm=affine(arrays, f"{block}.attention.output.LayerNorm"),
        expand=affine(arrays, f"{block}.intermediate.dense"),
        contract=affine(arrays, f"{block}.output.dense"),
        feed_forward_norm=affine(arrays, f"{block}.output.LayerNorm"),
    )


# ---- "clearhead" -------------------------------------------------------------------------------------------


def read_clearhead(path: Path, config: Mapping[str, Any]) -> WholeModel:
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
    block_facts = BlockFacts(
        heads=shared_heads(width, field(facts, "heads", kind=int)),
        activation=choice("activation", facts.get("activation"), choices=ACTIVATIONS),
        norm_first=field(facts, "norm_first", kind=bool),
        epsilon=field(facts, "epsilon", kind=float),
    )
    shapes = clearhead_shapes(facts) | head_shapes(head, width)
    arrays = Tensors(path / "model.safetensors").take(shapes)
    return WholeModel(
        name=str(path),
        facts=block_facts,
        embedding=Embedding(
            tokens=arrays["embedding.tokens.weight"],
            positions=arrays.get("embedding.positions.weight"),
            segments=arrays.get("embedding.segments.weight"),
            norm=affine(arrays, "embedding.norm") if field(facts, "embedding_norm", kind=bool) else None,
            scale=math.sqrt(width) if field(facts, "scale_embedding", kind=bool) else 1.0,
        ),
        blocks=tuple(
            clearhead_block(arrays, f"encoder.blocks.{i}") for i in range(field(facts, "layers", kind=int))
        ),
        final_norm=affine(arrays, "encoder.norm") if block_facts.norm_first else None,
        head=clearhead_head(arrays, head),
    )


def clearhead_shapes(facts: Mapping[str, Any]) -> dict[str, Shape]:
    width = field(facts, "width", kind=int)
    hidden = field(facts, "hidden", kind=int)
    segments = field(facts, "segments", kind=int)
    shapes: dict[str, Shape] = {"embedding.tokens.weight": (field(facts, "vocab", kind=int), width)}
    positions = field(facts, "positions", kind=dict)
    if choice("positions.kind", positions.get("kind"), choices={"sinusoidal": False, "learned": True}):
        shapes["embedding.positions.weight"] = (field(positions, "count", kind=int), width)
    if segments > 0:
        shapes["embedding.segments.weight"] = (segments, width)
    if field(facts, "embedding_norm", kind=bool):
        shapes |= two("embedding.norm", width)
    for i in range(field(facts, "layers", kind=int)):
        block = f"encoder.blocks.{i}"
        shapes |= two(f"{block}.attention.qkv", 3 * width, width)
        shapes |= two(f"{block}.attention.output", width, width)
        shapes |= two(f"{block}.attention_norm", width)
        shapes |= two(f"{block}.feed_forward.expand", hidden, width)
        shapes |= two(f"{block}.feed_forward.contract", width, hidden)
        shapes |= two(f"{block}.feed_forward_norm", width)
    if field(facts, "norm_first", kind=bool):
        shapes |= two("encoder.norm", width)
    return shapes


def clearhead_block(arrays: Mapping[str, Array], block: str) -> BlockWeights:
    weights = np.split(arrays[f"{block}.attention.qkv.weight"], 3)
    biases = np.split(arrays[f"{block}.attention.qkv.bias"], 3)
    query, key, value = map(Affine, weights, biases)
    return BlockWeights(
        attention=AttentionWeights(query, key, value, output=affine(arrays, f"{block}.attention.output")),
        attention_norm=affine(arrays, f"{block}.attention_norm"),
        expand=affine(arrays, f"{block}.feed_forward.expand"),
        contract=affine(arrays, f"{block}.feed_forward.contract"),
        feed_forward_norm=affine(arrays, f"{block}.feed_forward_norm"),
    )


def head_shapes(head: Mapping[str, Any] | None, width: int) -> dict[str, Shape]:
    shapes: dict[str, Shape] = {}
    if head is not None and field(head, "dense", kind=bool):
        shapes |= two("head.dense", width, width)
    if head is not None and field(head, "labels", kind=int) > 0:
        shapes |= two("head.output", head["labels"], width)
    return shapes


def clearhead_head(arrays: Mapping[str, Array], head: Mapping[str, Any] | None) -> Head | None:
    if head is None:
        return None
    return Head(
        pooling=choice("head.pooling", head.get("pooling"), choices=POOLINGS),
        dense=affine(arrays, "head.dense") if "head.dense.weight" in arrays else None,
        output=affine(arrays, "head.output") if "head.output.weight" in arrays else None,
    )
