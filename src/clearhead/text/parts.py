"""The tokenizers of a folder: one for what a model reads, and for some models another for what it writes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from tokenizers import Tokenizer as Core

from clearhead.errors import FolderError, SettingError, naming_place
from clearhead.text.facts import as_published
from clearhead.text.folder import Json, read_config, read_folder
from clearhead.text.marian import is_marian, read_marian
from clearhead.text.pieces import Kept

Parsed = tuple[Core, Json, Kept | None]
Part = Literal["source", "target"]
PREFIX = {"source": "", "target": "target_"}  # of our own files' names
# Files beside these that a tokenizer may be read from.
OLDER = (
    *("vocab.txt", "vocab.json", "merges.txt", "tokenizer.model", "sentencepiece.bpe.model", "spiece.model"),
    *("source.spm", "target.spm", "target_vocab.json"),
    *("target_tokenizer.json", "target_tokenizer_config.json"),
)
RULES, CONFIG = "tokenizer.json", "tokenizer_config.json"


def read_source(folder: Path) -> Parsed:
    """The tokenizer of what a model reads."""
    if folder.is_dir() and is_marian(folder, config := read_config(folder, {})):
        return read_marian(folder, config, target=False)
    return *read_folder(folder), None


def read_target(folder: Path) -> Parsed | None:
    """The tokenizer of what a model writes; None where it is that of what it reads."""
    prefix = PREFIX["target"]
    if (folder / f"{prefix}{RULES}").is_file():
        return *read_folder(folder, prefix=prefix), None
    path = folder / f"{prefix}{CONFIG}"
    config = read_config(folder, {}, prefix=prefix if path.is_file() else "")
    if is_marian(folder, config):
        return read_marian(folder, config, target=True)
    if path.is_file():
        raise FolderError(f"{path} speaks of {prefix}{RULES}, which is missing; fetch or save it again")
    return None


def write(folder: Path, core: Core, *, config: Mapping[str, Any], kept: Kept | None, part: Part) -> None:
    """Write a tokenizer's files, each as a whole. Published files that are kept go there as they are."""
    if part not in PREFIX:
        raise SettingError(f"part={part!r} is not known; use {' or '.join(map(repr, PREFIX))}")
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(as_published(config), indent=2, ensure_ascii=False)
    contents = {f"{PREFIX[part]}{CONFIG}": f"{text}\n".encode()}
    if kept is None:
        contents[f"{PREFIX[part]}{RULES}"] = f"{core.to_str(pretty=True)}\n".encode()
    else:
        contents |= kept.files
        for name, content in kept.files.items() if part == "target" else ():
            if (folder / name).is_file() and (folder / name).read_bytes() != content:
                raise FolderError(
                    f"{folder / name} is of another model, and both tokenizers would be read from it; save "
                    "the two that were published together"
                )
    for name, content in contents.items():
        with naming_place(folder / name):
            (folder / f"{name}.part").write_bytes(content)
    for name in contents:  # whoever is stopped while writing leaves no half of a file
        (folder / f"{name}.part").replace(folder / name)
