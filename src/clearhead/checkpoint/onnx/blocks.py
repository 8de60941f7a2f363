"""Matrices of whole numbers of 4 bits, in blocks that have a scale each.

Source: ONNX Runtime's operator MatMulNBits with `bits` 4: of each row of the published matrix, blocks of 32
numbers, two a byte, the first in the lower half; a number stands for `(number − 8) · scale of its block`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from clearhead.checkpoint.onnx.graph import Graph, Numbers
from clearhead.errors import FolderError

OP = "MatMulNBits"
BYTES, MIDDLE = 16, 8  # of a block; what stands for 0


@dataclass(frozen=True)
class Blocks:
    """A matrix as it is stored: the bytes of each block of each row, and its scale."""

    stored: Numbers  # (rows, blocks, 16)
    scale: Numbers  # (rows, blocks)

    @property
    def shape(self) -> tuple[int, ...]:
        """As published."""
        rows, blocks, size = self.stored.shape
        return rows, 2 * blocks * size

    def numbers(self) -> Numbers:
        """Float32, as published."""
        halves = np.stack([self.stored & 0x0F, self.stored >> 4], -1).reshape(*self.stored.shape[:2], -1)
        whole = halves.astype(np.int8) - MIDDLE
        return (whole.astype(np.float32) * self.scale[..., None]).reshape(self.shape)


def in_blocks(graph: Graph) -> Iterator[tuple[str, set[str], Blocks]]:
    """Matrices that are stored so, with the names of their modules and of what they are made of.

    `FolderError` for blocks of another kind.
    """
    for node in graph.nodes:
        if node.op != OP:
            continue
        name = ".".join(node.name.strip("/").split("/")[:-1]) + ".weight"
        if len([part for part in node.inputs if part]) != 3:
            raise FolderError(f"{graph.path}: {name!r:.80} has zero points or more, which is not read")
        parts = node.inputs[1:3]
        if missing := [part for part in parts if part not in graph.tensors]:
            raise FolderError(f"{graph.path} lacks {missing[0]!r:.80}, of which {name!r:.80} is made")
        stored, scale = (graph.tensors[part] for part in parts)
        fits = stored.dtype == np.uint8 and stored.ndim == 3 and stored.shape[-1] == BYTES
        if not fits or scale.dtype.kind != "f" or scale.size != stored.size // BYTES:
            raise FolderError(
                f"{graph.path}: {name!r:.80} has the shape {stored.shape}, its scales {scale.shape}; read "
                "are blocks of 32 numbers of 4 bits with a scale each"
            )
        if not np.isfinite(scale).all():
            raise FolderError(f"{graph.path}: a scale of {name!r:.80} is no finite number; fetch it again")
        yield name, set(parts), Blocks(stored, scale.reshape(stored.shape[:2]))
