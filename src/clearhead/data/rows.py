"""From records to rows: which column is the text, which the label, and whether each row has both."""

import json
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from clearhead.data.read import Record, records, separator_hint, with_all_columns
from clearhead.data.wording import listed, place, short
from clearhead.errors import DataError, SettingError
from clearhead.settings import Reading, flag, made

TEXT_COLUMNS = ("text", "sentence", "review")
LABEL_COLUMNS = ("label", "sentiment")


@dataclass(frozen=True)
class Row:
    """One text with the place it came from; `file` and `row` as in `Record`.

    `text` is exactly as in the file. `label` is a name, also where the file holds a number or a boolean; None
    if the row has none. `extra` holds the other columns as the file states them; where labels are not asked
    for, the label's too.
    `labels` are the names of a row that may have several, each once, in order of code points; `label` is then
    all of them, joined by `|`. `pair` is the second text where a row holds a pair.
    """

    text: str
    label: str | None
    file: str
    row: int
    extra: dict[str, object]
    labels: tuple[str, ...] | None = None
    pair: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All its labels: none, one, or where it may have several, each of them."""
        if self.labels is not None:
            return self.labels
        return () if self.label is None else (self.label,)

    @property
    def asked(self) -> str | tuple[str, str]:
        """What a model is asked about: the text, or the pair."""
        return self.text if self.pair is None else (self.text, self.pair)

    @property
    def blank(self) -> bool:
        """Whether the text, or one of the pair, is nothing but white space."""
        return not self.text.strip() or (self.pair is not None and not self.pair.strip())


def read_rows(
    path: str | Path, *, labelled: bool = True, several: bool | None = False, **options: Any
) -> list[Row]:
    """Read a file's rows, in its order; `path` is that of `records`, the options those of `Reading`.

    Columns are found by name, whatever the case: `text_column`, or the one of `TEXT_COLUMNS` which is there;
    the label likewise; a second text only by `pair_column`. The first row of a JSONL file decides for all.
    With `labelled` every row must have a label (training, evaluation); without, a label is taken where there
    is one (prediction), be it in later rows alone. A label loses the space around it; JSON's 1 is the name
    "1", 1.0 "1.0", true "true". Only JSON's null is a missing value.

    With `several`, a row may have any number of labels: a list in JSONL, else a cell in which
    `label_separator` separates them and an empty one means none. None: so it is if the first row's label is a
    list, and then every label must be one.

    `empty` says what happens to a text of nothing but white space: "error" refuses it; "skip" leaves its row
    out if `labelled`, and otherwise keeps it, so that predictions still answer the file's rows one for one.

    DataError, with file, row, column and fix, for a file which cannot be used; SettingError for an unknown
    `format` or `empty`, or when two of the columns are the same.
    """
    reading: Reading = made(Reading, options)
    _check_columns(reading)
    found = list(records(path, format=reading.format))
    first, whole = found[0], with_all_columns(found)
    columns = _Columns.of(first, reading, labelled=labelled, whole=whole)
    split_at: str | None = reading.label_separator if several else None
    if several is None:
        several = columns.label is not None and isinstance(whole.values.get(columns.label), list)
    if not several and reading.label_separator != Reading().label_separator:
        raise SettingError(
            f"--label-separator {reading.label_separator} is for several labels a text, and here it has one; "
            "leave it out (train has --problem multi for several)"
        )
    rows = []
    for record in found:
        row = columns.row(record, several=several, split_at=split_at)
        if row.blank:
            if reading.empty == "error":
                column = columns.text if not row.text.strip() else columns.pair
                where = place(record.file, record.row, column=column)
                raise DataError(f"{where}: holds no text; write one, or go on without it with --empty skip")
            if labelled:
                continue
        if row.label is None and labelled:
            where = place(record.file, record.row, column=columns.label)
            raise DataError(f"{where}: holds no label; write one, or take the row out")
        rows.append(row)
    if not rows:
        raise DataError(
            f"{first.file}: holds no rows with text in column {columns.text!r}; write at least one"
        )
    return rows


@dataclass(frozen=True)
class _Columns:
    """Which columns are what; `asked` where the label's column must be usable, `labelled` where it is the
    label's alone."""

    text: str
    pair: str | None
    label: str | None
    asked: bool
    labelled: bool

    @classmethod
    def of(cls, first: Record, reading: Reading, *, labelled: bool, whole: Record) -> "_Columns":
        """Found by the names in the first record; a label that is not asked for also by those of later ones,
        which `whole` has too."""
        taken: dict[str | None, str] = {reading.label_column: "label", reading.pair_column: "pair"}
        text = column_of(first, reading.text_column, usual=TEXT_COLUMNS, role="text", taken=taken)
        pair = label = None
        if reading.pair_column is not None:
            pair = column_of(first, reading.pair_column, usual=(), role="pair", taken={text: "text"})
        asked = labelled or reading.label_column is not None
        taken = {text: "text", pair: "pair"}
        head = first if asked else whole
        if asked or len(named(_others(head, taken), LABEL_COLUMNS)) == 1:
            label = column_of(head, reading.label_column, usual=LABEL_COLUMNS, role="label", taken=taken)
        return cls(text, pair, label, asked, labelled)

    def row(self, record: Record, *, several: bool, split_at: str | None) -> Row:
        """A record as a row, blank texts and missing labels included."""
        text = text_in(record, self.text)
        pair = None if self.pair is None else text_in(record, self.pair)
        label = labels = None
        if self.label is not None and several:
            labels = _labels(record, self.label, split_at=split_at, asked=self.asked)
            label = None if labels is None else "|".join(labels)
        elif self.label is not None:
            label = _label(record, self.label, asked=self.asked)
        ours = (self.text, self.pair, self.label if self.labelled else None)
        extra = {name: value for name, value in record.values.items() if name not in ours}
        return Row(text, label, record.file, record.row, extra, labels, pair)


