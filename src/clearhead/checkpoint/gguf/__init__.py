"""GGUF files (llama.cpp's) → published model folders: one idea a file.

`container` reads the file itself, `blocks` its numbers; `facts` and `architectures` say what they are called
in published folders; `words` builds the tokenizer; `convert` writes the folder. Nothing here knows our own
model: the rest of the package reads what comes out as any other folder.
"""

from functools import partial
from pathlib import Path

from clearhead.checkpoint.files import moved_together, write_json
from clearhead.checkpoint.gguf.architectures import plan
from clearhead.checkpoint.gguf.container import read
from clearhead.checkpoint.gguf.words import ends_of, roles_of, tokenizer_of
from clearhead.checkpoint.tensors import WEIGHTS, Coming, write_in_turn
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
            coming = [Coming(each.name, each.shape, partial(each.numbers, file)) for each in tensors]
            write_in_turn(place / WEIGHTS, coming)
    except OSError as error:
        raise FolderError(
            f"{folder} cannot be written ({error.strerror}); is there room, and may it be written?"
        ) from error
