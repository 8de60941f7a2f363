"""Learning where answers stand: each window of a context once, with the ends of what it holds."""

from collections.abc import Sequence

import torch
from torch import Tensor

from clearhead.data.questions import Question
from clearhead.engine.dropout import Dropout
from clearhead.infer.batches import check_encodings, packed
from clearhead.model.kernels import Context
from clearhead.model.layout import within_budget
from clearhead.model.transformer import Transformer
from clearhead.tasks.answer import NONE, span_loss, targets
from clearhead.tasks.examples import Example


class Answers:
    """Windows of contexts behind their questions; an answer counts in each window that holds all of it, and
    `lost` questions have one that no window does."""

    def __init__(self, network: Transformer, questions: Sequence[Question], *, examples: Sequence[Example]):
        self.windows = [window for example in examples for window in example.windows]
        check_encodings(self.windows, network.config)
        found = [targets(*pair) for pair in zip(examples, questions, strict=True)]
        self.targets = torch.tensor([ends for own in found for ends in own], dtype=torch.long)
        self.lost = sum(
            bool(question.answers) and set(own) == {NONE}
            for question, own in zip(questions, found, strict=True)
        )
        self.lengths = [len(window.ids) for window in self.windows]

    def mean_loss(self, network: Transformer, *, budget: int) -> float:
        """The mean over the windows, nothing dropped, in nats."""
        batches = within_budget(self.lengths, budget)
        return sum(float(self.loss(network, some, drop=None)) for some in batches) / len(self.windows)

    def size(self, members: Sequence[int]) -> float:
        """Their number."""
        return float(len(members))

    def loss(self, network: Transformer, members: Sequence[int], *, drop: Dropout | None) -> Tensor:
        """The loss of both ends, summed over these windows."""
        batch = packed([self.windows[index] for index in members])
        logits = network.classify(batch, Context.of(batch.layout, drop=drop))
        return span_loss(logits, batch.layout, targets=self.targets[list(members)])
