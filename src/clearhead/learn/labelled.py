"""Learning from labelled texts: each text once, its loss the task's."""

from collections.abc import Sequence

from torch import Tensor

from clearhead.engine.dropout import Dropout
from clearhead.infer.batches import packed
from clearhead.learn.windowed import Windowed
from clearhead.model.heads import pool
from clearhead.model.kernels import Context
from clearhead.model.layout import Layout
from clearhead.model.transformer import Transformer
from clearhead.tasks.examples import Example, joined
from clearhead.tasks.task import Task


class Labelled(Windowed):
    """Encoded texts with what is right for them."""

    def __init__(
        self,
        network: Transformer,
        task: Task,
        *,
        examples: Sequence[Example],
        targets: Tensor,
        freeze: bool = False,
    ):
        super().__init__(network, examples, freeze=freeze)
        self.task, self.examples, self.targets = task, examples, targets

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

    def read(self, stream: Tensor, layout: Layout, *, members: Sequence[int]) -> tuple[Sequence[int], Tensor]:
        """One vector of each window."""
        head = self.network.head
        assert head
        assert head.pooling
        return members, pool(stream, layout, pooling=head.pooling)

    @property
    def rows(self) -> int:
        """The windows."""
        return len(self.windows)
