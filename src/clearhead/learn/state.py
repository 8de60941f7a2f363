"""The state of a run on disk: safetensors and JSON, never a pickle.

A state is a folder that is written beside its place and then renamed, so that a half-written one is never
met.
"""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from clearhead.checkpoint.files import settle
from clearhead.errors import FolderError
from clearhead.learn.trainer import Trainer

PREFIX = "state-"


@dataclass(frozen=True)
class Standing:
    """Where a run stands, beside its tensors."""

    step: int
    best: tuple[float, float] | None
    best_step: int | None
    seconds: float
    data: str  # fingerprint of the texts and labels


def save_state(folder: Path, trainer: Trainer, *, standing: Standing) -> Path:
    """Write the state of a run into `folder` and remove older ones."""
    tensors: dict[str, Tensor] = {"dropout": trainer.drop.generator.get_state()}
    names = {id(parameter): name for name, parameter in trainer.network.named_parameters()}
    for group in trainer.optimizer.param_groups:
        for parameter in group["params"]:
            name = names[id(parameter)]
            tensors[f"weight.{name}"] = parameter.detach()
            for kind, value in trainer.optimizer.state[parameter].items():
                tensors[f"{kind}.{name}"] = value
    place = folder / f"{PREFIX}{standing.step}"
    if place.is_dir():
        return place
    part = folder / f".part-{PREFIX}{standing.step}"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    save_file(tensors, part / "state.safetensors")
    (part / "state.json").write_text(json.dumps(asdict(standing)))
    for file in part.iterdir():
        settle(file)
    part.rename(place)
    remove_states(folder, but=place)
    return place


def states(folder: Path) -> list[Path]:
    """The whole states in a folder, oldest first."""
    found = [path for path in folder.glob(f"{PREFIX}*") if path.name.removeprefix(PREFIX).isdecimal()]
    return sorted(found, key=lambda path: int(path.name.removeprefix(PREFIX)))


def remove_states(folder: Path, but: Path | None = None) -> None:
    """Remove states, half-written ones too."""
    for path in [*states(folder), *folder.glob(f".part-{PREFIX}*")]:
        if path != but:
            shutil.rmtree(path, ignore_errors=True)


def load_state(folder: Path, trainer: Trainer) -> Standing:
    """Bring a trainer to where the newest state of a folder stands."""
    found = states(folder)
    if not found:
        raise FolderError(f"{folder} holds no state to resume from; start again with --overwrite")
    try:
        return _into(trainer, found[-1])
    except (OSError, ValueError, TypeError, KeyError, RuntimeError, SafetensorError) as error:
        raise FolderError(
            f"the state {found[-1]} is broken or of another model ({type(error).__name__}: {error}); "
            "remove it to go on from an older one, or start again with --overwrite"
        ) from error


def _into(trainer: Trainer, state: Path) -> Standing:
    values: dict[str, Any] = json.loads((state / "state.json").read_text())
    tensors = load_file(state / "state.safetensors")
    trainer.drop.generator.set_state(tensors.pop("dropout"))
    with torch.no_grad():
        for name, parameter in trainer.network.named_parameters():
            parameter.copy_(tensors.pop(f"weight.{name}"))
            kinds = [
                key
                for key in tensors
                if key.endswith(f".{name}") and key.removesuffix(f".{name}").isidentifier()
            ]
            trainer.optimizer.state[parameter] = {
                key.removesuffix(f".{name}"): tensors.pop(key) for key in kinds
            }
    values["best"] = tuple(values["best"]) if values["best"] else None
    standing = Standing(**values)
    trainer.done = standing.step
    return standing
