"""Folders of sentence-transformers, and what they say of texts, by a plain loop around the published code."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

from families import tiny_folder

KIND = "sentence_transformers.models"
MODES = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens", "last": "lasttoken"}


def sentence_files(
    folder: Path,
    *,
    pooling: str = "mean",
    normalise: bool = True,
    limit: int | None = 20,
    width: int = 24,
    facts: dict[str, Any] | None = None,
) -> Path:
    """The files of sentence-transformers beside a model, as they are published."""
    steps = [("", "Transformer"), ("1_Pooling", "Pooling"), *[("2_Normalize", "Normalize")] * normalise]
    modules = [
        {"idx": n, "name": str(n), "path": path, "type": f"{KIND}.{kind}"}
        for n, (path, kind) in enumerate(steps)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    flags = {f"pooling_mode_{flag}": mode == pooling for mode, flag in MODES.items()}
    said = {"word_embedding_dimension": width, **flags, "pooling_mode_mean_sqrt_len_tokens": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(said))
    (folder / "sentence_bert_config.json").write_text(
        json.dumps({"max_seq_length": limit, "do_lower_case": False})
    )
    (folder / "config_sentence_transformers.json").write_text(json.dumps(facts or {}))
    return folder


def sentence_folder(folder: Path, name: str = "bert", *, wide: bool = True, **said: Any) -> Path:
    """A tiny random model of a family in such a folder."""
    return sentence_files(tiny_folder(folder, name, wide=wide), **said)


def plain_vectors(
    folder: Path, texts: list[str], *, pooling: str, normalise: bool, limit: int
) -> np.ndarray[Any, Any]:
    """The published code, text by text: tokens cut to the limit, pooled, brought to length 1."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    found = []
    for text in texts:
        ids = tokenizer(text, truncation=True, max_length=limit, return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            tokens = model(input_ids=ids).last_hidden_state[0].double()
        how = {"cls": tokens[0], "mean": tokens.mean(0), "max": tokens.amax(0), "last": tokens[-1]}
        vector = how[pooling]
        found.append((vector / vector.norm() if normalise else vector).numpy())
    return np.stack(found)