def _check_columns(reading: Reading) -> None:
    """Two roles cannot have one column."""
    names = ("text_column", "pair_column", "label_column")
    for number, one in enumerate(names):
        for other in names[number + 1 :]:
            value = getattr(reading, one)
            if value is not None and value == getattr(reading, other):
                raise SettingError(f"{flag(one)} and {flag(other)} are both {value!r}; name two columns")


def read_texts(
    path: str | Path, *, text_column: str | None = None, format: str | None = None, errors: str = "strict"
) -> Iterator[str]:
    """A file's texts one after another, without holding the file; empty ones too.

    The column is found as by `read_rows`, and errors are the same; they come while iterating. A row of JSONL
    without the column, or with null in it, is one.
    """
    found = records(path, format=format, errors=errors)
    first = next(found)
    name = column_of(first, text_column, usual=TEXT_COLUMNS, role="text", taken={})
    for record in chain([first], found):
        yield given_text(record, name)


def given_text(record: Record, name: str) -> str:
    """The text of a record in a column; DataError, by place, where there is none."""
    if record.values.get(name) is None:
        where = place(record.file, record.row, column=name)
        said = "holds null" if name in record.values else "is missing"
        raise DataError(f"{where}: {said}; write a text, or take the row out")
    return text_in(record, name)


def optional_column(
    record: Record, given: str | None, *, usual: tuple[str, ...], role: str, taken: Mapping[str | None, str]
) -> str | None:
    """The same of a column that need not be there unless it was named."""
    if given is None and not named(_others(record, taken), usual):
        return None
    return column_of(record, given, usual=usual, role=role, taken=taken)


