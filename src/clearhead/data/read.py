"""From a file to its records: CSV, TSV, JSONL and plain text."""

import csv
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from clearhead.data.source import ended, opened, refuse_half_characters, without_end
from clearhead.data.strict import refuse_unwritable, strictly
from clearhead.data.wording import counted, place, short
from clearhead.errors import DataError, SettingError
from clearhead.settings import at_home

FORMATS = ("csv", "tsv", "jsonl", "text")
_FORMAT_BY_ENDING = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "text",
    ".md": "text",
}


@dataclass(frozen=True)
class Record:
    """One data record as its file states it.

    `values` by column name, in the file's order: strings from CSV, TSV and plain text; from JSONL whatever
    JSON says (str, int, float, bool, None, list, dict), since `1` and `"1"` are not the same text.
    `file` is the path as the user gave it ("standard input" for "-"). `row` counts data records from 1: the
    header and skipped blank lines are not counted, and a quoted newline starts no new row.
    """

    values: dict[str, object]
    file: str
    row: int


def records(path: str | Path, *, format: str | None = None, errors: str = "strict") -> Iterator[Record]:
    """Read the records of a data file one after another, in order; there is at least one.

    `path` is a file, or "-" for stdin. `format` is one of `FORMATS`; without it the ending decides (.csv .tsv
    .jsonl .ndjson .txt, each also with .gz), and stdin is "text". Gzip is recognised by its first bytes,
    whatever the name. The encoding is UTF-8, or UTF-16 if a byte-order mark says so; the mark is removed.
    `errors` as in `opened`.

    - csv: RFC 4180 with a header; quoted newlines are kept, blank lines skipped.
    - tsv: a header, then one line a record, separated by tabs; blank lines skipped. A quote is an ordinary
      character: files in the style of GLUE's SST-2 hold unpaired ones, which would swallow many lines.
    - jsonl: RFC 8259, one object a line; blank lines skipped.
    - text: one text a line, as column "text"; a blank line is an empty text.

    Names in a header lose the space around them; values never do. Errors come while iterating: DataError,
    with file, row, column and fix, for a file which cannot be used; SettingError for an unknown `format`.
    """
    if not isinstance(path, str | Path):
        raise SettingError(f"{short(repr(path))} is no file of texts; give its path, or - for standard input")
    given = at_home(os.fspath(path))
    form = form_of(given, format)
    file = "standard input" if given == "-" else given
    row = 0
    # Lines end at "\n" alone: str.splitlines() would see further ends, such as U+2028, within texts. The csv
    # module wants all line ends untouched, so that it can keep those in quotes.
    with opened(given, file, newline="" if form == "csv" else "\n", errors=errors) as lines:
        for row, values in enumerate(_values(lines, file, form=form), start=1):
            yield Record(values, file, row)
    if row == 0:
        raise DataError(f"{file}: holds no rows; give a file with at least one")


def with_all_columns(found: Sequence[Record]) -> Record:
    """The first record with the columns of all: rows of JSONL need not have the same, and a column that only
    later ones have is one of the file's."""
    values: dict[str, object] = {}
    for record in found:
        for name, value in record.values.items():
            values.setdefault(name, value)
    return replace(found[0], values=values)


def separator_hint(columns: Sequence[str]) -> str:
    """What probably separates the columns of a file whose header came out as one name; "" if nothing does."""
    fixes = {
        ";": "save the file separated by commas or tabs",
        "\t": "read it with --format tsv",
        ",": "read it with --format csv",
    }
    for separator, fix in fixes.items():
        if len(columns) == 1 and separator in columns[0]:
            return f"the header is a single name with {separator!r} in it: if that separates columns, {fix}"
    return ""


def form_of(given: str, format: str | None) -> str:
    """The format of a file: the one that is given, or that of its ending."""
    if not given:
        raise SettingError("the file of texts has an empty name; give its path, or - for standard input")
    if format is not None:
        if format == "conll":
            raise SettingError(f"--format conll holds tagged words; here it is one of {', '.join(FORMATS)}")
        if format not in FORMATS:
            raise SettingError(f"--format {format} is not known; use one of {', '.join(FORMATS)}")
        return format
    if given == "-":
        return "text"
    found = form_by_ending(given)
    if found is None:
        ending = Path(given.lower().removesuffix(".gz")).suffix
        raise DataError(
            f"{given}: the ending {ending!r} is not known; known are {' '.join(_FORMAT_BY_ENDING)} "
            f"(each also with .gz), or say what the file is with --format {'|'.join(FORMATS)}"
        )
    return found


