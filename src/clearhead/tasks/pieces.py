"""Documents of ids → the pieces that a language model learns from, each with what follows it."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from clearhead.engine.dropout import Dropout
from clearhead.engine.modes import own_modes
from clearhead.model.kernels import Context
from clearhead.model.layout import pack, within_budget
from clearhead.model.transformer import Transformer
from clearhead.tasks.language import IGNORED, LanguageScores, next_token_loss
from clearhead.text.chat import Lesson
from clearhead.text.encoding import PROBE
from clearhead.text.tokenizer import Tokenizer

AT_ONCE = 2**20  # characters that are encoded together
Ids = Int[Tensor, " tokens"]


@dataclass(frozen=True, eq=False)
class Pieces:
    """All ids, one document after another, and where each piece begins and ends in them: a piece is what is
    read, and what follows each of its tokens is the id one further on. `first` says from which place on these
    count; before it a piece is only read. Where `learned` is there, only the ids that it marks count."""

    ids: Ids
    spans: Sequence[tuple[int, int]]
    first: Sequence[int]
    learned: Bool[Tensor, " tokens"] | None = None

    @classmethod
    def of(
        cls,
        documents: Iterable[Sequence[int]],
        *,
        context: int,
        blocks: bool = False,
        stride: int | None = None,
    ) -> "Pieces":
        """Pieces of documents, as `cut`."""
        ids = array("i")  # 4 bytes an id, also of a text of 100 MB
        ends = [0]
        for document in documents:
            ids.extend(document)
            ends.append(len(ids))
        whole = torch.frombuffer(ids, dtype=torch.int32) if ids else torch.zeros(0, dtype=torch.int32)
        return cls.cut(whole, pairwise(ends), context=context, blocks=blocks, stride=stride)

    @classmethod
    def cut(
        cls,
        ids: Ids,
        documents: Iterable[tuple[int, int]],
        *,
        context: int,
        blocks: bool = False,
        stride: int | None = None,
    ) -> "Pieces":
        """Cut documents, which begin and end at these places, into pieces of at most `context` tokens, never
        across a border; with `blocks` those that follow each other together, whatever their borders. Each
        token counts once; with a `stride` below the context, pieces overlap, so that a token is read after at
        least context − stride others."""
        spans, first = [], []
        for begin, stop in joined(documents) if blocks else documents:
            known = begin
            for start in range(begin, stop - 1, stride or context):
                end = min(start + context, stop - 1)
                if end > known:
                    spans.append((start, end))
                    first.append(known)
                known = max(known, end)
        return cls(ids, spans, first)

    @classmethod
    def of_lessons(cls, lessons: Sequence[Lesson], *, context: int) -> "Pieces":
        """Conversations, each cut to its first `context` tokens; one whose answers all lie beyond is no
        piece."""
        kept = [(lesson.ids[: context + 1], lesson.learned[: context + 1]) for lesson in lessons]
        kept = [(ids, learned) for ids, learned in kept if any(learned[1:])]
        ends = list(accumulate(len(ids) for ids, _ in kept))
        spans = [(end - len(ids), end - 1) for (ids, _), end in zip(kept, ends, strict=True)]
        ids = torch.tensor([id for ids, _ in kept for id in ids], dtype=torch.int32)
        learned = torch.tensor([one for _, learned in kept for one in learned], dtype=torch.bool)
        return cls(ids, spans, [start for start, _ in spans], learned)

    @property
    def lengths(self) -> list[int]:
        """Tokens read, of each piece."""
        return [stop - start for start, stop in self.spans]

    @cached_property
    def counts(self) -> list[int]:
        """How many tokens count, of each piece."""
        pairs = zip(self.spans, self.first, strict=True)
        if self.learned is None:
            return [stop - first for (_, stop), first in pairs]
        return [int(self.learned[first + 1 : stop + 1].sum()) for (_, stop), first in pairs]

    def size(self, members: Sequence[int]) -> float:
        """How many tokens count."""
        return float(sum(self.counts[index] for index in members))

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
            right = self.ids[first + 1 : stop + 1].long()
            if self.learned is not None:
                right = right.where(self.learned[first + 1 : stop + 1], IGNORED)
            targets[rows.start + first - start : rows.stop] = right
        made, weight, bias = network.saying(stream)
        return next_token_loss(made, weight, targets=targets, bias=bias)

    @own_modes()
    def nats(self, network: Transformer, *, budget: int) -> float:
        """The loss of all pieces, summed, without dropout."""
        batches = within_budget(self.lengths, budget)
        return sum(float(self.loss(network, members, drop=None)) for members in batches)

    def scores(self, network: Transformer, *, texts: int, bytes: int, budget: int) -> LanguageScores:
        """How well a model knows these documents: so many, of so many bytes of text."""
        nats = self.nats(network, budget=budget)
        return LanguageScores.of(nats, texts=texts, tokens=self.counted, bytes=bytes)


def joined(documents: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Documents that follow each other as one."""
    start = end = 0
    for begin, stop in documents:
        if begin != end:
            yield start, end
            start = begin
        end = stop
    yield start, end


def around(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """The ids that a tokenizer puts before a text, as whoever asks a model gives it, and behind it."""
    ids = list(tokenizer.framed([PROBE]).ids)
    place = ids.index(PROBE)
    return ids[:place], ids[place + 1 :]


def ids_of(tokenizer: Tokenizer, texts: Iterable[str]) -> Iterator[list[int]]:
    """The ids of each document: begun as a prompt is, and with the token that ends one."""
    before, _ = around(tokenizer)
    end = tokenizer.roles.get("eos_token")
    after = [] if end is None else [end]
    texts, read = iter(texts), 0
    while some := list(up_to(AT_ONCE, texts)):
        read += sum(map(len, some))
        encode = tokenizer.bulk if read > AT_ONCE else tokenizer.plain  # a little is not worth its beginning
        for ids in encode(some):
            yield [*before, *ids, *after]


def up_to(size: int, texts: Iterator[str]) -> Iterator[str]:
    """The next texts, until they have so many characters."""
    while size > 0 and (text := next(texts, None)) is not None:
        size -= len(text)
        yield text
