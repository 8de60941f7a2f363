"""GPT-NeoX (Black et al. 2022), and Pythia: a part of each head turns, attention beside feed-forward."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clearhead.reference.attention import AttentionWeights
from clearhead.reference.block import BlockFacts, BlockWeights, Sight
from clearhead.reference.families.decoders import (
    head_shapes,
    language_matrix,
    read_rotary,
)
from clearhead.reference.families.published import activation, optional, refuse_other, shared_heads
from clearhead.reference.layers import Affine, Array
from clearhead.reference.stored import Shape, Tensors, affine, field, two
from clearhead.reference.whole import Embedding, WholeModel

HEAD, TOKENS = "embed_out.weight", "embed_in.weight"
# The mask of attention and the speeds of rotary positions, which old versions stored for each block.
BUFFERS = ("bias", "masked_bias", "rotary_emb.inv_freq")


def read_gpt_neox(path: Path, config: Mapping[str, Any]) -> WholeModel:
    """x + SA(LN₁(x)) + FFN(LN₂(x)), or one after the other where use_parallel_residual is false.

    Source: Black et al. 2022, section 2.1, with the defaults of the published code.
    """
    refuse_other(config, {"is_causal": True})
    width = field(config, "hidden_size", kind=int)
    layers = field(config, "num_hidden_layers", kind=int)
    heads = shared_heads(width, field(config, "num_attention_heads", kind=int))
    share = optional(config, "rotary_pct", default=0.25)
    rotary = read_rotary(config, width // heads, theta="rotary_emb_base", share=share)
    tied = optional(config, "tie_word_embeddings", default=False)
    tensors = Tensors(path, rename=plain_name)
    shapes = gpt_neox_shapes(config)
    shapes |= head_shapes(config, tensors, name=HEAD, shape=shapes[TOKENS], tied=tied)
    buffers = [f"layers.{i}.attention.{buffer}" for i in range(layers) for buffer in BUFFERS]
    arrays = tensors.take(shapes, ignored=("rotary_emb.inv_freq", *buffers))
    return WholeModel(
        name=str(path),
        facts=BlockFacts(
            heads=heads,
            activation=activation(config, "hidden_act", default="gelu"),
            norm_first=True,
            epsilon=optional(config, "layer_norm_eps", default=1e-5),
            parallel=optional(config, "use_parallel_residual", default=True),
        ),
        embedding=Embedding(tokens=arrays[TOKENS], positions=None, segments=None, norm=None),
        blocks=tuple(block(arrays, f"layers.{i}", heads=heads) for i in range(layers)),
        final_norm=affine(arrays, "final_layer_norm"),
        head=None,
        sights=(Sight(causal=True, rotary=rotary),) * layers,
        language=language_matrix(path, arrays.get(HEAD), embedding=arrays[TOKENS], tied=tied),
    )


def plain_name(name: str) -> str:
    """The name without its prefix; the language head has two names, the older of which all folders had."""
    return HEAD if name == "lm_head.weight" else name.removeprefix("gpt_neox.")


def gpt_neox_shapes(config: Mapping[str, Any]) -> dict[str, Shape]:
    """Every tensor of the body."""
    width = field(config, "hidden_size", kind=int)
    hidden = field(config, "intermediate_size", kind=int)
    bias = optional(config, "attention_bias", default=True)
    shapes: dict[str, Shape] = {
        TOKENS: (field(config, "vocab_size", kind=int), width),
        **two("final_layer_norm", width),
    }
    for i in range(field(config, "num_hidden_layers", kind=int)):
        name = f"layers.{i}"
        shapes |= two(f"{name}.input_layernorm", width)
        shapes |= two(f"{name}.attention.query_key_value", 3 * width, width, bias=bias)
        shapes |= two(f"{name}.attention.dense", width, width, bias=bias)
        shapes |= two(f"{name}.post_attention_layernorm", width)
        shapes |= two(f"{name}.mlp.dense_h_to_4h", hidden, width)
        shapes |= two(f"{name}.mlp.dense_4h_to_h", width, hidden)
    return shapes


def by_head(fused: Affine, part: int, *, heads: int) -> Affine:
    """Query (part 0), key (1) or value (2): rows are stored as [heads, 3, head_width], one head at a time."""
    width = fused.weight.shape[1]
    weight = fused.weight.reshape(heads, 3, -1, width)[:, part].reshape(width, width)
    return Affine(weight, None if fused.bias is None else fused.bias.reshape(heads, 3, -1)[:, part].ravel())


def block(arrays: Mapping[str, Array], name: str, *, heads: int) -> BlockWeights:
    fused = affine(arrays, f"{name}.attention.query_key_value")
    query, key, value = (by_head(fused, part, heads=heads) for part in range(3))
    return BlockWeights(
        attention=AttentionWeights(
            query,
            key,
            value,
            output=affine(arrays, f"{name}.attention.dense"),
        ),
        attention_norm=affine(arrays, f"{name}.input_layernorm"),
        expand=affine(arrays, f"{name}.mlp.dense_h_to_4h"),
        contract=affine(arrays, f"{name}.mlp.dense_4h_to_h"),
        feed_forward_norm=affine(arrays, f"{name}.post_attention_layernorm"),
    )
