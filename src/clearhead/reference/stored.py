"""What a model folder stores: the fields of config.json and the arrays of its safetensors files."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from clearhead.errors import FolderError
from clearhead.reference.layers import Affine, Array

Shape = tuple[int, ...]
T = TypeVar("T")

INDEX = "model.safetensors.index.json"
READABLE = {"F16": "float16", "F32": "float32", "F64": "float64", "BF16": "bfloat16"}


def read_config(folder: Path) -> dict[str, Any]:
    """The fields of config.json. Raises FolderError if the file is missing or is not a JSON object."""
    file = folder / "config.json"
    if not file.is_file():
        raise FolderError(
            f"{folder} has no config.json; a model folder holds config.json and model.safetensors"
        )
    try:
        config = json.loads(file.read_text(encoding="utf-8-sig"))
    except ValueError as problem:
        raise FolderError(f"{file} is not JSON: {problem}") from problem
    if not isinstance(config, dict):
        raise FolderError(f"{file} holds a JSON {type(config).__name__}, not an object with fields")
    return config


def field(table: Mapping[str, Any], name: str, *, kind: type[T]) -> T:
    """One field of a config; whole numbers pass as float. Raises FolderError if absent or of another kind."""
    if name not in table:
        raise FolderError(f"config.json lacks the field {name!r}")
    value = table[name]
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise FolderError(f"config.json has {name}={value!r}; it must be of type {kind.__name__}")
    return value


def choice(name: str, value: Any, *, choices: Mapping[str, T]) -> T:
    """What a config's word stands for. Raises FolderError listing the words it could have been."""
    if not isinstance(value, str) or value not in choices:
        raise FolderError(f"config.json has {name}={value!r}; this can be {', '.join(choices)}")
    return choices[value]


def as_stored(name: str) -> str:
    return name


class Tensors:
    """The arrays of a folder's safetensors under the names we look for; nothing is loaded before `take`.

    One file, model.safetensors, or else several with model.safetensors.index.json, whose `weight_map` says
    in which file each tensor lies.
    """

    def __init__(self, folder: Path, rename: Callable[[str], str] = as_stored):
        """`rename` turns a stored name into the one we look for. Raises FolderError if unreadable."""
        files = files_of(folder)
        self._file = folder / INDEX if len(files) > 1 else next(iter(files))
        self._stored: dict[str, tuple[Path, str]] = {}
        self._headers = {file: header_of(file) for file in files}
        for file, promised in files.items():
            names = list(self._headers[file])
            if missing := sorted(promised - set(names)):
                raise FolderError(f"{file} lacks {listed(missing)}, which {INDEX} says is there")
            for name in names:
                other, clash = self._stored.setdefault(rename(name), (file, name))
                if other != file:
                    raise FolderError(f"{name} lies in {file} and in {other}; keep one of them")
                if clash != name:
                    raise FolderError(
                        f"{file} holds {clash} and {name}, two names for one tensor; keep one of them"
                    )

    def __contains__(self, name: str) -> bool:
        return name in self._stored

    def shape(self, name: str) -> Shape:
        file, stored = self._stored[name]
        return tuple(self._headers[file][stored]["shape"])

    def take(self, shapes: Mapping[str, Shape], *, ignored: tuple[str, ...] = ()) -> dict[str, Array]:
        """Exactly these arrays, in float64. Names that start with one of `ignored` may be there unread.

        Raises FolderError naming the tensors that are missing, unknown, of another shape, or of a number
        format that is not read.
        """
        missing = [name for name in shapes if name not in self._stored]
        if missing:
            raise FolderError(f"{self._file} lacks {listed(missing)}")
        unknown = [name for name in self._stored if name not in shapes and not name.startswith(ignored)]
        if unknown:
            raise FolderError(
                f"{self._file} holds tensors that its config.json does not explain: {listed(unknown)}"
            )
        found = {name: self.shape(name) for name in shapes}
        wrong = [
            f"{name} is {found[name]}, not {shapes[name]}" for name in shapes if found[name] != shapes[name]
        ]
        if wrong:
            raise FolderError(f"{self._file} does not fit its config.json: {listed(wrong)}")
        return {name: self._array(name) for name in shapes}

    def _array(self, name: str) -> Array:
        file, stored = self._stored[name]
        entry = self._headers[file][stored]
        if entry["dtype"] not in READABLE:
            raise FolderError(
                f"{file} stores {stored} as {entry['dtype']}, which is not read here; "
                f"save the model as one of {', '.join(READABLE.values())}"
            )
        return numbers(file, entry)


