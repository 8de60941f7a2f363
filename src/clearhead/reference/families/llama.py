"""Llama (Touvron et al. 2023), and Mistral and Qwen 2 and 3, which differ from it in few facts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clearhead.errors import FolderError
from clearhead.reference.attention import AttentionWeights
from clearhead.reference.block import BlockFacts, BlockWeights, Sight
from clearhead.reference.families.decoders import (
    grouped_heads,
    head_shapes,
    language_matrix,
    read_rotary,
)
from clearhead.reference.families.published import activation, optional, refuse_other, shared_heads
from clearhead.reference.layers import Affine, Array
from clearhead.reference.stored import Shape, Tensors, affine, field, two
from clearhead.reference.whole import Embedding, WholeModel

Config = Mapping[str, Any]
HEAD, TOKENS = "lm_head.weight", "embed_tokens.weight"


class Kind(NamedTuple):
    """What these families differ in: the sizes of heads, which layers have a bias, norms, and a window."""

    head_width: int
    kv_heads: int
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    window: int | None = None  # tokens to the left that a token sees


def read_llama(path: Path, config: Config) -> WholeModel:
    """RMS norm before, rotary positions, gated SiLU; all of attention has biases or none of it.

    Source: Touvron et al. 2023, section 2.2; Llama 2, section 2.2, for heads of keys and values shared by
    groups; the details of the published code.
    """
    bias = optional(config, "attention_bias", default=False)
    kind = Kind(
        head_width=head_width(config),
        kv_heads=kv_heads(config, default=None),
        qkv_bias=bias,
        output_bias=bias,
        mlp_bias=optional(config, "mlp_bias", default=False),
    )
    return whole(path, config, kind=kind)


def read_mistral(path: Path, config: Config) -> WholeModel:
    """As Llama, and a token sees itself and sliding_window − 1 tokens to its left; null: all of them.

    Source: Jiang et al. 2023, section 2, with the defaults of the published code.
    """
    window = None
    if config.get("sliding_window", ...) is not None:
        window = optional(config, "sliding_window", default=4096) - 1
        if window < 0:
            raise FolderError(f"config.json has sliding_window={window + 1}; it must be null or at least 1")
    kind = Kind(head_width=head_width(config), kv_heads=kv_heads(config, default=8), window=window)
    return whole(path, config, kind=kind)


def read_qwen2(path: Path, config: Config) -> WholeModel:
    """As Llama, and queries, keys and values have biases. Source: Yang et al. 2024, section 2.2.1."""
    refuse_other(config, {"use_sliding_window": False})
    kind = Kind(head_width=head_width(config), kv_heads=kv_heads(config, default=32), qkv_bias=True)
    return whole(path, config, kind=kind)


def read_qwen3(path: Path, config: Config) -> WholeModel:
    """As Llama, and queries and keys have a norm of their own; heads are as wide as head_dim says.

    Source: Yang et al. 2025, section 2, with the defaults of the published code.
    """
    refuse_other(config, {"use_sliding_window": False})
    bias = optional(config, "attention_bias", default=False)
    kind = Kind(
        head_width=optional(config, "head_dim", default=128),
        kv_heads=kv_heads(config, default=32),
        qkv_bias=bias,
        output_bias=bias,
        qk_norm=True,
    )
    return whole(path, config, kind=kind)


def head_width(config: Config) -> int:
    """head_dim, or the width shared by the heads where it is null or absent."""
    if config.get("head_dim") is not None:
        return field(config, "head_dim", kind=int)
    width = field(config, "hidden_size", kind=int)
    return width // shared_heads(width, field(config, "num_attention_heads", kind=int))


def kv_heads(config: Config, *, default: int | None) -> int:
    """Heads of keys and values; null means as many as of queries."""
    heads = field(config, "num_attention_heads", kind=int)
    fields = {"num_key_value_heads": default, **config}
    if fields["num_key_value_heads"] is None:
        return grouped_heads(heads, heads)
    return grouped_heads(heads, field(fields, "num_key_value_heads", kind=int))


def whole(path: Path, config: Config, *, kind: Kind) -> WholeModel:
    """The whole model of any of these families."""
    refuse_other(config, {"is_causal": True, "partial_rotary_factor": 1.0})
    layers = field(config, "num_hidden_layers", kind=int)
    refuse_mixtures(config, layers, word="full_attention" if kind.window is None else "sliding_attention")
    rotary = read_rotary(config, kind.head_width)
    if rotary.share != 1.0:
        raise FolderError(f"config.json has partial_rotary_factor={rotary.share}; only 1.0 is computed here")
    tied = optional(config, "tie_word_embeddings", default=False)
    tensors = Tensors(path, rename=lambda name: name.removeprefix("model."))
    shapes = body_shapes(config, kind)
    shapes |= head_shapes(config, tensors, name=HEAD, shape=shapes[TOKENS], tied=tied)
    # Old versions stored the speeds of rotary positions.
    buffers = [f"layers.{i}.self_attn.rotary_emb.inv_freq" for i in range(layers)]
    arrays = tensors.take(shapes, ignored=("rotary_emb.inv_freq", *buffers))
    return WholeModel(
        name=str(path),
        facts=BlockFacts(
            heads=field(config, "num_attention_heads", kind=int),
            activation=activation(config, "hidden_act", default="silu"),
            norm_first=True,
            epsilon=optional(config, "rms_norm_eps", default=1e-6),
            gated=True,
            norm="rms",
        ),
        embedding=Embedding(tokens=arrays[TOKENS], positions=None, segments=None, norm=None),
        blocks=tuple(block(arrays, f"layers.{i}") for i in range(layers)),
        final_norm=affine(arrays, "norm"),
        head=None,
        sights=(Sight(window=kind.window, causal=True, rotary=rotary),) * layers,
        language=language_matrix(path, arrays.get(HEAD), embedding=arrays[TOKENS], tied=tied),
    )


def refuse_mixtures(config: Config, layers: int, *, word: str) -> None:
    """Refuse a list of layer_types that does not say the same of every block as the other fields."""
    kinds = config.get("layer_types")
    if kinds is not None and kinds != [word] * layers:
        raise FolderError(
            f"config.json has layer_types={kinds!r}; only {word!r} for each of the {layers} blocks "
            "is computed here"
        )


def body_shapes(config: Config, kind: Kind) -> dict[str, Shape]:
    """Every tensor of the body."""
    width = field(config, "hidden_size", kind=int)
    hidden = field(config, "intermediate_size", kind=int)
    inner = field(config, "num_attention_heads", kind=int) * kind.head_width
    shared = kind.kv_heads * kind.head_width
    shapes: dict[str, Shape] = {
        TOKENS: (field(config, "vocab_size", kind=int), width),
        **two("norm", width, bias=False),
    }
    for i in range(field(config, "num_hidden_layers", kind=int)):
        name = f"layers.{i}"
        shapes |= two(f"{name}.input_layernorm", width, bias=False)
        shapes |= two(f"{name}.self_attn.q_proj", inner, width, bias=kind.qkv_bias)
        shapes |= two(f"{name}.self_attn.k_proj", shared, width, bias=kind.qkv_bias)
        shapes |= two(f"{name}.self_attn.v_proj", shared, width, bias=kind.qkv_bias)
        shapes |= two(f"{name}.self_attn.o_proj", width, inner, bias=kind.output_bias)
        if kind.qk_norm:
            shapes |= two(f"{name}.self_attn.q_norm", kind.head_width, bias=False)
            shapes |= two(f"{name}.self_attn.k_norm", kind.head_width, bias=False)
        shapes |= two(f"{name}.post_attention_layernorm", width, bias=False)
        shapes |= two(f"{name}.mlp.gate_proj", hidden, width, bias=kind.mlp_bias)
        shapes |= two(f"{name}.mlp.up_proj", hidden, width, bias=kind.mlp_bias)
        shapes |= two(f"{name}.mlp.down_proj", width, hidden, bias=kind.mlp_bias)
    return shapes


def block(arrays: Mapping[str, Array], name: str) -> BlockWeights:
    gate, up = affine(arrays, f"{name}.mlp.gate_proj"), affine(arrays, f"{name}.mlp.up_proj")
    return BlockWeights(
        attention=AttentionWeights(
            query=affine(arrays, f"{name}.self_attn.q_proj"),
            key=affine(arrays, f"{name}.self_attn.k_proj"),
            value=affine(arrays, f"{name}.self_attn.v_proj"),
            output=affine(arrays, f"{name}.self_attn.o_proj"),
            query_norm=arrays.get(f"{name}.self_attn.q_norm.weight"),
            key_norm=arrays.get(f"{name}.self_attn.k_norm.weight"),
        ),
        attention_norm=affine(arrays, f"{name}.input_layernorm"),
        expand=Affine(
            np.concatenate([gate.weight, up.weight]),
            None if gate.bias is None or up.bias is None else np.concatenate([gate.bias, up.bias]),
        ),
        contract=affine(arrays, f"{name}.mlp.down_proj"),
        feed_forward_norm=affine(arrays, f"{name}.post_attention_layernorm"),
    )
