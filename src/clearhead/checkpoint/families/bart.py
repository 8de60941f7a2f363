"""BART (Lewis et al. 2020) and Marian (Junczys-Dowmunt et al. 2018) as published: an encoder and a decoder
with the norm after, one table of tokens on both sides, positions that are learned or sines."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor

from clearhead.checkpoint.families.gpt2 import head, new_head
from clearhead.checkpoint.family import Family, as_row, halves, projections, same
from clearhead.checkpoint.places import TABLE, TWINS, refuse_other_sines
from clearhead.checkpoint.translate import (
    ACTIVATIONS,
    SPELLED,
    Fields,
    alike,
    read_plain,
    translates,
    write_plain,
)
from clearhead.model.config import Config, Head, Learned, Sinusoidal

BART, MARIAN = "BartForConditionalGeneration", "MarianMTModel"


def side(name: str, ours: str) -> tuple[Any, ...]:
    """The tensors that encoder and decoder have alike."""
    layer, block, table = name + ".layers.{i}.", name + ".blocks.{i}.", ours + "embedding."
    return (
        same(name + ".embed_positions.weight", table + "positions.weight"),
        same(name + ".layernorm_embedding.{p}", table + "norm.{p}"),
        projections([layer + f"self_attn.{part}_proj.{{p}}" for part in "qkv"], block + "attention.qkv.{p}"),
        same(layer + "self_attn.out_proj.{p}", block + "attention.output.{p}"),
        same(layer + "self_attn_layer_norm.{p}", block + "attention_norm.{p}"),
        same(layer + "fc1.{p}", block + "feed_forward.expand.{p}"),
        same(layer + "fc2.{p}", block + "feed_forward.contract.{p}"),
        same(layer + "final_layer_norm.{p}", block + "feed_forward_norm.{p}"),
    )


RECALL, OURS = "decoder.layers.{i}.encoder_attn", "decoder.blocks.{i}.recall"
RULES = (
    same("shared.weight", "embedding.tokens.weight"),
    *side("encoder", ""),
    *side("decoder", "decoder_"),
    same(RECALL + ".q_proj.{p}", OURS + ".query.{p}"),
    halves([RECALL + f".{part}_proj.{{p}}" for part in "kv"], OURS + ".memory.{p}"),
    same(RECALL + ".out_proj.{p}", OURS + ".output.{p}"),
    same(RECALL + "_layer_norm.{p}", OURS + "_norm.{p}"),
    same("lm_head.weight", "language_head.weight"),
    as_row("final_logits_bias", "language_bias"),
)

PLAIN = {
    "vocab_size": ("vocab", ...), "d_model": ("width", 1024), "encoder_layers": ("layers", 12),
    "decoder_layers": ("decoder_layers", 12), "encoder_attention_heads": ("heads", 16),
    "encoder_ffn_dim": ("hidden", 4096), "dropout": ("dropout", 0.1),
    "attention_dropout": ("attention_dropout", 0.0), "activation_dropout": ("hidden_dropout", 0.0),
    "init_std": ("initial_std", 0.02), "scale_embedding": ("scale_embedding", False),
    "tie_word_embeddings": ("tied", True),
}  # fmt: skip


def config(fields: Fields, *, marian: bool) -> Config:
    """Facts from the fields of either."""
    fields.skip("num_hidden_layers")
    fields.aliases(d_model="hidden_size")
    translates(fields, MARIAN if marian else BART, body="MarianModel" if marian else "BartModel")
    plain = read_plain(fields, PLAIN)
    alike(fields, plain["heads"], "encoder_attention_heads", "decoder_attention_heads", "num_attention_heads")
    alike(fields, plain["hidden"], "encoder_ffn_dim", "decoder_ffn_dim")
    fields.require(
        normalize_before=False, normalize_embedding=not marian, add_final_layer_norm=False,
        static_position_embeddings=marian, add_bias_logits=False, scale_attn_weights=True,
        share_encoder_decoder_embeddings=True, decoder_vocab_size=plain["vocab"],
    )  # fmt: skip
    count = fields.fact("positions", "max_position_embeddings", default=1024)
    return Config(
        **plain,
        positions=Sinusoidal(halves=True, count=count) if marian else Learned(count, offset=2),
        activation=fields.choice("activation_function", ACTIVATIONS, default="gelu"),
        embedding_norm=not marian,
        language_head=True,
    )


def settled(config: Config, given: Mapping[str, Tensor | None]) -> Config:
    """The head's bias is no field: it is there or not. Marian's sines may be stored, and are nothing else."""
    refuse_other_sines(config, given)
    return replace(config, language_bias="final_logits_bias" in given)


def fields(config: Config, head: Head | None, *, marian: bool) -> dict[str, Any]:
    """The fields of either from facts."""
    positions: Any = config.positions
    return write_plain(config, PLAIN) | {
        "architectures": [MARIAN if marian else BART],
        "model_type": "marian" if marian else "bart",
        "is_encoder_decoder": True,
        "decoder_attention_heads": config.heads,
        "decoder_ffn_dim": config.hidden,
        "max_position_embeddings": positions.count,
        "activation_function": SPELLED[config.activation],
    }


NAMES: dict[str, Any] = {
    "prefix": "model.", "bare": ("lm_head.", "final_logits_bias"), "settled": settled,
    "tied": ("lm_head.weight", TABLE), "twins": dict.fromkeys(TWINS, TABLE),
}  # fmt: skip
FAMILIES = (
    Family(
        "bart", partial(config, marian=False), head, partial(fields, marian=False), RULES, new_head, **NAMES,
        ignored=(r"(encoder|decoder)\.version",),
    ),
    Family(
        "marian", partial(config, marian=True), head, partial(fields, marian=True), RULES, new_head, **NAMES,
        ignored=(r"(encoder|decoder)\.embed_positions\.weight",),
    ),
)  # fmt: skip
