"""Learning from texts, each in one window or more, by a body and a head."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from time import perf_counter

import torch
from torch import Tensor

from clearhead.infer.batches import batches_of, check_encodings
from clearhead.model.kernels import Context
from clearhead.model.layout import Layout
from clearhead.model.transformer import Transformer
from clearhead.tasks.examples import Example


class Windowed(ABC):
    """Encoded texts, and the places of their windows; with `freeze` the body stays as it is."""

    def __init__(self, network: Transformer, examples: Sequence[Example], *, freeze: bool):
        self.network = network
        self.windows = [window for example in examples for window in example.windows]
        check_encodings(self.windows, network.config)
        self.lengths = [example.tokens for example in examples]
        ends = list(accumulate(len(example.windows) for example in examples))
        self.places = [range(end - len(one.windows), end) for end, one in zip(ends, examples, strict=True)]
        self.freeze, self.body_seconds = freeze, 0.0
        if freeze:
            for part in (network.embedding, network.encoder):
                part.requires_grad_(False)

    @abstractmethod
    def read(
        self, stream: Tensor, layout: Layout, *, members: Sequence[int]
    ) -> tuple[Sequence[int] | Tensor, Tensor]:
        """The rows that these windows take among all vectors, and what the head reads of the body's."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """How many vectors the head reads of all texts."""

    @cached_property
    def vectors(self) -> Tensor:
        """What the head reads under a body that stays as it is, without dropout."""
        start = perf_counter()
        found = torch.zeros(self.rows, self.network.config.width, dtype=torch.float32)
        with torch.no_grad():
            for members, batch in batches_of(self.windows, 2048):
                stream = self.network(batch, Context.of(batch.layout))
                rows, vectors = self.read(stream, batch.layout, members=members)
                found[rows] = vectors
        self.body_seconds = perf_counter() - start
        return found
