"""Numbers in blocks: as the format's structures say, number by number, and as its own library reads them."""

import gguf
import numpy as np
import pytest
from gguf_files import KINDS, random_tensor

from clearhead.checkpoint.gguf.blocks import KINDS as READ
from clearhead.checkpoint.gguf.blocks import OTHERS, STEP, dequantised


def half(block: bytes, place: int) -> float:
    return float(np.frombuffer(block[place : place + 2], "<f2")[0])


def nibble(packed: bytes, place: int, run: int) -> int:
    """The four bits of a number: runs of bytes hold first their lower halves, then their upper ones."""
    group, inner = divmod(place, 2 * run)
    byte = packed[group * run + inner % run]
    return byte >> 4 if inner >= run else byte & 15


def six_bits(scales: bytes, group: int) -> tuple[int, int]:
    """A group's scale and minimum in a K block."""
    if group < 4:
        return scales[group] & 63, scales[group + 4] & 63
    low = scales[group + 4]
    return (low & 15) | (scales[group - 4] >> 6) << 4, low >> 4 | (scales[group] >> 6) << 4


def number(kind: str, block: bytes, place: int) -> float:
    """One number of a block, by the words of the format's description."""
    match kind:
        case "Q8_0":
            return half(block, 0) * np.int8(np.uint8(block[2 + place]))
        case "Q4_0":
            return half(block, 0) * (nibble(block[2:], place, 16) - 8)
        case "Q4_1":
            return half(block, 0) * nibble(block[4:], place, 16) + half(block, 2)
        case "Q5_0":
            high = int.from_bytes(block[2:6], "little") >> place & 1
            return half(block, 0) * (nibble(block[6:], place, 16) + 16 * high - 16)
        case "Q5_1":
            high = int.from_bytes(block[4:8], "little") >> place & 1
            return half(block, 0) * (nibble(block[8:], place, 16) + 16 * high) + half(block, 2)
        case "Q4_K":
            scale, minimum = six_bits(block[4:16], place // 32)
            return half(block, 0) * scale * nibble(block[16:], place, 32) - half(block, 2) * minimum
        case "Q5_K":
            scale, minimum = six_bits(block[4:16], place // 32)
            high = block[16 + place % 32] >> place // 32 & 1
            value = nibble(block[48:], place, 32) + 16 * high
            return half(block, 0) * scale * value - half(block, 2) * minimum
        case "Q6_K":
            part, inner = divmod(place, 128)
            high = block[128 + 32 * part + inner % 32] >> 2 * (inner // 32) & 3
            value = nibble(block[:128], place, 64) + 16 * high - 32
            scale = np.int8(np.uint8(block[192 + place // 16]))
            return half(block, 208) * scale * value
    raise AssertionError(kind)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if KINDS[kind][3]])
def test_a_block_holds_the_numbers_that_its_structure_says(kind):
    _, numbers, size, _ = KINDS[kind]
    _, id, raw = random_tensor((5, numbers), kind, np.random.default_rng(1))
    found = dequantised(np.frombuffer(raw, np.uint8), READ[id]).reshape(5, numbers)
    blocks = [raw[start : start + size] for start in range(0, len(raw), size)]
    right = [[number(kind, block, place) for place in range(numbers)] for block in blocks]
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-7)
    assert np.std(right) > 0.01


@pytest.mark.parametrize("kind", KINDS)
def test_every_bit_is_that_of_the_formats_own_library(kind):
    shape, id, raw = random_tensor((7, 512), kind, np.random.default_rng(2))
    read = READ[id]
    assert (read.name, read.numbers, read.size) == (kind, *KINDS[kind][1:3])
    assert gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(id)] == (read.numbers, read.size)
    found = dequantised(np.frombuffer(raw, np.uint8), read).reshape(shape)
    rows = np.frombuffer(raw, np.uint8).reshape(7, -1)
    right = gguf.quants.dequantize(rows, gguf.GGMLQuantizationType(id))
    assert found.dtype == np.float32 and found.tobytes() == np.ascontiguousarray(right, np.float32).tobytes()


def test_many_blocks_are_read_in_steps(monkeypatch):
    monkeypatch.setattr("clearhead.checkpoint.gguf.blocks.STEP", 64)
    _, id, raw = random_tensor((3, 320), "Q4_1", np.random.default_rng(3))
    few = dequantised(np.frombuffer(raw, np.uint8), READ[id])
    monkeypatch.setattr("clearhead.checkpoint.gguf.blocks.STEP", STEP)
    assert few.tobytes() == dequantised(np.frombuffer(raw, np.uint8), READ[id]).tobytes()


def test_kinds_have_the_formats_names_and_none_is_both_read_and_refused():
    names = {kind.value: kind.name for kind in gguf.GGMLQuantizationType}
    for id, name in {**{id: kind.name for id, kind in READ.items()}, **OTHERS}.items():
        assert names[id] == name
    assert not READ.keys() & OTHERS.keys()
