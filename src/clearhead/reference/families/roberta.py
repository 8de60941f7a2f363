"""RoBERTa, and XLM-RoBERTa and CamemBERT, which differ from it in what they learned only."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clearhead.errors import FolderError
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

# Other heads, and a table of numbers 0, 1, 2, … that old versions stored.
FILL = FillNames(
    "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder.weight", "lm_head.bias", "lm_head.decoder.bias"
)
IGNORED = ("lm_head.", "embeddings.position_ids")


def read_roberta(path: Path, config: Mapping[str, Any]) -> WholeModel:
    """BERT's body, whose positions start at row pad_token_id + 1; the classifier has its own dense layer.

    logits = out_proj(tanh(dense(first token's vector))). A pooler beside it is not used, and without a
    classifier it is the head, as in BERT.
    Source: Liu et al. 2019, section 2.2, with the head and positions of the published code.
    """
    refuse_decoders(config)
    width = field(config, "hidden_size", kind=int)
    tensors = Tensors(path, rename=lambda name: plain_name(name, prefix="roberta."))
    tagger = over_tokens(config)
    shapes = body_shapes(config, width) | output_shapes(tensors, tagger, width=width)
    ignored: tuple[str, ...] = IGNORED
    output = None
    dense = "pooler.dense"
    if tagger:
        ignored = (*IGNORED, "pooler.")
    elif "classifier.out_proj.weight" in tensors:
        ignored = (*IGNORED, "pooler.")
        dense, output = "classifier.dense", "classifier.out_proj"
        shapes |= two(output, tensors.shape(f"{output}.weight")[0], width)
    has_head = output is not None or (f"{dense}.weight" in tensors and not tagger)
    if has_head:
        shapes |= two(dense, width, width)
    shapes |= fill_shapes(FILL, config, tensors=tensors, narrow=width)
    arrays = tensors.take(shapes, ignored=ignored)
    head = tokens_head(arrays, tagger) if tagger else None
    if has_head:
        last = None if output is None else affine(arrays, output)
        head = Head(pooling="cls", dense=affine(arrays, dense), output=last)
    first = optional(config, "pad_token_id", default=1) + 1
    rows = field(config, "max_position_embeddings", kind=int)
    if not 0 <= first < rows:
        raise FolderError(
            f"config.json has pad_token_id={first - 1} and max_position_embeddings={rows}; "
            "positions start at pad_token_id + 1, so there is none"
        )
    fill = FILL.fill(arrays, arrays["embeddings.word_embeddings.weight"], activation=gelu)
    return body(path, config, arrays=arrays, head=head, first_position=first, fill=fill)
