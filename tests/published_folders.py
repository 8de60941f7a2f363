"""The most used encoder repositories as tiny folders: `checkpoint/published/*.json` says what lies in each.

config.json is as published, with the sizes of `shrunk`. Tensors are groups of names from `tensors.json`,
behind the repository's own prefix and in its own spelling. Vocabularies are tiny, in the published structure.
"""

import base64
import json
import re
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from torch import Tensor

from tiny import SPECIAL, WORDS

HERE = Path(__file__).parent / "checkpoint" / "published"
TENSORS: dict[str, dict[str, list[Any]]] = json.loads((HERE / "tensors.json").read_text())
WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")

# Cased vocabularies keep these beside the small ones; SentencePiece and byte-level ones spell them in pieces.
CASED = [*WORDS, "Good", "Soup", "café", "naïve", "F", "##ilm"]
MERGES = ["o o", "g oo", "goo d", "Ġ s", "o u", "Ġs ou", "Ġsou p", "Ġ a", "i n", "Ġ goo", "Ġgoo d"]
PIECES = ["▁", "▁a", "▁good", "▁soup", "▁not", "▁very", "▁warm", "!", ",", ".", "s", "ou", "p", "g", "o", "d"]
PIECES += [
    "a",
    "n",
    "t",
    "v",
    "e",
    "r",
    "y",
    "w",
    "m",
    "c",
    "f",
    "é",
    "▁Good",
    "▁café",
    "1",
    "2",
    "i",
    "l",
    "k",
]
# No normalisation at all, in SentencePiece's form: an empty tree of 256 nodes, and no replacements.
NO_CHARSMAP = base64.b64encode((1024).to_bytes(4, "little") + bytes(1024)).decode()


def descriptions() -> list[dict[str, Any]]:
    """Every repository's description, by name."""
    files = sorted(path for path in HERE.glob("*.json") if path.name != "tensors.json")
    return [json.loads(path.read_text(encoding="utf-8")) for path in files]


def build(description: dict[str, Any], folder: Path) -> Path:
    """Write the repository's folder, with random values that depend on nothing but its name."""
    folder.mkdir(parents=True)
    tokens = write_tokenizer(description["tokenizer"], folder, limit=description["expect"].get("limit", 32))
    rows = tokens + description.get("extra_rows", 0)
    config = description["config"] | {"vocab_size": rows} | description["shrunk"]
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    weights = description["weights"]
    tensors = tensors_of(config, weights, seed=sum(description["repository"].encode()))
    for name in [weights["file"], *weights.get("beside", ())]:
        if name.endswith(".safetensors"):
            save_file(tensors, folder / name, metadata={"format": "pt"})
        else:
            table = tensors if name in WEIGHT_FILES else {"weight": torch.zeros(2)}
            zipped = not weights.get("before_zip")
            torch.save(table, folder / name, _use_new_zipfile_serialization=zipped)
    return folder


def tensors_of(config: dict[str, Any], weights: dict[str, Any], *, seed: int) -> dict[str, Tensor]:
    """The repository's tensors: wide random values, so that a swapped one is noticed."""
    chance = torch.Generator().manual_seed(seed)
    dtype, masks = (getattr(torch, weights.get(kind, "float32")) for kind in ("dtype", "masks"))
    layers = next(
        (config[name] for name in ("num_hidden_layers", "n_layers", "n_layer") if name in config), 0
    )
    found: dict[str, Tensor] = {}
    for prefix, groups in weights["tensors"].items():
        for template, sides in (item for group in groups for item in TENSORS[group].items()):
            shape = [size(side, config) for side in sides]
            for name in numbered(template, layers):
                value = torch.randn(shape, generator=chance) * 0.3
                if name.endswith("position_ids"):
                    found[prefix + name] = torch.arange(shape[1])[None]
                elif name.endswith((".attn.bias", ".attention.bias")):  # what each token sees, as a table
                    found[prefix + name] = torch.ones(shape).tril().to(masks)
                elif name.endswith("masked_bias"):
                    found[prefix + name] = torch.tensor(float("-inf"), dtype=dtype)
                else:
                    found[prefix + name] = value.to(dtype)
    for name, origin in weights.get("tied", {}).items():
        found[name] = found[origin].clone()
    for plain, spelled in weights.get("spelled", {}).items():
        found = {re.sub(re.escape(plain) + "$", spelled, name): value for name, value in found.items()}
    return found


def size(side: int | str, config: dict[str, Any]) -> int:
    """A side of a tensor: a number, a field, a product of these, or the number of labels."""
    if isinstance(side, int):
        return side
    if side == "labels":
        return len(config.get("id2label") or (0, 1))
    return prod(int(factor) if factor.isdigit() else config[factor] for factor in side.split("*"))


def numbered(template: str, layers: int) -> list[str]:
    """A template's names: one for each block, from the second block on where it says {i>0}."""
    if "{i" not in template:
        return [template]
    first = 1 if "{i>0}" in template else 0
    return [template.replace("{i>0}", "{i}").replace("{i}", str(layer)) for layer in range(first, layers)]


