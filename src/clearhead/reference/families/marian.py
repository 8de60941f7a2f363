"""Marian, as published (Junczys-Dowmunt et al. 2018; Tiedemann & Thottingal 2020)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.errors import FolderError
from clearhead.reference.families.bart import Names, body_shapes, open_tensors, whole
from clearhead.reference.families.published import optional, refuse_other
from clearhead.reference.families.translators import HEAD, SHARED, refuse_one_stack
from clearhead.reference.layers import sinusoidal_positions
from clearhead.reference.stored import field
from clearhead.reference.translator import WholeTranslator

Config = Mapping[str, Any]
PLAIN = {
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
    "tie_word_embeddings": True,
}
POSITIONS = ("encoder.embed_positions.weight", "decoder.embed_positions.weight")


def read_marian(path: Path, config: Config) -> WholeTranslator:
    """Norm after, fixed positions with the sines first; the head is the target's table.

    Source and target share that table, or each has one of its own. Files may hold the fixed positions; they
    are computed here, and a file with other ones is refused.
    Source: Vaswani et al. 2017, with the details of the published code.
    """
    refuse_one_stack(config, PLAIN)
    names = names_of(config)
    tensors = open_tensors(path)
    shape = tuple(field(config, name, kind=int) for name in ("max_position_embeddings", "d_model"))
    shapes = body_shapes(config, names, tensors=tensors)
    shapes |= {name: shape for name in POSITIONS if name in tensors}
    arrays = tensors.take(shapes)
    fixed = sinusoidal_positions(*shape, halves=True)
    for name in POSITIONS:
        # As coarse as bfloat16 would leave them.
        if name in arrays and not np.allclose(arrays[name], fixed, rtol=0, atol=1e-2):
            raise FolderError(
                f"{path} stores {name} with other numbers than sines, then cosines, of positions"
            )
    return whole(path, config, arrays=arrays, names=names, positions=("halves", "halves"))


def names_of(config: Config) -> Names:
    """One table for all, or one for the source, and one for the target and the head."""
    vocab = field(config, "vocab_size", kind=int)
    if optional(config, "share_encoder_decoder_embeddings", default=True):
        if config.get("decoder_vocab_size") is not None:
            refuse_other(config, {"decoder_vocab_size": vocab})
        return Names((*SHARED, HEAD), (*SHARED, HEAD), vocab, vocab)
    target = vocab
    if config.get("decoder_vocab_size") is not None:
        target = field(config, "decoder_vocab_size", kind=int)
    return Names(SHARED[1:2], (SHARED[2], HEAD), vocab, target)
