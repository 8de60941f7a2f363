"""A tokenizer learned from files: they are read as a stream, so that they may be larger than memory."""

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from clearhead.checkpoint.files import finish_move, leftovers, moved_together, remove
from clearhead.checkpoint.lock import LOCK
from clearhead.data.rows import read_texts
from clearhead.errors import DataError, SettingError
from clearhead.settings import Encode, Vocabulary
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.train import train_tokenizer

FILES = {"tokenizer.json", "tokenizer_config.json"}
SAMPLE = 1_000_000  # bytes of text, from the beginning, whose tokens are counted


@dataclass(frozen=True)
class Learned:
    """What came of it."""

    out: str
    kind: str
    vocab: int
    """Tokens of the vocabulary, special ones included."""
    texts: int
    bytes: int
    """Bytes of all texts, in UTF-8."""
    bytes_a_token: float | None
    """Measured on the first megabyte, without unknown tokens and what they stand for; None if all is."""
    unknown: float | None
    """Which share of the tokens of the first megabyte stands for text that the vocabulary cannot express."""
    seconds: float


def learn_vocabulary(settings: Vocabulary) -> Learned:
    """Learn a tokenizer from the files of `settings` and write it to their folder.

    DataError for a file that cannot be used, SettingError for settings that cannot work; nothing is written
    then.
    """
    begin = time.perf_counter()
    check_folder(settings, Path(settings.out), files=FILES, what="tokenizer")
    counted = Counted(settings)
    tokenizer = train_tokenizer(
        counted,
        vocab=settings.vocab,
        kind=settings.kind,
        lowercase=settings.lowercase,
        closed=settings.closed,
    )
    if not set(tokenizer.vocabulary().values()) - tokenizer.control_ids - {tokenizer.unknown_id}:
        files = ", ".join(settings.data)
        raise DataError(f"{files}: there is no text to learn from; give files that hold some")
    with moved_together(Path(settings.out)) as place:
        tokenizer.write(place)
    for half in half_written(Path(settings.out), FILES):
        remove(half)
    known, unknown, size = measured(tokenizer, counted.sample)
    return Learned(
        out=settings.out,
        kind=settings.kind,
        vocab=len(tokenizer.vocabulary()),
        texts=counted.texts,
        bytes=counted.bytes,
        bytes_a_token=size / known if known else None,
        unknown=unknown / (known + unknown) if known + unknown else None,
        seconds=time.perf_counter() - begin,
    )


def measured(tokenizer: Tokenizer, texts: list[str]) -> tuple[int, int, int]:
    """How many tokens of the texts say something, how many are unknown, and the bytes of what is not."""
    known, unknown, size = 0, 0, sum(map(size_of, texts))
    for text, encoding in zip(texts, tokenizer.encode(texts), strict=True):
        for id, (start, end), special in zip(encoding.ids, encoding.offsets, encoding.special, strict=True):
            if id == tokenizer.unknown_id:
                unknown += 1
                size -= size_of(text[start:end])
            elif not special:
                known += 1
    return known, unknown, size


def check_folder(settings: Vocabulary | Encode, out: Path, *, files: Collection[str], what: str) -> None:
    """Refuse a folder that holds anything, but for what has these files and is to be replaced, and texts that
    lie in it."""
    if not out.exists():
        return
    if not out.is_dir():
        raise SettingError(f"--out {out} is a file; give a folder")
    finish_move(out)
    for file in settings.data:
        if Path(file).exists() and Path(file).resolve().is_relative_to(out.resolve()):
            raise SettingError(f"--data {file} lies in --out {out}, whose files are replaced; move it")
    left = [*half_written(out, files), out / LOCK]
    names = {path.name for path in out.iterdir() if path not in left}
    if more := sorted(names - {*files}):
        raise SettingError(f"--out {out} holds {more[0]}, which is no {what}'s; give another folder")
    if names and not settings.overwrite:
        going_on = ", go on with it: --resume" if isinstance(settings, Encode) else ""
        raise SettingError(
            f"--out {out} holds a {what}; give another folder, or replace it: --overwrite{going_on}"
        )


def half_written(out: Path, files: Collection[str]) -> list[Path]:
    """What a killed writer of these files has left in a folder."""
    return [*leftovers(out), *(out / f"{name}.part" for name in files if (out / f"{name}.part").is_file())]


class Counted:
    """The texts of the files, once; counts them and keeps the first ones."""

    def __init__(self, settings: Vocabulary):
        self.settings, self.texts, self.bytes = settings, 0, 0
        self.sample: list[str] = []

    def __iter__(self) -> Iterator[str]:
        for file in self.settings.data:
            reading = {name: getattr(self.settings, name) for name in ("text_column", "format", "errors")}
            for text in read_texts(file, **reading):
                if self.bytes < SAMPLE:
                    self.sample.append(text[:SAMPLE])
                self.texts += 1
                self.bytes += size_of(text)
                yield text


def size_of(text: str) -> int:
    """Bytes in UTF-8."""
    return len(text.encode("utf-8", "surrogatepass"))
