"""Marian's folders (Junczys-Dowmunt et al. 2018): one tokenizer reads a language, another writes one.

Each has a model of SentencePiece, `source.spm` and `target.spm`. The ids are those of `vocab.json`, which
both share, unless `target_vocab.json` has others for what is written.
"""

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Core
from tokenizers import decoders, models, processors

from clearhead.errors import FolderError
from clearhead.text.facts import content, role_names
from clearhead.text.folder import Json, add_tokens, read_json
from clearhead.text.pieces import SPACE, Kept
from clearhead.text.vocabulary import numbered

CLASS, TYPE = "MarianTokenizer", "marian"
SOURCE, TARGET, SHARED, OTHER = "source.spm", "target.spm", "vocab.json", "target_vocab.json"
DEFAULTS = {
    "tokenizer_class": CLASS,
    "model_max_length": 512,
    "separate_vocabs": False,
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
}
NEEDED = ("eos_token", "unk_token", "pad_token")
SAMPLING = {"enable_sampling", "nbest_size", "alpha"}  # for training: it gives one text different ids


def is_marian(folder: Path, config: Json) -> bool:
    """Whether the folder's class, or the type of its model where no class is named, is Marian's."""
    model = read_json(folder / "config.json") or {}
    if isinstance(name := config.get("tokenizer_class") or model.get("tokenizer_class"), str):
        return name == CLASS
    other = (folder / "tokenizer.json").is_file() and not (folder / SOURCE).is_file()
    return model.get("model_type") == TYPE and not other


def read_marian(folder: Path, config: Json, *, target: bool) -> tuple[Core, Json, Kept]:
    """What names and numbers the pieces of the source, or of the target; the configuration with its defaults;
    and the files, one of which finds them.

    Raises FolderError for files that are missing or do not fit together.
    """
    config = {**DEFAULTS, **config}
    if not isinstance(separate := config["separate_vocabs"], bool):
        raise FolderError(f"{folder}: separate_vocabs={separate!r} is not known; use true or false")
    if odd := sorted((config.get("sp_model_kwargs") or {}).keys() - SAMPLING):
        raise FolderError(f"{folder}: {odd[0]} of sp_model_kwargs is not supported; remove it")
    names = [SOURCE, TARGET, SHARED, *([OTHER] if separate else [])]
    if missing := [name for name in names if not (folder / name).is_file()]:
        raise FolderError(f"{folder} has no {missing[0]}, which a {CLASS} is read from; fetch it again")
    own = OTHER if target and separate else SHARED
    ids, shared = (numbered(folder / name) for name in (own, SHARED))
    roles = role_names(config)
    for role in NEEDED:
        if roles[role] not in ids:
            raise FolderError(
                f"{folder / own} lacks {roles[role]!r}; add it, or name another {role} in "
                "tokenizer_config.json"
            )
    if ids[end := roles["eos_token"]] != shared.get(end):
        raise FolderError(
            f"{folder}: {end!r} is {ids[end]} in {OTHER} and {shared.get(end)} in {SHARED}, and the "
            "published reader takes the latter for both; give it one id"
        )
    core = Core(models.WordLevel(ids, unk_token=roles["unk_token"]))
    core.add_special_tokens([roles[role] for role in NEEDED])
    if own == SHARED:  # the ids of that file are those of the configuration
        _add(folder, core, config=config)
    core.decoder = decoders.Sequence(_decoders(ids))
    core.post_processor = processors.TemplateProcessing(
        single=["$A", end], pair=["$A", "$B", end], special_tokens=[(end, ids[end])]
    )
    files = {name: (folder / name).read_bytes() for name in names}
    return core, config, Kept(files, TARGET if target else SOURCE)


def _add(folder: Path, core: Core, *, config: Json) -> None:
    listed = config.get("added_tokens_decoder") or {}
    for token in listed.values() if isinstance(listed, dict) else ():
        if not isinstance(token, dict) or not token.get("special", False):
            raise FolderError(
                f"{folder}: the added token {content(token)!r} is a word, and words beside SentencePiece's "
                f"are not supported for {CLASS}; remove it from added_tokens_decoder"
            )
    add_tokens(folder, core, config=config)


def _decoders(ids: dict[str, int]) -> list[Any]:
    """Pieces to text: bytes become characters where the vocabulary has them all, and the space before a text
    goes."""
    every = all(f"<0x{byte:02X}>" in ids for byte in range(256))
    return [
        decoders.Replace(SPACE, " "),
        *([decoders.ByteFallback()] if every else []),
        decoders.Fuse(),
        decoders.Strip(" ", 1, 0),
    ]
