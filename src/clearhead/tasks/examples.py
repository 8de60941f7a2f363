"""Rows of a file → encoded texts, with one rule for what is too long."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.data.rows import Row
from clearhead.data.wording import place
from clearhead.errors import DataError, SettingError
from clearhead.settings import Long, Reading
from clearhead.text.encoding import Encoding, Text
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.windows import windows

FIXES = "shorten it, cut it with --long truncate, or read it in windows with --long window"


class Reads(Protocol):
    """Settings that say what becomes of a text that is too long."""

    @property
    def long(self) -> Long | None: ...
    @property
    def stride(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Example:
    """A text, or a pair, as ids: in one window or, where it is longer than that, in several that overlap."""

    windows: tuple[Encoding, ...]

    @property
    def tokens(self) -> int:
        """How many tokens go through the model; those that windows share count in each."""
        return sum(len(window.ids) for window in self.windows)

    @property
    def dropped(self) -> int:
        """How many content tokens were cut off."""
        return sum(window.dropped for window in self.windows)


def encode_rows(
    rows: Sequence[Row], tokenizer: Tokenizer, *, limit: int | None, long: Long | None
) -> list[Encoding]:
    """Ids of each row's text within `limit` tokens, special ones included.

    Raises `DataError` naming file, row and both lengths where a text is longer and `long` is "error", and
    `SettingError` where it is "window", for a task that reads a text in one.
    """
    names = [place(row.file, row.row) for row in rows]
    return encode_named([row.asked for row in rows], tokenizer, names=names, limit=limit, long=long)


def encode_named(
    texts: Sequence[Text],
    tokenizer: Tokenizer,
    *,
    names: Sequence[str],
    limit: int | None,
    long: Long | None,
    fixes: str = "shorten it, or cut it with --long truncate",
) -> list[Encoding]:
    """The same of texts that have names in messages; `fixes` are what can be done about one that is too
    long."""
    if long == "window":
        raise SettingError(
            "--long window is for labels, tags, answers, vectors and masks, which windows can share; here a "
            "text is read in one: give --long truncate or error"
        )
    encodings = tokenizer.encode(texts, limit=limit)
    if long == "error":
        for name, encoding in zip(names, encodings, strict=True):
            if encoding.dropped:
                count = len(encoding.ids) + encoding.dropped
                raise DataError(f"{name}: the text has {count} tokens, the model takes {limit}; {fixes}")
    return encodings


def examples_of(
    rows: Sequence[Row], tokenizer: Tokenizer, *, limit: int | None, reading: Reading
) -> list[Example]:
    """Each row's text, or pair, as the settings have it: whole, cut, or in windows.

    Raises `DataError` as `encode_rows` does, and where windows cannot hold a text.
    """
    names = [place(row.file, row.row) for row in rows]
    return examples_named([row.asked for row in rows], tokenizer, names=names, limit=limit, reading=reading)


def examples_named(
    texts: Sequence[Text],
    tokenizer: Tokenizer,
    *,
    names: Sequence[str],
    limit: int | None,
    reading: Reads,
) -> list[Example]:
    """The same of texts that have names in messages."""
    if reading.long != "window":
        refuse_stride(reading)
        encodings = encode_named(texts, tokenizer, names=names, limit=limit, long=reading.long, fixes=FIXES)
        return [Example((encoding,)) for encoding in encodings]
    return in_windows(texts, tokenizer, names=names, limit=limit, stride=reading.stride)


def in_windows(
    texts: Sequence[Text],
    tokenizer: Tokenizer,
    *,
    names: Sequence[str],
    limit: int | None,
    stride: int | None,
) -> list[Example]:
    """Texts, or pairs, in as many windows as they need; `names` are theirs in messages."""
    found = windows(tokenizer, texts, names=names, limit=limit, stride=stride)
    return [Example(tuple(some)) for some in found]


def refuse_stride(reading: Reads) -> None:
    """Refuse a stride where there are no windows."""
    if reading.stride is not None:
        raise SettingError(f"--stride {reading.stride} is for --long window; leave it out, or give that too")


def joined(
    numbers: Float[Tensor, "windows labels"], examples: Sequence[Example]
) -> Float[Tensor, "texts labels"]:
    """What the windows of each text say together: the mean of their rows. Of logits that is the geometric
    mean of the probabilities, scaled to sum to 1."""
    counts = [len(example.windows) for example in examples]
    assert sum(counts) == len(numbers)
    if len(counts) == len(numbers):
        return numbers
    return torch.stack([part.mean(0) for part in numbers.split(counts)])
