"""The state of a run on disk: safetensors and JSON, never a pickle.

A state is a folder that is written beside its place and then renamed, so that a half-written one is never
met. It holds the weights, their averages, the optimiser's moments, dropout's generator, and the best model so
far. The order of texts and the schedule follow from the step. A finished run keeps the JSON alone, which says
what the tensors were by their SHA-256.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead.checkpoint.files import PART, moved_together, remove, settle, write_tensors
from clearhead.checkpoint.fingerprint import FINGERPRINT, digest
from clearhead.checkpoint.tensors import read_file
from clearhead.errors import ClearheadError, FolderError, naming_place
from clearhead.learn.trainer import Trainer

PREFIX, TENSORS, STANDING, BEST = "state-", "state.safetensors", "state.json", "best"
BROKEN = (OSError, ValueError, TypeError, KeyError, AttributeError, RuntimeError, ClearheadError)


@dataclass(frozen=True)
class Standing:
    """Where a run stands, beside its tensors."""

    step: int
    best: tuple[float, float] | None
    best_step: int | None
    seconds: float


@dataclass(frozen=True)
class Restored:
    """What a run goes on from: the newest whole state (None: the beginning), of those that were found."""

    standing: Standing
    state: Path | None
    found: tuple[Path, ...]
    notes: tuple[str, ...]


def tensors_of(trainer: Trainer) -> dict[str, Tensor]:
    """All numbers of a run that its next step depends on."""
    tensors: dict[str, Tensor] = {"dropout": trainer.drop.generator.get_state()}
    names = {id(parameter): name for name, parameter in trainer.network.named_parameters()}
    for group in trainer.optimizer.param_groups:
        for parameter in group["params"]:
            name = names[id(parameter)]
            tensors[f"weight.{name}"] = parameter.detach()
            for kind, value in trainer.optimizer.state[parameter].items():
                tensors[f"{kind}.{name}"] = value
    return tensors | {f"average.{name}": average for name, average in trainer.averages.items()}


def digest_of(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of names, kinds, shapes and bytes."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def save_state(folder: Path, trainer: Trainer, *, standing: Standing) -> None:
    """Write the state of a run into its folder and remove older ones."""
    tensors, best = tensors_of(trainer), None
    part, place = folder / f"{PART}{PREFIX}{standing.step}", folder / f"{PREFIX}{standing.step}"
    remove(part)
    part.mkdir()
    try:
        with naming_place(place):
            if standing.step < len(trainer.steps):
                write_tensors(part / TENSORS, tensors)
                settle(part / TENSORS)
                if standing.best and (folder / FINGERPRINT).is_file():
                    _copy_model(folder, part / BEST)
                    best = digest(part / BEST / FINGERPRINT)
            values = asdict(standing) | {"tensors": digest_of(tensors), "best_model": best}
            (part / STANDING).write_text(json.dumps({"standing": values, "sha256": _seal(values)}))
            settle(part / STANDING)
            settle(part)
            remove(place)
            part.rename(place)
    finally:
        remove(part)
    settle(folder)
    remove_states(folder, but=place)


def states(folder: Path) -> list[Path]:
    """The states in a folder, oldest first."""
    found = [path for path in folder.glob(f"{PREFIX}*") if path.name.removeprefix(PREFIX).isdecimal()]
    return sorted(found, key=lambda path: int(path.name.removeprefix(PREFIX)))


def not_states(folder: Path) -> list[Path]:
    """What has the name of a state and holds something that no state does; a state may be broken."""
    known = {TENSORS, STANDING, BEST}
    return [
        path
        for path in states(folder)
        if not path.is_dir() or {item.name for item in path.iterdir() if item.name[0] != "."} - known
    ]


def remove_states(folder: Path, but: Path | None = None) -> None:
    """Remove states."""
    for path in states(folder):
        if path != but:
            remove(path)


def load_state(folder: Path, trainer: Trainer) -> Restored:
    """Bring a trainer to where the newest whole state of a folder stands; without a state, to the beginning.

    Raises `FolderError` where there are states and none is whole.
    """
    notes: list[str] = []
    found = states(folder)
    for state in reversed(found):
        try:
            standing = _into(trainer, state)
        except BROKEN as error:
            notes.append(f"{state} is broken or of another model ({error}); left out")
            continue
        return Restored(standing, state, tuple(found), tuple(notes))
    if notes:
        raise FolderError(f"{'; '.join(notes)}; no other state is there: start again with --overwrite")
    notes.append("no state was saved yet (--save-steps), so the run starts again from its beginning")
    return Restored(Standing(0, None, None, 0.0), None, (), tuple(notes))


def put_back_best(folder: Path, state: Path) -> None:
    """Put a state's best model in its place, where a run that was killed may have left a later one."""
    if (state / BEST).is_dir():
        with moved_together(folder) as place:
            _copy_model(state / BEST, place)


def _into(trainer: Trainer, state: Path) -> Standing:
    said: dict[str, Any] = json.loads((state / STANDING).read_text(encoding="utf-8"))
    values = said["standing"]
    if said["sha256"] != _seal(values) or state.name != f"{PREFIX}{values['step']}":
        raise ValueError(f"{STANDING} has changed since it was written")
    tensors_said, best = values.pop("tensors"), values.pop("best_model", None)
    values["best"] = tuple(values["best"]) if values["best"] else None
    standing = Standing(**values)
    trainer.done = standing.step
    if standing.step == len(trainer.steps):
        return standing
    if best:
        _check_best(state / BEST, said=best)
    tensors = read_file(state / TENSORS)
    if digest_of(tensors) != tensors_said:
        raise ValueError(f"{TENSORS} has changed since it was written")
    trainer.drop.generator.set_state(tensors.pop("dropout"))
    with torch.no_grad():
        for name, parameter in trainer.network.named_parameters():
            if not parameter.requires_grad:
                continue  # a frozen body is that of the start
            parameter.copy_(tensors.pop(f"weight.{name}"))
            if name in trainer.averages:
                trainer.averages[name].copy_(tensors.pop(f"average.{name}"))
            kinds = [key for key in tensors if key.endswith(f".{name}")]
            kinds = [key for key in kinds if key.removesuffix(f".{name}").isidentifier()]
            moments = {key.removesuffix(f".{name}"): tensors.pop(key).clone() for key in kinds}
            trainer.optimizer.state[parameter] = moments
    return standing


def _check_best(folder: Path, *, said: str) -> None:
    """A state is no more whole than its best model: its fingerprint, of which `said` is the SHA-256, and the
    files that this names."""

    def check(name: str, hash: str) -> None:
        if not (folder / name).is_file() or digest(folder / name) != hash:
            raise ValueError(f"{BEST}/{name} is missing or has changed since it was written")

    check(FINGERPRINT, said)
    for name, hash in json.loads((folder / FINGERPRINT).read_text(encoding="utf-8"))["files"].items():
        check(name, hash)


def _seal(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _copy_model(source: Path, target: Path) -> None:
    """The files of a saved model in another folder, as further names of the same files where that works.

    Files of a model are replaced, never changed, so that the copy keeps what it is.
    """
    target.mkdir(exist_ok=True)
    said = json.loads((source / FINGERPRINT).read_text(encoding="utf-8"))
    for name in [*said["files"], FINGERPRINT]:
        (target / name).parent.mkdir(exist_ok=True)
        try:
            os.link(source / name, target / name)
        except OSError:  # a disk without such names
            shutil.copyfile(source / name, target / name)
            settle(target / name)
