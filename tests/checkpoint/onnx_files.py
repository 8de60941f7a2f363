"""Small quantised T5 graphs, written here byte by byte as an exporter and a quantiser leave them."""

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer as Core
from tokenizers import models, pre_tokenizers, processors

FLOAT, UINT8, INT8 = 1, 2, 3
KINDS = {"float32": FLOAT, "uint8": UINT8, "int8": INT8, "int64": 7}
PIECES = ["▁", "▁a", "▁good", "▁soup", *"adegop us"]
WORDS = ["<pad>", "</s>", "<unk>", *PIECES, *(f"<extra_id_{number}>" for number in (1, 0))]
VOCAB, WIDTH, HEADS, EACH, HIDDEN, BUCKETS = 24, 16, 3, 8, 20, 8


def number(value: int) -> bytes:
    """A whole number in 7 bits a byte."""
    value &= (1 << 64) - 1
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(place: int, value: Any) -> bytes:
    """A field of a message: a whole number, or bytes, or a text."""
    if isinstance(value, int):
        return number(place << 3) + number(value)
    raw = value.encode() if isinstance(value, str) else value
    return number(place << 3 | 2) + number(len(raw)) + raw


def tensor(name: str, numbers: np.ndarray, *, small: bool = False) -> bytes:
    """A stored tensor; `small`: not as bytes, as quantisers store scales and zero points."""
    kind = KINDS[str(numbers.dtype)]
    out = b"".join(field(1, size) for size in numbers.shape) + field(2, kind)
    if small and kind == FLOAT:
        return out + field(4, numbers.tobytes()) + field(8, name)
    if small:
        return out + field(5, b"".join(number(int(one)) for one in numbers.reshape(-1))) + field(8, name)
    return out + field(8, name) + field(9, numbers.tobytes())


def node(op: str, name: str, *, inputs: Sequence[str], outputs: Sequence[str]) -> bytes:
    """An operation."""
    out = b"".join(field(1, one) for one in inputs) + b"".join(field(2, one) for one in outputs)
    return out + field(3, name) + field(4, op)


def model(nodes: Sequence[bytes], tensors: Sequence[bytes]) -> bytes:
    """The bytes of a file."""
    graph = b"".join(field(1, one) for one in nodes) + field(2, "main_graph")
    graph += b"".join(field(5, one) for one in tensors)
    return field(1, 8) + field(2, "tests") + field(7, graph) + field(8, field(2, 18))


def product(
    module: str, count: int, *, stored: np.ndarray, scale: np.ndarray, zero: np.ndarray
) -> tuple[list[bytes], list[bytes]]:
    """The operations of a linear layer in whole numbers, and its tensors; they have no name of a module."""
    name, own = f"onnx::MatMul_{count}", f"/{module.replace('.', '/')}/MatMul"
    zero_point, scale_name = name + "_zero_point", name + "_scale"
    given = [own + "_q", name + "_quantized", own + "_z", zero_point]
    parts = [own + "_q", own + "_s", own + "_z"]
    nodes = [
        node("DynamicQuantizeLinear", own + "_in", inputs=[own + "_x"], outputs=parts),
        node("MatMulInteger", own + "_quant", inputs=given, outputs=[own + "_whole"]),
        node("Cast", own + "_cast", inputs=[own + "_whole"], outputs=[own + "_cast_out"]),
        node("Mul", own + "_scales", inputs=[own + "_s", scale_name], outputs=[own + "_both"]),
        node("Mul", own + "_scaled", inputs=[own + "_cast_out", own + "_both"], outputs=[own + "_out"]),
    ]
    tensors = [
        tensor(name + "_scale", scale, small=True),
        tensor(name + "_zero_point", zero, small=True),
        tensor(name + "_quantized", stored),
    ]
    return nodes, tensors


def table(
    name: str, *, stored: np.ndarray, scale: np.ndarray, zero: np.ndarray
) -> tuple[list[bytes], list[bytes]]:
    """The operations of a table whose rows are looked up, and its tensors."""
    given = [name + "_turned", name + "_scale", name + "_zero_point"]
    nodes = [
        node("Gather", f"/{name}_g", inputs=[name + "_quantized", "ids"], outputs=[name + "_rows"]),
        node("Transpose", f"/{name}_t", inputs=[name + "_rows"], outputs=[name + "_turned"]),
        node("DequantizeLinear", f"/{name}_d", inputs=given, outputs=[name + "_out"]),
    ]
    tensors = [
        tensor(name + "_scale", scale, small=True),
        tensor(name + "_zero_point", zero, small=True),
        tensor(name + "_quantized", stored),
    ]
    return nodes, tensors


