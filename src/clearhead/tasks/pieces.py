"""Documents of ids → the pieces that a language model learns from, each with what follows it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Int
from torch import Tensor

from clearhead.model.kernels import Context
from clearhead.model.layout import pack, within_budget
from clearhead.model.linear import Dropout
from clearhead.model.transformer import Transformer, own_modes
from clearhead.tasks.language import IGNORED, LanguageScores, next_token_loss
from clearhead.text.tokenizer import Tokenizer

Ids = Int[Tensor, " tokens"]


@dataclass(frozen=True, eq=False)
class Pieces:
    """All ids, one document after another, and where each piece begins and ends in them: a piece is what is
    read, and what follows each of its tokens is the id one further on. `first` says from which place on these
    count; before it a piece is only read."""

    ids: Ids
    spans: Sequence[tuple[int, int]]
    first: Sequence[int]

    @classmethod
    def of(
        cls,
        documents: Iterable[Sequence[int]],
        *,
        context: int,
        blocks: bool = False,
        stride: int | None = None,
    ) -> "Pieces":
        """Cut documents into pieces of at most `context` tokens, never across a border; with `blocks` all of
        them together, whatever the borders. Each token counts once; with a `stride` below the context, pieces
        overlap, so that a token is read after at least context − stride others."""
        ids: list[int] = []
        ends = []
        for document in documents:
            ids += document
            ends.append(len(ids))
        borders = [0, len(ids)] if blocks else [0, *ends]
        spans, first = [], []
        for begin, stop in pairwise(borders):
            known = begin
            for start in range(begin, stop - 1, stride or context):
                end = min(start + context, stop - 1)
                if end > known:
                    spans.append((start, end))
                    first.append(known)
                known = max(known, end)
        return cls(torch.tensor(ids, dtype=torch.int32), spans, first)

    @property
    def lengths(self) -> list[int]:
        """Tokens read, of each piece."""
        return [stop - start for start, stop in self.spans]

    def size(self, members: Sequence[int]) -> float:
        """How many tokens count."""
        return float(sum(self.spans[index][1] - self.first[index] for index in members))

    @property
    def counted(self) -> int:
        """How many tokens of all pieces count."""
        return int(self.size(range(len(self.spans))))

    def loss(self, network: Transformer, members: Sequence[int], *, drop: Dropout | None) -> Tensor:
        """The loss of every token that follows, summed."""
        batch = pack([self.ids[slice(*self.spans[index])].tolist() for index in members])
        stream = network(batch, Context.of(batch.layout, drop=drop))
        targets = torch.full((len(stream),), IGNORED)
        for index, rows in zip(members, batch.layout.slices, strict=True):
            (start, stop), first = self.spans[index], self.first[index]
            targets[rows.start + first - start : rows.stop] = self.ids[first + 1 : stop + 1].long()
        return next_token_loss(stream, network.next_weight, targets=targets)

    @own_modes()
    def nats(self, network: Transformer, *, budget: int) -> float:
        """The loss of all pieces, summed, without dropout."""
        batches = within_budget(self.lengths, budget)
        return sum(float(self.loss(network, members, drop=None)) for members in batches)

    def scores(self, network: Transformer, *, texts: Sequence[str], budget: int) -> LanguageScores:
        """How well a model knows these documents, whose texts are given for their bytes."""
        return LanguageScores.of(
            self.nats(network, budget=budget),
            texts=len(texts),
            tokens=self.counted,
            bytes=sum(len(text.encode()) for text in texts),
        )


def ids_of(tokenizer: Tokenizer, texts: Iterable[str]) -> Iterator[list[int]]:
    """The ids of each document, with the tokens that begin and end one."""
    begin, end = (tokenizer.roles.get(role) for role in ("bos_token", "eos_token"))
    for text in texts:
        (ids,) = tokenizer.plain([text])
        yield [*([] if begin is None else [begin]), *ids, *([] if end is None else [end])]
