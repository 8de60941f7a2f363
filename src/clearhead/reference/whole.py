"""A whole model, from token ids to logits, for one text at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from clearhead.errors import DataError, FolderError
from clearhead.reference.attention import EVERYTHING, Sight
from clearhead.reference.block import BlockFacts, BlockWeights, encoder_block, normalise
from clearhead.reference.layers import Activation, Affine, Array, linear, sinusoidal_positions, tanh

Ids = Sequence[int] | np.ndarray
Pooling = Literal["cls", "mean", "max", "last"]
Fixed = Literal["sinusoidal", "halves"]  # sines and cosines in turn, or sines first


@dataclass(frozen=True, eq=False, kw_only=True)
class Embedding:
    """What turns token ids into the first vectors.

    Shapes: tokens [vocab, narrow]; positions [count, narrow], one row a position, or a kind of fixed ones, or
    None where nothing is added; segments [segments, narrow] or None; norm over narrow or None; widen.weight
    [width, narrow], or None where narrow is the width. Token vectors are multiplied by `scale` before
    anything is added to them.
    Source: Vaswani et al. 2017, sections 3.4 and 3.5; Devlin et al. 2018, figure 2 (segments); Clark et al.
    2020, sections 3.2 and 3.3 (narrow).
    """

    tokens: Array
    positions: Array | Fixed | None
    segments: Array | None
    norm: Affine | None
    widen: Affine | None = None
    scale: float = 1.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Head:
    """What turns the last vectors into one vector per text, and that into logits.

    pooled = the first ("cls") or last token's vector, or the mean or maximum over tokens, or with None each
    token's own; then, if there is a dense layer, weight [width, width], activation(dense(pooled)) and its
    norm if there is one; then output, weight [labels, width].
    Source: Devlin et al. 2018, section 4.1, with the dense layer of its published code, there with tanh.
    """

    pooling: Pooling | None
    dense: Affine | None
    output: Affine | None
    activation: Activation = tanh
    norm: Affine | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Fill:
    """What says which token stands behind a mask: norm(activation(dense(vector))) times `matrix` [vocab,
    narrow], the embedding's own where both are tied, plus `bias` [vocab] where there is one.

    Source: Devlin et al. 2018, section 3.1, with the layer and norm of its published code.
    """

    dense: Affine
    norm: Affine
    matrix: Array
    bias: Array | None
    activation: Activation


@dataclass(frozen=True, eq=False, kw_only=True)
class WholeModel:
    """A whole model in float64. `ids` is ONE text: a list of token ids; `segments` as many segment numbers.

    `language` [vocab, width] is the matrix of a language head, the embedding's own where both are tied.
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
    language: Array | None = None
    fill: Fill | None = None

    def hidden(self, ids: Ids, segments: Ids | None = None) -> Array:
        """The last block's vectors (after the final norm, where the model has one): [tokens, width]."""
        x = self.embedded(ids, segments)
        sights = self.sights or [EVERYTHING] * len(self.blocks)
        for block, sight in zip(self.blocks, sights, strict=True):
            x = encoder_block(x, block, facts=self.facts, sight=sight)
        return normalise(x, self.final_norm, facts=self.facts)

    def pooled(self, ids: Ids, segments: Ids | None = None) -> Array:
        """One vector for the text, after the dense layer if there is one: [width]; of a head over tokens one
        for each: [tokens, width].

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
            case "last":
                pooled = hidden[-1]
            case None:
                pooled = hidden
        if self.head.dense is None:
            return pooled
        dense = self.head.activation(linear(pooled, *self.head.dense))
        return normalise(dense, self.head.norm, facts=self.facts)

    def logits(self, ids: Ids, segments: Ids | None = None) -> Array:
        """One number per label, before any softmax: [labels], of a head over tokens [tokens, labels]. Raises
        FolderError if there is no such head."""
        if self.head is None or self.head.output is None:
            raise FolderError(f"{self.name} has no classification head, so it has no logits")
        return linear(self.pooled(ids, segments), *self.head.output)

    def language_logits(self, ids: Ids, segments: Ids | None = None) -> Array:
        """For each token one number per word of the vocabulary, before any softmax: [tokens, vocab].

        In a causal model row i judges the token that follows token i. Raises FolderError without such a head.
        Source: Prince, section 12.7.1; Press & Wolf 2017 for a head that is tied.
        """
        if self.language is None:
            raise FolderError(f"{self.name} has no language head, so it has no logits over its vocabulary")
        return linear(self.hidden(ids, segments), self.language)

    def fill_logits(self, ids: Ids, segments: Ids | None = None) -> Array:
        """For each token one number per word of the vocabulary, on which one belongs there: [tokens, vocab].

        Raises FolderError without such a head.
        """
        if self.fill is None:
            raise FolderError(f"{self.name} has no head for masked tokens")
        made = self.fill.activation(linear(self.hidden(ids, segments), *self.fill.dense))
        return linear(normalise(made, self.fill.norm, facts=self.facts), self.fill.matrix, self.fill.bias)

    def next_logits(self, ids: Ids) -> Array:
        """The last row of `language_logits`, on the token that follows the text: [vocab]."""
        return self.language_logits(ids)[-1]

    def embedded(self, ids: Ids, segments: Ids | None = None) -> Array:
        """The vectors that enter the first block: [tokens, width]."""
        x = placed(ids, self.embedding)
        if segments is not None and len(segments) != len(x):
            raise DataError(
                f"{len(segments)} segments for {len(x)} tokens; give one segment number per token"
            )
        if (table := self.embedding.segments) is not None:
            x = x + rows(table, [0] * len(x) if segments is None else segments, what="segment")
        elif segments is not None and np.any(segments):
            raise DataError(f"{self.name} knows no segments; leave them out")
        x = normalise(x, self.embedding.norm, facts=self.facts)
        return x if self.embedding.widen is None else linear(x, *self.embedding.widen)


def placed(ids: Ids, table: Embedding) -> Array:
    """The vectors of the tokens, scaled, with those of their positions: [tokens, narrow]."""
    x = rows(table.tokens, ids, what="token id") * table.scale
    count, width = x.shape
    if table.positions is None:
        return x
    if not isinstance(table.positions, np.ndarray):
        return x + sinusoidal_positions(count, width, halves=table.positions == "halves")
    if count > len(table.positions):
        raise DataError(
            f"a text of {count} tokens is longer than the {len(table.positions)} learned positions"
        )
    return x + table.positions[:count]


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
