"""From the stream to an answer: pooling and the classification head, and the head behind masks."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.model.block import norm_for
from clearhead.model.config import Config, Fill, Head, Over, Pooling
from clearhead.model.kernels import Context
from clearhead.model.layout import Layout, round_up
from clearhead.model.linear import Linear

POOLS: dict[Pooling, Callable[[Tensor], Tensor]] = {
    Pooling.CLS: lambda texts: texts[:, 0],
    Pooling.MEAN: lambda texts: texts.mean(1),
    Pooling.MAX: lambda texts: texts.amax(1),
    Pooling.LAST: lambda texts: texts[:, -1],
}  # [texts, length, width] → [texts, width]


def pool(
    x: Float[Tensor, "tokens width"], layout: Layout, *, pooling: Pooling
) -> Float[Tensor, "texts width"]:
    """One vector a text, in the caller's order. A text of 0 tokens gives zeros."""
    pooled = []
    for group in layout.groups:
        if not group.length:
            pooled.append(x.new_zeros(group.texts, x.shape[-1]))
            continue
        texts = x[group.start : group.start + group.tokens].unflatten(0, (group.texts, group.length))
        pooled.append(POOLS[pooling](texts))
    return layout.in_order(torch.cat(pooled)) if pooled else x.new_zeros(0, x.shape[-1])


class ClassificationHead(nn.Module):
    """Pooling, an activation of a layer where the head has one, one number a label (Devlin et al. 2018); over
    tokens without pooling."""

    def __init__(self, config: Config, head: Head):
        super().__init__()
        self.pooling = head.pooling if head.over is Over.TEXTS else None
        self.drop_first = head.drop_first
        self.dropout = config.dropout if head.dropout is None else head.dropout
        self.dense = None
        if head.dense:
            self.dense = Linear(config.width, config.width, bias=head.bias, activation=head.activation)
        self.norm = norm_for(config) if head.dense_norm else None
        self.output = Linear(config.width, head.labels) if head.labels else None

    def forward(self, x: Float[Tensor, "tokens width"], context: Context) -> Float[Tensor, "rows labels"]:
        """Logits of each text, or its vector where the head has no labels, in the caller's order; over
        tokens, of each as it lies."""
        return self.answer(pool(x, context.layout, pooling=self.pooling) if self.pooling else x, context)

    def answer(self, pooled: Float[Tensor, "texts width"], context: Context) -> Float[Tensor, "texts labels"]:
        """The same from what was pooled."""
        texts = len(pooled)
        # As in the stream: rows are rounded up, so that no text's logits depend on how many texts there are.
        pooled = nn.functional.pad(pooled, (0, 0, 0, round_up(texts) - texts))
        if self.drop_first:
            pooled = context.dropped(pooled, self.dropout)
        if self.dense:
            pooled = self.dense(pooled)
        if self.norm:
            pooled = self.norm(pooled)
        if self.output:
            pooled = self.output(context.dropped(pooled, self.dropout))
        return pooled[:texts]


class FillHead(nn.Module):
    """What stands behind a mask, up to the matrix of the vocabulary (Devlin et al. 2018, section 3.1)."""

    def __init__(self, config: Config, fill: Fill):
        super().__init__()
        narrow = config.embedding_width or config.width  # where tied, the matrix is the embedding's
        self.dense = Linear(config.width, narrow, bias=fill.bias, activation=fill.activation)
        self.norm = norm_for(config, narrow)
        self.output = None if fill.tied else Linear(narrow, config.vocab, bias=False)
        self.bias = nn.Parameter(torch.zeros(config.vocab)) if fill.output_bias else None

    def forward(self, x: Float[Tensor, "rows width"]) -> Float[Tensor, "rows narrow"]:
        """What the matrix is multiplied with, row by row."""
        return self.norm(self.dense(x))
