"""The most used decoder repositories as tiny folders: `checkpoint/published/decoders/*.json` says what lies
in each.

As in `published_folders`; ids in config.json and generation_config.json become those of the tiny vocabulary.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from torch import Tensor

from published_folders import HERE, MERGES, tensors_of

NUMBERED = ("bos_token_id", "eos_token_id", "pad_token_id")
WHITE = ["Ġ Ġ", "Ċ Ċ"]
WORDS = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"""
REST = r""" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
# Pieces of SentencePiece: pairs in the order in which they are joined, and letters.
JOINED = [
    ("o", "u"),
    ("s", "ou"),
    ("sou", "p"),
    ("▁", "soup"),
    ("▁", "a"),
    ("o", "o"),
    ("g", "oo"),
    ("1", "2"),
]
JOINED += [("▁", "goo"), ("▁goo", "d"), ("▁", "▁"), ("▁", "n"), ("▁n", "o"), ("▁no", "t")]
LETTERS = "▁abcdefghiklmnoprstuvwy0123456789.,!?<>|[]/ISNTé"
STARCODER = ["repo_name", "reponame", "file_sep", "filename", "gh_stars", "issue_start", "issue_comment"]
STARCODER += ["issue_closed", "jupyter_start", "jupyter_text", "jupyter_code", "jupyter_output"]
STARCODER += ["jupyter_script", "empty_output"]
SMOL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<{name}>" for name in STARCODER)]
LLAMA3 = ["begin_of_text", "end_of_text", "reserved_special_token_0", "finetune_right_pad_id"]
LLAMA3 += ["start_header_id", "end_header_id", "eom_id", "eot_id", "python_tag"]
QWEN = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
QWEN25 = ["<|object_ref_start|>", "<|object_ref_end|>", "<|vision_start|>", "<|vision_end|>"]
TOOLS = ["<tool_call>", "</tool_call>"]
THOUGHTS = ["<tool_response>", "</tool_response>", "<think>", "</think>"]
R1 = ["<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<｜begin▁of▁sentence｜>", "<|EOT|>"]
MISTRAL3 = ["[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"]


def descriptions() -> list[dict[str, Any]]:
    """Every repository's description, by name."""
    files = sorted((HERE / "decoders").glob("*.json"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in files]


def build(description: dict[str, Any], folder: Path) -> Path:
    """Write the repository's folder, with random values that depend on nothing but its name."""
    folder.mkdir(parents=True)
    if "tokenizer" not in description:  # refused by config.json, nothing else is looked at
        write_json(folder / "config.json", description["config"])
        return folder
    core = write_tokenizer(description["tokenizer"], folder)
    ids = {int(id): core.token_to_id(name) for id, name in description["ids"].items()}
    config = description["config"] | {"vocab_size": core.get_vocab_size() + description.get("extra_rows", 0)}
    config |= description["shrunk"]
    write_json(folder / "config.json", renumbered(config, ids))
    if "generation" in description:
        write_json(folder / "generation_config.json", renumbered(description["generation"], ids))
    weights = description["weights"]
    shared = config.get("num_key_value_heads")
    width = config["hidden_size"] // config["num_attention_heads"] if shared else None
    tensors = tensors_of({"head_dim": width} | config, weights, seed=sum(description["repository"].encode()))
    write_weights(tensors, folder, files=weights["files"])
    for name in weights.get("beside", ()):  # what is there, too, and is not looked at
        if name.endswith(".safetensors"):
            save_file({"tok_embeddings.weight": torch.zeros(2)}, folder / name)
        else:
            (folder / name).write_bytes(b"another program's")
    return folder


def renumbered(values: dict[str, Any], ids: dict[int, int]) -> dict[str, Any]:
    """The same fields with the ids of the tiny vocabulary."""
    changed = {}
    for name in set(NUMBERED) & set(values):
        stated = values[name]
        changed[name] = [ids[id] for id in stated] if isinstance(stated, list) else ids[stated]
    return values | changed


def write_json(path: Path, values: Any) -> None:
    """As the hub has it: two spaces, letters as they are."""
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_weights(tensors: dict[str, Tensor], folder: Path, *, files: list[str]) -> None:
    """All tensors in one file, or dealt out to several and listed in an index."""
    placed = {name: files[place % len(files)] for place, name in enumerate(tensors)}
    for file in files:
        held = {name: tensor for name, tensor in tensors.items() if placed[name] == file}
        if file.endswith(".safetensors"):
            save_file(held, folder / file, metadata={"format": "pt"})
        else:
            torch.save(held, folder / file)
    if len(files) > 1:
        size = sum(tensor.nbytes for tensor in tensors.values())
        index = {"metadata": {"total_size": size}, "weight_map": placed}
        write_json(folder / "model.safetensors.index.json", index)


def write_tokenizer(tokenizer: dict[str, Any], folder: Path) -> Tokenizer:
    """Write the tokenizer's files."""
    for name, content in tokenizer["named"].items():
        write_json(folder / name, content)
    core = KINDS[tokenizer["vocabulary"]]()
    model = json.loads(core.to_str())["model"]
    for name in tokenizer["files"]:
        match name:
            case "vocab.json":
                write_json(folder / name, model["vocab"])
            case "merges.txt":
                lines = ["#version: 0.2", *(" ".join(pair) for pair in model["merges"])]
                (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
            case "tokenizer.json":
                core.save(str(folder / name))
    return core


def pairs(
    first: list[str], merges: list[str], *, last: tuple[str, ...] = (), whole_words: bool = False
) -> Tokenizer:
    """Byte-level pairs, other tokens before and after them in the vocabulary."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = [*first, *letters, *(merge.replace(" ", "") for merge in merges), *last]
    ids = {token: place for place, token in enumerate(vocabulary)}
    joined = [tuple(merge.split(" ")) for merge in merges]
    core = Tokenizer(models.BPE(ids, joined, ignore_merges=whole_words))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    return core


def special(core: Tokenizer, tokens: list[str]) -> Tokenizer:
    """The core with these control tokens, in the vocabulary or behind it."""
    core.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in tokens])
    return core


def before(core: Tokenizer, token: str) -> Any:
    """A template that puts a token before each text."""
    return processors.TemplateProcessing(
        single=f"{token} $A",
        pair=f"{token} $A {token}:1 $B:1",
        special_tokens=[(token, core.token_to_id(token))],
    )


def gpt2() -> Tokenizer:
    """GPT-2's: one control token, last in the vocabulary."""
    core = pairs([], [*MERGES, *WHITE, "1 2"], last=("<|endoftext|>",))
    core.post_processor = processors.ByteLevel(trim_offsets=False)
    return special(core, ["<|endoftext|>"])


def smollm2() -> Tokenizer:
    """SmolLM's: StarCoder's control tokens first, digits one by one."""
    core = pairs(SMOL, [*MERGES, *WHITE])
    digits = pre_tokenizers.Digits(individual_digits=True)
    core.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return special(core, SMOL)


def words(core: Tokenizer, digits: str) -> None:
    """GPT-4's words, so many digits at a time."""
    pattern = Regex(f"{WORDS}|{digits}|{REST}")
    cut = pre_tokenizers.Split(pattern, behavior="isolated")
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.pre_tokenizer = pre_tokenizers.Sequence([cut, letters])


def llama3() -> Tokenizer:
    """Llama 3's: words of the vocabulary are taken whole, one token before each text."""
    core = pairs([], [*MERGES, *WHITE, "1 2"], whole_words=True)
    words(core, r"\p{N}{1,3}")
    special(core, [f"<|{name}|>" for name in LLAMA3])
    frame = before(core, "<|begin_of_text|>")
    core.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), frame])
    return core


