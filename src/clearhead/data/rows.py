"""From records to rows: which column is the text, which the label, and whether each row has both."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from clearhead.data.read import Record, records, separator_hint
from clearhead.data.wording import listed, place, short
from clearhead.errors import DataError, SettingError

TEXT_COLUMNS = ("text", "sentence", "review")
LABEL_COLUMNS = ("label", "sentiment")


@dataclass(frozen=True)
class Row:
    """One text with the place it came from; `file` and `row` as in `Record`.

    `text` is exactly as in the file. `label` is a name, also where the file holds a number or a boolean; None
    if the row has none. `extra` holds the other columns, with numbers and nested values in their JSON form.
    """

    text: str
    label: str | None
    file: str
    row: int
    extra: dict[str, str]


def read_rows(
    path: str | Path,
    *,
    text_column: str | None = None,
    label_column: str | None = None,
    labelled: bool = True,
    format: str | None = None,
    empty: str = "error",
) -> list[Row]:
    """Read a file's rows, in its order; `path` and `format` are those of `records`.

    Columns are found by name, whatever the case: `text_column`, or the one of `TEXT_COLUMNS` which is there;
    the label likewise. The first row of a JSONL file decides for all. With `labelled` every row must have a
    label (training, evaluation); without, a label is taken where there is one (prediction). A label loses the
    space around it; JSON's 1 is the name "1", 1.0 "1.0", true "true". Only JSON's null is a missing value.

    `empty` says what happens to a text of nothing but white space: "error" refuses it; "skip" leaves its row
    out if `labelled`, and otherwise keeps it, so that predictions still answer the file's rows one for one.

    DataError, with file, row, column and fix, for a file which cannot be used; SettingError for an unknown
    `format` or `empty`, or when both columns are the same.
    """
    if empty not in ("error", "skip"):
        raise SettingError(f"--empty {empty} is not known; use error or skip")
    if text_column is not None and text_column == label_column:
        raise SettingError(f"--text-column and --label-column are both {text_column!r}; name two columns")
    found = records(path, format=format)
    first = next(found)
    text_name = _column(first, text_column, usual=TEXT_COLUMNS, role="text", taken=label_column)
    label_name = None
    label_asked = labelled or label_column is not None
    if label_asked or len(_named(_others(first, text_name), LABEL_COLUMNS)) == 1:
        label_name = _column(first, label_column, usual=LABEL_COLUMNS, role="label", taken=text_name)
    rows = []
    for record in chain([first], found):
        text = _text(record, text_name)
        if not text.strip():
            if empty == "error":
                where = place(record.file, record.row, column=text_name)
                raise DataError(f"{where}: holds no text; write one, or go on without it with --empty skip")
            if labelled:
                continue
        label = None if label_name is None else _label(record, label_name, asked=label_asked)
        if label is None and labelled:
            where = place(record.file, record.row, column=label_name)
            raise DataError(f"{where}: holds no label; write one, or take the row out")
        rest = {name: _name(record.values[name]) for name in record.values if record.values[name] is not None}
        extra = {name: value for name, value in rest.items() if name not in (text_name, label_name)}
        rows.append(Row(text, label, record.file, record.row, extra))
    if not rows:
        raise DataError(f"{first.file}: holds no rows with text in column {text_name!r}; write at least one")
    return rows


def read_texts(
    path: str | Path, *, text_column: str | None = None, format: str | None = None
) -> Iterator[str]:
    """A file's texts one after another, without holding the file; empty ones too.

    The column is found as by `read_rows`, and errors are the same; they come while iterating.
    """
    found = records(path, format=format)
    first = next(found)
    name = _column(first, text_column, usual=TEXT_COLUMNS, role="text", taken=None)
    for record in chain([first], found):
        yield _text(record, name)


def _column(
    record: Record, given: str | None, *, usual: tuple[str, ...], role: str, taken: str | None
) -> str:
    """Choose the column for a role by the names in the first record; `taken` is the other role's."""
    columns = _others(record, taken)
    if given is not None and given in columns:
        return given  # also where another name differs in nothing but case
    wanted = usual if given is None else (given,)
    found = _named(columns, wanted)
    if len(found) == 1:
        return found[0]
    flag = f"--{role}-column"
    if found:
        raise DataError(f"{record.file}: {listed(found)} could each be the {role}; choose one with {flag}")
    if hint := separator_hint(list(record.values)):
        fix = hint
    elif role == "label" and list(record.values) == ["text"]:
        fix = "plain text holds no labels; where it is a table, say so with --format csv, tsv or jsonl"
    elif columns:
        fix = f"choose one with {flag} (the first line of a CSV or TSV file holds the names)"
    else:
        fix = f"give a file which has a {role} in each row (CSV, TSV or JSONL)"
    looked = " or ".join(repr(name) for name in wanted)
    raise DataError(f"{record.file}: no column {looked}; found {listed(record.values) or 'none'}; {fix}")


def _others(record: Record, taken: str | None) -> list[str]:
    return [name for name in record.values if name != taken]


def _named(columns: Iterable[str], wanted: Iterable[str]) -> list[str]:
    folded = {name.strip().casefold() for name in wanted}
    return [name for name in columns if name.strip().casefold() in folded]


def _text(record: Record, column: str) -> str:
    value = record.values.get(column)
    if value is None:
        return ""
    if not isinstance(value, str):
        where = place(record.file, record.row, column=column)
        raise DataError(f"{where}: {short(_name(value))} is not a text; write it as a string, in quotes")
    return value


def _label(record: Record, column: str, *, asked: bool) -> str | None:
    value = record.values.get(column)
    if isinstance(value, list | dict) and asked:
        where = place(record.file, record.row, column=column)
        raise DataError(f"{where}: {short(_name(value))} is not a label; write one name or number")
    if value is None or isinstance(value, list | dict):
        return None
    return _name(value).strip() or None


def _name(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
