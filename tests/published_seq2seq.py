"""The most used encoder–decoder repositories as tiny folders: `checkpoint/published/seq2seq/*.json` says what
lies in each.

As in `published_decoders`. The model files of SentencePiece hold the pieces of the tiny vocabulary, and are
files that its own package reads.
"""

import base64
import json
from pathlib import Path
from typing import Any

import torch
from sentencepiece import sentencepiece_model_pb2 as messages
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from torch import Tensor

from published_decoders import write_json, write_weights
from published_folders import HERE, MERGES, NO_CHARSMAP, PIECES, roberta, tensors_of

GAPS = [f"<extra_id_{number}>" for number in range(100)]
ALL_GAPS = "<extra_id_*>"  # how a description writes them
GERMAN = [
    "▁",
    "▁ein",
    "▁gut",
    "e",
    "▁Suppe",
    "▁nicht",
    "▁sehr",
    "▁warm",
    "!",
    ",",
    ".",
    "ü",
    "ß",
    "s",
    "u",
    "p",
]
SORTS = {"<unk>": 2, "<s>": 3, "</s>": 3, "<pad>": 3}


def descriptions() -> list[dict[str, Any]]:
    """Every repository's description, by name."""
    files = sorted((HERE / "seq2seq").glob("*.json"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in files]


def build(description: dict[str, Any], folder: Path) -> Path:
    """Write the repository's folder, with random values that depend on nothing but its name."""
    folder.mkdir(parents=True)
    vocabulary = KINDS[description["tokenizer"]["vocabulary"]](folder, description["tokenizer"])
    ids = {int(id): vocabulary[name] for id, name in description["ids"].items()}
    rows = len(vocabulary) + description.get("extra_rows", 0)
    config = description["config"] | {"vocab_size": rows}
    if "decoder_vocab_size" in config:
        config["decoder_vocab_size"] = rows
    config |= description["shrunk"]
    write_json(folder / "config.json", renumbered(config, ids))
    if "generation" in description:
        write_json(folder / "generation_config.json", renumbered(description["generation"], ids))
    weights = description["weights"]
    write_weights(tensors(description, config, pad=ids), folder, files=weights["files"])
    for name in weights["beside"]:  # what is there, too, and is not looked at
        (folder / name).write_bytes(b"another program's")
    return folder


def tensors(description: dict[str, Any], config: dict[str, Any], *, pad: dict[int, int]) -> dict[str, Tensor]:
    """The repository's tensors. Those of Marian that are no parameters have the values that they have."""
    sizes = {"num_hidden_layers": config.get("num_layers")} | config
    marian = config["model_type"] == "marian"
    sizes["positions"] = config.get("max_position_embeddings", 0) + (0 if marian else 2)
    seed = sum(description["repository"].encode())
    found = tensors_of(sizes, description["weights"], seed=seed)
    for name, value in found.items():
        if marian and name.endswith("embed_positions.weight"):
            value.copy_(waves(*value.shape))
        elif marian and name.endswith(("shared.weight", "embed_tokens.weight")):
            value[pad[config["pad_token_id"]]] = 0.0
        elif not marian and name == "final_logits_bias":
            value.zero_()
    return found


def waves(positions: int, width: int) -> Tensor:
    """Sines in the first half of the width, cosines of the same angles in the second."""
    rates = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.arange(positions, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1).float()


def renumbered(values: dict[str, Any], ids: dict[int, int]) -> dict[str, Any]:
    """The same fields with the ids of the tiny vocabulary."""
    changed: dict[str, Any] = {name: ids[id] for name, id in values.items() if name.endswith("_token_id")}
    if "bad_words_ids" in values:
        changed["bad_words_ids"] = [[ids[id] for id in words] for words in values["bad_words_ids"]]
    return values | changed


# --- tokenizers ---------------------------------------------------------------------------------------------


def model_file(rows: list[tuple[str, float]], *, unknown: int) -> bytes:
    """SentencePiece's own file with these pieces, its usual rules for spaces and no replacements."""
    model = messages.ModelProto()
    for text, score in rows:
        model.pieces.add(piece=text, score=score, type=SORTS.get(text, 1))
    model.trainer_spec.model_type = messages.TrainerSpec.UNIGRAM
    model.trainer_spec.unk_id = unknown
    model.trainer_spec.bos_id = next((id for id, (text, _) in enumerate(rows) if text == "<s>"), -1)
    model.trainer_spec.eos_id = next(id for id, (text, _) in enumerate(rows) if text == "</s>")
    model.normalizer_spec.name = "identity"
    return model.SerializeToString()


def scored(pieces: list[str]) -> list[tuple[str, float]]:
    """Pieces with scores, longer ones rather."""
    return [(piece, -4.0 - place / 64 + 1.5 * (len(piece) - 1)) for place, piece in enumerate(pieces)]


def named(folder: Path, tokenizer: dict[str, Any]) -> None:
    """The small files, in which one name stands for T5's 100 gaps."""
    for name, content in tokenizer["named"].items():
        if content.get("additional_special_tokens") == [ALL_GAPS]:
            content = content | {"additional_special_tokens": GAPS}
        write_json(folder / name, content)


def t5(folder: Path, tokenizer: dict[str, Any]) -> dict[str, int]:
    """T5's: Unigram with an end, and gaps behind the pieces, the last one first."""
    named(folder, tokenizer)
    rows = [*((text, 0.0) for text in ("<pad>", "</s>", "<unk>")), *scored(PIECES)]
    core = Tokenizer(models.Unigram([*rows, *((gap, 0.0) for gap in reversed(GAPS))], 2, False))
    core.normalizer = normalizers.Precompiled(base64.b64decode(NO_CHARSMAP))
    steps = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    core.pre_tokenizer, core.decoder = pre_tokenizers.Sequence(steps), decoders.Metaspace()
    core.add_special_tokens(["<pad>", "</s>", "<unk>", *reversed(GAPS)])
    core.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    for name in tokenizer["files"]:
        if name == "tokenizer.json":
            core.save(str(folder / name))
        else:
            (folder / name).write_bytes(model_file(rows, unknown=2))
    return core.get_vocab()


def bart(folder: Path, tokenizer: dict[str, Any]) -> dict[str, int]:
    """RoBERTa's."""
    named(folder, tokenizer)
    core, _ = roberta(True)
    vocabulary = core.get_vocab()
    for name in tokenizer["files"]:
        match name:
            case "vocab.json":
                write_json(folder / name, dict(sorted(vocabulary.items(), key=lambda entry: entry[1])))
            case "merges.txt":
                (folder / name).write_text("\n".join(["#version: 0.2", *MERGES]) + "\n", encoding="utf-8")
            case "tokenizer.json":
                core.save(str(folder / name))
    return vocabulary


def marian(folder: Path, tokenizer: dict[str, Any]) -> dict[str, int]:
    """OPUS-MT's: two models, and one vocabulary of the pieces of both in another order, padding last."""
    named(folder, tokenizer)
    for name, pieces in (("source.spm", PIECES), ("target.spm", GERMAN)):
        rows = [*((text, 0.0) for text in ("<unk>", "<s>", "</s>")), *scored(pieces)]
        (folder / name).write_bytes(model_file(rows, unknown=0))
    texts = ["</s>", "<unk>", *dict.fromkeys([*reversed(GERMAN), *PIECES[:-2]]), "<pad>"]
    vocabulary = {text: id for id, text in enumerate(texts)}
    write_json(folder / "vocab.json", vocabulary)
    return vocabulary


KINDS = {"t5": t5, "roberta": bart, "marian": marian}
