"""How numbers lie in a GGUF file: plain, or in blocks that share a scale; read as float32.

Source: the block structures of ggml (`ggml-common.h`, MIT). A block of 32 has a half-precision scale, in some
kinds a minimum as well; a "K" block of 256 has a scale for each of its 8 or 16 groups, too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

STEP = 1 << 20  # numbers made at once, so that what is in between stays small


@dataclass(frozen=True)
class Kind:
    """One way to store numbers."""

    name: str
    numbers: int
    """How many numbers a block holds."""
    size: int
    """Its bytes."""
    read: Callable[[Bytes], NDArray[Any]]
    """Blocks [blocks, size] → numbers [blocks, numbers]."""


def dequantised(raw: Bytes, kind: Kind) -> Floats:
    """The numbers of whole blocks, as float32 [blocks · kind.numbers]."""
    blocks = raw.reshape(-1, kind.size)
    numbers = np.empty((len(blocks), kind.numbers), np.float32)
    step = STEP // kind.numbers
    with np.errstate(invalid="ignore"):  # a scale may be broken; who loads the model refuses such numbers
        for start in range(0, len(blocks), step):
            numbers[start : start + step] = kind.read(blocks[start : start + step])
    return numbers.reshape(-1)


def _plain(dtype: str) -> Callable[[Bytes], NDArray[Any]]:
    return lambda blocks: blocks.view(dtype)


def _bf16(blocks: Bytes) -> Floats:
    """The upper half of a float32."""
    return (blocks.view("<u2").astype(np.uint32) << 16).view(np.float32)


def _half(blocks: Bytes, place: int) -> Floats:
    """The half-precision number at a place of each block [blocks, 1]."""
    return blocks[:, place : place + 2].view("<f2").astype(np.float32)


def _fields(packed: Bytes, bits: int, *, run: int) -> Bytes:
    """Small numbers out of bytes: from each run of bytes first all lowest fields, then all next ones."""
    runs = packed.reshape(len(packed), -1, 1, run)
    shifts = np.arange(0, 8, bits, dtype=np.uint8).reshape(-1, 1)
    return ((runs >> shifts) & np.uint8((1 << bits) - 1)).reshape(len(packed), -1)


def _five(low: Bytes, high: Bytes) -> Bytes:
    """Numbers of five bits, the highest bits apart."""
    return low | high << np.uint8(4)


def _signed(blocks: Bytes, values: Bytes, *, middle: int) -> Floats:
    return _half(blocks, 0) * (values.astype(np.float32) - np.float32(middle))


def _raised(blocks: Bytes, values: Bytes) -> Floats:
    return _half(blocks, 0) * values.astype(np.float32) + _half(blocks, 2)


def _q4_0(blocks: Bytes) -> Floats:
    return _signed(blocks, _fields(blocks[:, 2:], 4, run=16), middle=8)


def _q4_1(blocks: Bytes) -> Floats:
    return _raised(blocks, _fields(blocks[:, 4:], 4, run=16))


def _q5_0(blocks: Bytes) -> Floats:
    low, high = _fields(blocks[:, 6:], 4, run=16), _fields(blocks[:, 2:6], 1, run=1)
    return _signed(blocks, _five(low, high), middle=16)


def _q5_1(blocks: Bytes) -> Floats:
    low, high = _fields(blocks[:, 8:], 4, run=16), _fields(blocks[:, 4:8], 1, run=1)
    return _raised(blocks, _five(low, high))


def _q8_0(blocks: Bytes) -> Floats:
    return _half(blocks, 0) * blocks[:, 2:].view(np.int8).astype(np.float32)


def _grouped(blocks: Bytes, values: Bytes) -> Floats:
    """Eight groups of 32 with a scale and a minimum each, of six bits, packed into bytes 4 to 15.

    The first four groups have theirs in the lower six bits of the first and second four bytes. The last four
    have their lower half in the third four bytes and their upper two bits on top of the first eight.
    """
    first, second, third = (blocks[:, place : place + 4] for place in (4, 8, 12))
    scales = np.hstack([first & 63, third & 15 | first >> 6 << 4]).astype(np.float32)
    minima = np.hstack([second & 63, third >> 4 | second >> 6 << 4]).astype(np.float32)
    scales, minima = _half(blocks, 0) * scales, _half(blocks, 2) * minima
    groups = values.reshape(-1, 8, 32).astype(np.float32)
    return (scales[:, :, None] * groups - minima[:, :, None]).reshape(-1, 256)


def _q4_k(blocks: Bytes) -> Floats:
    return _grouped(blocks, _fields(blocks[:, 16:], 4, run=32))


def _q5_k(blocks: Bytes) -> Floats:
    low, high = _fields(blocks[:, 48:], 4, run=32), _fields(blocks[:, 16:48], 1, run=32)
    return _grouped(blocks, _five(low, high))


def _q6_k(blocks: Bytes) -> Floats:
    """Sixteen groups of 16; four bits of a number stand in the first 128 bytes, two in the next 64."""
    low, high = _fields(blocks[:, :128], 4, run=64), _fields(blocks[:, 128:192], 2, run=32)
    values = _five(low, high).reshape(-1, 16, 16).astype(np.float32) - np.float32(32)
    scales = _half(blocks, 208) * blocks[:, 192:208].view(np.int8).astype(np.float32)
    return (scales[:, :, None] * values).reshape(-1, 256)


# By the number that stands for each in a file.
KINDS = {
    0: Kind("F32", 1, 4, _plain("<f4")),
    1: Kind("F16", 1, 2, _plain("<f2")),
    30: Kind("BF16", 1, 2, _bf16),
    8: Kind("Q8_0", 32, 34, _q8_0),
    2: Kind("Q4_0", 32, 18, _q4_0),
    3: Kind("Q4_1", 32, 20, _q4_1),
    6: Kind("Q5_0", 32, 22, _q5_0),
    7: Kind("Q5_1", 32, 24, _q5_1),
    12: Kind("Q4_K", 256, 144, _q4_k),
    13: Kind("Q5_K", 256, 176, _q5_k),
    14: Kind("Q6_K", 256, 210, _q6_k),
}
# Kinds that are not read, by name.
OTHERS = {
    9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S",
    20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64",
    28: "F64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip
