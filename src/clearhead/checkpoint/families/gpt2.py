"""GPT-2 (Radford et al. 2019) as published: a decoder with the norm before, learned positions, tied ends."""

from dataclasses import replace
from typing import Any

from clearhead.checkpoint.family import Family, same, transposed
from clearhead.checkpoint.translate import (
    ACTIVATIONS,
    SPELLED,
    Fields,
    read_plain,
    speaks,
    write_plain,
)
from clearhead.model.config import Config, Head, Learned, Pooling

LAYER, BLOCK = "h.{i}.", "encoder.blocks.{i}."
SPEAKER, BODY = "GPT2LMHeadModel", "GPT2Model"
# Of other heads, of samples printed elsewhere, and of how numbers are held on the way.
SKIPPED = (
    "n_ctx reorder_and_upcast_attn summary_activation summary_first_dropout summary_proj_to_labels "
    "summary_type summary_use_proj task_specific_params"
).split()

RULES = (
    same("wte.weight", "embedding.tokens.weight"),
    same("wpe.weight", "embedding.positions.weight"),
    same(LAYER + "ln_1.{p}", BLOCK + "attention_norm.{p}"),
    transposed(LAYER + "attn.c_attn.{p}", BLOCK + "attention.qkv.{p}"),
    transposed(LAYER + "attn.c_proj.{p}", BLOCK + "attention.output.{p}"),
    same(LAYER + "ln_2.{p}", BLOCK + "feed_forward_norm.{p}"),
    transposed(LAYER + "mlp.c_fc.{p}", BLOCK + "feed_forward.expand.{p}"),
    transposed(LAYER + "mlp.c_proj.{p}", BLOCK + "feed_forward.contract.{p}"),
    same("ln_f.{p}", "encoder.norm.{p}"),
    same("lm_head.weight", "language_head.weight"),
)

PLAIN = {
    "vocab_size": ("vocab", ...), "n_embd": ("width", ...), "n_layer": ("layers", ...),
    "n_head": ("heads", ...), "layer_norm_epsilon": ("epsilon", 1e-5), "resid_pdrop": ("dropout", 0.1),
    "attn_pdrop": ("attention_dropout", 0.1), "embd_pdrop": ("embedding_dropout", 0.1),
    "initializer_range": ("initial_std", 0.02), "tie_word_embeddings": ("tied", True),
}  # fmt: skip


def config(fields: Fields) -> Config:
    """Facts from GPT-2's fields."""
    fields.skip(*SKIPPED)
    fields.aliases(n_embd="hidden_size", n_head="num_attention_heads", n_layer="num_hidden_layers")
    fields.aliases(n_positions="max_position_embeddings")
    fields.require(scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False)
    plain = read_plain(fields, PLAIN)
    hidden = fields.fact("hidden", "n_inner", default=None)
    found = Config(
        **plain,
        hidden=1 if hidden is None else hidden,
        positions=Learned(fields.fact("positions", "n_positions", default=1024)),
        activation=fields.choice("activation_function", ACTIVATIONS, default="gelu_new"),
        norm_first=True,
        causal=True,
        language_head=speaks(fields, speaker=SPEAKER, body=BODY),
    )
    return replace(found, hidden=4 * found.width) if hidden is None else found


def head(fields: Fields, names: set[str]) -> Head | None:
    """No head over whole texts."""
    return None


def new_head(fields: Fields) -> Head:
    """The mean of all tokens and one layer."""
    return Head(labels=0, pooling=Pooling.MEAN, dense=False)


def fields(config: Config, head: Head | None) -> dict[str, Any]:
    """GPT-2's fields from facts."""
    positions: Any = config.positions
    return write_plain(config, PLAIN) | {
        "architectures": [SPEAKER if config.language_head else BODY],
        "model_type": "gpt2",
        "n_inner": config.hidden,
        "n_positions": positions.count,
        "activation_function": SPELLED[config.activation],
    }


FAMILY = Family(
    "gpt2", config, head, fields, RULES, new_head,
    prefix="transformer.", bare=("lm_head.",), ignored=(r"h\.\d+\.attn\.(masked_)?bias",),
    tied=("lm_head.weight", "wte.weight"), scaled=True,
)  # fmt: skip
