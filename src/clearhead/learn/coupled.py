"""Learning from pairs of texts: each pair in the company of the others of its step."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from clearhead.data.couples import Couple, scored
from clearhead.engine.dropout import Dropout
from clearhead.infer.batches import check_encodings, packed
from clearhead.model.config import Pooling
from clearhead.model.heads import pool
from clearhead.model.kernels import Context
from clearhead.model.transformer import Transformer
from clearhead.settings import Contrasting
from clearhead.tasks.embed import Belonging, contrastive, cosine_errors
from clearhead.tasks.examples import Example, joined


class Coupled:
    """Encoded pairs, learned so many at a time: the loss of each couples it with the others of its step.

    Texts, candidates and, where they are there, negatives lie in one row of tokens.
    """

    def __init__(
        self,
        network: Transformer,
        couples: Sequence[Couple],
        *,
        sides: tuple[Sequence[Example], Sequence[Example], Sequence[Example | None]],
        pooling: Pooling,
        settings: Contrasting,
        largest: float,
    ):
        self.couples, self.sides, self.pooling = couples, sides, pooling
        self.settings, self.largest = settings, largest
        self.belonging = Belonging(couples)
        self.scored = scored(couples)
        self.lengths = [
            one.tokens + other.tokens + (third.tokens if third else 0)
            for one, other, third in zip(*sides, strict=True)
        ]
        each = (example for side in sides for example in side if example)
        check_encodings([window for example in each for window in example.windows], network.config)
        if network.head:  # a pooler that no vector goes through
            network.head.requires_grad_(False)

    def company(self, *, seed: int, epoch: int) -> list[list[int]]:
        """The steps of an epoch: pairs at random, each step with as many. What is left over sits out."""
        size = min(self.settings.batch_pairs, len(self.couples))
        order = np.random.default_rng([seed, epoch]).permutation(len(self.couples)).tolist()
        return [order[start : start + size] for start in range(0, len(order) - size + 1, size)]

    def size(self, members: Sequence[int]) -> float:
        """Their number."""
        return float(len(members))

    def loss(self, network: Transformer, members: Sequence[int], *, drop: Dropout | None) -> Tensor:
        """The loss of each pair in the company of these, summed."""
        found = [
            side[index] for side in self.sides for index in members
        ]  # first texts, second ones, negatives
        examples = [example for example in found if example]
        batch = packed([window for example in examples for window in example.windows])
        context = Context.of(batch.layout, drop=drop)
        vectors = joined(pool(network(batch, context), batch.layout, pooling=self.pooling), examples)
        count = len(members)
        if self.scored:
            given = torch.tensor([self.couples[index].score for index in members], dtype=torch.float32)
            return cosine_errors(vectors[:count], vectors[count:], scores=given / self.largest)
        pairs, scale = self.belonging, self.settings.scale
        rows, columns = ([side[index] for index in members] for side in (pairs.anchors, pairs.positives))
        extra = [text for index in members if (text := pairs.negatives[index]) is not None]
        hidden = pairs.hidden(rows, [*columns, *extra], right=pairs.right)
        loss = contrastive(vectors[:count], vectors[count:], hidden=hidden, scale=scale)
        if not self.settings.symmetric:
            return loss
        hidden = pairs.hidden(columns, rows, right=pairs.asking)
        back = contrastive(vectors[count : 2 * count], vectors[:count], hidden=hidden, scale=scale)
        return (loss + back) / 2
