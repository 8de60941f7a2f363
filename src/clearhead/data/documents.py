"""Files and folders of texts → documents, whole, one after another."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from clearhead.data.read import form_of
from clearhead.data.rows import read_texts
from clearhead.data.source import opened
from clearhead.errors import DataError
from clearhead.settings import at_home

ENDINGS = (".txt", ".md", ".csv", ".tsv", ".jsonl", ".ndjson")
NO_TEXT = re.compile("[\0\ud800-\udfff]")  # a null, or a byte that is not UTF-8


def files_of(paths: Sequence[str]) -> list[str]:
    """The files of these paths, in order; of a folder all inside it that may hold texts, by name.

    DataError for a folder without such a file.
    """
    found = []
    for path in map(at_home, paths):
        if path == "-" or not os.path.isdir(path):
            found.append(path)
            continue
        inside = sorted(
            str(file)
            for file in Path(path).rglob("*")
            if file.name.lower().removesuffix(".gz").endswith(ENDINGS) and file.is_file()
        )
        if not inside:
            raise DataError(f"{path}: no file in this folder ends in {' '.join(ENDINGS)} (also with .gz)")
        found += inside
    return found


def documents(
    paths: Sequence[str],
    *,
    whole: bool = True,
    text_column: str | None = None,
    format: str | None = None,
    errors: str = "strict",
) -> Iterator[str]:
    """The documents of files, in order, those of white space alone left out. A file of plain text is one
    (`whole`) or one a line; any other file has one a row.

    Raises `DataError`, naming file and place, for what is no text.
    """
    for path in files_of(paths):
        form = form_of(path, format)
        if form == "text" and whole:
            texts: Iterator[str] = iter([whole_text(path, errors=errors)])
        else:
            texts = read_texts(path, text_column=text_column, format=form, errors=errors)
        yield from (text for text in texts if text.strip())


def whole_text(path: str, *, errors: str = "strict") -> str:
    """All of a file, its line ends as they are."""
    file = "standard input" if path == "-" else path
    with opened(path, file, newline="", errors=errors) as lines:
        text = lines.read()
    if found := NO_TEXT.search(text):
        offset = len(text[: found.start()].encode("utf-8", "surrogateescape"))
        what = "a null byte" if found[0] == "\0" else f"the byte 0x{ord(found[0]) - 0xDC00:02x}"
        fix = (
            "is this a file of text?"
            if found[0] == "\0"
            else "convert it with iconv -t UTF-8, or replace it: --errors replace"
        )
        raise DataError(f"{file}: {what} at offset {offset} is not UTF-8 text; {fix}")
    return text
