"""A text's vector, from those of its tokens, as the files beside a model say it: read on their own."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.errors import FolderError
from clearhead.reference.layers import Array

# What each kind does with [tokens, width].
POOLS: dict[str, Callable[[Array], Array]] = {
    "cls": lambda tokens: tokens[0],
    "mean": lambda tokens: tokens.sum(axis=0) / len(tokens),
    "max": lambda tokens: tokens.max(axis=0),
    "lasttoken": lambda tokens: tokens[-1],
}
FLAGGED = {"cls_token": "cls", "mean_tokens": "mean", "max_tokens": "max", "lasttoken": "lasttoken"}


@dataclass(frozen=True)
class Pooled:
    """One of POOLS, whether its vector gets the length 1, and how many of its numbers are kept then. Source:
    Reimers & Gurevych 2019, section 3; Kusupati et al. 2022."""

    kind: str = "mean"
    normalised: bool = False
    kept: int | None = None

    def vector(self, tokens: Array) -> Array:
        """[tokens, width] → [width], or [kept]."""
        found = POOLS[self.kind](tokens)
        found = found / max(float(np.sqrt((found**2).sum())), 1e-12) if self.normalised else found
        return found[: self.kept]


def read_pooled(folder: Path) -> Pooled:
    """What the folder's `modules.json` says; without it the mean. FolderError for anything else."""
    if not (folder / "modules.json").is_file():
        return Pooled()
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8-sig"))
    kinds = [module["type"].split(".")[-1] for module in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise FolderError(f"{folder}: the modules {', '.join(kinds)} are not known here")
    path = folder / modules[1]["path"] / "config.json"
    said: dict[str, Any] = json.loads(path.read_text(encoding="utf-8-sig"))
    flags = [kind for name, kind in FLAGGED.items() if said.get(f"pooling_mode_{name}")]
    kind = said.get("pooling_mode", " + ".join(flags) or "mean")
    if kind not in POOLS:
        raise FolderError(f"{path}: the pooling {kind} is not known here")
    facts = folder / "config_sentence_transformers.json"
    more = json.loads(facts.read_text(encoding="utf-8-sig")) if facts.is_file() else {}
    return Pooled(kind, "Normalize" in kinds, more.get("truncate_dim"))
