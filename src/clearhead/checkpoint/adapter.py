"""Adapters (LoRA, Hu et al. 2021): made, put on a model, merged into its weights.

A base is never changed: a model with adapters shares its base's tensors, so that many can stand on one.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from clearhead.checkpoint.family import Form
from clearhead.checkpoint.folder import Loaded
from clearhead.checkpoint.low_rank import Adapter, Change
from clearhead.errors import SettingError
from clearhead.model.linear import Linear
from clearhead.model.transformer import Transformer


@dataclass(frozen=True)
class Adapted:
    """The facts of one adapter. `targets` are endings of published names; `base` is what it was made for."""

    rank: int
    alpha: float
    dropout: float
    targets: tuple[str, ...]
    base: str


@dataclass(frozen=True)
class Place:
    """Where a published linear layer lies: a layer of ours, the rows of it, and how they are stored."""

    layer: str
    rows: slice
    form: Form
    inputs: int

    @property
    def outputs(self) -> int:
        """Rows of the published layer."""
        return int(self.rows.stop - self.rows.start)


def places(loaded: Loaded) -> dict[str, Place]:
    """The published linear layers of the blocks, by name without prefix."""
    found, config = {}, loaded.network.config
    for name, layer in loaded.network.encoder.named_modules(prefix="encoder"):
        if not isinstance(layer, Linear):
            continue
        form, parts = loaded.family.rule(f"{name}.weight")
        shapes, start = form.shapes(list(layer.weight.shape), config), 0
        for part, shape in zip(parts, shapes, strict=True):
            stop = start + (shape[-1] if form.flipped else shape[0])
            place = Place(name, slice(start, stop), form, layer.in_features)
            found[part.removesuffix(".weight")] = place
            start = stop
    return found


def put_on(loaded: Loaded, changes: Mapping[str, Sequence[Change]], *, facts: Sequence[Adapted]) -> Loaded:
    """A model with these changes to its layers, which shares all other tensors."""
    network = sharing(loaded.network)
    for name, found in changes.items():
        layer = network.get_submodule(name)
        assert isinstance(layer, Linear)
        layer.adapter = Adapter(found, outputs=layer.out_features, dropout=facts[0].dropout)
    return replace(loaded, network=network.eval(), adapters=tuple(facts))


def sharing(network: Transformer, **instead: Tensor) -> Transformer:
    """A network with the same tensors, `instead` in place of those of that name, and no adapters."""
    with torch.device("meta"):
        made = Transformer(network.config, network.head_facts)
    state = {name: instead.get(name, tensor) for name, tensor in network.state_dict().items()}
    made.load_state_dict({name: state[name] for name in made.state_dict()}, assign=True)
    return made.eval()


def bare(loaded: Loaded) -> Loaded:
    """The base alone, to the bit what it was."""
    return replace(loaded, network=sharing(loaded.network), adapters=())


def merged(loaded: Loaded) -> Loaded:
    """The same model with what its adapters change added to the weights: one like any other."""
    if not loaded.adapters:
        return loaded
    changed = {}
    for name, layer in loaded.network.named_modules():
        if isinstance(layer, Linear) and layer.adapter:
            down, up = layer.adapter.factors()
            change = (up.double() @ down.double()).to(layer.weight.dtype)
            changed[f"{name}.weight"] = (layer.weight + change).detach()
    return replace(loaded, network=sharing(loaded.network, **changed), adapters=())


def meant(target: str, name: str) -> bool:
    """Whether a target is a layer's published name, or its end."""
    return f".{name}".endswith(f".{target}")


def targets_of(names: Collection[str], loaded: Loaded) -> tuple[str, ...]:
    """How layers are named as targets: by the end of their name, where all that end so are among them."""
    by_end: dict[str, list[str]] = {}
    for name in places(loaded):
        by_end.setdefault(name.rpartition(".")[2], []).append(name)
    found: list[str] = []
    for end, all_of_them in by_end.items():
        chosen = [f"{loaded.family.prefix}{name}" for name in all_of_them if name in names]
        found += [end] if len(chosen) == len(all_of_them) else chosen
    return tuple(sorted(found))


def new_adapter(loaded: Loaded, facts: Adapted, *, seed: int) -> Loaded:
    """A model with an adapter that changes nothing yet; everything but the adapter stays as it is.

    Of each change, down is drawn as the published code draws it (uniform, up to inputs^-0.5), up is 0.
    """
    known, prefix = places(loaded), loaded.family.prefix
    endings = sorted({name.rpartition(".")[2] for name in known})
    chosen = {
        name: place
        for name, place in known.items()
        if not facts.targets or any(meant(target, prefix + name) for target in facts.targets)
    }
    for target in facts.targets:
        if not any(meant(target, prefix + name) for name in known):
            raise SettingError(
                f"--lora-targets {target}: there is no such layer; there are {', '.join(endings)}"
            )
    generator = torch.Generator().manual_seed(seed)
    changes: dict[str, list[Change]] = {}
    for place in chosen.values():
        down = torch.empty(facts.rank, place.inputs)
        down.uniform_(-(place.inputs**-0.5), place.inputs**-0.5, generator=generator)
        change = Change(place.rows, down, torch.zeros(place.outputs, facts.rank), facts.alpha / facts.rank)
        changes.setdefault(place.layer, []).append(change)
    made = put_on(loaded, changes, facts=[replace(facts, targets=targets_of(chosen, loaded))])
    for name, parameter in made.network.named_parameters():
        parameter.requires_grad_(".adapter." in name)
    return made