class T5:
    """A tiny T5 with gates: its two graphs, and the float32 that its numbers stand for."""

    def __init__(self, *, columns: bool = False, seed: int = 0):
        """With `columns` a matrix has a scale and a zero point for each of its columns."""
        self.columns, self.chance = columns, np.random.default_rng(seed)
        self.right: dict[str, np.ndarray] = {}
        self.parts: dict[str, tuple[list[bytes], list[bytes]]] = {"encoder": ([], []), "decoder": ([], [])}
        self.count = 1000
        shared = self.quantised((VOCAB, WIDTH), np.uint8)
        for side, name in (("encoder", "enc.embed_tokens.weight"), ("decoder", "m.shared.weight")):
            self.add(side, table(name, **shared))
        self.right["shared.weight"] = value(**shared)
        for side, stem, blocks in (("encoder", "enc.", 2), ("decoder", "m.decoder.", 1)):
            self.side(side, stem, blocks=blocks)
        self.linear("decoder", "m.lm_head", shape=(WIDTH, VOCAB))

    def quantised(
        self, shape: tuple[int, ...], dtype: Any, *, columns: bool = False
    ) -> dict[str, np.ndarray]:
        """Numbers, a scale and a zero point."""
        info, of = np.iinfo(dtype), shape[-1:] if columns else ()
        ends = info.min, info.max + 1
        return {
            "stored": self.chance.integers(*ends, shape, dtype),
            "scale": self.chance.uniform(1e-3, 2e-3, of).astype(np.float32),
            "zero": self.chance.integers(*ends, of, dtype) * np.ones(of, dtype),
        }

    def add(self, side: str, made: tuple[list[bytes], list[bytes]]) -> None:
        for list_, more in zip(self.parts[side], made, strict=True):
            list_ += more

    def linear(self, side: str, module: str, *, shape: tuple[int, int]) -> None:
        numbers = self.quantised(shape, np.int8, columns=self.columns)
        self.count += 1
        self.add(side, product(module, self.count, **numbers))
        self.right[published(module) + ".weight"] = value(**numbers).T

    def norm(self, side: str, module: str) -> None:
        numbers = self.chance.standard_normal(WIDTH).astype(np.float32)
        self.add(side, ([], [tensor(module + ".weight", numbers)]))
        self.right[published(module) + ".weight"] = numbers

    def side(self, side: str, stem: str, *, blocks: int) -> None:
        kinds = ["SelfAttention", "EncDecAttention"][: 1 + (side == "decoder")]
        bias = stem + "block.0.layer.0.SelfAttention.relative_attention_bias"
        numbers = self.quantised((BUCKETS, HEADS), np.uint8)
        self.add(side, table(bias + ".weight", **numbers))
        self.right[published(bias) + ".weight"] = value(**numbers)
        self.norm(side, stem + "final_layer_norm")
        for block in range(blocks):
            layers = [f"{stem}block.{block}.layer.{layer}." for layer in range(len(kinds) + 1)]
            for layer, kind in zip(layers, kinds, strict=False):
                for part in "qkvo":
                    shape = (HEADS * EACH, WIDTH) if part == "o" else (WIDTH, HEADS * EACH)
                    self.linear(side, f"{layer}{kind}.{part}", shape=shape)
            for layer in layers:
                self.norm(side, layer + "layer_norm")
            for part, shape in (
                ("wi_0", (WIDTH, HIDDEN)),
                ("wi_1", (WIDTH, HIDDEN)),
                ("wo", (HIDDEN, WIDTH)),
            ):
                self.linear(side, f"{layers[-1]}DenseReluDense.{part}", shape=shape)

    def files(self) -> Mapping[str, bytes]:
        """Both graphs and the tokenizer."""
        graphs = {f"{side}.onnx": model(*parts) for side, parts in self.parts.items()}
        return {**graphs, "tokenizer.json": words()}

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.files().items():
            (folder / name).write_bytes(content)
        return folder


def value(*, stored: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """What quantised numbers stand for."""
    return (stored.astype(np.int64) - zero).astype(np.float32) * scale


def published(module: str) -> str:
    """The published name of a module."""
    return (
        "encoder." + module.removeprefix("enc.") if module.startswith("enc.") else module.removeprefix("m.")
    )


def words() -> bytes:
    """A tokenizer of a few pieces that cuts texts short and pads them, as its last user may have left it."""
    core = Core(models.Unigram([(word, -float(place)) for place, word in enumerate(WORDS)], 2, False))
    core.add_special_tokens([word for word in WORDS if word.startswith("<")])
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    core.post_processor = processors.TemplateProcessing(
        single=["$A", "</s>"], pair=["$A", "</s>", "$B", "</s>"], special_tokens=[("</s>", 1)]
    )
    core.enable_truncation(4)
    core.enable_padding(pad_id=0, pad_token="<pad>")
    return json.dumps(json.loads(core.to_str())).encode()


def floats(numbers: Sequence[float]) -> bytes:
    """Float32, one by one, as those write them who do not pack."""
    return b"".join(number(4 << 3 | 5) + struct.pack("<f", one) for one in numbers)
