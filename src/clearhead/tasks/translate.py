"""Pairs of texts → ids → the loss of each token of an answer, given the text that is read."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from clearhead.checkpoint.folder import Loaded
from clearhead.engine.dropout import Dropout
from clearhead.engine.modes import own_modes
from clearhead.errors import SettingError
from clearhead.model.layout import Batch, pack, within_budget
from clearhead.model.transformer import Transformer
from clearhead.tasks.language import IGNORED, mean_of, next_token_loss

AT_ONCE = 10_000  # texts that are encoded together


@dataclass(frozen=True)
class TranslationLoss:
    """How well a model knows what texts become. `loss` is the mean over the tokens of answers in nats; BLEU
    and chrF (0 to 100) are of answers of its own, where some were made."""

    texts: int
    tokens: int
    loss: float
    perplexity: float
    bleu: float | None = None
    chrf: float | None = None

    def summary(self) -> dict[str, Any]:
        """The scores for metrics.jsonl."""
        return {"eval_loss": self.loss, "eval_perplexity": self.perplexity}


@dataclass(frozen=True, eq=False)
class Translations:
    """Texts as ids, and what each becomes, with the token that ends it; `start` is the id before the first.

    An answer is read from `start` on, and each of its tokens is what follows (Sutskever et al. 2014,
    equation 1).
    """

    sources: Sequence[Sequence[int]]
    answers: Sequence[Sequence[int]]
    start: int
    smoothing: float = 0.0

    @cached_property
    def keys(self) -> list[tuple[int, int]]:
        """What pairs are sorted by, so that few lengths meet in a batch: those of text and answer."""
        return [(len(one), len(other)) for one, other in zip(self.sources, self.answers, strict=True)]

    @cached_property
    def lengths(self) -> list[int]:
        """Tokens of both sides."""
        return [one + other for one, other in self.keys]

    def size(self, members: Sequence[int]) -> float:
        """How many tokens of answers there are."""
        return float(sum(len(self.answers[index]) for index in members))

    def batches(self, members: Sequence[int]) -> tuple[Batch, Batch]:
        """Texts, and the answers to them as they are read."""
        sources = [self.sources[index] for index in members]
        answers = [[self.start, *self.answers[index][:-1]] for index in members]
        return side_by_side(sources, answers)

    def loss(self, network: Transformer, members: Sequence[int], *, drop: Dropout | None) -> Tensor:
        """The loss of every token of the answers, summed, some of it spread over all words."""
        return self.summed(network, members, drop=drop, smoothing=self.smoothing)

    def summed(
        self, network: Transformer, members: Sequence[int], *, drop: Dropout | None, smoothing: float
    ) -> Tensor:
        """The same with another share."""
        source, target = self.batches(members)
        made, weight, bias = network.saying(network.answering(source, target, drop=drop))
        targets = torch.full((len(made),), IGNORED)
        for index, rows in zip(members, target.layout.slices, strict=True):
            targets[rows] = torch.tensor(self.answers[index], dtype=torch.long)
        return next_token_loss(made, weight, targets=targets, bias=bias, smoothing=smoothing)

    @own_modes()
    def scores(self, network: Transformer, *, budget: int) -> TranslationLoss:
        """How well a model knows these answers, nothing spread and nothing dropped."""
        nats = sum(
            float(self.summed(network, members, drop=None, smoothing=0.0))
            for members in within_budget(self.lengths, budget)
        )
        tokens = int(self.size(range(len(self.answers))))
        loss, perplexity = mean_of(nats, tokens)
        return TranslationLoss(len(self.answers), tokens, loss, perplexity)


def side_by_side(sources: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]) -> tuple[Batch, Batch]:
    """Texts and answers to them, each in a row of its own, sorted so that both meet in few places."""
    read, said = [len(one) for one in sources], [len(one) for one in answers]
    return pack(sources, beside=said), pack(answers, beside=read)


def encoded(
    loaded: Loaded, pairs: Sequence[tuple[str, str]], *, most: int
) -> tuple[list[list[int]], list[list[int]], int]:
    """The ids of texts and of answers, each within `most` tokens, with the token that ends an answer, and how
    many pairs were cut."""
    start = loaded.begin.known(str(loaded.folder or "this model"))
    sources, answers, cut = list[list[int]](), list[list[int]](), 0
    # Where a tokenizer puts the id before the first token before every text, it is no part of the answer.
    before = int(loaded.writer.framed([-1]).ids[0] == start)
    for begin in range(0, len(pairs), AT_ONCE):
        some = pairs[begin : begin + AT_ONCE]
        read = loaded.tokenizer.encode([source for source, _ in some], limit=most)
        said = loaded.writer.encode([target for _, target in some], limit=most + before)
        for one, other in zip(read, said, strict=True):
            cut += one.dropped > 0 or other.dropped > 0
            sources.append(list(one.ids))
            answers.append(list(other.ids[before:]))
    return sources, answers, cut


def refuse_endless(loaded: Loaded) -> None:
    """Refuse a model whose answers get no end token, so that none would be learned."""
    (probe,) = loaded.writer.encode(["a"])
    if not loaded.ends or probe.ids[-1] not in loaded.ends:
        raise SettingError(
            "the tokenizer of answers puts no end token behind a text, so that no end would be learned; "
            "write eos_token_id into config.json, or take another tokenizer"
        )
