"""Embedding, a stack of blocks, a head: an encoder, or a decoder that stands alone."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import count
from math import sqrt
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from clearhead.errors import SettingError
from clearhead.model.attention import Projections
from clearhead.model.block import Block, norm_for
from clearhead.model.config import Config, Fill, Head, Relative
from clearhead.model.heads import ClassificationHead, FillHead
from clearhead.model.kernels import Context
from clearhead.model.layout import Batch
from clearhead.model.linear import Linear, linear
from clearhead.model.positions import positions_for

Made = TypeVar("Made", bound=nn.Module)


@contextmanager
def own_modes(*, learning: bool = False) -> Iterator[None]:
    """float32 on the CPU, without gradients or (`learning`) with them, whatever modes of torch the caller has
    set: a default dtype or device, autocast, `no_grad`, `inference_mode`."""
    with ExitStack() as modes:
        modes.enter_context(torch.autocast("cpu", enabled=False))
        modes.enter_context(torch.inference_mode(False))  # whose tensors nobody can learn from
        modes.enter_context(torch.set_grad_enabled(learning))
        if learning and torch.get_default_dtype() != torch.float32:  # a setting of all threads
            modes.callback(torch.set_default_dtype, torch.get_default_dtype())
            torch.set_default_dtype(torch.float32)
        if torch.get_default_device().type != "cpu":  # costs time in every operation
            modes.enter_context(torch.device("cpu"))
        yield


class Embedding(nn.Module):
    """ids → the stream: token, position and segment vectors added (Devlin et al. 2018, figure 2)."""

    def __init__(self, config: Config):
        super().__init__()
        width = config.embedding_width or config.width
        self.dropout = config.dropout if config.embedding_dropout is None else config.embedding_dropout
        self.scale = sqrt(config.width) if config.scale_embedding else 1.0
        self.tokens = nn.Embedding(config.vocab, width)
        self.positions = positions_for(config)
        self.segments = nn.Embedding(config.segments, width) if config.segments else None
        self.norm = norm_for(config, width) if config.embedding_norm else None
        self.widen = Linear(width, config.width) if config.embedding_width else None

    def forward(self, batch: Batch, context: Context) -> Float[Tensor, "tokens width"]:
        """The stream before the first block."""
        x = self.tokens(batch.ids)
        if self.scale != 1:
            x = x * self.scale
        if self.segments:
            x = x + self.segments(batch.segments)
        if self.positions:
            x = x + self.positions(batch.layout, x)
        x = context.dropped(self.norm(x) if self.norm else x, self.dropout)
        return self.widen(x) if self.widen else x


class Stack(nn.Module):
    """Blocks one after another: the shape stays `[tokens, width]`, so any number of them can follow."""

    def __init__(self, config: Config):
        super().__init__()
        self.blocks = nn.ModuleList(Block(config, layer) for layer in range(config.layers))
        self.norm = norm_for(config) if config.norm_first else None
        self.checkpointing = False  # in training, keep what goes into a block and compute the rest again

    def forward(self, x: Float[Tensor, "tokens width"], context: Context) -> Float[Tensor, "tokens width"]:
        """The stream after the last block."""
        again = self.checkpointing and torch.is_grad_enabled()
        for block in self.blocks:
            x = recomputed(block, x, context=context) if again else block(x, context)
        return self.norm(x) if self.norm else x


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
    """An encoder or a causal decoder, with or without a head. Weights are made by `initialise`
    or come from a checkpoint."""

    def __init__(self, config: Config, head: Head | None = None):
        super().__init__()
        refuse_unbuilt(config)
        self.config = config
        self.embedding = Embedding(config)
        self.encoder = Stack(config)
        self.head_facts = head
        self.head = ClassificationHead(config, head) if head else None
        untied = config.language_head and not config.tied
        self.language_head = Linear(config.width, config.vocab, bias=False) if untied else None
        self.fill = FillHead(config, config.fill) if config.fill else None
        self.steps = 0  # of generation, so far

    def forward(self, batch: Batch, context: Context | None = None) -> Float[Tensor, "tokens width"]:
        """The stream after the last block, `[tokens, width]`, as the batch lies."""
        context = context or Context.of(batch.layout)
        return self.encoder(self.embedding(batch, context), context)

    def classify(self, batch: Batch, context: Context | None = None) -> Float[Tensor, "texts labels"]:
        """Logits of each text, in the caller's order."""
        if self.head is None or self.head.output is None:
            raise SettingError(
                "this model has no labels yet; train it: clearhead train classify --from MODEL"
            )
        context = context or Context.of(batch.layout)
        return self.head(self(batch, context), context)

    def next_logits(self, x: Float[Tensor, "rows width"]) -> Float[Tensor, "rows vocab"]:
        """Logits of the token that follows each row of the stream (Radford et al. 2018, equation 2)."""
        return linear(x, self.next_weight)

    @property
    def next_weight(self) -> Float[Tensor, "vocab width"]:
        """The language head's matrix, which may be the embedding's."""
        if not self.config.language_head:
            raise SettingError("this model has no language head: it cannot say what comes next")
        return self.language_head.weight if self.language_head else self.embedding.tokens.weight

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
        weight = self.fill.output.weight if self.fill.output else self.embedding.tokens.weight
        return self.fill(x), weight, self.fill.bias


