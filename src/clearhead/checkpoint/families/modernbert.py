"""ModernBERT (Warner et al. 2024) as published: rotary positions, windows, gates, norm before, no biases."""

from functools import partial
from typing import Any

from clearhead.checkpoint.family import Family, same
from clearhead.checkpoint.rotary import two_bases
from clearhead.checkpoint.translate import (
    ACTIVATIONS,
    SPELLED,
    Fields,
    classifier,
    published_class,
    read_fill,
    read_plain,
    windows,
    write_fill,
    write_plain,
)
from clearhead.errors import FolderError
from clearhead.model.config import Config, Head, Pooling, Rotary

LAYER, BLOCK = "layers.{i}.", "encoder.blocks.{i}."
POOLINGS = {"cls": Pooling.CLS, "mean": Pooling.MEAN}
# How it was trained and run elsewhere, and the other heads.
SKIPPED = (
    "decoder_bias deterministic_flash_attn initializer_cutoff_factor layer_norm_eps position_embedding_type "
    "reference_compile repad_logits_with_grad sparse_pred_ignore_index sparse_prediction"
).split()

RULES = (
    same("embeddings.tok_embeddings.weight", "embedding.tokens.weight"),
    same("embeddings.norm.{p}", "embedding.norm.{p}"),
    same(LAYER + "attn_norm.{p}", BLOCK + "attention_norm.{p}"),
    same(LAYER + "attn.Wqkv.{p}", BLOCK + "attention.qkv.{p}"),
    same(LAYER + "attn.Wo.{p}", BLOCK + "attention.output.{p}"),
    same(LAYER + "mlp_norm.{p}", BLOCK + "feed_forward_norm.{p}"),
    same(LAYER + "mlp.Wi.{p}", BLOCK + "feed_forward.expand.{p}"),
    same(LAYER + "mlp.Wo.{p}", BLOCK + "feed_forward.contract.{p}"),
    same("final_norm.{p}", "encoder.norm.{p}"),
    same("head.dense.{p}", "head.dense.{p}"),
    same("head.norm.{p}", "head.norm.{p}"),
    same("classifier.{p}", "head.output.{p}"),
    same("head.dense.{p}", "fill.dense.{p}"),
    same("head.norm.{p}", "fill.norm.{p}"),
    same("decoder.weight", "fill.output.weight"),
    same("decoder.bias", "fill.bias"),
)


PLAIN = {
    "vocab_size": ("vocab", ...), "hidden_size": ("width", ...), "num_hidden_layers": ("layers", ...),
    "num_attention_heads": ("heads", ...), "intermediate_size": ("hidden", ...),
    "norm_eps": ("epsilon", 1e-5), "norm_bias": ("norm_bias", False), "attention_bias": ("bias", False),
    "embedding_dropout": ("embedding_dropout", 0.0), "attention_dropout": ("attention_dropout", 0.0),
    "mlp_dropout": ("hidden_dropout", 0.0), "initializer_range": ("initial_std", 0.02),
}  # fmt: skip
FIXED: Any = {"norm_first": True, "first_norm": False, "gated": True, "embedding_norm": True, "dropout": 0.0}
PLAIN_HEAD = {"classifier_bias": ("bias", False), "classifier_dropout": ("dropout", 0.0)}
PLAIN_FILL = {"classifier_bias": ("bias", False), "decoder_bias": ("output_bias", True)}


def config(fields: Fields) -> Config:
    """Facts from ModernBERT's fields, in the spelling of before and after rope_parameters and layer_types."""
    fields.skip(*SKIPPED)
    if fields("mlp_bias", False) != fields("attention_bias", False):
        raise FolderError(f"{fields.source}: attention_bias and mlp_bias differ, which is not supported")
    return Config(
        **read_plain(fields, PLAIN),
        positions=Rotary(fields.fact("positions", "max_position_embeddings"), *two_bases(fields)),
        activation=fields.choice("hidden_activation", ACTIVATIONS, default="gelu"),
        **windows(fields),
        attended_dropout=fields.fact("attended_dropout", "attention_dropout", default=0.0),
        **FIXED,
    )


def head(fields: Fields, names: set[str]) -> Head | None:
    """The published head or, without its labels, the layer before them."""
    new, marker = new_head(fields), "classifier.weight"  # of every head
    found = classifier(fields, names, new=new, marker=marker, stem="ModernBert", spans=marker)
    return found or (new if "head.dense.weight" in names else None)


def new_head(fields: Fields) -> Head:
    """Norm of an activation of a layer on the first token or on the mean."""
    return Head(
        labels=0,
        pooling=fields.choice("classifier_pooling", POOLINGS, default="cls"),
        activation=fields.choice("classifier_activation", ACTIVATIONS, default="gelu"),
        dense_norm=True,
        **read_plain(fields, PLAIN_HEAD),
    )


def fields(config: Config, head: Head | None) -> dict[str, Any]:
    """ModernBERT's fields from facts, in the older spelling, which all versions read."""
    positions: Any = config.positions
    said = write_plain(config, PLAIN) | {
        "architectures": published_class("ModernBert", config, head=head),
        "model_type": "modernbert",
        "max_position_embeddings": positions.count,
        "global_rope_theta": positions.base,
        "local_rope_theta": positions.local_base,
        "global_attn_every_n_layers": config.global_every,
        "local_attention": 2 * (config.window or 0),
        "hidden_activation": SPELLED[config.activation],
        "mlp_bias": config.bias,
    }
    if head:
        said |= write_plain(head, PLAIN_HEAD)
        said |= {"classifier_pooling": head.pooling, "classifier_activation": SPELLED[head.activation]}
    return said | write_fill(config.fill, activation="classifier_activation", table=PLAIN_FILL)


FAMILY = Family(
    "modernbert", config, head, fields, RULES, new_head,
    prefix="model.", bare=("head.", "classifier.", "decoder."), ignored=(r"decoder\..*",),
    tied=("decoder.weight", "embeddings.tok_embeddings.weight"),
    fill=partial(read_fill, activation="classifier_activation", table=PLAIN_FILL),
)  # fmt: skip
