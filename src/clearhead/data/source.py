"""From a path to decoded lines: stdin, gzip and encodings are dealt with here and nowhere else."""

import codecs
import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from clearhead.errors import DataError

HOW = {"strict": "surrogateescape", "replace": "replace", "ignore": "ignore"}
# By the marks at the beginning; that of UTF-32 begins with one of UTF-16, so that it is looked for before.
WIDE = {
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
_Stream = io.BufferedReader | io.BytesIO | gzip.GzipFile


@contextmanager
def opened(given: str, file: str, *, newline: str, errors: str = "strict") -> Iterator[io.TextIOWrapper]:
    """Open `given` ("-" is stdin) for reading its lines; messages call it `file`, `newline` is as in `open`.

    A byte which is not UTF-8 comes through as half a character, so that whoever knows the row it stands in
    can name it with `refuse_half_characters`; with `errors` "replace" as U+FFFD, with "ignore" not at all.
    DataError if the file cannot be opened, unpacked or decoded.
    """
    with _bytes(given) as packed:
        try:
            stream = gzip.GzipFile(fileobj=packed) if _head(packed).startswith(b"\x1f\x8b") else packed
            yield _decoded(stream, file, newline=newline, errors=HOW[errors])
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(
                f"{file}: cannot be unpacked ({error}); this gzip file is damaged, get it anew"
            ) from None
        except UnicodeDecodeError as error:
            raise DataError(
                f"{file}: is not {error.encoding} ({error.reason}); save the file as UTF-8"
            ) from None
        except OSError as error:
            raise DataError(f"{file}: cannot be read ({error.strerror or error}); copy it first") from None


def ended(lines: Iterable[str], file: str) -> Iterator[str]:
    """Lines that end as lines do; DataError at the first that holds an end of another time, which would make
    one line of several."""
    for number, line in enumerate(lines, start=1):
        if "\r" in without_end(line):
            raise DataError(
                f"{file}, line {number}: a carriage return (CR) stands in it; where it ends a line, write "
                "all ends as LF: tr '\\r' '\\n'; else take it out"
            )
        yield line


def without_end(line: str) -> str:
    """A line without what ends it."""
    return line.removesuffix("\n").removesuffix("\r")


def refuse_half_characters(text: str, where: str, *, line: str) -> None:
    """DataError if `text`, which stands in `line`, holds a byte which is not UTF-8, or a lone surrogate."""
    if (found := _HALF_CHARACTER.search(text)) is None:
        return
    if found[0] not in line:  # the file has no such byte: JSON wrote it as an escape
        half = f"\\u{ord(found[0]):04x}"
        raise DataError(
            f"{where}: {half} is half a character (a lone surrogate); write both halves or neither"
        )
    fix = 'save the file as UTF-8 (in a spreadsheet: "CSV UTF-8") or convert it with iconv -t UTF-8'
    raise DataError(f"{where}: the byte 0x{ord(found[0]) - 0xDC00:02x} is not UTF-8; {fix}")


def _bytes(given: str) -> io.BufferedReader | io.BytesIO:
    if given == "-":
        return io.BytesIO(sys.stdin.buffer.read())
    if os.path.isdir(given):
        raise DataError(f"{given}: is a folder; give a file in it")
    try:
        stream = open(given, "rb")  # noqa: SIM115 (`opened` closes it)
    except FileNotFoundError:
        raise DataError(
            f"{given}: there is no such file in {Path(given).absolute().parent}; check the path"
        ) from None
    except OSError as error:
        raise DataError(f"{given}: cannot be opened ({error.strerror}); make it a readable file") from None
    if stream.seekable():
        return stream
    with stream:  # a pipe: its first bytes can be read only once
        return io.BytesIO(stream.read())


def _head(stream: _Stream) -> bytes:
    head = stream.read(4)
    stream.seek(0)
    return head


def _decoded(stream: _Stream, file: str, *, newline: str, errors: str) -> io.TextIOWrapper:
    head = _head(stream)
    for encoding, marks in WIDE.items():
        if head.startswith(marks):
            how = "strict" if errors == HOW["strict"] else errors
            return io.TextIOWrapper(stream, encoding=encoding, errors=how, newline=newline)
    if b"\0" in head[:2]:  # every other byte of English in UTF-16 is 0, and all of it would pass for UTF-8
        raise DataError(
            f"{file}: looks like UTF-16 or UTF-32 without a byte-order mark; save the file as UTF-8"
        )
    return io.TextIOWrapper(stream, encoding="utf-8-sig", errors=errors, newline=newline)
