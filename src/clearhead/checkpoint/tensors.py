"""Weights as they are in the world: one safetensors file, several with an index, or a pickle on request."""

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import torch
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
HEADER = 100_000_000  # the most bytes that the format gives it
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
        if (path.suffix == ".bin") != (index.name == PICKLE_INDEX):
            raise FolderError(f"{index} names {name!r}, which is no file of its kind; refused")
        found = read_file(path)
        if missing := sorted(expected - found.keys()):
            raise FolderError(f"{path} lacks {missing[0]}, which {index.name} says it holds; fetch it again")
        if unknown := sorted(found.keys() - expected):
            raise FolderError(f"{path} holds {unknown[0]}, which {index.name} does not name; fetch it again")
        tensors |= found
        files |= dict.fromkeys(found, path)
    return Stored(tensors, files, index)


def check_files(folder: Path) -> None:
    """Refuse weights of a folder that are not there or not whole; no numbers are read, and no pickle."""
    for path in files_read(folder) or [folder / WEIGHTS]:
        if not path.is_file():
            raise FolderError(f"{path} is missing; fetch or save the folder again")
        if path.suffix == ".safetensors":
            with naming(path), path.open("rb") as file:
                judged(file, path)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Whatever a broken file of weights leads to is an error that names it."""
    with path.open("rb") as file:
        if file.read(len(POINTER)) == POINTER:
            raise FolderError(f"{path} is a Git LFS pointer, not the file itself; run: git lfs pull")
    try:
        yield
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RuntimeError) as error:
        raise FolderError(
            f"{path} is broken or cut short ({error}); fetch or save the folder again"
        ) from error


def read_file(path: Path) -> dict[str, Tensor]:
    """The tensors of one file, in memory of their own."""
    with naming(path):
        return read_pickle(path) if path.suffix == ".bin" else read_safetensors(path)


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, read once into their place.

    The library maps the file instead: whoever wrote to it would change the model, whoever cut it short would
    end the process by a signal (SIGBUS), and a copy of what is mapped takes the memory twice.
    """
    tensors = {}
    with path.open("rb") as file:
        start, header = judged(file, path)
        for name, facts in header.items():
            tensors[name] = torch.empty(facts["shape"], dtype=KINDS[facts["dtype"]])
            file.seek(start + facts["data_offsets"][0])
            if tensors[name].numel():
                raw = tensors[name].reshape(-1).view(torch.uint8).numpy()
                if file.readinto(raw) != raw.nbytes:  # type: ignore[arg-type]
                    raise ValueError(f"{name} ends early")
    return tensors


def judged(file: BinaryIO, path: Path) -> tuple[int, dict[str, Any]]:
    """Where the numbers of an open safetensors file begin, and its tensors by name, in the order they lie in.

    As the format has it, each has the bytes of its shape, right behind those of the one before, and the last
    ends the file. Raises `FolderError` for a kind of number that is not read, ValueError and its like for
    what is no such file.
    """
    whole, size = os.fstat(file.fileno()).st_size, int.from_bytes(file.read(8), "little")
    if whole < 8 or size > min(HEADER, whole - 8):
        raise ValueError(f"a header of {size} bytes in a file of {whole}")
    header = json.loads(file.read(size).decode(), object_pairs_hook=_once)
    header.pop("__metadata__", None)
    end = 0
    for name, facts in (lying := sorted(header.items(), key=lambda entry: entry[1]["data_offsets"])):
        shape, (begin, stop) = facts["shape"], facts["data_offsets"]
        if facts["dtype"] not in KINDS:
            raise FolderError(f"{path}: {name} is of kind {facts['dtype']}; known: {', '.join(KINDS)}")
        if any(type(number) is not int or number < 0 for number in (begin, stop, *shape)):
            raise ValueError(f"{name} has the shape {shape} at {begin} to {stop}")
        if begin != end or stop - begin != math.prod(shape) * KINDS[facts["dtype"]].itemsize:
            raise ValueError(f"{name} of shape {shape} does not lie where it should, at {begin} to {stop}")
        end = stop
    if (expected := 8 + size + end) != whole:
        raise ValueError(f"{whole} bytes, and its header says {expected}")
    return 8 + size, dict(lying)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in its header")
    return found
