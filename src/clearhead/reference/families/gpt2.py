"""GPT-2 (Radford et al. 2019): learned positions, norm before, weights stored the other way round."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clearhead.reference.attention import AttentionWeights
from clearhead.reference.block import BlockFacts, BlockWeights, Sight
from clearhead.reference.families.decoders import head_shapes, language_matrix
from clearhead.reference.families.published import activation, optional, refuse_other, shared_heads
from clearhead.reference.layers import Affine, Array
from clearhead.reference.stored import Shape, Tensors, affine, field, thirds, two
from clearhead.reference.whole import Embedding, WholeModel

# Fields that would change the arithmetic, with the value that leaves it as it is.
PLAIN = {
    "is_causal": True,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
}
HEAD, TOKENS = "lm_head.weight", "wte.weight"


def read_gpt2(path: Path, config: Mapping[str, Any]) -> WholeModel:
    """Every block sees what is to the left; the language head is the embedding's matrix.

    Old folders lack the prefix `transformer.` and hold the masks of attention as buffers.
    Source: Radford et al. 2019, section 2.3, with the details of the published code.
    """
    refuse_other(config, PLAIN)
    width = field(config, "n_embd", kind=int)
    layers = field(config, "n_layer", kind=int)
    tied = optional(config, "tie_word_embeddings", default=True)
    tensors = Tensors(path, rename=lambda name: name.removeprefix("transformer."))
    shapes = gpt2_shapes(config)
    shapes |= head_shapes(config, tensors, name=HEAD, shape=shapes[TOKENS], tied=tied)
    arrays = tensors.take(
        shapes, ignored=tuple(f"h.{i}.attn.{mask}" for i in range(layers) for mask in ("bias", "masked_bias"))
    )
    return WholeModel(
        name=str(path),
        facts=BlockFacts(
            heads=shared_heads(width, field(config, "n_head", kind=int)),
            activation=activation(config, "activation_function", default="gelu_new"),
            norm_first=True,
            epsilon=optional(config, "layer_norm_epsilon", default=1e-5),
        ),
        embedding=Embedding(tokens=arrays[TOKENS], positions=arrays["wpe.weight"], segments=None, norm=None),
        blocks=tuple(block(arrays, f"h.{i}") for i in range(layers)),
        final_norm=affine(arrays, "ln_f"),
        head=None,
        sights=(Sight(causal=True),) * layers,
        language=language_matrix(path, arrays.get(HEAD), embedding=arrays[TOKENS], tied=tied),
    )


def gpt2_shapes(config: Mapping[str, Any]) -> dict[str, Shape]:
    """Every tensor of the body; n_inner is null or absent where it is four times the width."""
    width = field(config, "n_embd", kind=int)
    hidden = 4 * width if config.get("n_inner") is None else field(config, "n_inner", kind=int)
    shapes: dict[str, Shape] = {
        TOKENS: (field(config, "vocab_size", kind=int), width),
        "wpe.weight": (field(config, "n_positions", kind=int), width),
        **two("ln_f", width),
    }
    for i in range(field(config, "n_layer", kind=int)):
        name = f"h.{i}"
        shapes |= two(f"{name}.ln_1", width)
        shapes |= crossed(f"{name}.attn.c_attn", width, 3 * width)
        shapes |= crossed(f"{name}.attn.c_proj", width, width)
        shapes |= two(f"{name}.ln_2", width)
        shapes |= crossed(f"{name}.mlp.c_fc", width, hidden)
        shapes |= crossed(f"{name}.mlp.c_proj", hidden, width)
    return shapes


def crossed(name: str, *weight: int) -> dict[str, Shape]:
    """The shapes of a linear layer whose weight is stored as [in, out]."""
    return {f"{name}.weight": weight, f"{name}.bias": weight[1:]}


def straight(arrays: Mapping[str, Array], name: str) -> Affine:
    """Such a layer as [out, in]."""
    return Affine(arrays[f"{name}.weight"].T, arrays[f"{name}.bias"])


def block(arrays: Mapping[str, Array], name: str) -> BlockWeights:
    query, key, value = thirds(straight(arrays, f"{name}.attn.c_attn"))
    return BlockWeights(
        attention=AttentionWeights(query, key, value, output=straight(arrays, f"{name}.attn.c_proj")),
        attention_norm=affine(arrays, f"{name}.ln_1"),
        expand=straight(arrays, f"{name}.mlp.c_fc"),
        contract=straight(arrays, f"{name}.mlp.c_proj"),
        feed_forward_norm=affine(arrays, f"{name}.ln_2"),
    )
