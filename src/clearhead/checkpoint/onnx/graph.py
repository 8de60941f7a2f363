"""The file itself: of a graph, the tensors stored in it and its operations.

Source: ONNX's `onnx.proto` (IR version 8), whose numbers of fields stand below. Nothing the file says is
believed before it is compared with the bytes that are there.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clearhead.errors import FolderError
from clearhead.text.wire import fields, number

MODEL_GRAPH = 7
GRAPH_NODE, GRAPH_TENSOR, GRAPH_SPARSE = 1, 5, 15
NODE_INPUT, NODE_OUTPUT, NODE_NAME, NODE_OP = 1, 2, 3, 4
DIMS, DATA_TYPE, FLOATS, INTS, NAME, RAW, LOCATION = 1, 2, 4, 5, 8, 9, 14
KINDS: dict[int, np.dtype[Any]] = {1: np.dtype("<f4"), 2: np.dtype("u1"), 3: np.dtype("i1")}
NAMES = {
    1: "FLOAT", 2: "UINT8", 3: "INT8", 4: "UINT16", 5: "INT16", 6: "INT32", 7: "INT64", 8: "STRING",
    9: "BOOL", 10: "FLOAT16", 11: "DOUBLE", 12: "UINT32", 13: "UINT64", 16: "BFLOAT16", 21: "UINT4",
    22: "INT4",
}  # fmt: skip
AXES = 4  # the most a tensor has
Numbers = NDArray[Any]


class Node(NamedTuple):
    """An operation: what it does, its own name, and the names of what goes in and comes out."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Graph:
    """A file whose tensors and operations were read and found to fit it."""

    path: Path
    tensors: Mapping[str, Numbers]
    """By name, as they are stored; the bytes of the file itself where they lie there in one piece."""
    nodes: Sequence[Node]


def read(path: str | Path) -> Graph:
    """Read a file's tensors and operations.

    Raises `FolderError` that names what is damaged, or stored in a way that is not read.
    """
    path = Path(path)
    try:
        raw = memoryview(path.read_bytes())
    except OSError as error:
        raise FolderError(f"{path} cannot be read ({error.strerror})") from error
    try:
        return _read(raw, path)
    except (ValueError, TypeError) as error:  # lengths that lie, numbers where texts should be, no UTF-8
        raise FolderError(f"{path} is damaged: {error}; fetch it again") from error


def _read(raw: memoryview, path: Path) -> Graph:
    graphs = [value for name, value in fields(raw) if name == MODEL_GRAPH]
    if len(graphs) != 1:
        raise ValueError(f"it holds {len(graphs)} graphs, not one")
    tensors: dict[str, Numbers] = {}
    nodes: list[Node] = []
    made: set[str] = set()
    for kind, value in fields(graphs[0]):
        if kind == GRAPH_NODE:
            nodes.append(node := _node(value))
            if twice := made.intersection(node.outputs):
                raise ValueError(f"two operations make {min(twice)!r:.80}")
            made.update(node.outputs)
        elif kind == GRAPH_TENSOR:
            name, numbers = _tensor(value, path)
            if name in tensors:
                raise ValueError(f"it holds {name!r:.80} twice")
            tensors[name] = numbers
        elif kind == GRAPH_SPARSE:
            raise FolderError(f"{path} holds a sparse tensor, which is not read")
    return Graph(path, tensors, nodes)


def _node(message: memoryview) -> Node:
    said: dict[int, list[str]] = {field: [] for field in (NODE_INPUT, NODE_OUTPUT, NODE_NAME, NODE_OP)}
    for field, value in fields(message):
        if field in said:
            said[field].append(_text(value))
    op, name = ("".join(said[field][-1:]) for field in (NODE_OP, NODE_NAME))
    return Node(op, name, tuple(said[NODE_INPUT]), tuple(out for out in said[NODE_OUTPUT] if out))


def _text(value: Any) -> str:
    return str(value, "utf-8")


def _tensor(message: memoryview, path: Path) -> tuple[str, Numbers]:
    """A tensor's name and its numbers, which lie as bytes, as floats, or (small whole ones) as numbers in 7
    bits a byte."""
    found: dict[int, list[Any]] = {}
    for field, value in fields(message):
        found.setdefault(field, []).append(value)
    name = _text(found.get(NAME, [b""])[-1])
    kind = found.get(DATA_TYPE, [0])[-1]
    if kind not in KINDS:
        read = ", ".join(NAMES[known] for known in KINDS)
        stored = NAMES.get(kind, f"type {kind}")
        raise FolderError(f"{path}: {name!r:.80} is stored as {stored}, which is not read; read are {read}")
    if found.get(LOCATION, [0])[-1]:
        raise FolderError(f"{path}: {name!r:.80} lies in another file, which is not read")
    shape, dtype = tuple(_integers(found.get(DIMS, []), most=AXES)), KINDS[kind]
    count = math.prod(shape)
    if len(shape) > AXES or not all(0 < size < 1 << 63 for size in shape):
        raise ValueError(f"{name!r:.80} has the shape {shape!s:.60}")
    if INTS in found and dtype.kind in "iu":
        return name, _small(found[INTS], count, dtype=dtype, name=name).reshape(shape)
    pieces = found.get(RAW, [])[-1:] or found.get(FLOATS, []) * (dtype.kind == "f")
    size = sum(map(len, pieces))
    if size != count * dtype.itemsize:
        raise ValueError(f"{name!r:.80} has the shape {shape} of {NAMES[kind]} and {size:,} bytes")
    numbers = np.frombuffer(pieces[0] if len(pieces) == 1 else b"".join(pieces), dtype)
    return name, numbers.reshape(shape)


def _small(values: Sequence[Any], count: int, *, dtype: np.dtype[Any], name: str) -> Numbers:
    """Whole numbers of one byte that are stored as numbers of 32 bits."""
    integers = np.array(_integers(values, most=count), np.int64)
    limits = np.iinfo(dtype)
    if len(integers) != count or integers.min() < limits.min or integers.max() > limits.max:
        raise ValueError(f"{name!r:.80} should hold {count:,} numbers from {limits.min} to {limits.max}")
    return integers.astype(dtype)


def _integers(values: Sequence[Any], *, most: int) -> list[int]:
    """Signed numbers of a repeated field, one by one or many in one piece; no more than one beyond `most`."""
    found: list[int] = []
    for value in values:
        if isinstance(value, int):
            found.append(value)
            continue
        place = 0
        while place < len(value) and len(found) <= most:
            integer, place = number(value, place)
            found.append(integer)
    return [integer - (1 << 64) if integer >> 63 else integer for integer in found[: most + 1]]
