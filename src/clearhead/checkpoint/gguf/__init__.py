"""GGUF files (llama.cpp's) → published model folders: one idea a file.

`container` reads the file itself, `blocks` its numbers; `facts` and `architectures` say what they are called
in published folders; `words` builds the tokenizer; `convert` writes the folder. Nothing here knows our own
model: the rest of the package reads what comes out as any other folder.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from clearhead.checkpoint.files import moved_together, write_json
from clearhead.checkpoint.gguf.architectures import Planned, plan
from clearhead.checkpoint.gguf.container import File, read
from clearhead.checkpoint.gguf.words import ends_of, roles_of, tokenizer_of
from clearhead.errors import FolderError

__all__ = ["convert"]


def convert(path: str | Path, folder: str | Path) -> None:
    """Write the model folder that a GGUF file describes; every number becomes float32.

    config.json, model.safetensors with the published names, the tokenizer's two files,
    generation_config.json, and chat_template.jinja where the file has one. Of the tensors, one at a time is
    in memory. Raises `FolderError` for what is damaged or not read, before anything is written.
    """
    file, folder = read(path), Path(folder)
    config, tensors = plan(file)
    roles, ends = roles_of(file), ends_of(file)
    tokenizer = tokenizer_of(file, limit=config.get("max_position_embeddings") or config["n_positions"])
    if tokenizer.vocab_size > config["vocab_size"]:
        raise FolderError(
            f"{path} has {tokenizer.vocab_size} tokens and vectors for {config['vocab_size']}; fetch it again"
        )
    template = file.fact("tokenizer.chat_template", str, default=None)
    known = {f"{role}_id": roles[role] for role in ("bos_token", "eos_token", "pad_token") if role in roles}
    every = {"eos_token_id": ends if len(ends) > 1 else ends[0]} if ends else {}
    try:
        with moved_together(folder) as place:
            write_json(place / "config.json", {**config, **known, "dtype": "float32"})
            write_json(place / "generation_config.json", {**known, **every})
            tokenizer.write(place)
            if template is not None:
                (place / "chat_template.jinja").write_text(template, encoding="utf-8")
            _write(place / "model.safetensors", tensors, file=file)
    except OSError as error:
        raise FolderError(
            f"{folder} cannot be written ({error.strerror}); is there room, and may it be written?"
        ) from error


def _write(path: Path, tensors: Sequence[Planned], *, file: File) -> None:
    """A safetensors file, tensor by tensor."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    place = 0
    for tensor in tensors:
        size = 4 * math.prod(tensor.shape)
        header[tensor.name] = {
            "dtype": "F32",
            "shape": list(tensor.shape),
            "data_offsets": [place, place + size],
        }
        place += size
    words = json.dumps(header, separators=(",", ":")).encode()
    words += b" " * (-len(words) % 8)
    with path.open("wb") as out:
        out.write(len(words).to_bytes(8, "little") + words)
        for tensor in tensors:
            out.write(np.ascontiguousarray(tensor.numbers(file), "<f4").data)
