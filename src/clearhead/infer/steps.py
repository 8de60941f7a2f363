"""A step of a network: new tokens of some texts into a cache, and the logits of what comes next."""

from collections.abc import Sequence

import torch
from torch import Tensor

from clearhead.engine.products import STEADY, forget_changed, laid_out, packed_of, prepack
from clearhead.errors import SettingError
from clearhead.infer.batches import IN_STEPS
from clearhead.infer.model import Model
from clearhead.model.cache import Cache
from clearhead.model.kernels import Context
from clearhead.model.layout import pack
from clearhead.model.linear import Linear
from clearhead.model.transformer import Transformer

MANY = 16  # steps of a model after which its weights are laid out for them, which costs about as much


def speaker(model: Model) -> Transformer:
    """The network of a model that can say what comes next; of its weights, nothing is laid out that they are
    no more."""
    if not model.config.language_head:
        raise SettingError(f"{model.name} has no language head, so it cannot generate")
    network, adapted = model.loaded.network, bool(model.loaded.adapters)
    if model.config.translates:
        model.loaded.begin.known(model.name)
    layers = step_layers(network)
    for adapter in (layer.adapter for layer in layers if layer.adapter):
        adapter.kept = None
    if forget_changed([*(layer.weight for layer in layers), network.next_weight]) or adapted:
        network.steps = 0
    return network


def step_layers(network: Transformer) -> list[Linear]:
    """The layers that a step goes through: of an encoder–decoder, the decoder's."""
    return [part for part in (network.decoder or network).modules() if isinstance(part, Linear)]


def lay_out(network: Transformer) -> None:
    """Lay out all matrices that a step multiplies by."""
    layers = step_layers(network)
    for adapter in (layer.adapter for layer in layers if layer.adapter):
        adapter.kept = adapter.factors()
    factors = [factor for layer in layers if layer.adapter for factor in layer.adapter.kept or ()]
    prepack([*(layer.weight for layer in layers), *factors, network.next_weight])


def read(network: Transformer, prompts: Sequence[Sequence[int]]) -> Cache:
    """A cache of texts of which nothing is said yet; what an encoder makes of prompts is made once for each
    that differs."""
    cache = Cache(network.config, len(prompts))
    if network.config.translates and prompts:
        each = list(dict.fromkeys(map(tuple, prompts)))
        batch = pack(each, names=(IN_STEPS,) * len(each))
        known = dict(zip(each, network.remember(batch), strict=True))
        cache.answered = [known[tuple(prompt)] for prompt in prompts]
    return cache


def step(network: Transformer, cache: Cache, *, pieces: list[list[int]], wanted: list[int]) -> list[Tensor]:
    """The pieces into the cache; of each the logits after its last `wanted` tokens, `[wanted, vocab]`."""
    network.steps += 1
    if network.steps == MANY:
        lay_out(network)
    weight = network.next_weight
    with laid_out():
        multiple = STEADY if packed_of(weight)[0] is weight else 1  # laid out, one row has the bits of any
        batch = pack(pieces, past=cache.lengths, multiple=multiple)
        stream = network.speaking(batch, Context.of(batch.layout, cache=cache))
        ends = [(span.stop, count) for span, count in zip(batch.layout.slices, wanted, strict=True)]
        places = torch.tensor([place for stop, count in ends for place in range(stop - count, stop)])
        rows = torch.nn.functional.pad(stream[places], (0, 0, 0, -len(places) % multiple))
        return list(network.next_logits(rows)[: len(places)].float().split(wanted))


def joined(
    network: Transformer, cache: Cache, *, pieces: list[list[int]], newer: Cache, begun: list[list[int]]
) -> list[Tensor]:
    """A step of texts that go on, with logits after each token, and of those that begin, after the last."""
    ones = [1] * len(begun)
    if network.config.translates:  # what begins with one token has the same bits in any company
        cache.take(newer)
        return step(network, cache, pieces=[*pieces, *begun], wanted=[*map(len, pieces), *ones])
    logits = step(network, cache, pieces=pieces, wanted=[*map(len, pieces)]) if pieces else []
    logits += step(network, newer, pieces=begun, wanted=ones) if begun else []
    cache.take(newer)
    return logits
