"""The names of the classes: which there are, in which order, and whether a row's label is one of them."""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from math import isfinite

from clearhead.data.rows import Row
from clearhead.data.wording import counted, listed, place, short
from clearhead.errors import DataError

# Training sums squares of errors, and of gradients that are as long, in float32, which ends at 3.4e38.
LARGEST = 1e15
_INTEGER = re.compile(r"-?[0-9]{1,18}")


def label_names(rows: Sequence[Row], *, left_out: int = 0) -> tuple[str, ...]:
    """Name each class once: in order of number if all names are integers, else in order of code points.

    The order depends on nothing but the set of names, so a class keeps its place however the rows are
    shuffled. DataError if a row has no label, or if all rows have the same one; of rows that may have several
    labels, if none has any. `left_out` is how many rows of the file are not among these, as repeats.
    """
    names = {name for row in rows for name in _labels(row)}
    if all(_INTEGER.fullmatch(name) for name in names):
        ordered = sorted(names, key=lambda name: (int(name), name))
    else:
        ordered = sorted(names)
    if not rows:
        raise DataError("there are no rows to take the names of classes from; give at least two")
    if not ordered:
        raise DataError(f"{rows[0].file}: no row has a label; give some rows at least one")
    if len(ordered) == 1 and rows[0].labels is None:
        every = f"every row has the label {short(repr(ordered[0]))}"
        if left_out:
            every += f" ({counted(left_out, 'row')} left out: their texts are those of rows before)"
        raise DataError(f"{rows[0].file}: {every}; give rows of at least two classes")
    return tuple(ordered)


def check_known(rows: Iterable[Row], names: Sequence[str]) -> None:
    """DataError, with file, row and label, at the first row whose label is not one of `names`."""
    known = set(names)
    for row in rows:
        for label in _labels(row):
            if label in known:
                continue
            folded = {name.casefold(): name for name in names}
            close = get_close_matches(label.casefold(), folded, n=1)
            guess = f" (did you mean {folded[close[0]]!r}?)" if close else ""
            found = f"the label {short(repr(label))} is not one the model was trained on{guess}"
            raise DataError(f"{place(row.file, row.row)}: {found}; known are {listed(names)}")


def numbers(rows: Iterable[Row]) -> list[float]:
    """The label of each row as a number; DataError, with file, row and label, at the first that is none,
    or too large to learn from."""
    found = []
    for row in rows:
        label = _labels(row)[0]
        try:
            value = float(label.replace("_", "?"))  # Python would read 1_0 as 10
        except ValueError:
            value = float("nan")
        if not isfinite(value):
            said = f"the label {short(repr(label))} is not a finite number"
            fix = "a model for numbers needs one in each row, such as -1.5"
            raise DataError(f"{place(row.file, row.row)}: {said}; {fix}")
        if abs(value) > LARGEST:
            said = f"the label {short(repr(label))} is beyond {LARGEST:g}, and its square must fit float32"
            raise DataError(f"{place(row.file, row.row)}: {said}; write it in another unit")
        found.append(value)
    return found


def _labels(row: Row) -> tuple[str, ...]:
    if row.label is None:
        raise DataError(f"{place(row.file, row.row)}: holds no label; write one, or take the row out")
    return row.names
