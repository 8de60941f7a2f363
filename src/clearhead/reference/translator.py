"""A whole encoder–decoder, from two lists of token ids to logits, for one pair of texts at a time."""

from dataclasses import dataclass

from clearhead.errors import DataError
from clearhead.reference.attention import Sight
from clearhead.reference.block import BlockFacts, DecoderBlockWeights, decoder_block, normalise
from clearhead.reference.layers import Affine, Array, linear
from clearhead.reference.whole import Embedding, Ids, WholeModel, placed


@dataclass(frozen=True, eq=False, kw_only=True)
class Decoder:
    """The half that writes; its embedding has neither segments nor `widen`. `sight` is every block's."""

    facts: BlockFacts
    embedding: Embedding
    blocks: tuple[DecoderBlockWeights, ...]
    final_norm: Affine | None
    sight: Sight


@dataclass(frozen=True, eq=False, kw_only=True)
class WholeTranslator:
    """A whole encoder–decoder in float64, for ONE pair of texts, each a list of token ids.

    The target is what the decoder has been given so far, from the id that every target begins with. Shapes:
    language [vocab, width], the matrix of the language head, the decoder's embedding where both are tied;
    bias [vocab], or None. Vectors are multiplied by `scale` before the matrix.
    Every method raises DataError for a text without tokens, an id outside its vocabulary, or a text longer
    than the learned positions.
    Source: Vaswani et al. 2017, section 3.
    """

    name: str
    encoder: WholeModel
    decoder: Decoder
    language: Array
    bias: Array | None = None
    scale: float = 1.0

    def encode(self, ids: Ids) -> Array:
        """The memory, the encoder's last vectors of the source: [source, width]."""
        return self.encoder.hidden(ids)

    def decode(self, memory: Array, ids: Ids) -> Array:
        """The decoder's last vectors of the target, after its final norm if it has one: [target, width].

        Shape: memory [source, width].
        """
        if len(memory) == 0:
            raise DataError("a target cannot attend to a source without tokens; encode at least one")
        facts = self.decoder.facts
        x = normalise(placed(ids, self.decoder.embedding), self.decoder.embedding.norm, facts=facts)
        for block in self.decoder.blocks:
            x = decoder_block(x, block, memory=memory, facts=facts, sight=self.decoder.sight)
        return normalise(x, self.decoder.final_norm, facts=facts)

    def logits(self, source_ids: Ids, target_ids: Ids) -> Array:
        """For each token of the target one number per word, before any softmax: [target, vocab].

        Row i judges the token that follows target token i.
        """
        return self.judged(self.decode(self.encode(source_ids), target_ids))

    def next_logits(self, memory: Array, ids: Ids) -> Array:
        """On the token that follows the target, given a memory that was made once: [vocab]."""
        return self.judged(self.decode(memory, ids)[-1])

    def judged(self, vectors: Array) -> Array:
        """The language head: [..., width] → [..., vocab]. Source: Raffel et al. 2020, the published code, for
        the scale."""
        return linear(vectors * self.scale, self.language, self.bias)
