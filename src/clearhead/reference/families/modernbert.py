"""ModernBERT (Warner et al. 2024): rotary positions, mostly narrow windows, gated, norm before, no biases."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clearhead.errors import FolderError
from clearhead.reference.attention import AttentionWeights
from clearhead.reference.block import BlockFacts, BlockWeights, Sight
from clearhead.reference.families.published import FillNames, activation, optional, over_tokens, paired_heads
from clearhead.reference.layers import Array
from clearhead.reference.rotary import Rotary
from clearhead.reference.stored import Shape, Tensors, affine, choice, field, possible, thirds, two
from clearhead.reference.whole import Embedding, Head, Pooling, WholeModel

IGNORED = ("decoder.",)  # the last layer of the head over single tokens
FILL = FillNames("head.dense", "head.norm", "decoder.weight", "decoder.bias")
POOLINGS: dict[str, Pooling] = {"cls": "cls", "mean": "mean"}
FULL, SLIDING = "full_attention", "sliding_attention"
# Published defaults, and the names of the fields that version 4 of the published code wrote.
BASES = {FULL: ("global_rope_theta", 160000.0), SLIDING: ("local_rope_theta", 10000.0)}


def read_modernbert(path: Path, config: Mapping[str, Any]) -> WholeModel:
    """logits = classifier(LN(gelu(dense(pooled)))), pooled from the first token or as the mean.

    Blocks that see the whole text turn by one base, those with a window by another; the first block's
    attention has no norm of its own, since the embedding's stands right before it. A language model's head
    over tokens begins with the same layer and norm; without a classifier that is where pooled() ends.
    Source: Warner et al. 2024, section 2.1, with the head of the published code.
    """
    width = field(config, "hidden_size", kind=int)
    heads = paired_heads(width, field(config, "num_attention_heads", kind=int))
    tensors = Tensors(path, rename=lambda name: name.removeprefix("model."))
    shapes = modernbert_shapes(config)
    tagger = over_tokens(config) is not None  # which has all the layers of a head over texts
    classifier = "classifier.weight" in tensors
    dense = classifier or "head.dense.weight" in tensors
    if dense:
        shapes |= two("head.dense", width, width, bias=optional(config, "classifier_bias", default=False))
        shapes |= two("head.norm", width, bias=optional(config, "norm_bias", default=False))
    if classifier:
        shapes |= two("classifier", tensors.shape("classifier.weight")[0], width)
    switches = (("classifier_bias", False), ("norm_bias", False), ("decoder_bias", True))
    biases = tuple(optional(config, name, default=usual) for name, usual in switches)
    sizes = (field(config, "vocab_size", kind=int), width, width)
    fill_shapes = FILL.shapes(config, tensors, sizes=sizes, biases=biases)
    shapes |= fill_shapes
    arrays = tensors.take(shapes, ignored=IGNORED)
    tokens = arrays["embeddings.tok_embeddings.weight"]
    return WholeModel(
        name=str(path),
        facts=BlockFacts(
            heads=heads,
            activation=activation(config, "hidden_activation"),
            norm_first=True,
            epsilon=optional(config, "norm_eps", default=1e-5),
            gated=True,
        ),
        embedding=Embedding(
            tokens=tokens,
            positions=None,
            segments=None,
            norm=affine(arrays, "embeddings.norm"),
        ),
        blocks=tuple(
            block(arrays, f"layers.{i}") for i in range(field(config, "num_hidden_layers", kind=int))
        ),
        final_norm=affine(arrays, "final_norm"),
        head=Head(
            pooling=None
            if tagger
            else choice("classifier_pooling", config.get("classifier_pooling", "cls"), choices=POOLINGS),
            dense=affine(arrays, "head.dense"),
            activation=activation(config, "classifier_activation"),
            norm=affine(arrays, "head.norm"),
            output=possible(arrays, "classifier"),
        )
        if dense
        else None,
        sights=sights(config),
        fill=FILL.fill(arrays, tokens, activation=activation(config, "classifier_activation"))
        if fill_shapes
        else None,
    )


def sights(config: Mapping[str, Any]) -> tuple[Sight, ...]:
    """How far each block sees, and its base: a token of a local block sees local_attention // 2 to a side.

    Version 5 of the published code writes a list of `layer_types`, version 4 wrote that each so-many-th
    block, from the first, sees the whole text.
    """
    layers = field(config, "num_hidden_layers", kind=int)
    kinds = config.get("layer_types")
    if kinds is None:
        every = optional(config, "global_attn_every_n_layers", default=3)
        if every < 1:
            raise FolderError(f"config.json has global_attn_every_n_layers={every}; it must be at least 1")
        kinds = [SLIDING if i % every else FULL for i in range(layers)]
    if not isinstance(kinds, list) or len(kinds) != layers:
        raise FolderError(f"config.json has layer_types={kinds!r}; it must be a list of {layers} words")
    local = optional(config, "local_attention", default=128) // 2
    views = {
        FULL: Sight(rotary=Rotary(base(config, FULL))),
        SLIDING: Sight(window=local, rotary=Rotary(base(config, SLIDING))),
    }
    return tuple(choice("layer_types", kind, choices=views) for kind in kinds)


def base(config: Mapping[str, Any], kind: str) -> float:
    """The base of rotary positions; version 4's null for local blocks means that of the global ones."""
    if config.get("rope_scaling") is not None:
        raise FolderError(
            f"config.json has rope_scaling={config['rope_scaling']!r}; only null is computed here"
        )
    old, default = BASES[kind]
    table = field(config, "rope_parameters", kind=dict) if config.get("rope_parameters") else {kind: {}}
    facts = {"rope_type": "default", **field(table, kind, kind=dict)}
    if facts["rope_type"] != "default" or facts.get("type", "default") != "default":
        raise FolderError(
            f"config.json has rope_type={facts['rope_type']!r}; only 'default' is computed here"
        )
    if "rope_theta" in facts:
        return field(facts, "rope_theta", kind=float)
    if kind == SLIDING and old in config and config[old] is None:
        return base(config, FULL)
    return optional(config, old, default=default)


