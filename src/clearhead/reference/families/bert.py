"""BERT, as published (Devlin et al. 2018), and the body that RoBERTa and ELECTRA have in common with it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clearhead.reference.attention import AttentionWeights
from clearhead.reference.block import BlockFacts, BlockWeights
from clearhead.reference.families.published import (
    FillNames,
    activation,
    optional,
    output_shapes,
    over_tokens,
    refuse_decoders,
    shared_heads,
    tokens_head,
)
from clearhead.reference.layers import Array
from clearhead.reference.stored import Shape, Tensors, affine, field, possible, two
from clearhead.reference.whole import Embedding, Fill, Head, WholeModel

# Other heads, and a table of numbers 0, 1, 2, … that old versions stored.
FILL = FillNames(
    "cls.predictions.transform.dense",
    "cls.predictions.transform.LayerNorm",
    "cls.predictions.decoder.weight",
    "cls.predictions.bias",
    "cls.predictions.decoder.bias",
)
IGNORED = ("cls.", "embeddings.position_ids")


def read_bert(path: Path, config: Mapping[str, Any]) -> WholeModel:
    """The first token's vector goes through tanh(dense), the pooler, and then to the classifier.

    Source: Devlin et al. 2018, sections 3 and 4.1, with the pooler of the published code.
    """
    refuse_decoders(config)
    width = field(config, "hidden_size", kind=int)
    tensors = Tensors(path, rename=lambda name: plain_name(name, prefix="bert."))
    # A tagger's classifier reads every token, and old taggers carry a pooler that they do not use.
    tagger = over_tokens(config)
    classifier = "classifier.weight" in tensors and not tagger
    pooler = ("pooler.dense.weight" in tensors or classifier) and not tagger
    shapes = body_shapes(config, width) | output_shapes(tensors, tagger, width=width)
    if pooler:
        shapes |= two("pooler.dense", width, width)
    if classifier:
        shapes |= two("classifier", tensors.shape("classifier.weight")[0], width)
    shapes |= fill_shapes(FILL, config, tensors=tensors, narrow=width)
    arrays = tensors.take(shapes, ignored=(*IGNORED, "pooler.") if tagger else IGNORED)
    return body(
        path,
        config,
        arrays=arrays,
        head=tokens_head(arrays, tagger)
        if tagger
        else Head(
            pooling="cls",
            dense=affine(arrays, "pooler.dense"),
            output=affine(arrays, "classifier") if classifier else None,
        )
        if pooler
        else None,
        fill=FILL.fill(
            arrays, arrays["embeddings.word_embeddings.weight"], activation=activation(config, "hidden_act")
        ),
    )


def fill_shapes(
    names: FillNames, config: Mapping[str, Any], *, tensors: Tensors, narrow: int
) -> dict[str, Shape]:
    """Every tensor of the head for masked tokens, if there is one."""
    sizes = (field(config, "vocab_size", kind=int), narrow, field(config, "hidden_size", kind=int))
    return names.shapes(config, tensors, sizes=sizes, biases=(True, True, True))


def plain_name(name: str, *, prefix: str) -> str:
    """The name without its model's prefix and with the present spelling of a norm's scale and shift."""
    name = name.removeprefix(prefix)
    name = name.replace("LayerNorm.gamma", "LayerNorm.weight")
    return name.replace("LayerNorm.beta", "LayerNorm.bias")


def body_shapes(config: Mapping[str, Any], narrow: int) -> dict[str, Shape]:
    """Every tensor of the body; `narrow` is the width of the embedding."""
    width = field(config, "hidden_size", kind=int)
    hidden = field(config, "intermediate_size", kind=int)
    shapes: dict[str, Shape] = {
        "embeddings.word_embeddings.weight": (field(config, "vocab_size", kind=int), narrow),
        "embeddings.position_embeddings.weight": (field(config, "max_position_embeddings", kind=int), narrow),
        "embeddings.token_type_embeddings.weight": (field(config, "type_vocab_size", kind=int), narrow),
        **two("embeddings.LayerNorm", narrow),
    }
    if narrow != width:
        shapes |= two("embeddings_project", width, narrow)
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


def body(
    path: Path,
    config: Mapping[str, Any],
    *,
    arrays: Mapping[str, Array],
    head: Head | None,
    first_position: int = 0,
    fill: Fill | None = None,
) -> WholeModel:
    """The whole model, given its head; the first token of a text gets the table's row `first_position`."""
    return WholeModel(
        name=str(path),
        facts=BlockFacts(
            heads=shared_heads(
                field(config, "hidden_size", kind=int), field(config, "num_attention_heads", kind=int)
            ),
            activation=activation(config, "hidden_act"),
            epsilon=optional(config, "layer_norm_eps", default=1e-12),
        ),
        embedding=Embedding(
            tokens=arrays["embeddings.word_embeddings.weight"],
            positions=arrays["embeddings.position_embeddings.weight"][first_position:],
            segments=arrays["embeddings.token_type_embeddings.weight"],
            norm=affine(arrays, "embeddings.LayerNorm"),
            widen=possible(arrays, "embeddings_project"),
        ),
        blocks=tuple(
            block(arrays, f"encoder.layer.{i}") for i in range(field(config, "num_hidden_layers", kind=int))
        ),
        final_norm=None,
        head=head,
        fill=fill,
    )


def block(arrays: Mapping[str, Array], name: str) -> BlockWeights:
    return BlockWeights(
        attention=AttentionWeights(
            query=affine(arrays, f"{name}.attention.self.query"),
            key=affine(arrays, f"{name}.attention.self.key"),
            value=affine(arrays, f"{name}.attention.self.value"),
            output=affine(arrays, f"{name}.attention.output.dense"),
        ),
        attention_norm=affine(arrays, f"{name}.attention.output.LayerNorm"),
        expand=affine(arrays, f"{name}.intermediate.dense"),
        contract=affine(arrays, f"{name}.output.dense"),
        feed_forward_norm=affine(arrays, f"{name}.output.LayerNorm"),
    )
