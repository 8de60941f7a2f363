"""Quantised ONNX graphs of a T5, or of an encoder → a published model folder: one idea a file.

`graph` reads the file itself, `weights` and `blocks` its numbers; `t5` says what they are called in published
folders; `convert` writes the folder, `convert_encoder` that of an encoder. The rest of the package reads what
comes out as any other folder.
"""

from pathlib import Path
from typing import Any

from clearhead.checkpoint.files import moved_together, read_json, write_json
from clearhead.checkpoint.onnx.encoder import convert_encoder
from clearhead.checkpoint.onnx.graph import read
from clearhead.checkpoint.onnx.t5 import DECODER, ENCODER, plan
from clearhead.checkpoint.tensors import WEIGHTS, Coming, write_in_turn
from clearhead.errors import FolderError
from clearhead.text.tokenizer import Tokenizer

__all__ = ["convert", "convert_encoder"]

ROLES = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
GAP = "<extra_id_"
RULES = "tokenizer.json"


def convert(source: str | Path, folder: str | Path) -> None:
    """Write the model folder that encoder.onnx, decoder.onnx and tokenizer.json of another folder describe;
    every number becomes float32.

    config.json, model.safetensors with the published names, generation_config.json and the tokenizer's two
    files, without the truncation and padding of the original. Of the tensors, one at a time is in memory as
    float32. Raises `FolderError` for what is damaged or not read, before anything is written.
    """
    source, folder = Path(source), Path(folder)
    config, found = plan({name: read(source / name) for name in (ENCODER, DECODER)})
    rules = read_json(source / RULES)
    words, ids = _words(source, vocab=config["vocab_size"])
    coming = [Coming(name, weight.shape, weight.numbers) for name, weight in found.items()]
    try:
        with moved_together(folder) as place:
            write_json(place / "config.json", {**config, **ids})
            write_json(place / "generation_config.json", ids)
            write_json(place / "tokenizer_config.json", {**words, "model_max_length": config["n_positions"]})
            write_json(place / RULES, {**rules, "truncation": None, "padding": None})
            write_in_turn(place / WEIGHTS, coming)
    except OSError as error:
        raise FolderError(
            f"{folder} cannot be written ({error.strerror}); is there room, and may it be written?"
        ) from error


def _words(source: Path, *, vocab: int) -> tuple[dict[str, Any], dict[str, int]]:
    """The fields of tokenizer_config.json, and the ids that answers begin and end with."""
    tokenizer = Tokenizer.read(source)
    if tokenizer.vocab_size > vocab:
        raise FolderError(
            f"{source / RULES} has {tokenizer.vocab_size} tokens and vectors for {vocab}; fetch it again"
        )
    known = tokenizer.vocabulary()
    if missing := [name for name in ROLES.values() if name not in known]:
        raise FolderError(f"{source / RULES} lacks {missing[0]}, which T5's has; fetch it again")
    gaps = sorted((name for name in known if name.startswith(GAP)), key=known.__getitem__, reverse=True)
    ids = {
        "decoder_start_token_id": known["<pad>"],
        "eos_token_id": known["</s>"],
        "pad_token_id": known["<pad>"],
    }
    fields = {"tokenizer_class": "T5Tokenizer", "extra_ids": len(gaps), "additional_special_tokens": gaps}
    return {**fields, **ROLES}, ids