def qwen(controls: list[str], added: list[str]) -> Tokenizer:
    """Qwen's: NFC, control tokens behind the vocabulary, and tokens that are added but not special."""
    core = pairs([], [*MERGES, *WHITE])
    core.normalizer = normalizers.NFC()
    words(core, r"\p{N}")
    core.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    special(core, controls)
    core.add_tokens([AddedToken(token, special=False, normalized=False) for token in added])
    return core


def r1() -> Tokenizer:
    """DeepSeek's tokens in Qwen's vocabulary."""
    core = qwen(R1, ["<think>", "</think>"])
    core.post_processor = before(core, "<｜begin▁of▁sentence｜>")
    return core


def gpt_neox() -> Tokenizer:
    """GPT-NeoX's: control tokens first, runs of spaces as added tokens."""
    core = pairs(["<|endoftext|>", "<|padding|>"], [*MERGES, "Ċ Ċ", "1 2"])
    core.normalizer = normalizers.NFC()
    core.post_processor = processors.ByteLevel(trim_offsets=False)
    special(core, ["<|endoftext|>", "<|padding|>"])
    core.add_tokens([AddedToken(" " * count, special=False, normalized=True) for count in (4, 3, 2)])
    return core


def sentencepiece(controls: list[str]) -> Tokenizer:
    """Llama's: pairs of letters with a ▁ for each space, bytes for what is in no piece."""
    unknown = [f"<0x{byte:02X}>" for byte in range(256)]
    pieces = [*controls, *unknown, *("".join(pair) for pair in JOINED), *LETTERS]
    ids = {piece: place for place, piece in enumerate(pieces)}
    core = Tokenizer(models.BPE(ids, JOINED, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    core.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)])
    special(core, controls)
    core.post_processor = before(core, "<s>")
    return core


def llama() -> Tokenizer:
    """As transformers converted it first: a normaliser puts the ▁."""
    core = sentencepiece(["<unk>", "<s>", "</s>"])
    core.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return core


def mistral3() -> Tokenizer:
    """As it is converted since: Metaspace puts the ▁, at the beginning of a text alone."""
    core = sentencepiece(["<unk>", "<s>", "</s>", *MISTRAL3])
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    return core


KINDS = {
    "gpt2": gpt2,
    "smollm2": smollm2,
    "llama3": llama3,
    "qwen2 first": lambda: qwen(QWEN, []),
    "qwen2": lambda: qwen([*QWEN, *QWEN25], TOOLS),
    "qwen3": lambda: qwen([*QWEN, *QWEN25], [*TOOLS, *THOUGHTS]),
    "r1": r1,
    "gpt_neox": gpt_neox,
    "llama": llama,
    "mistral3": mistral3,
}
