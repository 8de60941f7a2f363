"""The file itself: a header, facts by key, a table of tensors, their numbers.

Source: the format's specification (ggml, `docs/gguf.md`), versions 2 and 3, little-endian. Nothing the file
says is believed before it is compared with the file's size: a damaged or hostile one costs neither memory nor
time.
"""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from clearhead.checkpoint.gguf.blocks import KINDS, OTHERS, Floats, Kind, dequantised
from clearhead.errors import FolderError

MAGIC, VERSIONS = b"GGUF", (2, 3)
HEADER = 1 << 26  # the most bytes of facts and table; large vocabularies take about a tenth of that
AXES = 4  # the most a tensor has
FLOAT, STRING, ARRAY = 6, 8, 9
# Numbers by the number that stands for their type, as `struct` and numpy spell them.
CODES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", list: "a list"}


@dataclass(frozen=True)
class Entry:
    """A tensor of the table: its name, its shape in the published order (rows first), and where it lies."""

    name: str
    shape: tuple[int, ...]
    kind: Kind
    start: int

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return math.prod(self.shape) // self.kind.numbers * self.kind.size


@dataclass(frozen=True)
class File:
    """A GGUF file whose header was read and found to fit the file."""

    path: Path
    facts: Mapping[str, Any]
    entries: Mapping[str, Entry]

    def fact(self, key: str, kind: type, *, default: Any = ...) -> Any:
        """A fact of one type (int, float, str, bool or list); without a default it must be there."""
        value = self.facts.get(key)
        if value is None:
            if default is ...:
                raise FolderError(f"{self.path} does not say {key}, which a model folder needs")
            return default
        if kind is float and type(value) is int:
            value = float(value)
        elif kind is list and isinstance(value, np.ndarray):
            value = value.tolist()
        if type(value) is not kind or value in (math.inf, -math.inf) or value != value:
            raise FolderError(f"{self.path}: {key} is {value!r:.60}, not {WORDS[kind]}")
        return value

    def numbers(self, entry: Entry) -> Floats:
        """The numbers of a tensor, float32 in its shape."""
        raw = np.empty(entry.size, np.uint8)
        with self.path.open("rb") as file:
            file.seek(entry.start)
            if file.readinto(raw) != entry.size:  # type: ignore[arg-type]
                raise FolderError(f"{self.path} has become shorter while it was read")
        return dequantised(raw, entry.kind).reshape(entry.shape)


