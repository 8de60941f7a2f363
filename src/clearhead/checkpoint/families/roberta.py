"""RoBERTa (Liu et al. 2019) as published: BERT with positions from padding id + 1 on and another head.

XLM-RoBERTa (Conneau et al. 2020) and CamemBERT (Martin et al. 2020) share its code.
"""

from dataclasses import replace
from functools import partial
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
from clearhead.errors import FolderError
from clearhead.model.config import Config, Head, Learned

RULES = (
    same("classifier.dense.{p}", "head.dense.{p}"),
    same("classifier.out_proj.{p}", "head.output.{p}"),
    same("lm_head.dense.{p}", "fill.dense.{p}"),
    same("lm_head.layer_norm.{p}", "fill.norm.{p}"),
    same("lm_head.decoder.weight", "fill.output.weight"),
    same("lm_head.bias", "fill.bias"),
    *bert.RULES,
)


def config(fields: Fields) -> Config:
    """Facts from RoBERTa's fields: BERT's, but that the first position is the padding id + 1."""
    facts = bert.config(fields)
    rows, offset = fields("max_position_embeddings"), fields.whole("pad_token_id", 1, least=0) + 1
    if offset >= rows:
        raise FolderError(
            f"{fields.source}: pad_token_id={offset - 1} leaves no position of "
            f"max_position_embeddings={rows}, which are counted from it on"
        )
    return replace(
        facts,
        positions=Learned(rows - offset, offset),
        segments=fields.fact("segments", "type_vocab_size", default=2),
    )


def head(fields: Fields, names: set[str], *, stem: str) -> Head | None:
    """The published head. A body's pooler, which no published head uses, is left out."""
    new = new_head(fields)
    return classifier(fields, names, new=new, marker="classifier.out_proj.weight", stem=stem)


def new_head(fields: Fields) -> Head:
    """Tanh of a layer on the first token, dropout before it as well."""
    return Head(labels=0, drop_first=True, dropout=fields.fact(DROPOUT, "classifier_dropout", default=None))


def fields(config: Config, head: Head | None, *, model_type: str, stem: str) -> dict[str, Any]:
    """RoBERTa's fields from facts."""
    positions: Any = config.positions
    return bert.fields(config, head) | {
        "architectures": published_class(stem, config, head=head),
        "model_type": model_type,
        "max_position_embeddings": positions.count + positions.offset,
        "pad_token_id": positions.offset - 1,
    }


def family(model_type: str, stem: str) -> Family:
    """One of the families that share this code; `stem` begins its architectures' names."""
    return Family(
        model_type,
        config,
        partial(head, stem=stem),
        partial(fields, model_type=model_type, stem=stem),
        RULES,
        new_head,
        prefix="roberta.",
        over=OVER_TOKENS,
        bare=("classifier.", "qa_outputs.", "lm_head."),
        spellings=OLD_NORMS,
        ignored=(r"embeddings\.position_ids", r"lm_head\..*", r"pooler\..*"),
        tied=("lm_head.decoder.weight", "embeddings.word_embeddings.weight"),
        fill=read_fill,
        twin_bias=("lm_head.decoder.bias", "lm_head.bias"),
    )


FAMILIES = (
    family("roberta", "Roberta"),
    family("xlm-roberta", "XLMRoberta"),
    family("camembert", "Camembert"),
)