def column_of(
    record: Record, given: str | None, *, usual: tuple[str, ...], role: str, taken: Mapping[str | None, str]
) -> str:
    """Choose the column for a role by the names in the first record; `taken` are other roles' columns."""
    columns = _others(record, taken)
    if given is not None and given in columns:
        return given  # also where another name differs in nothing but case
    wanted = usual if given is None else (given,)
    found = named(columns, wanted)
    if len(found) == 1:
        return found[0]
    how = f"--{role}-column"
    if found:
        raise DataError(f"{record.file}: {listed(found)} could each be the {role}; choose one with {how}")
    if held := named((name for name in record.values if name in taken), wanted):
        raise DataError(
            f"{record.file}: the column {short(repr(held[0]))} is the {taken[held[0]]} already; name "
            f"that of the {role} with {how} (found {listed(record.values)})"
        )
    if hint := separator_hint(list(record.values)):
        fix = hint
    elif role == "text" and isinstance(record.values.get("messages"), list):
        fix = (
            "rows of messages are conversations, which train language alone reads: from a file, not from a "
            "pipe or standard input, and without --text-column"
        )
    elif role == "label" and list(record.values) == ["text"]:
        fix = "plain text holds no labels; where it is a table, say so with --format csv, tsv or jsonl"
    elif columns:
        fix = f"choose one with {how} (the first line of a CSV or TSV file holds the names)"
    else:
        fix = f"give a file which has a {role} in each row (CSV, TSV or JSONL)"
    looked = " or ".join(repr(name) for name in wanted)
    raise DataError(f"{record.file}: no column {looked}; found {listed(record.values) or 'none'}; {fix}")


def _others(record: Record, taken: Container[str | None]) -> list[str]:
    return [name for name in record.values if name not in taken]


def named(columns: Iterable[str], wanted: Iterable[str]) -> list[str]:
    """The columns that have one of these names, whatever the case."""
    folded = {name.strip().casefold() for name in wanted}
    return [name for name in columns if name.strip().casefold() in folded]


def text_in(record: Record, column: str) -> str:
    value = record.values.get(column)
    if value is None:
        return ""
    if not isinstance(value, str):
        where = place(record.file, record.row, column=column)
        raise DataError(f"{where}: {short(name_of(value))} is not a text; write it as a string, in quotes")
    return value


def _label(record: Record, column: str, *, asked: bool) -> str | None:
    value = record.values.get(column)
    if isinstance(value, list | dict) and asked:
        where = place(record.file, record.row, column=column)
        raise DataError(f"{where}: {short(name_of(value))} is not a label; write one name or number")
    if value is None or isinstance(value, list | dict):
        return None
    return name_of(value).strip() or None


def _labels(record: Record, column: str, *, split_at: str | None, asked: bool) -> tuple[str, ...] | None:
    """The labels of a row that may have several; None if its label is missing."""
    value = record.values.get(column)
    parts: list[object] | None = value if isinstance(value, list) else None
    if isinstance(value, str) and split_at is not None:
        parts = [part for part in value.split(split_at) if part.strip()]
    elif value is not None and parts is None and not isinstance(value, dict) and split_at is not None:
        parts = [value]  # JSON's 1 and true
    if parts is not None and all(isinstance(part, str | int | float) for part in parts):
        names = {name_of(part).strip() for part in parts}
        if "" not in names:
            return tuple(sorted(names))
    if value is None or not asked:
        return None
    where = place(record.file, record.row, column=column)
    if parts is None and not isinstance(value, dict):
        said = f"{short(name_of(value))} is one label, and the first row holds a list of labels"
        raise DataError(f"{where}: {said}; write a list in each row, or say --problem multi or single")
    raise DataError(f"{where}: {short(name_of(value))} is no list of labels; write names or numbers in it")


def name_of(value: object) -> str:
    """The name that a value of JSON is as a label: 1 is "1", true "true"."""
    return value if isinstance(value, str) else json.dumps(value)


def bare_name(name: str) -> str:
    """A label without the space around it, unless it is nothing else."""
    return name.strip() or name
