"""A quantised graph of an encoder beside its published config and tokenizer → the published folder."""

import shutil
from pathlib import Path

from clearhead.checkpoint.files import moved_together, read_json, write_json
from clearhead.checkpoint.folder import read_folder
from clearhead.checkpoint.onnx.graph import read
from clearhead.checkpoint.onnx.weights import weights
from clearhead.checkpoint.tensors import WEIGHTS, Coming, write_in_turn
from clearhead.errors import FolderError

RULES = "tokenizer.json"
AS_THEY_ARE = ("config.json", "tokenizer_config.json", "special_tokens_map.json", "LICENSE")


def convert_encoder(source: Path, folder: Path, *, graph: str) -> None:
    """Write the folder of config.json, the tokenizer's files and a graph whose modules have the published
    names; every number becomes float32. It is read once, so that what does not fit is a `FolderError` and
    nothing is left. The licence stays beside it."""
    found = weights(read(source / graph))
    coming = [Coming(name, weight.shape, weight.numbers) for name, weight in found.items()]
    rules = read_json(source / RULES)
    try:
        with moved_together(folder) as place:
            for name in AS_THEY_ARE:
                if (source / name).is_file():
                    shutil.copyfile(source / name, place / name)
            write_json(place / RULES, {**rules, "truncation": None, "padding": None})
            write_in_turn(place / WEIGHTS, coming)
            read_folder(place)
    except OSError as error:
        raise FolderError(
            f"{folder} cannot be written ({error.strerror}); is there room, and may it be written?"
        ) from error
