"""Llama (Touvron et al. 2023) and Mistral (Jiang et al. 2023) as published: rotary positions, RMS norm,
gates, no biases, keys and values shared by groups of heads."""

from typing import Any

from clearhead.checkpoint.families.gpt2 import head, new_head
from clearhead.checkpoint.family import Family, halves, projections, same
from clearhead.checkpoint.rotary import read_rotary, write_rotary
from clearhead.checkpoint.translate import (
    ACTIVATIONS,
    SPELLED,
    Fields,
    all_blocks,
    read_plain,
    speaks,
    write_plain,
)
from clearhead.model.config import Config, Head, Norm

LAYER, BLOCK = "layers.{i}.", "encoder.blocks.{i}."
QKV = [LAYER + f"self_attn.{name}_proj.{{p}}" for name in "qkv"]
GATED = [LAYER + f"mlp.{name}_proj.{{p}}" for name in ("gate", "up")]

RULES = (
    same("embed_tokens.weight", "embedding.tokens.weight"),
    same(LAYER + "input_layernorm.{p}", BLOCK + "attention_norm.{p}"),
    projections(QKV, BLOCK + "attention.qkv.{p}"),
    same(LAYER + "self_attn.q_norm.{p}", BLOCK + "attention.query_norm.{p}"),
    same(LAYER + "self_attn.k_norm.{p}", BLOCK + "attention.key_norm.{p}"),
    same(LAYER + "self_attn.o_proj.{p}", BLOCK + "attention.output.{p}"),
    same(LAYER + "post_attention_layernorm.{p}", BLOCK + "feed_forward_norm.{p}"),
    halves(GATED, BLOCK + "feed_forward.expand.{p}"),
    same(LAYER + "mlp.down_proj.{p}", BLOCK + "feed_forward.contract.{p}"),
    same("norm.{p}", "encoder.norm.{p}"),
    same("lm_head.weight", "language_head.weight"),
)

PLAIN = {
    "vocab_size": ("vocab", ...), "hidden_size": ("width", ...), "num_hidden_layers": ("layers", ...),
    "num_attention_heads": ("heads", ...), "intermediate_size": ("hidden", ...),
    "rms_norm_eps": ("epsilon", 1e-6), "attention_dropout": ("attention_dropout", 0.0),
    "initializer_range": ("initial_std", 0.02), "tie_word_embeddings": ("tied", False),
}  # fmt: skip
FIXED: dict[str, Any] = {"norm": Norm.RMS, "norm_first": True, "gated": True, "causal": True, "dropout": 0.0}


def facts(fields: Fields, *, stem: str, kv_heads: int | None = None) -> dict[str, Any]:
    """What all families of this kind have in common; `kv_heads` is the published default."""
    fields.require(pretraining_tp=1)
    plain = read_plain(fields, PLAIN)
    shared = fields.fact("kv_heads", "num_key_value_heads", default=kv_heads)
    others: dict[str, Any] = {
        "kv_heads": plain["heads"] if shared is None else shared,
        "positions": read_rotary(fields),
        "activation": fields.choice("hidden_act", ACTIVATIONS, default="silu"),
        "language_head": speaks(fields, speaker=f"{stem}ForCausalLM", body=f"{stem}Model"),
    }
    return plain | FIXED | others


def config(fields: Fields) -> Config:
    """Facts from Llama's fields."""
    fields.skip("is_llama_config")
    fields.require(rope_interleaved=False)
    attention = fields("attention_bias", False)
    return Config(
        **facts(fields, stem="Llama"),
        head_width=fields.fact("head_width", "head_dim", default=None),
        bias=fields("mlp_bias", False),
        qkv_bias=attention,
        output_bias=attention,
    )


def mistral_config(fields: Fields) -> Config:
    """Facts from Mistral's fields; the window counts the token itself."""
    whole_text = fields("sliding_window", 4096) is None
    window = None if whole_text else fields.whole("sliding_window", 4096, least=2, other=", or null")
    all_blocks(fields, "full_attention" if window is None else "sliding_attention")
    return Config(
        **facts(fields, stem="Mistral", kv_heads=8),
        head_width=fields.fact("head_width", "head_dim", default=None),
        bias=False,
        qkv_bias=False,
        output_bias=False,
        window=None if window is None else window - 1,
    )


def said(config: Config, *, stem: str) -> dict[str, Any]:
    """The fields that all families of this kind have in common."""
    positions: Any = config.positions
    others: dict[str, Any] = {
        "architectures": [f"{stem}ForCausalLM" if config.language_head else f"{stem}Model"],
        "model_type": stem.lower(),
        "num_key_value_heads": config.each_kv,
        "head_dim": config.head_width,
        "hidden_act": SPELLED[config.activation],
    }
    return write_plain(config, PLAIN) | write_rotary(positions) | others


def fields(config: Config, head: Head | None) -> dict[str, Any]:
    """Llama's fields from facts."""
    return said(config, stem="Llama") | {"attention_bias": config.qkv_bias, "mlp_bias": config.bias}


def mistral_fields(config: Config, head: Head | None) -> dict[str, Any]:
    """Mistral's fields from facts."""
    return said(config, stem="Mistral") | {
        "sliding_window": None if config.window is None else config.window + 1
    }


NAMES: dict[str, Any] = {
    "prefix": "model.", "bare": ("lm_head.",), "ignored": (r".*rotary_emb\.inv_freq",),
    "tied": ("lm_head.weight", "embed_tokens.weight"),
}  # fmt: skip
FAMILIES = (
    Family("llama", config, head, fields, RULES, new_head, **NAMES),
    Family("mistral", mistral_config, head, mistral_fields, RULES, new_head, **NAMES),
)
