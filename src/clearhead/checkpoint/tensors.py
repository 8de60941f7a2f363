"""Weights as they are in the world: one safetensors file, several with an index, or a pickle on request."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from clearhead.checkpoint.files import read_json
from clearhead.checkpoint.pickled import read_pickle
from clearhead.errors import FolderError

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLE, PICKLE_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
KINDS = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
    "BOOL": torch.bool,
}  # fmt: skip
POINTER = b"version https://git-lfs"


@dataclass(frozen=True)
class Stored:
    """Tensors by their published names, the file of each, and the file that stands for them all."""

    tensors: dict[str, Tensor]
    files: dict[str, Path]
    source: Path


class Coming(NamedTuple):
    """A tensor to write: its name, its shape, and what makes its numbers, float32, when their turn comes."""

    name: str
    shape: tuple[int, ...]
    numbers: Callable[[], np.ndarray]


def write_in_turn(path: Path, tensors: Sequence[Coming]) -> None:
    """A safetensors file, of which one tensor at a time is in memory."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    place = 0
    for tensor in tensors:
        size = 4 * math.prod(tensor.shape)
        header[tensor.name] = {
            "dtype": "F32",
            "shape": list(tensor.shape),
            "data_offsets": [place, place + size],
        }
        place += size
    words = json.dumps(header, separators=(",", ":")).encode()
    words += b" " * (-len(words) % 8)
    with path.open("wb") as out:
        out.write(len(words).to_bytes(8, "little") + words)
        for tensor in tensors:
            out.write(np.ascontiguousarray(tensor.numbers(), "<f4").data)


def read_tensors(folder: Path, *, allow_bin: bool = False) -> Stored:
    """All tensors of a folder: model.safetensors, else the files of its index, else a pickle if allowed.

    Raises `FolderError` naming the file that is missing, broken, or not what the index says.
    """
    if source := source_of(folder):
        if source.name in (PICKLE, PICKLE_INDEX) and not allow_bin:
            raise FolderError(
                f"{folder} has no {WEIGHTS}, only {source.name}: pickles, which can hold any program. Read "
                "as a table of tensors, nothing in them run, they are with --allow-bin (allow_bin=True)"
            )
        return _single(source) if source.name in (WEIGHTS, PICKLE) else _sharded(source)
    others = sorted(item.name for ending in ("bin", "h5", "msgpack", "index.json", "safetensors", "gguf")
                    for item in folder.glob(f"*.{ending}"))  # fmt: skip
    found = f"; found {', '.join(others)}, which is not read" if others else ""
    raise FolderError(f"{folder} has no {WEIGHTS}{found}; fetch or save the folder again")


def source_of(folder: Path) -> Path | None:
    """The file that stands for the weights of a folder: the first there is, in the order of reading."""
    files = (folder / name for name in (WEIGHTS, INDEX, PICKLE, PICKLE_INDEX))
    return next((file for file in files if file.is_file()), None)


def files_read(folder: Path) -> list[Path]:
    """All files that the weights of a folder are read from: one, or an index and those it names."""
    source = source_of(folder)
    if source is None or source.name in (WEIGHTS, PICKLE):
        return [source] if source else []
    return [source, *(folder / name for name in _shards(source))]


def _single(path: Path) -> Stored:
    tensors = read_file(path)
    return Stored(tensors, dict.fromkeys(tensors, path), path)


def _shards(index: Path) -> dict[str, set[str]]:
    """The files that an index names, each with its tensors, in order."""
    table = read_json(index).get("weight_map")
    strings = isinstance(table, dict) and all(isinstance(name, str) for name in table.values())
    if not table or not strings:
        raise FolderError(
            f"{index} has no weight_map of tensor and file names; fetch or save the folder again"
        )
    shards: dict[str, set[str]] = {}
    for tensor, name in table.items():
        shards.setdefault(name, set()).add(tensor)
    return dict(sorted(shards.items()))


def _sharded(index: Path) -> Stored:
    """The tensors of an index: each file it names must be there and hold what it says, no less, no more."""
    tensors: dict[str, Tensor] = {}
    files: dict[str, Path] = {}
    for name, expected in _shards(index).items():
        path = index.parent / name
        if not name or name != Path(name).name or "\\" in name or "\0" in name:
            raise FolderError(f"{index} names {name!r}, which is no file of this folder; refused")
        if not path.is_file():
            raise FolderError(f"{path} is missing, and {index.name} names it; fetch or save the folder again")
        found = read_file(path)
        if missing := sorted(expected - found.keys()):
            raise FolderError(f"{path} lacks {missing[0]}, which {index.name} says it holds; fetch it again")
        if unknown := sorted(found.keys() - expected):
            raise FolderError(f"{path} holds {unknown[0]}, which {index.name} does not name; fetch it again")
        tensors |= found
        files |= dict.fromkeys(found, path)
    return Stored(tensors, files, index)


def read_file(path: Path) -> dict[str, Tensor]:
    """The tensors of one file, in memory of their own."""
    with path.open("rb") as file:
        if file.read(len(POINTER)) == POINTER:
            raise FolderError(f"{path} is a Git LFS pointer, not the file itself; run: git lfs pull")
    if path.suffix == ".bin":
        return read_pickle(path)
    try:
        return read_safetensors(path)
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, AttributeError, RuntimeError) as error:
        raise FolderError(
            f"{path} is broken or cut short ({error}); fetch or save the folder again"
        ) from error


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, read once into their place.

    The library maps the file instead: whoever changed it would change the model, and a copy of what is mapped
    takes the memory twice. It still judges the header: that no two tensors overlap and none lies outside.
    """
    with safe_open(path, framework="numpy") as judged:
        names = judged.keys()
    tensors = {}
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        for name in sorted(names, key=lambda name: header[name]["data_offsets"]):
            facts = header[name]
            if facts["dtype"] not in KINDS:
                raise FolderError(f"{path}: {name} is of kind {facts['dtype']}; known: {', '.join(KINDS)}")
            tensors[name] = torch.empty(facts["shape"], dtype=KINDS[facts["dtype"]])
            file.seek(8 + size + facts["data_offsets"][0])
            if tensors[name].numel():
                raw = tensors[name].reshape(-1).view(torch.uint8).numpy()
                if file.readinto(raw) != raw.nbytes:  # type: ignore[arg-type]
                    raise ValueError(f"{name} ends early")
    return tensors
