"""Models and heads from nothing: weights that are drawn, not read."""

from collections.abc import Callable
from dataclasses import replace
from math import sqrt
from typing import TypeVar

import torch
from torch import nn

from clearhead.model.attention import Projections
from clearhead.model.config import Config, Fill, Head
from clearhead.model.heads import ClassificationHead, FillHead
from clearhead.model.transformer import Transformer

Made = TypeVar("Made", bound=nn.Module)
SMALLER = 2**-0.5


def initialise(module: nn.Module, config: Config, *, generator: torch.Generator) -> None:
    """Draw new weights for a module and all inside it; biases 0, norms 1 and 0.

    Linear layers: normal with the config's deviation (Devlin et al. 2018: 0.02) or, without one, Glorot
    uniform (Glorot & Bengio 2010), for queries, keys and values √2 smaller (as of one matrix of all three,
    which torch.nn.MultiheadAttention draws): with the norm after, a translator sooner looks at what it reads.
    Tables: normal with that deviation, or width^-0.5.
    """
    for part in module.modules():
        if isinstance(part, nn.LayerNorm | nn.RMSNorm):
            nn.init.ones_(part.weight)
        elif isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=config.initial_std or config.width**-0.5, generator=generator)
        elif isinstance(part, nn.Linear):
            gain = SMALLER if isinstance(part, Projections) else 1.0
            for matrix in part.matrices if isinstance(part, Projections) else [part.weight]:
                if config.initial_std:
                    nn.init.normal_(matrix, std=config.initial_std, generator=generator)
                else:
                    nn.init.xavier_uniform_(matrix, gain=gain, generator=generator)
        for name in ("bias", "language_bias"):
            if isinstance(bias := getattr(part, name, None), nn.Parameter):
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