def refuse_unbuilt(config: Config) -> None:
    """Refuse, by name, facts whose sizes are known but whose arithmetic is not built."""
    unbuilt = {
        "decoder_layers": config.decoder_layers > 0,
        "language_head": config.language_head and not config.causal,
        "positions": isinstance(config.positions, Relative),
    }
    if any(unbuilt.values()):
        facts = ", ".join(
            f"{name}={getattr(config, name)!r}" for name, is_unbuilt in unbuilt.items() if is_unbuilt
        )
        raise SettingError(f"only encoders and decoders are built so far; this architecture has {facts}")


def initialise(module: nn.Module, config: Config, *, generator: torch.Generator) -> None:
    """Draw new weights for a module and all inside it; biases 0, norms 1 and 0.

    Linear layers: normal with the config's deviation (Devlin et al. 2018: 0.02) or, without one, Glorot
    uniform for each projection (Glorot & Bengio 2010). Tables: normal with that deviation, or width^-0.5.
    """
    for part in module.modules():
        if isinstance(part, nn.LayerNorm | nn.RMSNorm):
            nn.init.ones_(part.weight)
        elif isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=config.initial_std or config.width**-0.5, generator=generator)
        elif isinstance(part, nn.Linear):
            for matrix in part.matrices if isinstance(part, Projections) else [part.weight]:
                if config.initial_std:
                    nn.init.normal_(matrix, std=config.initial_std, generator=generator)
                else:
                    nn.init.xavier_uniform_(matrix, generator=generator)
        if isinstance(bias := getattr(part, "bias", None), nn.Parameter):
            nn.init.zeros_(bias)


def new_transformer(config: Config, head: Head | None, *, seed: int, scaled: bool = False) -> Transformer:
    """A model from nothing: the same seed gives the same weights, whatever was drawn before.

    `scaled`: the layers that add to the stream begin smaller by √(2 · layers), for each block adds twice
    (Radford et al. 2019, section 2.3).
    """
    network = _drawn(lambda: Transformer(config, head), config, seed=seed)
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if scaled and name.endswith(("attention.output.weight", "feed_forward.contract.weight")):
                weight.div_(sqrt(2 * config.layers))
    return network.eval()


def with_head(network: Transformer, head: Head, *, seed: int) -> Transformer:
    """The same body under a new head; a head for masked tokens is let go.

    What lies before its labels is taken over where an old head computes the same (BERT's pooler, the layer
    and norm of ModernBERT's head for masked tokens).
    """
    new = _drawn(lambda: ClassificationHead(network.config, head), network.config, seed=seed)
    old, fill = network.head, network.config.fill
    if old and network.head_facts and replace(network.head_facts, labels=head.labels) == head:
        kept = {name: tensor for name, tensor in old.state_dict().items() if not name.startswith("output.")}
        new.load_state_dict(kept, strict=False)
    elif network.fill and fill and head.dense_norm:
        alike = head.dense and (fill.activation, fill.bias) == (head.activation, head.bias)
        parts = ("dense", "norm") if alike and not network.config.embedding_width else ()
        for part in parts:
            getattr(new, part).load_state_dict(getattr(network.fill, part).state_dict())
    network.head, network.head_facts = new, head
    return without_fill(network)


def with_fill(network: Transformer, fill: Fill, *, seed: int) -> Transformer:
    """The same body with a new head for masked tokens."""
    network.config = config = replace(network.config, fill=fill)
    network.fill = _drawn(lambda: FillHead(config, fill), config, seed=seed)
    return network


def without_fill(network: Transformer) -> Transformer:
    """The same without its head for masked tokens."""
    network.fill, network.config = None, replace(network.config, fill=None)
    return network


def _drawn(make: Callable[[], Made], config: Config, *, seed: int) -> Made:
    with torch.device("meta"):  # torch's own initialisation would draw from the global stream
        module = make()
    module.to_empty(device="cpu")
    initialise(module, config, generator=torch.Generator().manual_seed(seed))
    return module
