"""DistilBERT (Sanh et al. 2019) as published: BERT without segments and pooler, with names of its own."""

from functools import partial
from typing import Any

from clearhead.checkpoint.family import OVER_TOKENS, Family, projections, same
from clearhead.checkpoint.labels import DROPOUT, own_dropout
from clearhead.checkpoint.translate import (
    ACTIVATIONS,
    OLD_NORMS,
    SPELLED,
    Fields,
    classifier,
    published_class,
    read_fill,
    read_plain,
    write_fill,
    write_plain,
)
from clearhead.model.config import Activation, Config, Head, Learned

LAYER, BLOCK = "transformer.layer.{i}.", "encoder.blocks.{i}."

RULES = (
    same("embeddings.word_embeddings.weight", "embedding.tokens.weight"),
    same("embeddings.position_embeddings.weight", "embedding.positions.weight"),
    same("embeddings.LayerNorm.{p}", "embedding.norm.{p}"),
    projections([LAYER + f"attention.{name}_lin.{{p}}" for name in "qkv"], BLOCK + "attention.qkv.{p}"),
    same(LAYER + "attention.out_lin.{p}", BLOCK + "attention.output.{p}"),
    same(LAYER + "sa_layer_norm.{p}", BLOCK + "attention_norm.{p}"),
    same(LAYER + "ffn.lin1.{p}", BLOCK + "feed_forward.expand.{p}"),
    same(LAYER + "ffn.lin2.{p}", BLOCK + "feed_forward.contract.{p}"),
    same(LAYER + "output_layer_norm.{p}", BLOCK + "feed_forward_norm.{p}"),
    same("pre_classifier.{p}", "head.dense.{p}"),
    same("classifier.{p}", "head.output.{p}"),
    same("vocab_transform.{p}", "fill.dense.{p}"),
    same("vocab_layer_norm.{p}", "fill.norm.{p}"),
    same("vocab_projector.weight", "fill.output.weight"),
    same("vocab_projector.bias", "fill.bias"),
)


PLAIN = {
    "vocab_size": ("vocab", ...), "dim": ("width", ...), "n_layers": ("layers", ...),
    "n_heads": ("heads", ...), "hidden_dim": ("hidden", ...), "dropout": ("dropout", 0.1),
    "attention_dropout": ("attention_dropout", 0.1), "initializer_range": ("initial_std", 0.02),
}  # fmt: skip


def config(fields: Fields) -> Config:
    """Facts from DistilBERT's fields."""
    # Positions are read from the file, also where they began as sines; the other dropouts are other heads'.
    fields.skip("sinusoidal_pos_embds", "qa_dropout", "tie_weights_")
    fields.aliases(dim="hidden_size", n_heads="num_attention_heads", n_layers="num_hidden_layers")
    return Config(
        **read_plain(fields, PLAIN),
        positions=Learned(fields.fact("positions", "max_position_embeddings")),
        activation=fields.choice("activation", ACTIVATIONS, default="gelu"),
        epsilon=1e-12,
        embedding_norm=True,
        attended_dropout=0.0,
    )


def head(fields: Fields, names: set[str]) -> Head | None:
    """The published head."""
    new = new_head(fields)
    return classifier(fields, names, new=new, marker="classifier.weight", stem="DistilBert")


def new_head(fields: Fields) -> Head:
    """ReLU of a layer on the first token."""
    return Head(
        labels=0, activation=Activation.RELU, dropout=fields.fact(DROPOUT, "seq_classif_dropout", default=0.2)
    )


def fields(config: Config, head: Head | None) -> dict[str, Any]:
    """DistilBERT's fields from facts."""
    positions: Any = config.positions
    return {
        "architectures": published_class("DistilBert", config, head=head),
        "model_type": "distilbert",
        **write_plain(config, PLAIN),
        "max_position_embeddings": positions.count,
        "activation": SPELLED[config.activation],
        "seq_classif_dropout": own_dropout(head, 0.2),
        "pad_token_id": 0,
        **write_fill(config.fill),
    }


FAMILY = Family(
    "distilbert",
    config,
    head,
    fields,
    RULES,
    new_head,
    prefix="distilbert.",
    over=OVER_TOKENS,
    bare=("pre_classifier.", "classifier.", "qa_outputs.", "vocab_"),
    spellings=OLD_NORMS,
    ignored=(r"embeddings\.position_ids", r"vocab_(transform|layer_norm|projector)\..*"),
    tied=("vocab_projector.weight", "embeddings.word_embeddings.weight"),
    fill=partial(read_fill, activation="activation"),
)