def files_of(folder: Path) -> dict[Path, set[str]]:
    """The files that hold the tensors, each with the names that the index, if there is one, promises."""
    whole, index = folder / "model.safetensors", folder / INDEX
    if whole.is_file():
        return {whole: set()}
    if not index.is_file():
        raise FolderError(
            f"{folder} has no {whole.name} and no {INDEX}; other weight formats are not read here"
        )
    try:
        table = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        pairs = [(str(name), str(file)) for name, file in table.items()]
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise FolderError(f"{index} has no weight_map from tensors to files: {problem!r}") from problem
    files: dict[Path, set[str]] = {}
    for name, file in pairs:
        if Path(file).name != file or not (folder / file).is_file():
            raise FolderError(f"{index} says that {name} lies in {file}, and no such file is in the folder")
        files.setdefault(folder / file, set()).add(name)
    if not files:
        raise FolderError(f"{index} has no weight_map from tensors to files: it is empty")
    return files


def header_of(path: Path) -> dict[str, Any]:
    """Every tensor's kind of numbers (dtype), shape, and first and last byte counted from the file's start.

    The file is 8 bytes with the length of a JSON header, the header, and the tensors' bytes. It is read and
    never mapped: whoever cuts a mapped file short ends the process that reads it.
    """
    try:
        with path.open("rb") as file:
            start = 8 + int.from_bytes(file.read(8), "little")
            whole = path.stat().st_size
            header = json.loads(file.read(min(start, whole) - 8))
        header.pop("__metadata__", None)
        for entry in header.values():
            first, end = entry["data_offsets"] = [start + place for place in entry["data_offsets"]]
            if not start <= first <= end <= whole or min(entry["shape"], default=0) < 0:
                raise ValueError(f"bytes {first} to {end} in a file of {whole}")
            entry["dtype"] = str(entry["dtype"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise FolderError(f"{path} is not a readable safetensors file: {problem}") from problem
    return header


def numbers(path: Path, entry: Mapping[str, Any]) -> Array:
    """A tensor's numbers. NumPy has no bfloat16, but it is the upper half of a float32: zeros go below."""
    (first, end), kind = entry["data_offsets"], READABLE[entry["dtype"]]
    with path.open("rb") as file:
        file.seek(first)
        content = file.read(end - first)
    try:
        if kind == "bfloat16":
            found = (np.frombuffer(content, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            found = np.frombuffer(content, np.dtype(kind).newbyteorder("<"))
        return found.astype(np.float64).reshape(entry["shape"])
    except ValueError as problem:
        raise FolderError(f"{path} is not a readable safetensors file: {problem}") from problem


def two(name: str, *weight: int, bias: bool = True) -> dict[str, Shape]:
    """The shapes of a weight and, where it has one, its bias."""
    shapes: dict[str, Shape] = {f"{name}.weight": weight}
    return shapes | {f"{name}.bias": weight[:1]} if bias else shapes


def affine(arrays: Mapping[str, Array], name: str) -> Affine:
    return Affine(arrays[f"{name}.weight"], arrays.get(f"{name}.bias"))


def possible(arrays: Mapping[str, Array], name: str) -> Affine | None:
    """As `affine`; None where the model has no such layer."""
    return affine(arrays, name) if f"{name}.weight" in arrays else None


def thirds(stacked: Affine) -> list[Affine]:
    """Query, key and value, which are stored one below the other as one layer."""
    biases = [None] * 3 if stacked.bias is None else np.split(stacked.bias, 3)
    return [Affine(*pair) for pair in zip(np.split(stacked.weight, 3), biases, strict=True)]


def listed(names: list[str]) -> str:
    """The names in one line; of a very long list the first eight and how many more."""
    rest = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + rest
