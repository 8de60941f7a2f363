"""Embedding, a stack of blocks, a head: an encoder, a decoder that stands alone, or both."""

from dataclasses import replace
from itertools import count
from math import sqrt

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from clearhead.engine.dropout import Dropout
from clearhead.engine.watching import Point
from clearhead.errors import SettingError
from clearhead.model.attention import Recall
from clearhead.model.block import Block, norm_for
from clearhead.model.cache import Span
from clearhead.model.config import Config, Head, Relative
from clearhead.model.heads import ClassificationHead, FillHead
from clearhead.model.kernels import Context, Source
from clearhead.model.layout import Batch
from clearhead.model.linear import Linear, linear
from clearhead.model.positions import RelativePositions, positions_for


class Embedding(nn.Module):
    """ids → the stream: token, position and segment vectors added (Devlin et al. 2018, figure 2)."""

    def __init__(self, config: Config, *, own: bool = True):
        super().__init__()
        width = config.embedding_width or config.width
        self.dropout = config.dropout if config.embedding_dropout is None else config.embedding_dropout
        self.scale = sqrt(config.width) if config.scale_embedding else 1.0
        self.tokens = nn.Embedding(config.vocab, width) if own else None
        self.positions = positions_for(config)
        self.segments = nn.Embedding(config.segments, width) if config.segments else None
        self.norm = norm_for(config, width) if config.embedding_norm else None
        self.widen = Linear(width, config.width) if config.embedding_width else None

    def forward(
        self, batch: Batch, context: Context, *, tokens: nn.Embedding | None = None
    ) -> Float[Tensor, "tokens width"]:
        """The stream before the first block; `tokens` is the table of one that has none of its own."""
        table = self.tokens or tokens
        assert table
        x = table(batch.ids)
        if self.scale != 1:
            x = x * self.scale
        x = context.seen(Point.EMBED, x, layer=0)
        if self.segments:
            x = x + self.segments(batch.segments)
        if self.positions:
            x = x + self.positions(batch.layout, x)
        x = context.dropped(self.norm(x) if self.norm else x, self.dropout)
        return self.widen(x) if self.widen else x


class Stack(nn.Module):
    """Blocks one after another: the shape stays `[tokens, width]`, so any number of them can follow."""

    def __init__(self, config: Config, *, recalls: bool = False):
        super().__init__()
        self.relative = None
        if isinstance(config.positions, Relative):
            self.relative = RelativePositions(config.positions, config.heads, causal=config.causal)
        self.blocks = nn.ModuleList(Block(config, layer, recalls=recalls) for layer in range(config.layers))
        self.norm = norm_for(config) if config.norm_first else None
        self.dropout = config.final_dropout
        self.checkpointing = False  # in training, keep what goes into a block and compute the rest again

    def forward(self, x: Float[Tensor, "tokens width"], context: Context) -> Float[Tensor, "tokens width"]:
        """The stream after the last block."""
        again = self.checkpointing and torch.is_grad_enabled()
        if self.relative:
            bias = self.relative(context.layout)
            for group in context.layout.groups if again else ():
                bias(range(group.length), range(group.length))  # what blocks share is made before them
            context = replace(context, bias=bias)
        for block in self.blocks:
            x = recomputed(block, x, context=context) if again else block(x, context)
        x = self.norm(x) if self.norm else x
        return context.dropped(x, self.dropout) if self.dropout else x


def recomputed(
    block: nn.Module, x: Float[Tensor, "tokens width"], *, context: Context
) -> Float[Tensor, "tokens width"]:
    """A block whose numbers are not kept but computed again for the gradient (Chen et al. 2016), with the
    same dropout: the gradient keeps every bit."""
    drop, calls = context.drop, count()
    begun = drop.generator.get_state() if drop else None

    def run(x: Tensor) -> Tensor:
        if drop is None or begun is None or not next(calls):
            return block(x, context)
        now = drop.generator.get_state()
        drop.generator.set_state(begun)
        try:
            return block(x, context)
        finally:
            drop.generator.set_state(now)

    made: Tensor = checkpoint(run, x, use_reentrant=False, preserve_rng_state=False)
    return made


