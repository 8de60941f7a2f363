"""Files of pairs of texts: what is read, and what it becomes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

from clearhead.data.read import form_by_ending, records
from clearhead.data.rows import column_of, given_text
from clearhead.errors import DataError, SettingError
from clearhead.settings import flag
from clearhead.settings.translate import Parallel

SOURCES = ("source", "src", "text")
TARGETS = ("target", "tgt", "translation", "summary")


@dataclass(frozen=True, slots=True)
class Pair:
    """A text and what it becomes, exactly as in the files; `file` and `row` of the text as in `Record`."""

    source: str
    target: str
    file: str
    row: int

    @property
    def blank(self) -> bool:
        """Whether one of both is nothing but white space."""
        return not self.source.strip() or not self.target.strip()


def pairs_of(
    paths: Sequence[str], reading: Parallel, *, format: str | None = None, errors: str = "strict"
) -> Iterator[Pair]:
    """The pairs of two files, line by line, or of one file of pairs, in order, blank ones too.

    Raises `DataError`, naming file and place: a line without a partner, a column that is not there; and
    `SettingError` for a column of two files of lines.
    """
    if len(paths) == 2:
        for name in ("source_column", "target_column"):
            if (column := getattr(reading, name)) is not None:
                raise SettingError(
                    f"{flag(name)} {column} is for one file of pairs, and {' and '.join(paths)} are two of "
                    "one text a line; leave it out"
                )
        yield from _beside(*paths, format=format, errors=errors)
        return
    (path,) = paths
    if path != "-" and (format or form_by_ending(path)) in (None, "text"):
        raise DataError(
            f"{path} holds one text a line; give a second file with what each becomes (train: --data A B; "
            "evaluate: --references B), or a file of pairs (.tsv, .csv or .jsonl, or say which with --format)"
        )
    found = records(path, format=format, errors=errors)
    first = next(found)
    source = column_of(first, reading.source_column, usual=SOURCES, role="source", taken={})
    target = column_of(first, reading.target_column, usual=TARGETS, role="target", taken={source: "source"})
    for record in chain([first], found):
        yield Pair(given_text(record, source), given_text(record, target), record.file, record.row)


def _beside(source: str, target: str, *, format: str | None, errors: str) -> Iterator[Pair]:
    """Two files of lines, whatever they are called; a table holds pairs, and is no side of one."""
    for path in (source, target):
        if (form := format or form_by_ending(path)) not in (None, "text"):
            raise DataError(f"{path} is a table ({form}); give it alone, or two files of one text a line")
    sides = (records(path, format="text", errors=errors) for path in (source, target))
    for number, (one, other) in enumerate(zip_longest(*sides), start=1):
        if one is None or other is None:
            longer, shorter = (source, target) if other is None else (target, source)
            raise DataError(
                f"{longer}, row {number}: has no partner: {shorter} ends after row {number - 1}; both files "
                "must have a line for each line of the other"
            )
        yield Pair(given_text(one, "text"), given_text(other, "text"), one.file, one.row)
