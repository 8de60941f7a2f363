"""BERT (Devlin et al. 2018) as published: an encoder with the norm after each change, learned positions."""

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
from clearhead.model.config import Config, Head, Learned

LAYER, BLOCK = "encoder.layer.{i}.", "encoder.blocks.{i}."
QKV = [LAYER + f"attention.self.{name}.{{p}}" for name in ("query", "key", "value")]

RULES = (
    same("embeddings.word_embeddings.weight", "embedding.tokens.weight"),
    same("embeddings.position_embeddings.weight", "embedding.positions.weight"),
    same("embeddings.token_type_embeddings.weight", "embedding.segments.weight"),
    same("embeddings.LayerNorm.{p}", "embedding.norm.{p}"),
    projections(QKV, BLOCK + "attention.qkv.{p}"),
    same(LAYER + "attention.output.dense.{p}", BLOCK + "attention.output.{p}"),
    same(LAYER + "attention.output.LayerNorm.{p}", BLOCK + "attention_norm.{p}"),
    same(LAYER + "intermediate.dense.{p}", BLOCK + "feed_forward.expand.{p}"),
    same(LAYER + "output.dense.{p}", BLOCK + "feed_forward.contract.{p}"),
    same(LAYER + "output.LayerNorm.{p}", BLOCK + "feed_forward_norm.{p}"),
    same("pooler.dense.{p}", "head.dense.{p}"),
    same("classifier.{p}", "head.output.{p}"),
    same("cls.predictions.transform.dense.{p}", "fill.dense.{p}"),
    same("cls.predictions.transform.LayerNorm.{p}", "fill.norm.{p}"),
    same("cls.predictions.decoder.weight", "fill.output.weight"),
    same("cls.predictions.bias", "fill.bias"),
)


PLAIN = {
    "vocab_size": ("vocab", ...), "hidden_size": ("width", ...), "num_hidden_layers": ("layers", ...),
    "num_attention_heads": ("heads", ...), "intermediate_size": ("hidden", ...),
    "layer_norm_eps": ("epsilon", 1e-12), "type_vocab_size": ("segments", 2),
    "hidden_dropout_prob": ("dropout", 0.1), "attention_probs_dropout_prob": ("attention_dropout", 0.1),
    "initializer_range": ("initial_std", 0.02),
}  # fmt: skip


def config(fields: Fields) -> Config:
    """Facts from BERT's fields."""
    fields.require(position_embedding_type="absolute", is_decoder=False, add_cross_attention=False)
    fields.require(embedding_size=fields("hidden_size"), pruned_heads={}, chunk_size_feed_forward=0)
    return Config(
        **read_plain(fields, PLAIN),
        positions=Learned(fields.fact("positions", "max_position_embeddings")),
        activation=fields.choice("hidden_act", ACTIVATIONS, default="gelu"),
        embedding_norm=True,
    )


def head(fields: Fields, names: set[str]) -> Head | None:
    """The published head or, without one, the pooler: whichever has its weights there."""
    new = new_head(fields)
    found = classifier(fields, names, new=new, marker="classifier.weight", stem="Bert")
    return found or (new if "pooler.dense.weight" in names else None)


def new_head(fields: Fields) -> Head:
    """The pooler: tanh of a layer on the first token."""
    return Head(labels=0, dropout=fields.fact(DROPOUT, "classifier_dropout", default=None))


def fields(config: Config, head: Head | None) -> dict[str, Any]:
    """BERT's fields from facts."""
    positions: Any = config.positions
    return {
        "architectures": published_class("Bert", config, head=head),
        "model_type": "bert",
        **write_plain(config, PLAIN),
        "initializer_range": config.initial_std or 0.02,
        "hidden_act": SPELLED[config.activation],
        "max_position_embeddings": positions.count,
        "position_embedding_type": "absolute",
        "classifier_dropout": own_dropout(head),
        "pad_token_id": 0,
        **write_fill(config.fill),
    }


FAMILY = Family(
    "bert",
    config,
    head,
    fields,
    RULES,
    new_head,
    prefix="bert.",
    bare=("classifier.", "qa_outputs.", "cls."),
    over=OVER_TOKENS,
    spellings=OLD_NORMS,
    ignored=(r"embeddings\.position_ids", r"cls\..*"),
    tied=("cls.predictions.decoder.weight", "embeddings.word_embeddings.weight"),
    fill=partial(read_fill, activation="hidden_act"),
    twin_bias=("cls.predictions.decoder.bias", "cls.predictions.bias"),
)