class Transformer(nn.Module):
    """An encoder or a causal decoder, with or without a head, or an encoder and a decoder that answers it.
    Weights are made by `initialise` or come from a checkpoint."""

    def __init__(self, config: Config, head: Head | None = None):
        super().__init__()
        refuse_unbuilt(config)
        self.config = config
        self.embedding = Embedding(config)
        self.encoder = Stack(config)
        self.decoder_embedding = self.decoder = None
        if config.translates:
            self.decoder_embedding = Embedding(config.decoder, own=config.target_vocab is not None)
            self.decoder = Stack(config.decoder, recalls=True)
        self.head_facts = head
        self.head = ClassificationHead(config, head) if head else None
        untied = config.language_head and not config.tied
        said = config.decoder.vocab if config.translates else config.vocab
        self.language_head = Linear(config.width, said, bias=False) if untied else None
        self.language_bias = nn.Parameter(torch.zeros(said)) if config.language_bias else None
        self.fill = FillHead(config, config.fill) if config.fill else None
        self.steps = 0  # of generation, so far

    def forward(self, batch: Batch, context: Context | None = None) -> Float[Tensor, "tokens width"]:
        """The stream after the last block, `[tokens, width]`, as the batch lies."""
        context = (context or Context.of(batch.layout)).watched(self, batch)
        return self.encoder(self.embedding(batch, context), context)

    def classify(self, batch: Batch, context: Context | None = None) -> Float[Tensor, "rows labels"]:
        """Logits of each text, in the caller's order; of a head over tokens, of each as the batch lies."""
        if self.head is None or self.head.output is None:
            raise SettingError(
                "this model has no labels yet; train it: clearhead train classify --from MODEL"
            )
        context = context or Context.of(batch.layout)
        return self.head(self(batch, context), context)

    def decode(self, batch: Batch, context: Context) -> Float[Tensor, "tokens width"]:
        """The decoder's stream, `[tokens, width]`; the context says what its texts answer."""
        assert self.decoder
        assert self.decoder_embedding
        context = context.watched(self, batch)
        x = self.decoder_embedding(batch, context, tokens=self.embedding.tokens)
        return self.decoder(x, context)

    def answering(
        self, source: Batch, target: Batch, *, drop: Dropout | None = None
    ) -> Float[Tensor, "tokens width"]:
        """The decoder's stream of whole answers to whole texts, text for text, as the answers lie."""
        read = self(source, Context.of(source.layout, drop=drop))
        meeting = Source.of(read, source.layout, answers=target.layout)
        return self.decode(target, Context.of(target.layout, drop=drop, source=meeting))

    def remember(self, source: Batch) -> list[list[Span]]:
        """What each block of the decoder recalls of each text, in the caller's order: once a text."""
        assert self.decoder
        read, found = self(source), [list[Span]() for _ in source.layout.lengths]
        for recall in (part for part in self.decoder.modules() if isinstance(part, Recall)):
            both = recall.remember(read)
            for spans, rows in zip(found, source.layout.slices, strict=True):
                keys, values = (part[rows].transpose(0, 1).contiguous() for part in both)
                spans.append(Span(keys, values, first=0))
        return found

    def speaking(self, batch: Batch, context: Context) -> Float[Tensor, "tokens width"]:
        """The stream that says what comes next: the decoder's, or that of the only stack."""
        return self.decode(batch, context) if self.decoder else self(batch, context)

    def next_logits(self, x: Float[Tensor, "rows width"]) -> Float[Tensor, "rows vocab"]:
        """Logits of the token that follows each row of the stream (Radford et al. 2018, equation 2)."""
        made, weight, bias = self.saying(x)
        return linear(made, weight, bias=bias)

    def saying(self, x: Float[Tensor, "rows width"]) -> tuple[Tensor, Tensor, Tensor | None]:
        """The three that give those logits: what is multiplied, the matrix, the bias where there is one."""
        made = x * self.config.width**-0.5 if self.config.scale_output else x
        return made, self.next_weight, self.language_bias

    @property
    def next_weight(self) -> Float[Tensor, "vocab width"]:
        """The language head's matrix, which may be that of the embedding."""
        if not self.config.language_head:
            raise SettingError("this model has no language head: it cannot say what comes next")
        tables = (self.language_head, self.decoder_embedding and self.decoder_embedding.tokens)
        return next(table for table in (*tables, self.embedding.tokens) if table).weight

    def fill_logits(self, x: Float[Tensor, "rows width"]) -> Float[Tensor, "rows vocab"]:
        """Logits of the token that belongs at the place of each row of the stream."""
        made, weight, bias = self.filling(x)
        return linear(made, weight, bias=bias)

    def filling(self, x: Float[Tensor, "rows width"]) -> tuple[Tensor, Tensor, Tensor | None]:
        """The three that give those logits: what is multiplied, the matrix, the bias where there is one."""
        if self.fill is None:
            raise SettingError(
                "this model has no head for masked tokens: it cannot say what stands behind one"
            )
        assert self.embedding.tokens
        weight = self.fill.output.weight if self.fill.output else self.embedding.tokens.weight
        return self.fill(x), weight, self.fill.bias


def refuse_unbuilt(config: Config) -> None:
    """Refuse, by name, facts that do not go together."""
    if config.language_head and not (config.causal or config.translates):
        raise SettingError("language_head=True is for causal=True, or for decoder_layers")
    others = ("causal", "parallel", "fill", "embedding_width", "segments", "window", "qk_norm", "first_norm")
    for name in others if config.translates else ():
        if bool(value := getattr(config, name)) != (name == "first_norm"):
            raise SettingError(f"decoder_layers={config.decoder_layers} does not go with {name}={value!r}")
