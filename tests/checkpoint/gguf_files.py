"""Small GGUF files, written here byte by byte: any facts, tensors in any kind of block, random numbers."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer as Core
from tokenizers import models, pre_tokenizers, trainers

# name → (its number, numbers in a block, bytes of a block, places of half-precision numbers and their size)
KINDS = {
    "F32": (0, 1, 4, {}),
    "F16": (1, 1, 2, {}),
    "BF16": (30, 1, 2, {}),
    "Q8_0": (8, 32, 34, {0: 1e-3}),
    "Q4_0": (2, 32, 18, {0: 1e-2}),
    "Q4_1": (3, 32, 20, {0: 1e-2, 2: -8e-2}),
    "Q5_0": (6, 32, 22, {0: 6e-3}),
    "Q5_1": (7, 32, 24, {0: 6e-3, 2: -1e-1}),
    "Q4_K": (12, 256, 144, {0: 4e-4, 2: 3e-3}),
    "Q5_K": (13, 256, 176, {0: 2e-4, 2: 3e-3}),
    "Q6_K": (14, 256, 210, {208: 6e-5}),
}
TYPES = {bool: (7, "?"), int: (4, "I"), float: (6, "f")}

Stored = tuple[tuple[int, ...], int, bytes]  # shape, rows first; number of the kind; bytes


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def value_of(value: Any) -> bytes:
    """A fact's type and value; whole numbers in 32 bits, lists of them signed."""
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    if isinstance(value, list):
        if all(isinstance(each, str) for each in value):
            return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
        number, code = (6, "f") if any(isinstance(each, float) for each in value) else (5, "i")
        return struct.pack(f"<IIQ{len(value)}{code}", 9, number, len(value), *value)
    number, code = TYPES[type(value)]
    return struct.pack(f"<I{code}", number, value)


def gguf(facts: Mapping[str, Any], tensors: Mapping[str, Stored], *, version: int = 3) -> bytes:
    """The bytes of a file."""
    alignment = facts.get("general.alignment", 32)
    parts = [b"GGUF", struct.pack("<IQQ", version, len(tensors), len(facts))]
    parts += [text(key) + value_of(value) for key, value in facts.items()]
    data, place = [], 0
    for name, (shape, kind, raw) in tensors.items():
        parts.append(text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape[::-1]))
        parts.append(struct.pack("<IQ", kind, place))
        padded = raw + bytes(-len(raw) % alignment)
        data.append(padded)
        place += len(padded)
    header = b"".join(parts)
    return header + bytes(-len(header) % alignment) + b"".join(data)


def random_tensor(shape: tuple[int, ...], kind: str, chance: np.random.Generator) -> Stored:
    """Numbers of about 0.05, in blocks of random bytes with scales that make them so."""
    number, numbers, size, places = KINDS[kind]
    count = int(np.prod(shape))
    assert shape[-1] % numbers == 0
    if not places:
        plain = (chance.standard_normal(count) * 0.05).astype(np.float32)
        if kind == "BF16":
            return shape, number, (plain.view(np.uint32) >> 16).astype("<u2").tobytes()
        return shape, number, plain.astype("<f4" if kind == "F32" else "<f2").tobytes()
    blocks = chance.integers(0, 256, (count // numbers, size), np.uint8)
    for place, scale in places.items():
        scales = (scale * chance.uniform(0.5, 1.5, len(blocks))).astype("<f2")
        blocks[:, place : place + 2] = scales.view(np.uint8).reshape(-1, 2)
    return shape, number, blocks.tobytes()


def ones(*shape: int, around: float = 1.0, seed: int = 0) -> Stored:
    """Numbers near another in float32, as norms have them."""
    chance = np.random.default_rng(seed)
    numbers = around + 0.1 * chance.standard_normal(int(np.prod(shape)))
    return shape, 0, numbers.astype("<f4").tobytes()


CORPUS = [
    "the cat sat on the mat and the dog sat by the door, it's what they'd do",
    "naïve café Straße 東京 привет мир hello world world wide 2024 1234 99 bottles",
    "def f(x):\n    return x + 1\n\n\tif x:  # yes\r\n        pass",
] * 4
CONTROLS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def byte_level_facts(pre: str | None = "smollm", *, size: int = 360, controls: int = 3) -> dict[str, Any]:
    """A byte-level vocabulary learned from a few lines; control tokens first, as SmolLM has them."""
    core = Core(models.BPE())
    steps = [pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    core.pre_tokenizer = pre_tokenizers.Sequence(steps)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    core.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=CONTROLS[:controls],
            initial_alphabet=alphabet,
            show_progress=False,
        ),
    )
    tokens = sorted(core.get_vocab(), key=core.get_vocab().get)
    merges = json.loads(core.to_str())["model"]["merges"]
    facts: dict[str, Any] = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * controls + [1] * (len(tokens) - controls),
        "tokenizer.ggml.merges": [" ".join(pair) for pair in merges],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.padding_token_id": 2,
        "tokenizer.chat_template": "{% for message in messages %}{{ message['content'] }}{% endfor %}",
    }
    return facts | ({} if pre is None else {"tokenizer.ggml.pre": pre})


