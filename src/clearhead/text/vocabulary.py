"""The older vocabulary files: BERT's vocab.txt, vocab.json with merges.txt of byte-level BPE, and the models
of SentencePiece."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, models, normalizers
from tokenizers import Tokenizer as Core

from clearhead.errors import FolderError, naming_place
from clearhead.text.facts import role_names
from clearhead.text.kinds import BERT, CLASSES, Kind
from clearhead.text.pieces import Sort, read_model
from clearhead.text.words import LONE_SURROGATE

# The published converter knows every format.
CONVERT = (
    "write a tokenizer.json with transformers: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"
)

ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")  # a file in UTF-8 says no half of a character otherwise


def read_vocabulary(
    folder: Path, *, kind: Kind | None, name: str | None, config: Mapping[str, Any]
) -> tuple[Path, Kind, Core]:
    """The file, how to build a tokenizer of its kind, and a core with nothing but the vocabulary in it.

    `kind` is that of the folder's class, which `name` is called by messages; `config` says how many tokens
    some kinds add. Raises FolderError if the files
    are broken, belong to another class, or hold a vocabulary that takes another library to read.
    """
    if (path := folder / "vocab.txt").is_file():
        kind = kind or (BERT if name is None else None)
        if kind is None or kind.model is not models.WordPiece:
            raise FolderError(
                f"{path} belongs to a {name}, and only {_names(models.WordPiece)} are read; {CONVERT}"
            )
        return path, kind, Core(_word_piece(path))
    if (path := folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        if kind is None or kind.model is not models.BPE:
            found = f"belongs to a {name}" if name else "does not say which class it belongs to"
            raise FolderError(
                f"{path} {found}, and only {_names(models.BPE)} are read; "
                f"name one as tokenizer_class in tokenizer_config.json, or {CONVERT}"
            )
        return path, kind, Core(_byte_level(path, folder / "merges.txt"))
    if kind is not None and kind.file and (path := folder / kind.file).is_file():
        return path, kind, _pieces(path, kind, config={**kind.defaults, **config})
    for path in sorted(folder.glob("*.model")):
        raise FolderError(
            f"{path} is a sentencepiece model, which is read under its "
            "published name for T5Tokenizer, XLMRobertaTokenizer and CamembertTokenizer; name the class as "
            f"tokenizer_class in tokenizer_config.json, or {CONVERT}"
        )
    raise FolderError(
        f"{folder} has neither tokenizer.json nor vocab.txt, nor vocab.json with merges.txt; {CONVERT}"
    )


def _names(model: type) -> str:
    return ", ".join(name for name, kind in CLASSES.items() if kind.model is model)


def _text(path: Path) -> str:
    try:
        with naming_place(path):
            return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FolderError(f"{path} is not UTF-8 ({error}); convert it to UTF-8") from error


def _word_piece(path: Path) -> models.WordPiece:
    """One token a line; the id is the line number from 0.

    As in the published reader a repeated token keeps the id of its last line, white space behind a token is
    none of it, and an empty line uses up its id.
    """
    lines = [line.rstrip() for line in _text(path).split("\n")]
    vocabulary = {line: index for index, line in enumerate(lines) if line}
    return models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100)


def numbered(path: Path) -> dict[str, int]:
    """Token → id, as a vocab.json has it."""
    written = _text(path)
    try:
        vocabulary = json.loads(written)
    except (ValueError, RecursionError) as error:
        raise FolderError(f"{path} cannot be read as JSON ({error}); fetch it again") from error
    refuse_halves(path, written, content=vocabulary)
    ids = list(vocabulary.values()) if isinstance(vocabulary, dict) else [None]
    if not all(type(id) is int and 0 <= id < 2**32 for id in ids) or len(set(ids)) < len(ids):
        raise FolderError(
            f"{path} must give each token an id of its own, a whole number from 0; fetch it again"
        )
    return vocabulary


def _byte_level(path: Path, merges: Path) -> models.BPE:
    """Token → id as JSON; one merge a line, two tokens with a space between."""
    vocabulary = numbered(path)
    pairs = []
    for number, line in enumerate(_text(merges).split("\n"), 1):
        if not line or line.startswith("#version"):
            continue
        pair = line.split(" ")
        if len(pair) != 2 or not {*pair, "".join(pair)} <= vocabulary.keys():
            raise FolderError(
                f"{merges}, line {number}: {line[:40]!r} does not merge two tokens of vocab.json to a third; "
                "fetch both files again"
            )
        pairs.append((pair[0], pair[1]))
    return models.BPE(vocabulary, pairs)


def _pieces(path: Path, kind: Kind, *, config: Mapping[str, Any]) -> Core:
    """SentencePiece's pieces as the library's own model, with its replacements and its special pieces."""
    model = read_model(path)
    if not model.unigram:
        raise FolderError(
            f"{path} is not a Unigram model, and {config['tokenizer_class']} has one; {CONVERT}"
        )
    rows = kind.rows([(piece.text, piece.score) for piece in model.pieces], config)
    unknown = next((id for id, (text, _) in enumerate(rows) if text == role_names(config)["unk_token"]), None)
    if unknown != kind.options.get("unk_id", unknown):
        raise FolderError(
            f"{path}: the published reader takes piece {kind.options['unk_id']} for the unknown one, and "
            f"{role_names(config)['unk_token']!r} has id {unknown}; {CONVERT}"
        )
    core = Core(models.Unigram(rows, unknown, False))
    if model.charsmap:
        check_charsmap(path, model.charsmap)
        core.normalizer = normalizers.Precompiled(model.charsmap)
    for piece in model.pieces:
        if piece.sort is Sort.WRITTEN:
            raise FolderError(
                f"{path}: the user-defined piece {piece.text!r} is not supported: SentencePiece and its "
                f"published readers give different ids around it; {CONVERT}"
            )
        if piece.sort is Sort.CONTROL:
            core.add_special_tokens([AddedToken(piece.text, normalized=False, special=True)])
    return core


def refuse_halves(path: Path, written: str, *, content: Any) -> None:
    """No text holds half a character, the library takes none, and no file can be written with it."""
    if not ESCAPE.search(written):
        return
    if half := LONE_SURROGATE.search(json.dumps(content, ensure_ascii=False)):
        raise FolderError(
            f"{path} holds \\u{ord(half[0]):04x}, which is half a character (a lone surrogate); write both "
            "halves or neither, or fetch it again"
        )


def check_charsmap(path: Path, table: bytes) -> None:
    """The library does not survive a broken table of replacements: its trie in 32-bit units, then texts."""
    size = int.from_bytes(table[:4], "little")
    try:
        table[4 + size :].decode()
    except ValueError:
        size = -1
    if size < 1024 or size % 4 or size + 4 > len(table):
        raise FolderError(f"{path}: precompiled_charsmap of the normalizer is broken; fetch it again")
