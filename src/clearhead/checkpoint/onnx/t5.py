"""The graphs of a T5 with gates → the fields of its published config, and its published tensors.

Sizes come from the tensors. What no tensor shows is as google/flan-t5-small publishes it.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from clearhead.checkpoint.onnx.graph import Graph
from clearhead.checkpoint.onnx.weights import Weight, weights
from clearhead.errors import FolderError

# The file of each graph: what the names of its modules begin with, and what it is in published folders.
ENCODER, DECODER = "encoder.onnx", "decoder.onnx"
STEMS = {ENCODER: ("enc.", "encoder."), DECODER: ("m.", "")}
TABLE, AGAIN, HEAD = "shared.weight", "encoder.embed_tokens.weight", "lm_head.weight"
PUBLISHED = {
    "architectures": ["T5ForConditionalGeneration"],
    "model_type": "t5",
    "is_encoder_decoder": True,
    "feed_forward_proj": "gated-gelu",
    "layer_norm_epsilon": 1e-06,
    "relative_attention_max_distance": 128,
    "dropout_rate": 0.1,
    "initializer_factor": 1.0,
    "n_positions": 512,
    "tie_word_embeddings": False,
    "dtype": "float32",
}
ATTENTION = "qkvo"


def plan(graphs: Mapping[str, Graph]) -> tuple[dict[str, Any], dict[str, Weight]]:
    """The published config, without ids, and the tensors of the published folder.

    Every tensor of the graphs must be known, and none may be missing or of another shape; `FolderError` names
    those that are.
    """
    paths: dict[str, Graph] = {}
    found: dict[str, Weight] = {}
    for file, graph in graphs.items():
        theirs, ours = STEMS[file]
        for name, weight in weights(graph).items():
            if not name.startswith(theirs):
                raise FolderError(f"{graph.path} holds {name!r:.80}, which T5 does not have")
            published = ours + name.removeprefix(theirs)
            if published in found:
                raise FolderError(f"{graph.path} holds {published!r:.80}, which another file holds too")
            if not isinstance(weight, Weight):
                raise FolderError(f"{graph.path}: {name!r:.80} is stored in blocks, which is not read of T5")
            found[published], paths[published] = weight, graph
    folder = graphs[DECODER].path.parent
    config = _config(found, folder)
    shapes = dict(_shapes(config))
    if missing := sorted(shapes.keys() - found.keys()):
        raise FolderError(f"{folder}: the graphs lack {', '.join(missing[:3])}; fetch them again")
    for name, weight in found.items():
        if name not in shapes:
            raise FolderError(f"{paths[name].path} holds {name!r:.80}, which T5 does not have")
        if weight.shape != shapes[name]:
            raise FolderError(
                f"{paths[name].path}: {name} has the shape {weight.shape} where {shapes[name]} belongs"
            )
    if not _alike(found[AGAIN], found[TABLE]):
        raise FolderError(
            f"{folder}: {ENCODER} and {DECODER} have other token vectors; they are not of one model"
        )
    del found[AGAIN]
    return config, found


def _alike(one: Weight, other: Weight) -> bool:
    """Whether two weights are stored alike; what they stand for would be large tables of float32."""
    pairs: Any = zip((one.stored, one.scale, one.zero), (other.stored, other.scale, other.zero), strict=True)
    return all(np.array_equal(mine, its) for mine, its in pairs)


def _config(found: Mapping[str, Weight], folder: Any) -> dict[str, Any]:
    """Fields from the shapes of a few tensors."""

    def shape(name: str) -> tuple[int, int]:
        if name not in found or len(found[name].shape) != 2:
            raise FolderError(f"{folder}: the graphs lack {name}, a matrix; fetch them again")
        rows, columns = found[name].shape
        return rows, columns

    first = "encoder.block.0.layer.{}."
    vocab, width = shape(TABLE)
    buckets, heads = shape(first.format(0) + "SelfAttention.relative_attention_bias.weight")
    together, _ = shape(first.format(0) + "SelfAttention.q.weight")
    hidden, _ = shape(first.format(1) + "DenseReluDense.wi_0.weight")
    return {
        **PUBLISHED,
        "vocab_size": vocab,
        "d_model": width,
        "d_kv": together // heads,
        "d_ff": hidden,
        "num_heads": heads,
        "num_layers": _blocks(found, "encoder"),
        "num_decoder_layers": _blocks(found, "decoder"),
        "relative_attention_num_buckets": buckets,
    }


def _blocks(found: Mapping[str, Weight], side: str) -> int:
    """How many blocks the names speak of; one that lacks anything is noticed afterwards."""
    pattern = re.compile(rf"{side}\.block\.(\d+)\.")
    return len({match[1] for match in map(pattern.match, found) if match})


def _shapes(config: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The name and shape of every tensor that such a model has."""
    vocab, width, hidden = config["vocab_size"], config["d_model"], config["d_ff"]
    together = config["d_kv"] * config["num_heads"]
    yield from ((name, (vocab, width)) for name in (TABLE, AGAIN, HEAD))
    for side, blocks in (("encoder", config["num_layers"]), ("decoder", config["num_decoder_layers"])):
        attentions = ["SelfAttention", "EncDecAttention"][: 2 if side == "decoder" else 1]
        bias = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        yield bias, (config["relative_attention_num_buckets"], config["num_heads"])
        yield f"{side}.final_layer_norm.weight", (width,)
        for block in range(blocks):
            layers = [f"{side}.block.{block}.layer.{layer}." for layer in range(len(attentions) + 1)]
            yield from ((layer + "layer_norm.weight", (width,)) for layer in layers)
            for layer, attention in zip(layers, attentions, strict=False):
                for part in ATTENTION:
                    shape = (width, together) if part == "o" else (together, width)
                    yield f"{layer}{attention}.{part}.weight", shape
            last = layers[-1] + "DenseReluDense."
            yield from ((f"{last}wi_{gate}.weight", (hidden, width)) for gate in (0, 1))
            yield last + "wo.weight", (width, hidden)
