"""The equations as printed, in NumPy float64: layers, attention, and a whole encoder read from its folder.

The idea: slow, short and plain enough to be compared with the printed page by eye, and exact enough (float64)
to be the truth against which the fast model is checked. `read(folder)` reads config.json and the
safetensors on its own, so that a mistake in how the rest of the package reads a folder cannot hide
here.

The border: NumPy, the standard library, safetensors and `clearhead.errors`. Never torch, never another
folder of this package; only `clearhead.check` and `clearhead.explain` import this one. One text at a time,
encoders only, no training.
"""

from clearhead.reference.attention import (
    AttentionWeights,
    ColumnHead,
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
    turned,
)
from clearhead.reference.encoder import (
    BlockFacts,
    BlockWeights,
    Embedding,
    Head,
    Sight,
    WholeModel,
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
    sinusoidal_positions,
    softmax,
    tanh,
)

__all__ = [
    "Affine",
    "AttentionWeights",
    "BlockFacts",
    "BlockWeights",
    "ColumnHead",
    "Embedding",
    "Head",
    "Sight",
    "WholeModel",
    "attend",
    "attention_columns",
    "attention_rows",
    "attention_to",
    "batch_norm",
    "encoder_block",
    "feed_forward",
    "gated_feed_forward",
    "gelu",
    "gelu_tanh",
    "layer_norm",
    "linear",
    "multi_head_columns",
    "multi_head_rows",
    "plain_layer",
    "project",
    "read",
    "relu",
    "route",
    "scaled_dot_product_self_attention",
    "self_attention",
    "self_attention_by_vector",
    "sinusoidal_positions",
    "softmax",
    "tanh",
    "turned",
]
