"""One block: attention across tokens, then feed-forward within each, both added to the stream."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from clearhead.reference.attention import EVERYTHING, AttentionWeights, Sight, multi_head_rows
from clearhead.reference.layers import (
    Activation,
    Affine,
    Array,
    feed_forward,
    gated_feed_forward,
    layer_norm,
    relu,
    rms_norm,
)


class BlockWeights(NamedTuple):
    """The learned numbers of one block; contract.weight is [width, hidden].

    expand.weight is [hidden, width], or [2 · hidden, width] where the feed-forward network is gated.
    attention_norm is None where the stream enters attention as it is.
    """

    attention: AttentionWeights
    attention_norm: Affine | None
    expand: Affine
    contract: Affine
    feed_forward_norm: Affine


class DecoderBlockWeights(NamedTuple):
    """The learned numbers of one block that attends to a memory as well: its own, and that attention's."""

    own: BlockWeights
    recall: AttentionWeights
    recall_norm: Affine


class BlockFacts(NamedTuple):
    """What blocks of one model have in common besides their shapes.

    parallel: attention and feed-forward both read the stream as it enters the block (with norm_first).
    """

    heads: int
    activation: Activation = relu
    norm_first: bool = False
    epsilon: float = 1e-5
    gated: bool = False
    norm: Literal["layer", "rms"] = "layer"
    parallel: bool = False


def encoder_block(x: Array, weights: BlockWeights, *, facts: BlockFacts, sight: Sight = EVERYTHING) -> Array:
    """One block of an encoder, or of a decoder where `sight` is causal.

    Norm after: x = LN(x + SA(x)), then x = LN(x + FFN(x)). Source: Vaswani et al. 2017, section 3.1.
    Norm before: x = x + SA(LN(x)), then x = x + FFN(LN(x)). Source: Xiong et al. 2020, table 1.
    Parallel: x = x + SA(LN₁(x)) + FFN(LN₂(x)). Source: Black et al. 2022, section 2.1.2.
    Shapes: x [tokens, width]; the result has the same shape, which is why blocks stack.
    """

    def self_attention(x: Array) -> Array:
        return multi_head_rows(x, weights.attention, heads=facts.heads, sight=sight, epsilon=facts.epsilon)

    def ffn(x: Array) -> Array:
        return network(x, weights, facts=facts)

    def first_norm(x: Array) -> Array:
        return normalise(x, weights.attention_norm, facts=facts)

    def second_norm(x: Array) -> Array:
        return normalise(x, weights.feed_forward_norm, facts=facts)

    if facts.parallel:
        return x + self_attention(first_norm(x)) + ffn(second_norm(x))
    if facts.norm_first:
        x = x + self_attention(first_norm(x))
        return x + ffn(second_norm(x))
    x = first_norm(x + self_attention(x))
    return second_norm(x + ffn(x))


def decoder_block(
    x: Array,
    weights: DecoderBlockWeights,
    *,
    memory: Array,
    facts: BlockFacts,
    sight: Sight = EVERYTHING,
) -> Array:
    """One block of the decoder that stands beside an encoder: between attention to its own text and
    feed-forward it attends to the memory, the encoder's last vectors.

    Norm after: x = LN(x + SA(x)), then x = LN(x + CA(x, memory)), then x = LN(x + FFN(x)). Norm before: each
    LN moves onto x inside its change, never onto the memory. `sight` is that of attention to its own text;
    the memory is seen whole, without positions, and scaled as the other.
    Shapes: x [target, width], memory [source, width]; the result is as x.
    Source: Vaswani et al. 2017, sections 3.1 and 3.2.3; Raffel et al. 2020, section 2.1, for norm before.
    """

    def self_attention(x: Array) -> Array:
        return multi_head_rows(
            x, weights.own.attention, heads=facts.heads, sight=sight, epsilon=facts.epsilon
        )

    def cross_attention(x: Array) -> Array:
        whole = Sight(scaled=sight.scaled)
        return multi_head_rows(x, weights.recall, heads=facts.heads, sight=whole, memory=memory)

    def ffn(x: Array) -> Array:
        return network(x, weights.own, facts=facts)

    changes: list[tuple[Callable[[Array], Array], Affine | None]] = [
        (self_attention, weights.own.attention_norm),
        (cross_attention, weights.recall_norm),
        (ffn, weights.own.feed_forward_norm),
    ]
    for change, norm in changes:
        if facts.norm_first:
            x = x + change(normalise(x, norm, facts=facts))
        else:
            x = normalise(x + change(x), norm, facts=facts)
    return x


def network(x: Array, weights: BlockWeights, *, facts: BlockFacts) -> Array:
    """The feed-forward network of a block, gated or not."""
    kind = gated_feed_forward if facts.gated else feed_forward
    return kind(x, weights.expand, contract=weights.contract, activation=facts.activation)


def normalise(x: Array, norm: Affine | None, *, facts: BlockFacts) -> Array:
    """The model's kind of norm with learned numbers; without them the vectors stay as they are."""
    if norm is None:
        return x
    if facts.norm == "rms":
        return rms_norm(x, facts.epsilon, scale=norm.weight)
    return layer_norm(x, facts.epsilon, scale=norm.weight, shift=norm.bias)
