"""What a saved model answers, kept beside it: whoever loads the folder sees whether it is still that model.

`fingerprint.json` holds the SHA-256 of each file, the labels in order, a text with its ids, and two short
inputs with what the network makes of them. The answer is computed in float64, so that it is the same on every
machine, far within the tolerance.
"""

import hashlib
import warnings
from collections.abc import Mapping
from math import inf, isfinite
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from clearhead.checkpoint.embedding import FILES as SENTENCE_FILES
from clearhead.checkpoint.embedding import MODULES
from clearhead.checkpoint.files import files_in, read_json
from clearhead.data.rows import bare_name
from clearhead.engine.modes import own_modes
from clearhead.engine.watching import unwatched
from clearhead.errors import ClearheadError, FolderError, NotFinite, naming_place
from clearhead.model.config import Over
from clearhead.model.kernels import Context
from clearhead.model.layout import pack
from clearhead.model.transformer import Transformer
from clearhead.text.parts import RULES
from clearhead.text.tokenizer import Tokenizer

FINGERPRINT = "fingerprint.json"
# Files that every fingerprint speaks of, and what they mean to people.
ADDED = ("special_tokens_map.json", "added_tokens.json")  # read where they are there, never written here
MEANT = {"config.json": "facts and labels", "model.safetensors": "weights", RULES: "tokenizer"}
VECTORS = dict.fromkeys(SENTENCE_FILES, "how a text becomes a vector")  # where a model says it
MARIAN = ("source.spm", "target.spm", "vocab.json")  # what Marian's models have for tokenizer.json
FIELDS = {"files", "labels", "text", "text_ids", "ids", "segments", "answers", "tolerance"}
TOLERANCE = 1e-5  # relative to the largest number of an answer
LENGTHS = (6, 3)
KEPT = 16  # numbers of each answer
# Upper case, accents in both forms, quotes, a word like a control token, other scripts, an emoji, odd spaces.
TEXT = "The Café's  soupe\u0301, “très” bonne: [SEP] </s> 3,50 € Ünïté 東京 привет 🙂"


class InDouble(TorchFunctionMode):
    """Computes in float64 with a float32 network: each operation's numbers are widened for it alone."""

    def __torch_function__(self, *call: Any) -> Any:
        """One operation; `call` is the function, its types, its arguments."""
        function, _, arguments, named = [*call, (), None][:4]
        if function.__name__ != "__get__":  # shapes and the like
            arguments, named = tree_map(widened, (arguments, named))
        return function(*arguments, **(named or {}))


def widened(value: Any) -> Any:
    """A float32 tensor in float64, anything else as it is."""
    return value.double() if isinstance(value, torch.Tensor) and value.dtype == torch.float32 else value


def sample(network: Transformer) -> tuple[list[list[int]], list[list[int]]]:
    """Ids and segments of two inputs that fit the network."""
    config = network.config
    longest = config.limit or max(LENGTHS)
    lengths = [min(length, longest) for length in LENGTHS]
    ids = [[(7919 * (place + length)) % config.vocab for place in range(length)] for length in lengths]
    segments = [[place % max(1, config.segments) for place in range(length)] for length in lengths]
    return ids, segments


