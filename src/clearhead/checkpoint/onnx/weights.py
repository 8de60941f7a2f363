"""The weights of a graph that was exported with its modules' names and then quantised to whole numbers.

Source: ONNX's operators DequantizeLinear, `(x − zero point) · scale`, and MatMulInteger, which multiplies
`a − its zero point` and `b − its zero point` as whole numbers; a Mul behind it brings in both scales. Where a
weight lies, and what belongs to it, is read off the operations, not guessed from the names of tensors.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from clearhead.checkpoint.onnx.blocks import Blocks, in_blocks
from clearhead.checkpoint.onnx.graph import Graph, Node, Numbers
from clearhead.errors import FolderError

READ = "MatMulInteger, MatMulNBits and DequantizeLinear"
THROUGH = ("Gather", "Transpose", "Unsqueeze", "Reshape", "Identity")  # these move numbers and change none

WAY = 8  # the most operations between a table and what makes float32 of its rows; here two


@dataclass(frozen=True)
class Weight:
    """Numbers as they are stored, and what makes float32 of them."""

    stored: Numbers
    scale: Numbers | None = None  # one, or one a column; None: they are float32
    zero: Numbers | None = None
    turned: bool = False
    """Whether rows and columns are to be exchanged: published matrices have a row for each output."""

    @property
    def shape(self) -> tuple[int, ...]:
        """As published."""
        return self.stored.shape[::-1] if self.turned else self.stored.shape

    def numbers(self) -> Numbers:
        """Float32, as published: whole numbers are subtracted as such, and one product is rounded."""
        numbers = self.stored
        if self.zero is not None:
            numbers = numbers.astype(np.int16) - self.zero  # of one byte each
        found = numbers.astype(np.float32)
        if self.scale is not None:
            found *= self.scale
        return found.T if self.turned else found


class Parts(NamedTuple):
    """The names of what a weight is made of; without a zero point, "". And whether it is turned."""

    numbers: str
    scale: str
    zero: str
    turned: bool


def weights(graph: Graph) -> dict[str, Weight | Blocks]:
    """All weights by the names that their modules had. `FolderError` names a tensor that is used twice, or
    in no way that is read."""
    users: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            users.setdefault(name, []).append(node)
    makers = {output: node for node in graph.nodes for output in node.outputs}
    found: dict[str, Weight | Blocks] = {}
    used: set[str] = set()
    for name, parts in (*_products(graph, users, makers=makers), *_looked_up(graph, makers)):
        tensors = {part for part in (parts.numbers, parts.scale, parts.zero) if part}
        if name in found or used & tensors:
            raise FolderError(f"{graph.path}: {name!r:.80} is made twice, or of what others are made of too")
        used |= tensors
        found[name] = _weight(graph, name, parts=parts)
    for name, tensors, blocks in in_blocks(graph):
        if name in found or used & tensors:
            raise FolderError(f"{graph.path}: {name!r:.80} is made twice, or of what others are made of too")
        used |= tensors
        found[name] = blocks
    for name, numbers in graph.tensors.items():
        if name in used:
            continue
        if numbers.dtype.kind != "f" or name in found:
            raise FolderError(f"{graph.path}: {name!r:.80} is used by no operation that is read ({READ})")
        found[name] = Weight(numbers)
    return found


def _products(
    graph: Graph, users: Mapping[str, list[Node]], *, makers: Mapping[str, Node]
) -> Iterator[tuple[str, Parts]]:
    """Matrices that whole numbers are multiplied by: the name is that of the module."""
    for node in graph.nodes:
        if node.op != "MatMulInteger" or len(node.inputs) < 2 or node.inputs[1] not in graph.tensors:
            continue
        zero = node.inputs[3] if len(node.inputs) > 3 else ""
        name = ".".join(node.name.strip("/").split("/")[:-1]) + ".weight"
        scale = _scale(graph, node, users=users, makers=makers)
        yield name, Parts(node.inputs[1], scale, zero, True)


def _scale(graph: Graph, node: Node, *, users: Mapping[str, list[Node]], makers: Mapping[str, Node]) -> str:
    """The scale of a matrix: behind the product stand a Cast and a Mul, whose other side is the product of
    both scales."""
    cast = _only(node, "Cast", users=users)
    scaled = cast and _only(cast, "Mul", users=users)
    for side in scaled.inputs[:2] if scaled else ():
        both = makers.get(side)
        if both and both.op == "Mul":
            known = [name for name in both.inputs[:2] if name in graph.tensors]
            if len(known) == 1:
                return known[0]
    raise FolderError(f"{graph.path}: {node.name!r:.80} is not followed by a Cast and a Mul with its scale")


def _only(node: Node, op: str, *, users: Mapping[str, list[Node]]) -> Node | None:
    """The one operation that takes what another makes, if it is of that kind."""
    found = [user for output in node.outputs for user in users.get(output, ())]
    return found[0] if len(found) == 1 and found[0].op == op else None


def _looked_up(graph: Graph, makers: Mapping[str, Node]) -> Iterator[tuple[str, Parts]]:
    """Tables whose rows are looked up and then made float32: the name is the tensor's own."""
    for node in graph.nodes:
        if node.op != "DequantizeLinear" or len(node.inputs) < 2:
            continue
        source = node.inputs[0]
        for _ in range(WAY):
            if (before := makers.get(source)) is None or before.op not in THROUGH or not before.inputs:
                break
            source = before.inputs[0]
        if source in graph.tensors:
            zero = node.inputs[2] if len(node.inputs) > 2 else ""
            yield source.removesuffix("_quantized"), Parts(source, node.inputs[1], zero, False)


def _weight(graph: Graph, name: str, *, parts: Parts) -> Weight:
    """What a weight is made of, each part there and of a shape that fits."""
    needed = [parts.numbers, parts.scale, *([parts.zero] if parts.zero else [])]
    if missing := [part for part in needed if part not in graph.tensors]:
        raise FolderError(f"{graph.path} lacks {missing[0]!r:.80}, of which {name!r:.80} is made")
    stored, scale, turned = graph.tensors[parts.numbers], graph.tensors[parts.scale], parts.turned
    zero = graph.tensors[parts.zero] if parts.zero else None
    whole = stored.dtype.kind != "f" and (zero is None or zero.dtype == stored.dtype)
    if not whole or scale.dtype.kind != "f":
        raise FolderError(f"{graph.path}: {name!r:.80} is not of whole numbers with a scale in float32")
    fits = [(), (1,), *([stored.shape[-1:]] if turned else [])]
    for part in (scale, zero):
        if part is not None and part.shape not in fits:
            raise FolderError(
                f"{graph.path}: {name!r:.80} has the shape {stored.shape} and a scale or zero point of the "
                f"shape {part.shape}; read is one for all{', or one a column' if turned else ''}"
            )
    if not np.isfinite(scale).all():
        raise FolderError(f"{graph.path}: a scale of {name!r:.80} is no finite number; fetch it again")
    if turned and stored.ndim != 2:
        raise FolderError(f"{graph.path}: {name!r:.80} has the shape {stored.shape} and is no matrix")
    return Weight(stored, scale, zero, turned)
