"""GPT-NeoX (Black et al. 2022; Pythia) as published: attention and feed-forward side by side, a part of
each head turned, layer norms, biases."""

from typing import Any

from clearhead.checkpoint.families.gpt2 import head, new_head
from clearhead.checkpoint.family import Family, by_head, same
from clearhead.checkpoint.rotary import read_rotary, write_rotary
from clearhead.checkpoint.translate import (
    ACTIVATIONS,
    SPELLED,
    Fields,
    read_plain,
    speaks,
    write_plain,
)
from clearhead.model.config import Config, Head

LAYER, BLOCK = "layers.{i}.", "encoder.blocks.{i}."
SPEAKER, BODY = "GPTNeoXForCausalLM", "GPTNeoXModel"

RULES = (
    same("embed_in.weight", "embedding.tokens.weight"),
    same(LAYER + "input_layernorm.{p}", BLOCK + "attention_norm.{p}"),
    by_head(LAYER + "attention.query_key_value.{p}", BLOCK + "attention.qkv.{p}"),
    same(LAYER + "attention.dense.{p}", BLOCK + "attention.output.{p}"),
    same(LAYER + "post_attention_layernorm.{p}", BLOCK + "feed_forward_norm.{p}"),
    same(LAYER + "mlp.dense_h_to_4h.{p}", BLOCK + "feed_forward.expand.{p}"),
    same(LAYER + "mlp.dense_4h_to_h.{p}", BLOCK + "feed_forward.contract.{p}"),
    same("final_layer_norm.{p}", "encoder.norm.{p}"),
    same("embed_out.weight", "language_head.weight"),
)

PLAIN = {
    "vocab_size": ("vocab", ...), "hidden_size": ("width", ...), "num_hidden_layers": ("layers", ...),
    "num_attention_heads": ("heads", ...), "intermediate_size": ("hidden", ...),
    "layer_norm_eps": ("epsilon", 1e-5), "attention_dropout": ("attention_dropout", 0.0),
    "hidden_dropout": ("dropout", 0.0), "initializer_range": ("initial_std", 0.02),
    "tie_word_embeddings": ("tied", False), "use_parallel_residual": ("parallel", True),
}  # fmt: skip
ROTARY = {"base": "rotary_emb_base", "share": "rotary_pct"}


def config(fields: Fields) -> Config:
    """Facts from GPT-NeoX's fields."""
    fields.skip("classifier_dropout", "is_decoder")
    attention = fields("attention_bias", True)
    return Config(
        **read_plain(fields, PLAIN),
        positions=read_rotary(fields, **ROTARY, portion=0.25),
        activation=fields.choice("hidden_act", ACTIVATIONS, default="gelu"),
        norm_first=True,
        causal=True,
        qkv_bias=attention,
        output_bias=attention,
        language_head=speaks(fields, speaker=SPEAKER, body=BODY),
    )


def fields(config: Config, head: Head | None) -> dict[str, Any]:
    """GPT-NeoX's fields from facts."""
    positions: Any = config.positions
    return (
        write_plain(config, PLAIN)
        | write_rotary(positions, **ROTARY)
        | {
            "architectures": [SPEAKER if config.language_head else BODY],
            "model_type": "gpt_neox",
            "hidden_act": SPELLED[config.activation],
            "attention_bias": config.qkv_bias,
        }
    )


FAMILY = Family(
    "gpt_neox", config, head, fields, RULES, new_head,
    prefix="gpt_neox.", bare=("embed_out.",),
    ignored=(r".*rotary_emb\.inv_freq", r"layers\.\d+\.attention\.(masked_)?bias"),
    tied=("embed_out.weight", "embed_in.weight"),
)  # fmt: skip
