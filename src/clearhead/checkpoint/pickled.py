"""Weights in a pickle (`pytorch_model.bin`), read as a table of tensors and nothing else.

A pickle is a program for a small machine of a stack and a memory. Python's own reader imports and calls
whatever the program names. Here `pickletools` only lists the instructions, and this file carries them out
on strings, numbers, tuples, lists, dicts and tensors. A name stays a word that is looked up in a short list:
what is not on it is refused, and nothing is imported or called.

Layouts: PyTorch's zip archive (since 1.6) and the stream of pickles before it.
"""

import os
import pickletools
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from io import BufferedReader, FileIO
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import FolderError

STORAGES = {
    f"torch {name}Storage": dtype
    for name, dtype in {
        "Float": torch.float32, "Double": torch.float64, "Half": torch.float16, "BFloat16": torch.bfloat16,
        "Long": torch.int64, "Int": torch.int32, "Short": torch.int16, "Char": torch.int8,
        "Byte": torch.uint8, "Bool": torch.bool,
    }.items()
}  # fmt: skip
TABLE, TENSOR, PARAMETER = (
    "collections OrderedDict",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_parameter",
)
ALLOWED = {TABLE, TENSOR, PARAMETER, *STORAGES}
MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001  # of the stream of pickles
BROKEN: tuple[type[Exception], ...] = (
    ArithmeticError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)
BROKEN += (AttributeError, struct.error, zipfile.BadZipFile, NotImplementedError)
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
SAID = {"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE"}


class Name(str):
    """The name of something outside of the pickle: a word, never the thing."""


@dataclass(frozen=True)
class Asked:
    """The numbers that a tensor looks at: their kind, their name in the file, how many."""

    kind: torch.dtype
    key: str
    count: int

    @property
    def size(self) -> int:
        """In bytes."""
        return self.count * self.kind.itemsize


class Refused(Exception):
    """The pickle asks for more than tensors."""


def read_pickle(path: Path) -> dict[str, Tensor]:
    """The tensors of a pickle by name.

    Raises `FolderError` naming the file: broken, or asking for anything but a flat table of tensors.
    """
    try:
        table = _from_zip(path) if zipfile.is_zipfile(path) else _from_stream(path)
        if not isinstance(table, dict):
            raise Refused(f"holds a {type(table).__name__}")
        for name, value in table.items():
            if not isinstance(name, str) or not isinstance(value, Tensor):
                raise Refused(f"holds {name!r:.80}, which is no tensor ({type(value).__name__})")
    except Refused as error:
        raise FolderError(
            f"{path} {error}; only a flat table of tensors is read from a pickle, and nothing in it was run"
        ) from error
    except BROKEN as error:
        raise FolderError(
            f"{path} is broken or cut short ({type(error).__name__}: {error}); fetch the folder again"
        ) from error
    return table