@own_modes()
def answers(network: Transformer, ids: list[list[int]], *, segments: list[list[int]]) -> list[list[float]]:
    """The first numbers of what the network makes of each input: the head's, or the first token's vector."""
    batch = pack(ids, segments)
    context = Context.of(batch.layout)
    with InDouble(), unwatched():  # of the weights, not of what somebody changes on the way
        stream = network(batch, context)
        firsts = [stream[rows][0] for rows in batch.layout.slices]
        if network.fill:
            found = list(network.fill_logits(torch.stack(firsts)))
        else:
            found = list(network.head(stream, context)) if network.head else firsts
        if network.head_facts and network.head_facts.over is not Over.TEXTS:
            found = [found[rows.start] for rows in batch.layout.slices]
    return [row[:KEPT].tolist() for row in found]


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with naming_place(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def of_model(
    network: Transformer, tokenizer: Tokenizer, *, labels: tuple[str, ...], place: Path
) -> dict[str, Any]:
    """The fingerprint of a model whose files lie in `place`."""
    ids, segments = sample(network)
    said = answers(network, ids, segments=segments)
    if not all(isfinite(number) for row in said for number in row):
        raise NotFinite("the model's answers are not finite numbers, so nobody could use it; it is not saved")
    (text,) = tokenizer.encode([TEXT])
    return {
        "files": {name: digest(file) for name, file in files_in(place).items()},
        "labels": list(labels),
        "text": TEXT,
        "text_ids": list(text.ids),
        "ids": ids,
        "segments": segments,
        "answers": said,
        "tolerance": TOLERANCE,
    }


def read(
    folder: Path, config: Mapping[str, Any], *, meant: Mapping[str, str] = MEANT
) -> dict[str, Any] | None:
    """The fingerprint of a folder whose files are those it speaks of, `meant` among them; None where there is
    none to hold it to.

    Raises `FolderError` naming the files that have changed, before anything is made of their content.
    """
    path = folder / FINGERPRINT
    if not path.is_file():
        return None
    if "transformers_version" in config:  # never written here
        warnings.warn(
            f"{path} is older than the model, which transformers has saved since; it is not checked and "
            "can be removed",
            stacklevel=3,
        )
        return None
    said = read_json(path)
    files = said.get("files")
    lists = all(isinstance(said.get(name), list) for name in ("labels", "text_ids", "ids", "segments"))
    if isinstance(files, dict) and files.keys() >= set(MARIAN):
        meant = {**dict.fromkeys(MARIAN, "tokenizer"), **meant}
        meant.pop(RULES, None)
    if not isinstance(files, dict) or not files.keys() >= meant.keys() or said.keys() != FIELDS or not lists:
        raise FolderError(
            f"{path} is broken: it does not hold what a fingerprint holds; save the folder again"
        )
    weights = [name for name in files if name.endswith(".safetensors") and not (folder / name).is_file()]
    if weights:
        raise FolderError(f"{folder} lacks {', '.join(weights)}; fetch or save the folder again")
    added = [name for name in (*ADDED, MODULES) if name not in files and (folder / name).exists()]
    changed = [name for name, hash in files.items() if not _is(folder / name, hash)] + added
    if changed:
        table = config.get("id2label")
        labels = list(table.values()) if isinstance(table, dict) else []
        words = {**VECTORS, **meant}
        named = [f"{name} ({words[name]})" if name in words else name for name in changed]
        moved = [f"the labels were {', '.join(map(str, said['labels']))}"] if labels != said["labels"] else []
        raise _another(path, ["; ".join([f"changed since: {', '.join(named)}", *moved])])
    return said


def check(
    said: Mapping[str, Any],
    network: Transformer,
    *,
    tokenizer: Tokenizer,
    labels: tuple[str, ...],
    path: Path,
) -> None:
    """Refuse a model that answers something else than its fingerprint says, though its files are the same."""
    try:
        (text,) = tokenizer.encode([said["text"]])
        given = exact(answers(network, said["ids"], segments=said["segments"]))
        right = exact(said["answers"])
        meant = [bare_name(name) for name in said["labels"]]
    except (TypeError, ValueError, AttributeError, IndexError, RuntimeError, ClearheadError) as error:
        raise FolderError(f"{path} is broken ({error}); save the folder again") from error
    differs = []
    if meant != list(labels):
        differs.append(f"labels {', '.join(labels)}, not {', '.join(map(str, said['labels']))}")
    if said["text_ids"] != list(text.ids):
        differs.append("the tokenizer gives other ids for the sample text")
    gap = float((given - right).abs().max() / right.abs().max()) if given.shape == right.shape else inf
    if not gap <= TOLERANCE:
        differs.append(f"the answers to the sample differ by {gap:.1e} of the largest")
    if differs:
        raise _another(path, differs)


def _is(path: Path, hash: str) -> bool:
    return path.is_file() and digest(path) == hash


def _another(path: Path, differs: list[str]) -> FolderError:
    return FolderError(
        f"{path} says that another model was saved: {'; '.join(differs)}; fetch or save the folder again "
        "or, if the change is meant, remove that file or load with --no-fingerprint (fingerprint=False)"
    )


def exact(rows: list[list[float]]) -> torch.Tensor:
    """Numbers as they stand."""
    return torch.tensor(rows, dtype=torch.float64)
