"""T5 (Raffel et al. 2020), 1.0 and 1.1 (with gates; flan-T5), as published: an encoder and a decoder with the
norm before, biases by distance, no scaling of scores, no biases of layers."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from clearhead.checkpoint.families.gpt2 import head, new_head
from clearhead.checkpoint.family import Family, halves, projections, same
from clearhead.checkpoint.places import TABLE, TWINS
from clearhead.checkpoint.translate import (
    Fields,
    gated_activation,
    read_plain,
    spelled_gated,
    translates,
    write_plain,
)
from clearhead.model.config import Config, Head, Norm, Relative

CLASS = "T5ForConditionalGeneration"


def side(name: str, feed_forward: int) -> tuple[Any, ...]:
    """The tensors that encoder and decoder have alike; the feed-forward network is that layer of a block."""
    block, ours = name + ".block.{i}.layer.", name + ".blocks.{i}."
    first, last = block + "0.", block + f"{feed_forward}."
    bias = name + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    return (
        projections([first + f"SelfAttention.{part}.{{p}}" for part in "qkv"], ours + "attention.qkv.{p}"),
        same(first + "SelfAttention.o.{p}", ours + "attention.output.{p}"),
        same(bias, name + ".relative.weight"),
        same(first + "layer_norm.{p}", ours + "attention_norm.{p}"),
        same(last + "DenseReluDense.wi.{p}", ours + "feed_forward.expand.{p}"),
        same(last + "DenseReluDense.wo.{p}", ours + "feed_forward.contract.{p}"),
        same(last + "layer_norm.{p}", ours + "feed_forward_norm.{p}"),
        same(name + ".final_layer_norm.{p}", name + ".norm.{p}"),
    )


def gates(name: str, feed_forward: int) -> Any:
    """The first layer of a feed-forward network with gates."""
    layer = name + f".block.{{i}}.layer.{feed_forward}.DenseReluDense.wi_"
    return halves([layer + f"{part}.{{p}}" for part in (0, 1)], name + ".blocks.{i}.feed_forward.expand.{p}")


RECALL, OURS = "decoder.block.{i}.layer.1.EncDecAttention.", "decoder.blocks.{i}.recall"
RULES = (
    same("shared.weight", "embedding.tokens.weight"),
    *side("encoder", 1),
    *side("decoder", 2),
    same(RECALL + "q.{p}", OURS + ".query.{p}"),
    halves([RECALL + f"{part}.{{p}}" for part in "kv"], OURS + ".memory.{p}"),
    same(RECALL + "o.{p}", OURS + ".output.{p}"),
    same("decoder.block.{i}.layer.1.layer_norm.{p}", OURS + "_norm.{p}"),
    same("lm_head.weight", "language_head.weight"),
)

PLAIN = {
    "vocab_size": ("vocab", 32128), "d_model": ("width", 512), "d_kv": ("head_width", 64),
    "d_ff": ("hidden", 2048), "num_layers": ("layers", 6), "num_heads": ("heads", 8),
    "layer_norm_epsilon": ("epsilon", 1e-6), "dropout_rate": ("dropout", 0.1),
}  # fmt: skip
FIXED: dict[str, Any] = {
    "norm": Norm.RMS, "norm_first": True, "bias": False, "language_head": True, "scale_scores": False,
}  # fmt: skip


def config(fields: Fields) -> Config:
    """Facts from T5's fields."""
    fields.skip("initializer_factor", "n_positions")
    fields.aliases(d_model="hidden_size", num_heads="num_attention_heads", num_layers="num_hidden_layers")
    translates(fields, CLASS, body="T5Model")
    plain = read_plain(fields, PLAIN)
    activation, gated = gated_activation(fields, "feed_forward_proj")
    tied = fields("tie_word_embeddings", True)
    layers = fields.fact("decoder_layers", "num_decoder_layers", default=None)
    return Config(
        **plain,
        decoder_layers=plain["layers"] if layers is None else layers,
        positions=Relative(
            fields.fact("positions.buckets", "relative_attention_num_buckets", default=32),
            fields.fact("positions.distance", "relative_attention_max_distance", default=128),
        ),
        activation=activation,
        gated=gated,
        **FIXED,
        **dict.fromkeys(("attention_dropout", "hidden_dropout", "final_dropout"), plain["dropout"]),
        tied=tied,
        scale_output=fields("scale_decoder_outputs", tied),
    )


def settled(config: Config, given: Mapping[str, Tensor | None]) -> Config:
    """A head beside the embedding that is another matrix is one of its own, whatever the config says: the
    published code writes that both are tied."""
    own, table = given.get("lm_head.weight"), next((given[n] for n in (TABLE, *TWINS) if n in given), None)
    apart = own is not None and table is not None and not torch.equal(own, table)
    return replace(config, tied=False) if apart else config


def fields(config: Config, head: Head | None) -> dict[str, Any]:
    """T5's fields from facts."""
    positions: Any = config.positions
    return write_plain(config, PLAIN) | {
        "architectures": [CLASS],
        "model_type": "t5",
        "is_encoder_decoder": True,
        "num_decoder_layers": config.decoder_layers,
        "relative_attention_num_buckets": positions.buckets,
        "relative_attention_max_distance": positions.distance,
        "feed_forward_proj": spelled_gated(config),
        "tie_word_embeddings": config.tied,
        "scale_decoder_outputs": config.scale_output,
    }


FAMILY = Family(
    "t5", config, head, fields, RULES, new_head,
    # Of a bias that the first models held and never used.
    ignored=(r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",),
    tied=("lm_head.weight", "shared.weight"), settled=settled,
    gates=(gates("encoder", 1), gates("decoder", 2)), twins=dict.fromkeys(TWINS, TABLE),
)  # fmt: skip
