"""How a model's answers begin and end: ids in generation_config.json or else in config.json, or the
tokenizer's. The published code takes the first file, where it is there, in place of all such fields of the
second."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clearhead.checkpoint.files import read_json
from clearhead.errors import FolderError, SettingError
from clearhead.model.config import Config
from clearhead.text.tokenizer import Tokenizer

CONFIG, GENERATION = "config.json", "generation_config.json"
ROLES = ("bos_token", "eos_token", "cls_token", "sep_token", "pad_token")
END, START, FIRST = "eos_token_id", "decoder_start_token_id", "forced_bos_token_id"
BOS, OLD_FIRST = "bos_token_id", "force_bos_token_to_be_generated"


@dataclass(frozen=True)
class Begin:
    """How an encoder–decoder's answers begin: the id before the first one, the id that is the first where it
    is always the same one, and the ids that are none."""

    start: int | None = None
    first: int | None = None
    never: tuple[int, ...] = ()

    def known(self, name: str) -> int:
        """The id before the first one; SettingError where the model of this name does not say."""
        if self.start is None:
            raise SettingError(
                f"{name} does not say which token its answers begin with: write decoder_start_token_id into "
                "config.json (T5 and Marian begin with their padding token)"
            )
        return self.start

    def fields(self) -> dict[str, Any]:
        """The published fields."""
        said = {START: self.start, FIRST: self.first, "bad_words_ids": [[id] for id in self.never] or None}
        return {name: value for name, value in said.items() if value is not None}


class Stated:
    """What a folder says of answers: in generation_config.json where it is there, else in config.json."""

    def __init__(self, folder: Path, values: Mapping[str, Any]):
        path, other = folder / GENERATION, folder / CONFIG
        self.tables: list[tuple[Mapping[str, Any], Path]] = []
        if path.is_file():
            self.tables.append((read_json(path), path))
        self.tables.append((values, other))

    def __call__(self, name: str) -> tuple[Any, Path]:
        """A field's value, None where it is not said, and the file."""
        table, path = self.tables[0]
        return table.get(name), path

    def needed(self, name: str) -> tuple[Any, Path]:
        """The same, if need be from config.json: without it, no answer begins or ends."""
        said = [(table.get(name), path) for table, path in self.tables]
        return next((one for one in said if one[0] is not None), said[-1])

    def start(self) -> tuple[Any, Path]:
        """The id before the first of an answer: that before a text where generation_config.json names no
        other."""
        for name in (START, BOS)[: len(self.tables)]:
            if self(name)[0] is not None:
                return self(name)
        return self.needed(START)

    def first(self) -> tuple[Any, Path]:
        """The id that is the first of an answer. An old field of config.json makes it the one of a text."""
        table, path = self.tables[0]
        old = len(self.tables) == 1 and table.get(OLD_FIRST)
        return table.get(BOS if old else FIRST), path


def end_ids(stated: Stated, tokenizer: Tokenizer) -> tuple[int, ...]:
    """The ids that end an answer; the tokenizer's end where no file names one."""
    said, path = stated.needed(END)
    if said is None:
        eos = tokenizer.roles.get("eos_token")
        return () if eos is None else (eos,)
    return tuple(
        an_id(id, said, source=f"{path}: {END}") for id in (said if isinstance(said, list) else [said])
    )


def beginning(stated: Stated) -> Begin:
    """How answers begin. Of words that are never said, those of several tokens are refused by name."""
    found: dict[str, int | None] = {}
    for name, (said, path) in ((START, stated.start()), (FIRST, stated.first())):
        found[name] = None if said is None else an_id(said, said, source=f"{path}: {name}")
    banned, path = stated("bad_words_ids")
    rows = banned or []
    if not isinstance(rows, list) or any(not isinstance(row, list) or len(row) != 1 for row in rows):
        raise FolderError(f"{path}: bad_words_ids={banned!r} is not supported, only single ids: [[0], [1]]")
    never = tuple(an_id(row[0], banned, source=f"{path}: bad_words_ids") for row in rows)
    return Begin(found[START], found[FIRST], never)


def an_id(id: Any, said: Any, *, source: str) -> int:
    """Refuse what is no id."""
    if isinstance(id, bool) or not isinstance(id, int) or id < 0:
        raise FolderError(f"{source}={said!r} is no id and no list of ids")
    return id


def answers_of(
    folder: Path, values: Mapping[str, Any], *, tokenizer: Tokenizer, config: Config
) -> tuple[tuple[int, ...], Begin]:
    """The ids that end answers, and how answers begin; what the model does not have is refused."""
    stated = Stated(folder, values)
    ends = end_ids(stated, tokenizer)
    begin = beginning(stated) if config.translates else Begin()
    vocab = config.decoder.vocab if config.translates else config.vocab
    refuse_rowless(folder, tokenizer, vocab=vocab, spare=config.translates)
    named = [(END, id) for id in ends] + [("bad_words_ids", id) for id in begin.never]
    for name, id in [*named, (START, begin.start), (FIRST, begin.first)]:
        if id is not None and id >= vocab:
            raise FolderError(f"{folder}: {name} {id} is beyond the model's {vocab} tokens")
    return ends, begin


def refuse_rowless(folder: Path, tokenizer: Tokenizer, *, vocab: int, spare: bool) -> None:
    """Refuse a tokenizer with tokens that the model's table has no row for.

    Not where there are `spare` control tokens and these are such: no text gets one, and the tokenizer puts
    them nowhere and calls them no beginning, end or padding (the `<mask>` of a published BART).
    """
    rowless = set(range(vocab, tokenizer.vocab_size))
    used = tokenizer.framing_ids | {tokenizer.roles[role] for role in ROLES if role in tokenizer.roles}
    if rowless and not (spare and rowless <= tokenizer.control_ids - used):
        raise FolderError(
            f"{folder}: the tokenizer has {tokenizer.vocab_size} tokens, the model only {vocab}; the files "
            "belong to different models"
        )