def _from_zip(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        (listing,) = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        root = listing.removesuffix("data.pkl")
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
            raise Refused("is compressed")
        if f"{root}byteorder" in archive.namelist() and archive.read(f"{root}byteorder") != b"little":
            raise Refused("has its bytes in another order than little-endian")
        stored: dict[str, Tensor] = {}

        def storage(asked: Asked) -> Tensor:
            if asked.key not in stored:
                entry = archive.getinfo(f"{root}data/{asked.key}")
                if entry.file_size != asked.size:
                    raise ValueError(f"storage {asked.key} is not {asked.count} numbers of {asked.kind}")
                stored[asked.key] = _numbers(archive.read(entry), asked.kind)
            return _checked(stored[asked.key], asked)

        with archive.open(listing) as file:
            return _carry_out(file, storage)


def _from_stream(path: Path) -> Any:
    """Magic number, protocol, machine, table, list of storages; then the count and numbers of each."""
    size = path.stat().st_size
    stored: dict[str, Tensor] = {}

    def storage(asked: Asked) -> Tensor:
        if not 0 <= asked.size <= size:
            raise ValueError(f"storage {asked.key} is longer than the file")
        if asked.key not in stored:
            stored[asked.key] = torch.empty(asked.count, dtype=asked.kind)
        return _checked(stored[asked.key], asked)

    with Bounded(FileIO(path)) as file:
        if _carry_out(file, storage) != MAGIC or _carry_out(file, storage) != PROTOCOL:
            raise ValueError("not a file of PyTorch")
        if _carry_out(file, storage).get("little_endian") is not True:
            raise Refused("has its bytes in another order than little-endian")
        table = _carry_out(file, storage)
        keys = _carry_out(file, storage)
        if sorted(keys) != sorted(stored):
            raise ValueError("its list of storages does not fit its tensors")
        for key in keys:
            (count,) = struct.unpack("<q", file.read(8))
            asked = Asked(stored[key].dtype, key, count)
            numbers = _numbers(file.read(asked.size), asked.kind)
            _checked(stored[key], asked).copy_(_checked(numbers, asked))
        if file.read(1):
            raise ValueError("bytes after the last storage")
    return table


class Bounded(BufferedReader):
    """A file that takes room for no more than it holds, whatever length an instruction asks for."""

    def read(self, size: int | None = -1) -> bytes:
        """At most this many bytes."""
        most = os.fstat(self.fileno()).st_size
        return super().read(most if size is None or size < 0 else min(size, most))


def _numbers(content: bytes, kind: torch.dtype) -> Tensor:
    return torch.frombuffer(bytearray(content), dtype=kind) if content else torch.empty(0, dtype=kind)


def _checked(numbers: Tensor, asked: Asked) -> Tensor:
    if numbers.dtype != asked.kind or len(numbers) != asked.count:
        raise ValueError(f"storage {asked.key} is not {asked.count} numbers of {asked.kind}")
    return numbers


def _carry_out(file: Any, storage: Callable[[Asked], Tensor]) -> Any:
    """Carry out the pickle that an open file stands at; `storage` gives the numbers asked for."""
    stack: list[Any] = []
    marks: list[int] = []
    memory: dict[Any, Any] = {}

    def above() -> list[Any]:
        """What lies above the last mark, taken off."""
        place = marks.pop()
        found = stack[place:]
        del stack[place:]
        return found

    for instruction, said, _ in pickletools.genops(file):
        match instruction.name:
            case "PROTO" | "FRAME":
                pass
            case "MARK":
                marks.append(len(stack))
            case "BINPUT" | "LONG_BINPUT":
                memory[said] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(memory[said])
            case "EMPTY_DICT":
                stack.append({})
            case "EMPTY_LIST":
                stack.append([])
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                marks.append(len(stack) - int(instruction.name[-1]))
                stack.append(tuple(above()))
            case "TUPLE":
                stack.append(tuple(above()))
            case "APPEND" | "APPENDS":
                values = above() if instruction.name == "APPENDS" else [stack.pop()]
                stack[-1].extend(values)
            case "SETITEM" | "SETITEMS":
                if instruction.name == "SETITEM":
                    marks.append(len(stack) - 2)
                values = above()
                stack[-1].update(zip(values[::2], values[1::2], strict=True))
            case "GLOBAL":
                name = Name(said)
                if name not in ALLOWED:
                    raise Refused(f"asks for {name.replace(' ', '.')}")
                stack.append(name)
            case "BINPERSID":
                stack.append(_storage(stack.pop(), storage))
            case "REDUCE":
                arguments = stack.pop()
                stack.append(_made(stack.pop(), arguments))
            case "BUILD":
                stack.pop()  # attributes of the table (`_metadata`), no weights
                if not isinstance(stack[-1], dict):
                    raise Refused("gives attributes to a tensor")
            case "STOP":
                return stack.pop()
            case other if other in CONSTANTS:
                stack.append(CONSTANTS[other])
            case other if other in SAID:
                stack.append(said)
            case other:
                raise Refused(f"has the instruction {other}, which no table of tensors needs")
    raise EOFError("no end")


def _storage(said: Any, storage: Callable[[Asked], Tensor]) -> Tensor:
    word, kind, key, _, count, *view = said
    if word != "storage" or not isinstance(key, str) or type(count) is not int or view not in ([], [None]):
        raise ValueError(f"unknown storage {said!r:.80}")
    return storage(Asked(STORAGES[kind], key, count))


def _made(name: Any, arguments: Any) -> Any:
    """What a call of one of the few names stands for."""
    if not isinstance(name, Name) or not isinstance(arguments, tuple):
        raise ValueError("a call of something that is no name")
    if name == TABLE:
        return dict(*arguments)
    if name == PARAMETER:
        return arguments[0]
    if name != TENSOR:
        raise ValueError(f"a call of {name}")
    numbers, start, shape, stride, _, _, *metadata = arguments
    if any(metadata):  # such as {"neg": True}: the numbers are not as they stand
        raise Refused(f"says of a tensor {metadata[0]!r:.80}")
    if min([start, *shape, *stride], default=0) < 0 or len(shape) != len(stride):
        raise ValueError(f"a tensor of shape {shape}")
    last = start + sum((count - 1) * step for count, step in zip(shape, stride, strict=True))
    count = prod(shape)
    if count and (last >= len(numbers) or count > len(numbers)):
        raise ValueError(f"a tensor of shape {shape} beyond its storage")
    return numbers.as_strided(shape, stride, start if count else 0)
