"""Learning from tagged words: each word's first piece once, its loss that of its label."""

from collections.abc import Sequence

from torch import Tensor
from torch.nn.functional import cross_entropy

from clearhead.engine.dropout import Dropout
from clearhead.infer.batches import packed
from clearhead.infer.tag import asked_rows
from clearhead.learn.windowed import Windowed
from clearhead.model.kernels import Context
from clearhead.model.layout import Layout
from clearhead.model.transformer import Transformer
from clearhead.tasks.tag import IGNORED, Marked, by_window


class Tagged(Windowed):
    """Texts with the label of each of their words."""

    def __init__(
        self, network: Transformer, examples: Sequence[Marked], *, targets: Tensor, freeze: bool = False
    ):
        super().__init__(network, [one.example for one in examples], freeze=freeze)
        self.targets, self.asked = targets, by_window(examples)
        self.counts = [sum(len(self.asked[place][1]) for place in places) for places in self.places]

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

    def read(self, stream: Tensor, layout: Layout, *, members: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The vectors of words' first pieces."""
        rows, words = asked_rows(layout, [self.asked[member] for member in members])
        return words, stream[rows]

    @property
    def rows(self) -> int:
        """The words."""
        return len(self.targets)
