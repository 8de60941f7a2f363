"""Read and write model folders: config.json, model.safetensors, tokenizer files.

Everything is loaded and computed in float32, whatever the file holds, and saved as float32. Files are written
beside their place and then moved there, so that a reader never meets half a file.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from clearhead.checkpoint.families import FAMILIES
from clearhead.checkpoint.translate import Family, Fields
from clearhead.errors import ClearheadError, FolderError
from clearhead.model.transformer import Transformer
from clearhead.text.tokenizer import Tokenizer

CONFIG, WEIGHTS = "config.json", "model.safetensors"
UMASK = os.umask(0)
os.umask(UMASK)  # there is no way to read it without setting it


@dataclass(frozen=True)
class Loaded:
    """What a folder holds: the network, its tokenizer, the labels of its head in order, its family."""

    network: Transformer
    tokenizer: Tokenizer
    labels: tuple[str, ...]
    family: Family
    folder: Path | None  # where it was read; None for a new model


def read_folder(folder: str | Path) -> Loaded:
    """Read a model folder, strictly by name.

    Raises `FolderError` naming the file, field or tensor that is missing, unknown or does not fit.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FolderError(f"{folder} is not a folder; give a model folder, or a name from `clearhead get`")
    values = read_json(folder / CONFIG)
    family = family_of(values, folder / CONFIG)
    fields = Fields(values, str(folder / CONFIG))
    tensors = read_tensors(folder)
    names = {family.plain(name) for name in tensors}
    config = _facts(lambda: family.config(fields), fields.source)
    head = _facts(lambda: family.head(fields, names), fields.source)
    fields.warn_unread()
    with torch.device("meta"):
        network = Transformer(config, head)
    ours = family.to_ours(tensors, network.state_dict(), source=str(folder / WEIGHTS))
    for name, tensor in ours.items():
        if not tensor.isfinite().all():
            where = " + ".join(family.published(name))
            raise FolderError(f"{folder / WEIGHTS}: {where} holds numbers that are not finite")
    # A copy of its own: the file is mapped, and whoever changed it would change the model.
    own = {name: tensor.to(torch.float32, copy=True) for name, tensor in ours.items()}
    network.load_state_dict(own, assign=True)
    tokenizer = Tokenizer.read(folder)
    if tokenizer.vocab_size > config.vocab:
        raise FolderError(
            f"{folder}: the tokenizer has {tokenizer.vocab_size} tokens, the model only {config.vocab}; "
            "the files belong to different models"
        )
    probe = tokenizer.encode(["a"])[0]
    if max(probe.ids, default=0) >= config.vocab or max(probe.segments, default=0) >= max(1, config.segments):
        raise FolderError(f"{folder}: the tokenizer's ids or segments go beyond the model's tables")
    labels = label_names(values, head.labels, source=fields.source) if head else ()
    return Loaded(network.eval(), tokenizer, labels, family, folder)


def _facts(read: Any, source: str) -> Any:
    """Facts that do not fit together are the folder's fault here, not an option's."""
    try:
        return read()
    except FolderError:
        raise
    except (ClearheadError, TypeError, ValueError) as error:
        raise FolderError(f"{source}: {error}") from error


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file."""
    if not path.is_file():
        raise FolderError(f"{path.parent} has no {path.name}; is it a model folder?")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise FolderError(f"{path} is not valid JSON ({error}); fetch or save the folder again") from error
    if not isinstance(values, dict):
        raise FolderError(f"{path} holds no JSON object; fetch or save the folder again")
    return values


def family_of(values: dict[str, Any], path: Path) -> Family:
    """The family a config names."""
    if "model_type" not in values:
        raise FolderError(
            f"{path} has no model_type; write the family into it, if you know it: {', '.join(FAMILIES)}"
        )
    name = str(values["model_type"])
    if name not in FAMILIES:
        raise FolderError(f"{path}: model_type {name!r} is not supported; supported: {', '.join(FAMILIES)}")
    return FAMILIES[name]


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of a folder's single safetensors file, by their published names."""
    path = folder / WEIGHTS
    if not path.is_file():
        others = sorted(item.name for item in folder.glob("*.bin")) + sorted(
            item.name for item in folder.glob("*.index.json")
        )
        found = f"; found {', '.join(others)}, which is not read" if others else ""
        raise FolderError(f"{folder} has no {WEIGHTS}{found}")
    try:
        return load_file(path)
    except SafetensorError as error:
        raise FolderError(
            f"{path} is broken or cut short ({error}); fetch or save the folder again"
        ) from error


def label_names(values: dict[str, Any], count: int, *, source: str) -> tuple[str, ...]:
    """Labels in order from id2label, whose keys are strings in JSON."""
    table = values.get("id2label") or {str(number): f"LABEL_{number}" for number in range(count)}
    if not isinstance(table, dict):
        raise FolderError(f"{source}: id2label is {type(table).__name__}, not a table of names")
    missing = [number for number in range(count) if str(number) not in table]
    if missing:
        raise FolderError(f"{source}: id2label has no entry '{missing[0]}'; it needs 0 to {count - 1}")
    names = tuple(str(table[str(number)]) for number in range(count))
    if len(set(names)) < count:
        raise FolderError(f"{source}: id2label gives two labels one name: {', '.join(names)}")
    return names


def write_folder(folder: str | Path, loaded: Loaded) -> None:
    """Write a model folder that we and, where the family can say it, the published code read alike."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    network = loaded.network
    family, values = loaded.family, loaded.family.fields(network.config, network.head_facts)
    if values is None:
        family = FAMILIES["clearhead"]
        values = family.fields(network.config, network.head_facts)
        assert values is not None
    if loaded.labels:
        values["id2label"] = {str(number): label for number, label in enumerate(loaded.labels)}
        values["label2id"] = {label: number for number, label in enumerate(loaded.labels)}
        values["problem_type"] = "single_label_classification"
    values["dtype"] = "float32"
    ours = {name: tensor.float() for name, tensor in network.state_dict().items()}
    tensors = family.to_published(ours, prefixed=bool(loaded.labels))
    # All files are whole and on the disk before the first takes its place, so that a kill has only an instant
    # in which it could leave files of two models side by side.
    with tempfile.TemporaryDirectory(prefix=".part-", dir=folder) as part:
        loaded.tokenizer.write(part)
        save_file(tensors, Path(part) / WEIGHTS, metadata={"format": "pt"})
        write_json(Path(part) / CONFIG, values)
        for file in Path(part).iterdir():
            settled(file)
        for file in Path(part).iterdir():
            file.replace(folder / file.name)


def settled(file: Path) -> None:
    """Flush a file to the disk, readable as other files are (safetensors keeps its own to the owner)."""
    with file.open("rb+") as opened:
        os.fsync(opened.fileno())
    file.chmod(0o666 & ~UMASK)


def write_json(path: Path, values: Any) -> None:
    """Write JSON as people read it."""
    with moved_into_place(path) as place:
        place.write_text(
            json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
        )


@contextmanager
def moved_into_place(path: Path) -> Iterator[Path]:
    """A path to write to; on success it is flushed to the disk and takes the place of `path` at once."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield beside
        settled(beside)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
