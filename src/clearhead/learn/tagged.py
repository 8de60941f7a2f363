"""Learning from tagged words: each word's first piece once, its loss that of its label."""

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from time import perf_counter

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from clearhead.engine.dropout import Dropout
from clearhead.infer.batches import batches_of, check_encodings, packed
from clearhead.infer.tag import asked_rows
from clearhead.model.kernels import Context
from clearhead.model.transformer import Transformer
from clearhead.tasks.tag import IGNORED, Marked, by_window


class Tagged:
    """Texts with the label of each of their words, each in one window or more; with `freeze` the body stays
    as it is."""

    def __init__(
        self, network: Transformer, examples: Sequence[Marked], *, targets: Tensor, freeze: bool = False
    ):
        self.network, self.examples, self.targets = network, examples, targets
        self.windows = [window for one in examples for window in one.example.windows]
        check_encodings(self.windows, network.config)
        self.asked = by_window(examples)
        self.lengths = [one.example.tokens for one in examples]
        ends = list(accumulate(len(one.example.windows) for one in examples))
        self.places = [
            range(end - len(one.example.windows), end) for end, one in zip(ends, examples, strict=True)
        ]
        self.counts = [sum(len(self.asked[place][1]) for place in places) for places in self.places]
        self.freeze, self.body_seconds = freeze, 0.0
        if freeze:
            for part in (network.embedding, network.encoder):
                part.requires_grad_(False)

    def size(self, members: Sequence[int]) -> float:
        """How many words are learned from; 1 where there is none, for then the loss is 0."""
        return float(max(1, sum(self.counts[index] for index in members)))

    def loss(self, network: Transformer, members: Sequence[int], *, drop: Dropout | None) -> Tensor:
        """The sum over these words of −ln(probability of the right label), in nats."""
        places = [place for index in members for place in self.places[index]]
        batch = packed([self.windows[place] for place in places])
        context = Context.of(batch.layout, drop=drop)
        rows, words = asked_rows(batch.layout, [self.asked[place] for place in places])
        if self.freeze:
            assert network.head
            logits = network.head.answer(self.vectors[words], context)
        else:
            logits = network.classify(batch, context)[rows]
        return cross_entropy(logits, self.targets[words], ignore_index=IGNORED, reduction="sum")

    @cached_property
    def vectors(self) -> Tensor:
        """What the head reads of each word under a body that stays as it is, without dropout."""
        start = perf_counter()
        found = torch.zeros(len(self.targets), self.network.config.width, dtype=torch.float32)
        with torch.no_grad():
            for members, batch in batches_of(self.windows, 2048):
                rows, words = asked_rows(batch.layout, [self.asked[member] for member in members])
                found[words] = self.network(batch, Context.of(batch.layout))[rows]
        self.body_seconds = perf_counter() - start
        return found
