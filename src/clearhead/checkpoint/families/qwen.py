"""Qwen2 (Yang et al. 2024) and Qwen3 (Yang et al. 2025) as published: Llama's blocks with biases on
queries, keys and values, or with norms on queries and keys."""

from typing import Any

from clearhead.checkpoint.families.gpt2 import head, new_head
from clearhead.checkpoint.families.llama import NAMES, RULES, facts, said
from clearhead.checkpoint.family import Family
from clearhead.checkpoint.translate import Fields, all_blocks
from clearhead.model.config import Config, Head


def refuse_windows(fields: Fields) -> None:
    """Published models see the whole text in every block; a window would need facts of its own."""
    fields.skip("sliding_window", "max_window_layers")
    fields.require(use_sliding_window=False)
    all_blocks(fields, "full_attention")


def qwen2_config(fields: Fields) -> Config:
    """Facts from Qwen2's fields."""
    refuse_windows(fields)
    fields.require(use_mrope=False)
    found = Config(**facts(fields, stem="Qwen2", kv_heads=32), bias=False, qkv_bias=True, output_bias=False)
    fields.require(head_dim=found.each_head)
    return found


def qwen3_config(fields: Fields) -> Config:
    """Facts from Qwen3's fields."""
    refuse_windows(fields)
    biases = fields("attention_bias", False)
    return Config(
        **facts(fields, stem="Qwen3", kv_heads=32),
        head_width=fields.fact("head_width", "head_dim", default=128),
        bias=False,
        qkv_bias=biases,
        output_bias=biases,
        qk_norm=True,
    )


def qwen2_fields(config: Config, head: Head | None) -> dict[str, Any]:
    """Qwen2's fields from facts."""
    written = said(config, stem="Qwen2")
    del written["head_dim"]
    return written | {"use_sliding_window": False}


def qwen3_fields(config: Config, head: Head | None) -> dict[str, Any]:
    """Qwen3's fields from facts."""
    return said(config, stem="Qwen3") | {"attention_bias": config.qkv_bias, "use_sliding_window": False}


FAMILIES = (
    Family("qwen2", qwen2_config, head, qwen2_fields, RULES, new_head, **NAMES),
    Family("qwen3", qwen3_config, head, qwen3_fields, RULES, new_head, **NAMES),
)
