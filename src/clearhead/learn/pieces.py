"""Documents of ids → the pieces that a language model learns from, each with what follows it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Int
from torch import Tensor

from clearhead.model.kernels import Context
from clearhead.model.layout import pack
from clearhead.model.linear import Dropout
from clearhead.model.transformer import Transformer, own_modes
from clearhead.tasks.language import IGNORED, next_token_loss

Ids = Int[Tensor, " tokens"]


@dataclass(frozen=True, eq=False)
class Pieces:
    """All ids, one document after another, and where each piece begins and ends in them: a piece is what is
    read, and what follows each of its tokens is the id one further on."""

    ids: Ids
    spans: Sequence[tuple[int, int]]

    @classmethod
    def of(cls, documents: Iterable[Sequence[int]], *, context: int, blocks: bool) -> "Pieces":
        """Cut documents into pieces of at most `context` tokens, never across a border; with `blocks` all of
        them together, whatever the borders. No token is learned twice."""
        ids: list[int] = []
        ends = []
        for document in documents:
            ids += document
            ends.append(len(ids))
        borders = [0, len(ids)] if blocks else [0, *ends]
        spans = [
            (start, min(start + context, stop - 1))
            for begin, stop in pairwise(borders)
            for start in range(begin, stop - 1, context)
        ]
        return cls(torch.tensor(ids, dtype=torch.int32), spans)

    @property
    def lengths(self) -> list[int]:
        """Tokens read, and so tokens learned, of each piece."""
        return [stop - start for start, stop in self.spans]

    def size(self, members: Sequence[int]) -> float:
        """How many tokens are learned."""
        return float(sum(self.spans[index][1] - self.spans[index][0] for index in members))

    def loss(self, network: Transformer, members: Sequence[int], *, drop: Dropout | None) -> Tensor:
        """The loss of every token that follows, summed."""
        spans = [self.spans[index] for index in members]
        batch = pack([self.ids[start:stop].tolist() for start, stop in spans])
        stream = network(batch, Context.of(batch.layout, drop=drop))
        targets = torch.full((len(stream),), IGNORED)
        for (start, stop), rows in zip(spans, batch.layout.slices, strict=True):
            targets[rows] = self.ids[start + 1 : stop + 1].long()
        return next_token_loss(stream, network.next_weight, targets=targets)

    @own_modes()
    def nats(self, network: Transformer, *, budget: int) -> float:
        """The loss of all pieces, summed, without dropout."""
        total, members, tokens = 0.0, list[int](), 0
        for index, length in sorted(enumerate(self.lengths), key=lambda item: item[1]):
            if members and tokens + length > budget:
                total += float(self.loss(network, members, drop=None))
                members, tokens = [], 0
            members.append(index)
            tokens += length
        return total + (float(self.loss(network, members, drop=None)) if members else 0.0)
