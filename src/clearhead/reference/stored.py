"""What a model folder stores: the fields of config.json and the arrays of model.safetensors."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from safetensors import SafetensorError, safe_open

from clearhead.errors import FolderError
from clearhead.reference.layers import Affine, Array

Shape = tuple[int, ...]
T = TypeVar("T")

READABLE = {"F16": "float16", "F32": "float32", "F64": "float64"}


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
    """The arrays of one safetensors file under the names we look for; nothing is loaded before `take`."""

    def __init__(self, file: Path, rename: Callable[[str], str] = as_stored):
        """`rename` turns a stored name into the one we look for. Raises FolderError if unreadable."""
        if not file.is_file():
            raise FolderError(f"{file.parent} has no {file.name}; other weight formats are not read here")
        try:
            self._open = safe_open(file, framework="numpy")
        except SafetensorError as problem:
            raise FolderError(f"{file} is not a readable safetensors file: {problem}") from problem
        self._file = file
        self._stored: dict[str, str] = {}
        for name in self._open.keys():  # noqa: SIM118 - not a dict
            clash = self._stored.setdefault(rename(name), name)
            if clash != name:
                raise FolderError(
                    f"{file} holds {clash} and {name}, two names for one tensor; keep one of them"
                )

    def __contains__(self, name: str) -> bool:
        return name in self._stored

    def shape(self, name: str) -> Shape:
        return tuple(self._open.get_slice(self._stored[name]).get_shape())

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
        stored = self._stored[name]
        kind = self._open.get_slice(stored).get_dtype()
        if kind == "BF16":
            return self._bfloat16(stored)
        if kind not in READABLE:
            raise FolderError(
                f"{self._file} stores {stored} as {kind}, which NumPy cannot read; "
                f"save the model as one of {', '.join(READABLE.values())}"
            )
        return self._open.get_tensor(stored).astype(np.float64)

    def _bfloat16(self, stored: str) -> Array:
        """NumPy has no bfloat16, but it is the upper half of a float32: read the bytes and put zeros below.

        The file is 8 bytes with the length of a JSON header, the header, and the tensors' bytes.
        """
        with self._file.open("rb") as file:
            start = int.from_bytes(file.read(8), "little")
            entry = json.loads(file.read(start))[stored]
            first, end = entry["data_offsets"]
            file.seek(8 + start + first)
            halves = np.frombuffer(file.read(end - first), dtype="<u2")
        return (halves.astype(np.uint32) << 16).view(np.float32).astype(np.float64).reshape(entry["shape"])


def two(name: str, *weight: int) -> dict[str, Shape]:
    """The shapes of a weight and its bias."""
    return {f"{name}.weight": weight, f"{name}.bias": weight[:1]}


def affine(arrays: Mapping[str, Array], name: str) -> Affine:
    return Affine(arrays[f"{name}.weight"], arrays[f"{name}.bias"])


def listed(names: list[str]) -> str:
    """The names in one line; of a very long list the first eight and how many more."""
    rest = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + rest