def modernbert_shapes(config: Mapping[str, Any]) -> dict[str, Shape]:
    """Every tensor of the body. Which layers have a bias is a field each; the published models have none."""
    width = field(config, "hidden_size", kind=int)
    hidden = field(config, "intermediate_size", kind=int)
    norm = optional(config, "norm_bias", default=False)
    attention = optional(config, "attention_bias", default=False)
    mlp = optional(config, "mlp_bias", default=False)
    shapes: dict[str, Shape] = {
        "embeddings.tok_embeddings.weight": (field(config, "vocab_size", kind=int), width),
        **two("embeddings.norm", width, bias=norm),
        **two("final_norm", width, bias=norm),
    }
    for i in range(field(config, "num_hidden_layers", kind=int)):
        name = f"layers.{i}"
        if i > 0:
            shapes |= two(f"{name}.attn_norm", width, bias=norm)
        shapes |= two(f"{name}.attn.Wqkv", 3 * width, width, bias=attention)
        shapes |= two(f"{name}.attn.Wo", width, width, bias=attention)
        shapes |= two(f"{name}.mlp_norm", width, bias=norm)
        shapes |= two(f"{name}.mlp.Wi", 2 * hidden, width, bias=mlp)
        shapes |= two(f"{name}.mlp.Wo", width, hidden, bias=mlp)
    return shapes


def block(arrays: Mapping[str, Array], name: str) -> BlockWeights:
    query, key, value = thirds(affine(arrays, f"{name}.attn.Wqkv"))
    return BlockWeights(
        attention=AttentionWeights(query, key, value, output=affine(arrays, f"{name}.attn.Wo")),
        attention_norm=possible(arrays, f"{name}.attn_norm"),
        expand=affine(arrays, f"{name}.mlp.Wi"),
        contract=affine(arrays, f"{name}.mlp.Wo"),
        feed_forward_norm=affine(arrays, f"{name}.mlp_norm"),
    )
