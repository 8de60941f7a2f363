"""Files of pairs of texts that belong together: what is read, and what it becomes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import isfinite

from clearhead.data.labels import LARGEST
from clearhead.data.read import Record, records, with_all_columns
from clearhead.data.rows import column_of, given_text, optional_column
from clearhead.data.wording import listed, place, short
from clearhead.errors import DataError
from clearhead.settings import Pairing

ANCHORS = ("anchor", "query", "question", "sentence1", "text1", "source", "text")
POSITIVES = ("positive", "answer", "passage", "document", "sentence2", "text2", "pair", "target")
NEGATIVES, SCORES = ("negative",), ("score", "similarity")


@dataclass(frozen=True, slots=True)
class Couple:
    """A text, one that belongs to it and, where there is one, one that does not; or, with a score, how
    similar the first two are. All exactly as in the file; `file` and `row` as in `Record`."""

    anchor: str
    positive: str
    negative: str | None
    score: float | None
    file: str
    row: int

    @property
    def blank(self) -> bool:
        """Whether one of both is nothing but white space."""
        return not self.anchor.strip() or not self.positive.strip()


def couples_of(
    path: str,
    columns: Pairing,
    *,
    negative_column: str | None = None,
    format: str | None = None,
    errors: str = "strict",
) -> Iterator[Couple]:
    """The pairs of a file in order, blank ones too. Columns of scores and of negatives are taken where any
    row has them; a row may have no negative.

    Raises `DataError`, naming file, row and column, for a column that is not there, or a score that is none.
    """
    found = list(records(path, format=format, errors=errors))
    first, whole = found[0], with_all_columns(found)
    taken: dict[str | None, str] = {}
    anchor = column_of(first, columns.anchor_column, usual=ANCHORS, role="anchor", taken=taken)
    taken[anchor] = "anchor"
    positive = column_of(first, columns.positive_column, usual=POSITIVES, role="positive", taken=taken)
    taken[positive] = "positive"
    negative = optional_column(whole, negative_column, usual=NEGATIVES, role="negative", taken=taken)
    score = optional_column(whole, columns.score_column, usual=SCORES, role="score", taken=taken)
    if negative and score:
        raise DataError(
            f"{first.file}: {listed([negative, score])} are a text that does not belong and a score; a row "
            "has one or the other: take one column out"
        )
    for record in found:
        yield Couple(
            given_text(record, anchor),
            given_text(record, positive),
            given_text(record, negative) if negative and _stated(record, negative) else None,
            _score(record, score) if score else None,
            record.file,
            record.row,
        )


def _stated(record: Record, column: str) -> bool:
    """Whether a row has something there: no null and no empty text."""
    return record.values.get(column) not in (None, "")


def _score(record: Record, column: str) -> float:
    value, where = record.values.get(column), place(record.file, record.row, column=column)
    try:
        number = float(value) if isinstance(value, str | int | float) and value is not True else None
    except (ValueError, OverflowError):
        number = None
    if isinstance(value, bool) or number is None or not isfinite(number):
        raise DataError(f"{where}: {short(repr(value))} is not a number; write one, or take the row out")
    if abs(number) > LARGEST:
        raise DataError(
            f"{where}: {number:g} is beyond {LARGEST:g}; write scores in another unit, or mend it"
        )
    return number


def scored(couples: Iterable[Couple]) -> bool:
    """Whether pairs have scores; all have, or none."""
    return any(couple.score is not None for couple in couples)
