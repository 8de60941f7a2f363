"""ELECTRA (Clark et al. 2020): BERT's body, whose embedding may be narrower than the stream."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clearhead.reference.families.bert import body, body_shapes, fill_shapes, plain_name
from clearhead.reference.families.published import (
    FillNames,
    optional,
    output_shapes,
    over_tokens,
    refuse_decoders,
    tokens_head,
)
from clearhead.reference.layers import gelu
from clearhead.reference.stored import Tensors, affine, field, two
from clearhead.reference.whole import Head, WholeModel

# Heads over single tokens, and a table of numbers 0, 1, 2, … that old versions stored.
FILL = FillNames(
    "generator_predictions.dense",
    "generator_predictions.LayerNorm",
    "generator_lm_head.weight",
    "generator_lm_head.bias",
)
IGNORED = (
    "discriminator_predictions.",
    "generator_predictions.",
    "generator_lm_head.",
    "embeddings.position_ids",
)


def read_electra(path: Path, config: Mapping[str, Any]) -> WholeModel:
    """logits = out_proj(gelu(dense(first token's vector))): gelu, whatever the blocks use.

    The vectors of tokens, positions and segments are embedding_size wide and are normed so, and where that
    is not hidden_size one linear layer widens them. Source: Clark et al. 2020, sections 3.2 and 3.3, with the
    head of the published code.
    """
    refuse_decoders(config)
    width = field(config, "hidden_size", kind=int)
    tensors = Tensors(path, rename=lambda name: plain_name(name, prefix="electra."))
    narrow = optional(config, "embedding_size", default=128)
    shapes = body_shapes(config, narrow) | fill_shapes(FILL, config, tensors=tensors, narrow=narrow)
    tagger = over_tokens(config)
    shapes |= output_shapes(tensors, tagger, width=width)
    classifier = "classifier.out_proj.weight" in tensors and not tagger
    if classifier:
        shapes |= two("classifier.dense", width, width)
        shapes |= two("classifier.out_proj", tensors.shape("classifier.out_proj.weight")[0], width)
    arrays = tensors.take(shapes, ignored=IGNORED)
    head = tokens_head(arrays, tagger) if tagger else None
    if classifier:
        head = Head(
            pooling="cls",
            dense=affine(arrays, "classifier.dense"),
            activation=gelu,
            output=affine(arrays, "classifier.out_proj"),
        )
    fill = FILL.fill(arrays, arrays["embeddings.word_embeddings.weight"], activation=gelu)
    return body(path, config, arrays=arrays, head=head, fill=fill)
