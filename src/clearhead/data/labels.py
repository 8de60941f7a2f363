"""The names of the classes: which there are, in which order, and whether a row's label is one of them."""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from clearhead.data.rows import Row
from clearhead.data.wording import listed, place, short
from clearhead.errors import DataError

_INTEGER = re.compile(r"-?[0-9]{1,18}")


def label_names(rows: Sequence[Row]) -> tuple[str, ...]:
    """Name each class once: in order of number if all names are integers, else in order of code points.

    The order depends on nothing but the set of names, so a class keeps its place however the rows are
    shuffled. DataError if a row has no label, or if all rows have the same one.
    """
    names = {_label(row) for row in rows}
    if all(_INTEGER.fullmatch(name) for name in names):
        ordered = sorted(names, key=lambda name: (int(name), name))
    else:
        ordered = sorted(names)
    if not ordered:
        raise DataError("there are no rows to take the names of classes from; give at least two")
    if len(ordered) == 1:
        every = f"every row has the label {short(repr(ordered[0]))}"
        raise DataError(f"{rows[0].file}: {every}; give rows of at least two classes")
    return tuple(ordered)


def check_known(rows: Iterable[Row], names: Sequence[str]) -> None:
    """DataError, with file, row and label, at the first row whose label is not one of `names`."""
    known = set(names)
    for row in rows:
        if (label := _label(row)) not in known:
            folded = {name.casefold(): name for name in names}
            close = get_close_matches(label.casefold(), folded, n=1)
            guess = f" (did you mean {folded[close[0]]!r}?)" if close else ""
            found = f"the label {short(repr(label))} is not one the model was trained on{guess}"
            raise DataError(f"{place(row.file, row.row)}: {found}; known are {listed(names)}")


def _label(row: Row) -> str:
    if row.label is None:
        raise DataError(f"{place(row.file, row.row)}: holds no label; write one, or take the row out")
    return row.label