def read(path: str | Path) -> File:
    """Read a file's facts and table.

    Raises `FolderError` that names what is damaged, too new, or stored in a way that is not read.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            return _read(_Header(file, path))
    except OSError as error:
        raise FolderError(f"{path} cannot be read ({error.strerror})") from error


class _Header:
    """Reads on from the beginning of a file, never past its end."""

    def __init__(self, file: BinaryIO, path: Path):
        self.file, self.path = file, path
        self.size = file.seek(0, 2)
        self.left = min(self.size, HEADER)
        file.seek(0)

    def take(self, size: int) -> bytes:
        """The next bytes."""
        if size > self.left:
            if self.size > HEADER:
                raise self.broken(f"its header would be longer than {HEADER >> 20} MiB")
            raise self.broken(f"it ends early, after {self.size:,} bytes")
        self.left -= size
        return self.file.read(size)

    def broken(self, why: str) -> FolderError:
        return FolderError(f"{self.path} is damaged: {why}; fetch it again")

    def number(self, code: str) -> Any:
        """One number; the `struct` code says which."""
        code = "<" + code
        (value,) = struct.unpack(code, self.take(struct.calcsize(code)))
        return value

    def text(self) -> str:
        """A string: its length, then UTF-8."""
        raw = self.take(self.number("Q"))
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise self.broken(f"{raw[:40]!r} is no text") from error

    def value(self, kind: int) -> Any:
        """The value of a fact: a number, a string, or a list of either."""
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            inner, count = self.number("I"), self.number("Q")
            if inner == STRING:
                return self._texts(count)
            if inner in CODES:
                dtype = np.dtype("<" + CODES[inner])
                return np.frombuffer(self.take(count * dtype.itemsize), dtype)
            raise self.broken(f"a list is of type {inner}, which is not known")
        if kind not in CODES:
            raise self.broken(f"a fact is of type {kind}, which is not known")
        value = self.number(CODES[kind])
        # The shortest decimal of a float32 is what the model's author wrote: 1e-05, not 9.99999974e-06.
        return float(str(np.float32(value))) if kind == FLOAT else value

    def _texts(self, count: int) -> list[str]:
        if count > self.left // 8:  # each begins with its length
            raise self.broken(f"a list of {count:,} texts is longer than the file")
        return [self.text() for _ in range(count)]

    def entry(self) -> tuple[str, tuple[int, ...], int, int]:
        """A row of the table: name, shape, kind and offset."""
        name, axes = self.text(), self.number("I")
        if not 1 <= axes <= AXES:
            raise self.broken(f"{name!r:.60} has {axes} axes")
        shape = tuple(self.number("Q") for _ in range(axes))
        return name, shape[::-1], self.number("I"), self.number("Q")


def _read(header: _Header) -> File:
    path = header.path
    if (found := header.take(min(len(MAGIC), header.left))) != MAGIC:
        raise FolderError(f"{path} is not a GGUF file: it begins with {found!r}, not {MAGIC!r}")
    version = header.number("I")
    if version not in VERSIONS:
        swapped = version >> 24 in VERSIONS and not version & 0xFFFFFF
        what = "in big-endian order" if swapped else f"of version {version}"
        raise FolderError(f"{path} is a GGUF file {what}; read are versions 2 and 3, little-endian")
    tensors, pairs = header.number("Q"), header.number("Q")
    facts: dict[str, Any] = {}
    for _ in range(pairs):
        key = header.text()
        if key in facts:
            raise header.broken(f"it says {key!r:.60} twice")
        facts[key] = header.value(header.number("I"))
    parts = facts.get("split.count")
    if type(parts) is int and parts > 1:
        raise FolderError(
            f"{path} is one of {parts} parts of a model; join them first, "
            "with llama.cpp: llama-gguf-split --merge"
        )
    rows = [header.entry() for _ in range(_small(tensors, header))]
    alignment = facts.get("general.alignment", 32)
    if type(alignment) is not int or not 0 < alignment <= HEADER or alignment & (alignment - 1):
        raise header.broken(f"general.alignment is {alignment!r:.60}, not a power of two")
    data = -(-header.file.tell() // alignment) * alignment
    entries: dict[str, Entry] = {}
    for name, shape, kind, offset in rows:
        if name in entries:
            raise header.broken(f"it holds {name!r:.60} twice")
        entries[name] = _entry(header, (name, shape, kind, data + offset))
    _check_apart(header, entries)
    return File(path, facts, entries)


def _small(count: int, header: _Header) -> int:
    if count > header.left // 24:  # the least a row of the table takes
        raise header.broken(f"a table of {count:,} tensors is longer than the file")
    return count


def _entry(header: _Header, row: tuple[str, tuple[int, ...], int, int]) -> Entry:
    name, shape, kind, start = row
    if kind not in KINDS:
        stored = OTHERS.get(kind, f"type {kind}")
        known = ", ".join(known.name for known in KINDS.values())
        raise FolderError(
            f"{header.path}: {name!r:.60} is stored as {stored}, which is not read; read are {known}"
        )
    entry = Entry(name, shape, KINDS[kind], start)
    if min(shape) < 1 or shape[-1] % entry.kind.numbers:
        raise header.broken(f"{name!r:.60} has the shape {shape}, which {entry.kind.name} cannot hold")
    if start + entry.size > header.size:
        raise header.broken(f"it ends early, within {name!r:.60}")
    return entry


def _check_apart(header: _Header, entries: Mapping[str, Entry]) -> None:
    """No two tensors share bytes; else a small file could be made into folders without end."""
    for first, second in pairwise(sorted(entries.values(), key=lambda entry: entry.start)):
        if first.start + first.size > second.start:
            raise header.broken(f"{first.name!r:.60} and {second.name!r:.60} overlap")
