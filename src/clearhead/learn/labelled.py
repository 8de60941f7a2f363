"""Learning from labelled texts: each text once, its loss the task's."""

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from time import perf_counter

import torch
from torch import Tensor

from clearhead.engine.dropout import Dropout
from clearhead.infer.batches import batches_of, check_encodings, packed
from clearhead.model.heads import pool
from clearhead.model.kernels import Context
from clearhead.model.transformer import Transformer
from clearhead.tasks.examples import Example, joined
from clearhead.tasks.task import Task


class Labelled:
    """Encoded texts with what is right for them, each in one window or more; with `freeze` the body stays as
    it is."""

    def __init__(
        self,
        network: Transformer,
        task: Task,
        *,
        examples: Sequence[Example],
        targets: Tensor,
        freeze: bool = False,
    ):
        self.network, self.task, self.examples, self.targets = network, task, examples, targets
        self.windows = [window for example in examples for window in example.windows]
        check_encodings(self.windows, network.config)
        self.lengths = [example.tokens for example in examples]
        ends = list(accumulate(len(example.windows) for example in examples))
        self.places = [range(end - len(one.windows), end) for end, one in zip(ends, examples, strict=True)]
        self.freeze, self.body_seconds = freeze, 0.0
        if freeze:
            for part in (network.embedding, network.encoder):
                part.requires_grad_(False)

    def size(self, members: Sequence[int]) -> float:
        """Their number, or the sum of their weights."""
        return self.task.size(self.targets[list(members)])

    def loss(self, network: Transformer, members: Sequence[int], *, drop: Dropout | None) -> Tensor:
        """The task's loss, summed over these texts."""
        places = [place for index in members for place in self.places[index]]
        batch = packed([self.windows[place] for place in places])
        context = Context.of(batch.layout, drop=drop)
        if self.freeze:
            assert network.head
            logits = network.head.answer(self.vectors[places], context)
        else:
            logits = network.classify(batch, context)
        said = joined(logits, [self.examples[index] for index in members])
        return self.task.loss(said, self.targets[list(members)])

    @cached_property
    def vectors(self) -> Tensor:
        """What the head pools from each window under a body that stays as it is, without dropout."""
        head, start = self.network.head, perf_counter()
        assert head
        assert head.pooling
        found = torch.zeros(len(self.windows), self.network.config.width, dtype=torch.float32)
        with torch.no_grad():
            for members, batch in batches_of(self.windows, 2048):
                stream = self.network(batch, Context.of(batch.layout))
                found[members] = pool(stream, batch.layout, pooling=head.pooling)
        self.body_seconds = perf_counter() - start
        return found