def sentencepiece_facts() -> dict[str, Any]:
    """A SentencePiece vocabulary: control tokens, bytes, pieces with scores that fall, letters."""
    pieces = "▁t he ▁the ▁c at ▁cat ▁s ▁sat in ing er ▁w or ▁wor ld ▁world ll ▁h ▁he ▁hell ▁hello"
    pieces = [*pieces.split(), "▁▁", "▁▁▁▁", "s>", "</"]
    letters = sorted(set("".join(CORPUS)) - {" ", "\n", "\t", "\r"} | {"▁", "<", ">", "/"})
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces, *letters]
    types = [2, 3, 3, *[6] * 256, *[1] * (len(pieces) + len(letters))]
    scores = [0.0] * 259 + [-float(place) for place in range(len(pieces))] + [-1000.0] * len(letters)
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }


def decoder(
    name: str = "llama", kind: str = "F32", *, words: Mapping[str, Any] | None = None, tied: bool = True,
    seed: int = 0, width: int = 256,
) -> tuple[dict[str, Any], dict[str, Stored]]:  # fmt: skip
    """Facts and tensors of a tiny llama, qwen2 or qwen3; hardly a size is there twice."""
    words = byte_level_facts() if words is None else words
    chance = np.random.default_rng(seed)
    heads, kv_heads, hidden, blocks = 4, 2, 2 * width, 2
    head = width // heads
    facts = {
        "general.architecture": name,
        "general.name": "tiny",
        f"{name}.block_count": blocks,
        f"{name}.context_length": 64,
        f"{name}.embedding_length": width,
        f"{name}.feed_forward_length": hidden,
        f"{name}.attention.head_count": heads,
        f"{name}.attention.head_count_kv": kv_heads,
        f"{name}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{name}.rope.freq_base": 100000.0,
        f"{name}.rope.dimension_count": head,
        **words,
    }
    rows = len(words["tokenizer.ggml.tokens"]) + 5
    tensors = {"token_embd.weight": random_tensor((rows, width), kind, chance)}
    for number in range(blocks):
        block = f"blk.{number}."
        shapes = {
            "attn_q": (width, width), "attn_k": (kv_heads * head, width), "attn_v": (kv_heads * head, width),
            "attn_output": (width, width), "ffn_gate": (hidden, width), "ffn_up": (hidden, width),
            "ffn_down": (width, hidden),
        }  # fmt: skip
        for inner, shape in shapes.items():
            tensors[f"{block}{inner}.weight"] = random_tensor(shape, kind, chance)
        tensors[block + "attn_norm.weight"] = ones(width, seed=number)
        tensors[block + "ffn_norm.weight"] = ones(width, seed=number + 10)
        if name == "qwen2":
            for inner in ("attn_q", "attn_k", "attn_v"):
                tensors[f"{block}{inner}.bias"] = ones(shapes[inner][0], around=0.0, seed=number)
        if name == "qwen3":
            for inner in ("attn_q_norm", "attn_k_norm"):
                tensors[f"{block}{inner}.weight"] = ones(head, seed=number + len(inner))
    tensors["output_norm.weight"] = ones(width, seed=99)
    if not tied:
        tensors["output.weight"] = random_tensor((rows, width), kind, chance)
    return facts, tensors


def gpt2(kind: str = "F32", *, seed: int = 0) -> tuple[dict[str, Any], dict[str, Stored]]:
    """Facts and tensors of a tiny GPT-2."""
    words, chance, width, hidden = byte_level_facts("gpt-2"), np.random.default_rng(seed), 64, 160
    facts = {
        "general.architecture": "gpt2",
        "gpt2.block_count": 2,
        "gpt2.context_length": 64,
        "gpt2.embedding_length": width,
        "gpt2.feed_forward_length": hidden,
        "gpt2.attention.head_count": 4,
        "gpt2.attention.layer_norm_epsilon": 1e-5,
        **words,
    }
    rows = len(words["tokenizer.ggml.tokens"])
    tensors = {
        "token_embd.weight": random_tensor((rows, width), kind, chance),
        "position_embd.weight": random_tensor((64, width), "F32", chance),
    }
    for number in range(2):
        shapes = {
            "attn_qkv": (3 * width, width), "attn_output": (width, width), "ffn_up": (hidden, width),
            "ffn_down": (width, hidden),
        }  # fmt: skip
        for inner, shape in shapes.items():
            tensors[f"blk.{number}.{inner}.weight"] = random_tensor(shape, kind, chance)
            tensors[f"blk.{number}.{inner}.bias"] = ones(shape[0], around=0.0, seed=number)
        for norm in ("attn_norm", "ffn_norm"):
            tensors[f"blk.{number}.{norm}.weight"] = ones(width, seed=number)
            tensors[f"blk.{number}.{norm}.bias"] = ones(width, around=0.0, seed=number + 5)
    return facts, tensors | {
        "output_norm.weight": ones(width, seed=98),
        "output_norm.bias": ones(width, around=0.0, seed=97),
    }


def write(path: Path, made: tuple[Mapping[str, Any], Mapping[str, Stored]]) -> Path:
    """A file of facts and tensors."""
    path.write_bytes(gguf(*made))
    return path
