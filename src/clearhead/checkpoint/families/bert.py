"""BERT (Devlin et al. 2018) as published: an encoder with the norm after each change, learned positions."""

from typing import Any

from clearhead.checkpoint.translate import Family, Fields, label_count, same, stacked
from clearhead.errors import FolderError
from clearhead.model.config import Activation, Config, Head, Learned, Pooling

ACTIVATIONS = {
    "gelu": Activation.GELU,
    "gelu_new": Activation.GELU_TANH,
    "gelu_pytorch_tanh": Activation.GELU_TANH,
    "relu": Activation.RELU,
}
SPELLED = {Activation.GELU: "gelu", Activation.GELU_TANH: "gelu_new", Activation.RELU: "relu"}

LAYER, BLOCK = "encoder.layer.{i}.", "encoder.blocks.{i}."
QKV = [LAYER + f"attention.self.{name}.{{p}}" for name in ("query", "key", "value")]

RULES = (
    same("embeddings.word_embeddings.weight", "embedding.tokens.weight"),
    same("embeddings.position_embeddings.weight", "embedding.positions.weight"),
    same("embeddings.token_type_embeddings.weight", "embedding.segments.weight"),
    same("embeddings.LayerNorm.{p}", "embedding.norm.{p}"),
    stacked(QKV, BLOCK + "attention.qkv.{p}"),
    same(LAYER + "attention.output.dense.{p}", BLOCK + "attention.output.{p}"),
    same(LAYER + "attention.output.LayerNorm.{p}", BLOCK + "attention_norm.{p}"),
    same(LAYER + "intermediate.dense.{p}", BLOCK + "feed_forward.expand.{p}"),
    same(LAYER + "output.dense.{p}", BLOCK + "feed_forward.contract.{p}"),
    same(LAYER + "output.LayerNorm.{p}", BLOCK + "feed_forward_norm.{p}"),
    same("pooler.dense.{p}", "head.dense.{p}"),
    same("classifier.{p}", "head.output.{p}"),
)


def config(fields: Fields) -> Config:
    """Facts from BERT's fields."""
    fields.require(position_embedding_type="absolute", is_decoder=False, add_cross_attention=False)
    fields.require(embedding_size=fields("hidden_size"), pruned_heads={}, chunk_size_feed_forward=0)
    return Config(
        vocab=fields("vocab_size"),
        width=fields("hidden_size"),
        layers=fields("num_hidden_layers"),
        heads=fields("num_attention_heads"),
        hidden=fields("intermediate_size"),
        positions=Learned(fields("max_position_embeddings")),
        activation=fields.choice("hidden_act", ACTIVATIONS, default="gelu"),
        epsilon=fields("layer_norm_eps", 1e-12),
        segments=fields("type_vocab_size", 2),
        embedding_norm=True,
        dropout=fields("hidden_dropout_prob", 0.1),
        attention_dropout=fields("attention_probs_dropout_prob", 0.1),
        initial_std=fields("initializer_range", 0.02),
    )


def head(fields: Fields, names: set[str]) -> Head | None:
    """The published classification head or, without one, the pooler: whichever has its weights there."""
    dropout = fields("classifier_dropout", None)
    pooler = Head(labels=0) if "pooler.dense.weight" in names else None
    if "classifier.weight" not in names:
        return pooler
    if "BertForSequenceClassification" not in (fields("architectures", None) or []):
        raise FolderError(
            f"{fields.source}: the head of {fields('architectures', None)} is not supported, "
            "only BertForSequenceClassification"
        )
    return Head(labels=label_count(fields), dropout=dropout)


def fields(config: Config, head: Head | None) -> dict[str, Any] | None:
    """BERT's fields from facts; None where BERT's code would compute something else."""
    if not isinstance(config.positions, Learned) or not config.embedding_norm or not config.segments:
        return None
    if config.norm_first or config.scale_embedding:
        return None
    if head and (head.pooling is not Pooling.CLS or not head.dense):
        return None
    return {
        "architectures": ["BertForSequenceClassification" if head and head.labels else "BertModel"],
        "model_type": "bert",
        "vocab_size": config.vocab,
        "hidden_size": config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.hidden,
        "hidden_act": SPELLED[config.activation],
        "max_position_embeddings": config.positions.count,
        "type_vocab_size": config.segments,
        "layer_norm_eps": config.epsilon,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "initializer_range": config.initial_std or 0.02,
        "position_embedding_type": "absolute",
        "pad_token_id": 0,
    }


FAMILY = Family(
    "bert",
    config,
    head,
    fields,
    RULES,
    new_head=Head(labels=0, pooling=Pooling.CLS, dense=True),
    prefix="bert.",
    bare=("classifier.",),
    spellings={"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"},
    ignored=(r"embeddings\.position_ids", r"cls\..*"),
)