def form_by_ending(given: str) -> str | None:
    """The format that a file's name tells, None where it tells none."""
    return _FORMAT_BY_ENDING.get(Path(given.lower().removesuffix(".gz")).suffix)


def _values(lines: Iterable[str], file: str, *, form: str) -> Iterator[dict[str, object]]:
    if form != "csv":
        lines = ended(lines, file)
    match form:
        case "csv":
            return _table(_csv_fields(lines, file), file, fix='put "quotes" around a text with a comma in it')
        case "tsv":
            return _table(_tsv_fields(lines), file, fix="take tabs out of the texts, or save the file as CSV")
        case "jsonl":
            return _objects(lines, file)
        case _:
            return _texts(lines, file)


def _csv_fields(lines: Iterable[str], file: str) -> Iterator[list[str]]:
    csv.field_size_limit(2**31 - 1)  # the module's default refuses a text of more than 131,072 characters
    reader = csv.reader(lines, strict=True)
    header: list[str] = []
    row = 0
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader, None)
        except csv.Error as error:
            fix = separator_hint(header) or 'close the quote, and write a " inside a quoted text twice'
            where = f"{place(file, row)}, from line {line} on"
            raise DataError(f"{where}: quotes do not match ({error}); {fix}") from None
        if fields is None:
            return
        if fields:  # a blank line has no field at all; a row of one empty text is written as ""
            header = header or fields
            yield fields
            row += 1


def _tsv_fields(lines: Iterable[str]) -> Iterator[list[str]]:
    for line in lines:
        if content := without_end(line):
            yield content.split("\t")


def _table(found: Iterator[list[str]], file: str, *, fix: str) -> Iterator[dict[str, object]]:
    header = _header(next(found, []), file)
    for row, fields in enumerate(found, start=1):
        if len(fields) != len(header):
            raise DataError(
                f"{place(file, row)}: {counted(len(fields), 'field')}, but the header names "
                f"{counted(len(header), 'column')}; {separator_hint(header) or fix}"
            )
        for name, value in zip(header, fields, strict=True):
            refuse_half_characters(value, place(file, row, column=name), line=value)
        yield dict(zip(header, fields, strict=True))


def _header(fields: list[str], file: str) -> list[str]:
    names, places = [name.strip() for name in fields], dict[str, int]()
    for number, name in enumerate(names, start=1):
        where = f"{place(file, 0)}, column {number}"
        refuse_half_characters(name, where, line=name)
        if not name:
            raise DataError(f"{where}: has no name; give it one (pandas leaves it out unless index=False)")
        if name in places:
            raise DataError(f"{where}: is named {name!r} like column {places[name]}; rename one")
        places[name] = number
    return names


def _objects(lines: Iterable[str], file: str) -> Iterator[dict[str, object]]:
    for row, line in enumerate((line for line in lines if line.strip()), start=1):
        where = place(file, row)
        values = _object(line, where)
        for name, value in values.items():
            refuse_half_characters(name, where, line=line)
            refuse_unwritable(value, place(file, row, column=name), line=line)
        yield values


def _object(line: str, where: str) -> dict[str, object]:
    try:
        found = strictly(line)
    except (ValueError, RecursionError) as error:
        refuse_half_characters(line, where, line=line)
        raise DataError(f"{where}: is not usable JSON ({error}); write one object a line") from None
    if not isinstance(found, dict):
        example = '{"text": "…", "label": "…"}'
        raise DataError(f"{where}: holds {short(json.dumps(found))}, not a JSON object; write {example}")
    return found


def _texts(lines: Iterable[str], file: str) -> Iterator[dict[str, object]]:
    for row, line in enumerate(lines, start=1):
        refuse_half_characters(line, place(file, row), line=line)
        yield {"text": without_end(line)}
