"""The encoder: one block, and a whole model from token ids to logits, for one text at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from clearhead.errors import DataError, FolderError
from clearhead.reference.attention import AttentionWeights, multi_head_rows
from clearhead.reference.layers import (
    Activation,
    Affine,
    Array,
    feed_forward,
    gated_feed_forward,
    layer_norm,
    linear,
    relu,
    sinusoidal_positions,
    tanh,
)

Ids = Sequence[int] | np.ndarray
Pooling = Literal["cls", "mean", "max"]


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


class BlockFacts(NamedTuple):
    """What blocks of one model have in common besides their shapes."""

    heads: int
    activation: Activation = relu
    norm_first: bool = False
    epsilon: float = 1e-5
    gated: bool = False


class Sight(NamedTuple):
    """What blocks of one model may differ in: how far a token sees, and the base of its rotary positions.

    window: tokens to either side, None for the whole text. base: None where queries and keys are not turned.
    """

    window: int | None = None
    base: float | None = None


EVERYTHING = Sight()


def encoder_block(x: Array, weights: BlockWeights, *, facts: BlockFacts, sight: Sight = EVERYTHING) -> Array:
    """One encoder block: attention across tokens, then feed-forward within each, both added to the stream.

    Norm after: x = LN(x + SA(x)), then x = LN(x + FFN(x)). Source: Vaswani et al. 2017, section 3.1.
    Norm before: x = x + SA(LN(x)), then x = x + FFN(LN(x)). Source: Xiong et al. 2020, table 1.
    Shapes: x [tokens, width]; the result has the same shape, which is why blocks stack.
    """

    def self_attention(x: Array) -> Array:
        return multi_head_rows(x, weights.attention, heads=facts.heads, window=sight.window, base=sight.base)

    def ffn(x: Array) -> Array:
        network = gated_feed_forward if facts.gated else feed_forward
        return network(x, weights.expand, contract=weights.contract, activation=facts.activation)

    if facts.norm_first:
        x = x + self_attention(normalise(x, weights.attention_norm, epsilon=facts.epsilon))
        return x + ffn(normalise(x, weights.feed_forward_norm, epsilon=facts.epsilon))
    x = normalise(x + self_attention(x), weights.attention_norm, epsilon=facts.epsilon)
    return normalise(x + ffn(x), weights.feed_forward_norm, epsilon=facts.epsilon)


def normalise(x: Array, norm: Affine | None, *, epsilon: float) -> Array:
    """Layer norm with learned numbers; without them the vectors stay as they are."""
    if norm is None:
        return x
    return layer_norm(x, epsilon, scale=norm.weight, shift=norm.bias)


@dataclass(frozen=True, eq=False, kw_only=True)
class Embedding:
    """What turns token ids into the first vectors.

    Shapes: tokens [vocab, narrow]; positions [count, narrow], one row a position, or "sinusoidal", or None
    where nothing is added; segments [segments, narrow] or None; norm over narrow or None; widen.weight
    [width, narrow], or None where narrow is the width. Token vectors are multiplied by `scale` before
    anything is added to them.
    Source: Vaswani et al. 2017, sections 3.4 and 3.5; Devlin et al. 2018, figure 2 (segments); Clark et al.
    2020, sections 3.2 and 3.3 (narrow).
    """

    tokens: Array
    positions: Array | Literal["sinusoidal"] | None
    segments: Array | None
    norm: Affine | None
    widen: Affine | None = None
    scale: float = 1.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Head:
    """What turns the last vectors into one vector per text, and that into logits.

    pooled = the first token's vector ("cls"), or the mean or maximum over tokens; then, if there is a dense
    layer, weight [width, width], activation(dense(pooled)) and its norm if there is one; then output, weight
    [labels, width].
    Source: Devlin et al. 2018, section 4.1, with the dense layer of its published code, there with tanh.
    """

    pooling: Pooling
    dense: Affine | None
    output: Affine | None
    activation: Activation = tanh
    norm: Affine | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class WholeModel:
    """A whole encoder in float64. `ids` is ONE text: a list of token ids; `segments` as many segment numbers.

    Every method raises DataError for a text without tokens, an id outside the vocabulary, a segment the model
    has not learned, segments of another length than ids, or a text longer than the learned positions.
    """

    name: str
    facts: BlockFacts
    embedding: Embedding
    blocks: tuple[BlockWeights, ...]
    final_norm: Affine | None
    head: Head | None
    sights: tuple[Sight, ...] = ()  # one a block; none: every block sees everything, and nothing is turned

    def hidden(self, ids: Ids, segments: Ids | None = None) -> Array:
        """The last block's vectors (after the final norm, where the model has one): [tokens, width]."""
        x = self.embedded(ids, segments)
        sights = self.sights or [EVERYTHING] * len(self.blocks)
        for block, sight in zip(self.blocks, sights, strict=True):
            x = encoder_block(x, block, facts=self.facts, sight=sight)
        return normalise(x, self.final_norm, epsilon=self.facts.epsilon)

    def pooled(self, ids: Ids, segments: Ids | None = None) -> Array:
        """One vector for the text, after the dense layer if there is one: [width].

        Raises FolderError if the folder says nothing about pooling.
        """
        if self.head is None:
            raise FolderError(
                f"{self.name} has no pooler and no head over whole texts; only hidden() is defined"
            )
        hidden = self.hidden(ids, segments)
        match self.head.pooling:
            case "cls":
                pooled = hidden[0]
            case "mean":
                pooled = hidden.mean(axis=0)
            case "max":
                pooled = hidden.max(axis=0)
        if self.head.dense is None:
            return pooled
        dense = self.head.activation(linear(pooled, *self.head.dense))
        return normalise(dense, self.head.norm, epsilon=self.facts.epsilon)

    def logits(self, ids: Ids, segments: Ids | None = None) -> Array:
        """One number per label, before any softmax: [labels]. Raises FolderError if there is no such head."""
        if self.head is None or self.head.output is None:
            raise FolderError(f"{self.name} has no classification head over whole texts, so it has no logits")
        return linear(self.pooled(ids, segments), *self.head.output)

    def embedded(self, ids: Ids, segments: Ids | None = None) -> Array:
        """The vectors that enter the first block: [tokens, width]."""
        table = self.embedding
        x = rows(table.tokens, ids, what="token id") * table.scale
        count, width = x.shape
        if table.positions is not None and not isinstance(table.positions, np.ndarray):
            x = x + sinusoidal_positions(count, width)
        elif table.positions is not None:
            if count > len(table.positions):
                raise DataError(
                    f"a text of {count} tokens is longer than the {len(table.positions)} learned positions"
                )
            x = x + table.positions[:count]
        if segments is not None and len(segments) != count:
            raise DataError(f"{len(segments)} segments for {count} tokens; give one segment number per token")
        if table.segments is not None:
            x = x + rows(table.segments, [0] * count if segments is None else segments, what="segment")
        elif segments is not None and np.any(segments):
            raise DataError(f"{self.name} knows no segments; leave them out")
        x = normalise(x, table.norm, epsilon=self.facts.epsilon)
        return x if table.widen is None else linear(x, *table.widen)


def rows(table: Array, indices: Ids, *, what: str) -> Array:
    """Rows of a table. NumPy alone would take a negative index from the end, so the range is checked."""
    if len(indices) == 0:
        raise DataError("a text needs at least one token; this one has none")
    indices = np.asarray(indices)
    if indices.ndim != 1 or not np.issubdtype(indices.dtype, np.integer):
        raise DataError(
            f"one text is one list of whole numbers; found {indices.dtype} of shape {indices.shape}"
        )
    outside = indices[(indices < 0) | (indices >= len(table))]
    if len(outside):
        raise DataError(f"{what} {outside[0]} is outside the model's {len(table)} (0 to {len(table) - 1})")
    return table[indices]
