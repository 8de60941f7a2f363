"""ELECTRA (Clark et al. 2020) as published: BERT with narrower token vectors and another head."""

from dataclasses import replace
from typing import Any

from clearhead.checkpoint.families import bert
from clearhead.checkpoint.family import OVER_TOKENS, Family, same
from clearhead.checkpoint.labels import DROPOUT
from clearhead.checkpoint.translate import (
    OLD_NORMS,
    Fields,
    classifier,
    published_class,
    read_fill,
)
from clearhead.model.config import Activation, Config, Head

RULES = (
    same("embeddings_project.{p}", "embedding.widen.{p}"),
    same("classifier.dense.{p}", "head.dense.{p}"),
    same("classifier.out_proj.{p}", "head.output.{p}"),
    same("generator_predictions.dense.{p}", "fill.dense.{p}"),
    same("generator_predictions.LayerNorm.{p}", "fill.norm.{p}"),
    same("generator_lm_head.weight", "fill.output.weight"),
    same("generator_lm_head.bias", "fill.bias"),
    *bert.RULES,
)


def config(fields: Fields) -> Config:
    """Facts from ELECTRA's fields: BERT's, and the width of token vectors."""
    fields.skip("summary_type", "summary_use_proj", "summary_activation", "summary_last_dropout")
    narrow, width = fields("embedding_size", 128), fields("hidden_size")
    plain = Fields({**fields.values, "embedding_size": width}, fields.source)
    plain.spelled = fields.spelled
    facts = replace(bert.config(plain), embedding_width=None if narrow == width else narrow)
    fields.skip(*plain.seen)
    return facts


def head(fields: Fields, names: set[str]) -> Head | None:
    """The published head."""
    new = new_head(fields)
    return classifier(fields, names, new=new, marker="classifier.out_proj.weight", stem="Electra")


def new_head(fields: Fields) -> Head:
    """GELU of a layer on the first token, dropout before it as well."""
    dropout = fields.fact(DROPOUT, "classifier_dropout", default=None)
    return Head(labels=0, activation=Activation.GELU, drop_first=True, dropout=dropout)


def fields(config: Config, head: Head | None) -> dict[str, Any]:
    """ELECTRA's fields from facts."""
    return bert.fields(config, head) | {
        "architectures": published_class("Electra", config, head=head),
        "model_type": "electra",
        "embedding_size": config.embedding_width or config.width,
    }


FAMILY = Family(
    "electra",
    config,
    head,
    fields,
    RULES,
    new_head,
    prefix="electra.",
    over=OVER_TOKENS,
    bare=("classifier.", "qa_outputs.", "generator_"),
    spellings=OLD_NORMS,
    ignored=(r"embeddings\.position_ids", r"(discriminator|generator)_.*"),
    tied=("generator_lm_head.weight", "embeddings.word_embeddings.weight"),
    fill=read_fill,
)