def write_tokenizer(tokenizer: dict[str, Any], folder: Path, *, limit: int) -> int:
    """Write the tokenizer's files; returns the rows that its ids need."""
    for name, content in tokenizer["named"].items():
        if "model_max_length" in content:
            content = content | {"model_max_length": limit}
        (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    if tokenizer["kind"] == "none":
        return 40
    lowercase = tokenizer["named"].get("tokenizer_config.json", {}).get("do_lower_case", True)
    core, vocabulary = KINDS[tokenizer["vocabulary"]](lowercase)
    rows = core.get_vocab_size()
    for name in tokenizer["files"]:
        match name:
            case "vocab.txt":
                (folder / name).write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
            case "vocab.json":
                ids = {token: place for place, token in enumerate(vocabulary)}
                (folder / name).write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")
            case "merges.txt":
                lines = ["#version: 0.2", *MERGES]
                (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
            case "tokenizer.json":
                if length := tokenizer.get("truncation"):
                    core.enable_truncation(length)
                    core.enable_padding(length=length)
                core.save(str(folder / name))
    return rows


def wordpiece(words: list[str], *, lowercase: bool) -> tuple[Tokenizer, list[str]]:
    """BERT's: WordPiece, five special tokens first."""
    vocabulary = [*SPECIAL, *words]
    ids = {token: place for place, token in enumerate(vocabulary)}
    core = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    core.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.decoder = decoders.WordPiece()
    core.add_special_tokens(SPECIAL)
    core.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return core, vocabulary


def bytelevel(first: list[str], last: list[str]) -> tuple[Tokenizer, list[str]]:
    """Byte-level pairs between two runs of special tokens."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = [*first, *letters, *(merge.replace(" ", "") for merge in MERGES), *last]
    ids = {token: place for place, token in enumerate(vocabulary)}
    pairs = [tuple(merge.split(" ")) for merge in MERGES]
    core = Tokenizer(models.BPE(ids, pairs))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    return core, vocabulary


def roberta(_: bool) -> tuple[Tokenizer, list[str]]:
    """RoBERTa's: <mask> last and greedy for the space before it, two separators in a pair."""
    core, vocabulary = bytelevel(["<s>", "<pad>", "</s>", "<unk>"], ["<mask>"])
    mask = AddedToken("<mask>", lstrip=True, special=True)
    core.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", mask])
    core.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return core, vocabulary


def modernbert(_: bool) -> tuple[Tokenizer, list[str]]:
    """ModernBERT's: no <unk> in the model, BERT's special tokens added behind the vocabulary, NFC."""
    core, vocabulary = bytelevel(["|||IP_ADDRESS|||", "<|padding|>"], [])
    core.normalizer = normalizers.NFC()
    core.add_tokens([AddedToken("|||IP_ADDRESS|||", normalized=True), AddedToken("   ", normalized=True)])
    core.add_special_tokens(["<|padding|>", "[UNK]", "[CLS]", "[SEP]", "[PAD]"])
    core.add_special_tokens([AddedToken("[MASK]", lstrip=True, special=True)])
    first, last = core.token_to_id("[CLS]"), core.token_to_id("[SEP]")
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", first), ("[SEP]", last)],
    )
    return core, vocabulary


def unigram(first: list[str], begin: int, end: int) -> tuple[Tokenizer, list[str]]:
    """SentencePiece's Unigram as converted for XLM-R and CamemBERT; <mask> last."""
    pieces = [*first, *PIECES, "<mask>"]
    scores = [(piece, 0.0 if piece.startswith("<") else -3.0 - 3.0 / len(piece)) for piece in pieces]
    core = Tokenizer(models.Unigram(scores, unk_id=3, byte_fallback=False))
    whole = json.loads(core.to_str())
    whole["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": NO_CHARSMAP}
    core = Tokenizer.from_str(json.dumps(whole))
    steps = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    core.pre_tokenizer = pre_tokenizers.Sequence(steps)
    core.decoder = decoders.Metaspace()
    names = ["<s>", "<pad>", "</s>", "<unk>"]
    core.add_special_tokens([*names, AddedToken("<mask>", lstrip=True, special=True)])
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", begin), ("</s>", end)],
    )
    return core, pieces


KINDS = {
    "uncased": lambda lowercase: wordpiece(WORDS, lowercase=lowercase),
    "cased": lambda lowercase: wordpiece(CASED, lowercase=lowercase),
    "roberta": roberta,
    "modernbert": modernbert,
    "xlm-roberta": lambda _: unigram(["<s>", "<pad>", "</s>", "<unk>"], 0, 2),
    "camembert": lambda _: unigram(
        ["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED", "<s>", "</s>"], 5, 6
    ),
}


def assert_looked_up(description: dict[str, Any]) -> None:
    """It says where it was looked up and what was not found."""
    assert set(description["sources"]) == {"config", "tensors", "tokenizer"}
    assert isinstance(description["not_verified"], list)
    if "bytes" in description:
        # The text has the size that the hub reports for it (some files end in a line break, some do not),
        # less the characters that "what" says were left out.
        length = len(json.dumps(description["config"], indent=2)) + description.get("left_out", 0)
        assert description["bytes"] in (length, length + 1)
