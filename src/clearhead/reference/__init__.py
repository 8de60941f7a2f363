"""The equations as printed, in NumPy float64: layers, attention, whole models read from folders, decoding.

The idea: slow, short and plain enough to be compared with the printed page by eye, and exact enough (float64)
to be the truth against which the fast model is checked. `read(folder)` reads config.json and the
safetensors on its own, so that a mistake in how the rest of the package reads a folder cannot hide
here.

The border: NumPy, the standard library and `clearhead.errors`. Never torch, never another folder of this
package; only `clearhead.check` and `clearhead.explain` import this one. One text at a time,
or one pair of texts: encoders, decoders, and both together. No training.
"""

from clearhead.reference.attention import (
    AttentionWeights,
    ColumnHead,
    Sight,
    attend,
    attention_columns,
    attention_rows,
    attention_to,
    multi_head_columns,
    multi_head_rows,
    project,
    route,
    scaled_dot_product_self_attention,
    self_attention,
    self_attention_by_vector,
)
from clearhead.reference.block import (
    BlockFacts,
    BlockWeights,
    DecoderBlockWeights,
    decoder_block,
    encoder_block,
)
from clearhead.reference.folder import read
from clearhead.reference.layers import (
    Affine,
    batch_norm,
    feed_forward,
    gated_feed_forward,
    gelu,
    gelu_tanh,
    layer_norm,
    linear,
    plain_layer,
    relu,
    rms_norm,
    silu,
    sinusoidal_positions,
    softmax,
    tanh,
)
from clearhead.reference.learning import inverse_root_rate, smoothed_cross_entropy
from clearhead.reference.relative import Relative, relative_buckets
from clearhead.reference.rotary import Linear, Llama3, Rotary, turned
from clearhead.reference.translator import Decoder, WholeTranslator
from clearhead.reference.whole import Embedding, Head, WholeModel

__all__ = [
    "Affine",
    "AttentionWeights",
    "BlockFacts",
    "BlockWeights",
    "ColumnHead",
    "Decoder",
    "DecoderBlockWeights",
    "Embedding",
    "Head",
    "Linear",
    "Llama3",
    "Relative",
    "Rotary",
    "Sight",
    "WholeModel",
    "WholeTranslator",
    "attend",
    "attention_columns",
    "attention_rows",
    "attention_to",
    "batch_norm",
    "decoder_block",
    "encoder_block",
    "feed_forward",
    "gated_feed_forward",
    "gelu",
    "gelu_tanh",
    "inverse_root_rate",
    "layer_norm",
    "linear",
    "multi_head_columns",
    "multi_head_rows",
    "plain_layer",
    "project",
    "read",
    "relative_buckets",
    "relu",
    "rms_norm",
    "route",
    "scaled_dot_product_self_attention",
    "self_attention",
    "self_attention_by_vector",
    "silu",
    "sinusoidal_positions",
    "smoothed_cross_entropy",
    "softmax",
    "tanh",
    "turned",
]
