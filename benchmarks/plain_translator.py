"""The peer of the benchmarks about translation: torch.nn.Transformer, as a plain loop has it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn import functional

from pairs import ENDED, Pair

LONGEST = 512


@dataclass(frozen=True)
class Size:
    """The shape of a model; `layers` in the encoder and as many in the decoder."""

    layers: int
    width: int
    heads: int
    hidden: int
    vocab: int
    dropout: float = 0.1


class Translator(nn.Module):
    """The transformer of 2017 (Vaswani et al., section 3): one table for both sides and the output, its
    vectors times √width, sines and cosines, the norm after each change. The last id is padding."""

    def __init__(self, size: Size):
        super().__init__()
        self.width, self.pad = size.width, size.vocab - 1
        self.tokens = nn.Embedding(size.vocab, size.width)
        self.core = nn.Transformer(
            size.width, size.heads, size.layers, size.layers, size.hidden, size.dropout, batch_first=True
        )
        self.drop = nn.Dropout(size.dropout)
        rates = 10000.0 ** (-torch.arange(0, size.width, 2) / size.width)
        angles = torch.arange(LONGEST)[:, None] * rates
        self.register_buffer("places", torch.stack([angles.sin(), angles.cos()], -1).flatten(1))
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.xavier_uniform_(parameter)
        nn.init.normal_(self.tokens.weight, std=size.width**-0.5)

    def embed(self, ids: Tensor) -> Tensor:
        """Ids `[texts, tokens]` → the stream `[texts, tokens, width]`."""
        return self.drop(self.tokens(ids) * sqrt(self.width) + self.places[: ids.shape[1]])

    def read(self, source: Tensor) -> Tensor:
        """What the encoder makes of padded texts."""
        return self.core.encoder(self.embed(source), src_key_padding_mask=source == self.pad)

    def say(self, target: Tensor, memory: Tensor, *, hidden: Tensor) -> Tensor:
        """Logits of what follows each token of the answers, `[texts, tokens, vocab]`. Padding stands behind,
        where nothing that counts sees it."""
        later = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        x = self.core.decoder(
            self.embed(target), memory, tgt_mask=later, tgt_is_causal=True, memory_key_padding_mask=hidden
        )
        return functional.linear(x, self.tokens.weight)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits `[texts, tokens, vocab]`."""
        return self.say(target, self.read(source), hidden=source == self.pad)


class Lessons:
    """Pairs as padded rectangles, and the smoothed loss of a batch."""

    def __init__(self, model: Translator, pairs: Sequence[Pair]):
        self.model, self.pairs = model, pairs
        self.criterion = nn.CrossEntropyLoss(ignore_index=model.pad, label_smoothing=0.1)

    def padded(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Rows of ids, padded behind."""
        each = [torch.tensor(row) for row in rows]
        return nn.utils.rnn.pad_sequence(each, batch_first=True, padding_value=self.model.pad)

    def loss(self, batch: Sequence[int]) -> Tensor:
        """The mean over the tokens of these answers."""
        source = self.padded([self.pairs[index][0] for index in batch])
        right = self.padded([self.pairs[index][1] for index in batch])
        before = torch.cat([torch.full((len(right), 1), self.model.pad), right[:, :-1]], dim=1)
        return self.criterion(self.model(source, before).flatten(0, 1), right.flatten())


@torch.inference_mode()
def answers(model: Translator, texts: Sequence[Sequence[int]], *, beams: int, most: int) -> list[list[int]]:
    """The best answer to each text by beam search with the mean log-probability as score; 1 beam: greedy. The
    whole answers are computed again for each token: a plain loop keeps nothing."""
    lessons = Lessons(model.eval(), [])
    found: list[list[int]] = [[] for _ in texts]
    order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
    for at in range(0, len(order), 64):
        members = order[at : at + 64]
        source = lessons.padded([texts[index] for index in members])
        for index, ids in zip(members, searched(model, source, beams=beams, most=most), strict=True):
            found[index] = ids
    return found


def searched(model: Translator, source: Tensor, *, beams: int, most: int) -> list[list[int]]:
    """The best answers to one rectangle of texts."""
    texts, vocab = len(source), model.pad + 1
    hidden = (source == model.pad).repeat_interleave(beams, 0)
    memory = model.read(source).repeat_interleave(beams, 0)
    said = torch.full((texts * beams, 1), model.pad)
    totals = torch.full((texts, beams), -torch.inf)
    totals[:, 0] = 0.0
    finished: list[list[tuple[float, list[int]]]] = [[] for _ in range(texts)]
    over = [False] * texts
    for length in range(1, most + 1):
        sure = model.say(said, memory, hidden=hidden)[:, -1].log_softmax(-1)
        sure[:, model.pad] = -torch.inf
        values, places = (totals.view(-1, 1) + sure).view(texts, -1).topk(2 * beams)
        ends = places % vocab == ENDED
        for text, rank in ends[:, :beams].nonzero().tolist():
            if not over[text]:
                row = text * beams + int(places[text, rank]) // vocab
                finished[text].append((float(values[text, rank]) / length, said[row, 1:].tolist()))
                finished[text] = sorted(finished[text], reverse=True)[:beams]
        totals, ranks = values.masked_fill(ends, -torch.inf).topk(beams)
        places = places.gather(1, ranks)
        rows = (torch.arange(texts)[:, None] * beams + places // vocab).flatten()
        said = torch.cat([said[rows], (places % vocab).view(-1, 1)], dim=1)
        for text, running in enumerate((totals[:, 0] / length).tolist()):
            over[text] |= len(finished[text]) == beams and running <= finished[text][-1][0]
        if all(over):
            break
    rest = said.view(texts, beams, -1)[:, 0, 1:].tolist()
    return [mine[0][1] if mine else running for mine, running in zip(finished, rest, strict=True)]
