"""Taking rows apart: texts which are there twice, and rows held out of training."""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from clearhead.data.rows import Row
from clearhead.data.wording import counted
from clearhead.errors import DataError, SettingError


@dataclass(frozen=True)
class Duplicates:
    """How many rows repeated the text of an earlier one, and how many of these with a different label."""

    dropped: int
    contradicting: int


def sameness(row: Row) -> tuple[str, str | None]:
    """What is alike of two rows whose texts are the same: they differ in case or outer white space alone."""
    return row.text.strip().casefold(), None if row.pair is None else row.pair.strip().casefold()


def without_duplicates(rows: Iterable[Row]) -> tuple[list[Row], Duplicates]:
    """Keep the first row of each text, in order; texts are the same if only case or outer white space differ.

    To be done before `split`: a text on both sides would be trained on and then measured.
    """
    kept: dict[tuple[str, str | None], Row] = {}
    dropped = contradicting = 0
    for row in rows:
        first = kept.setdefault(sameness(row), row)
        dropped += first is not row
        contradicting += (first.label, first.labels) != (row.label, row.labels)
    return list(kept.values()), Duplicates(dropped, contradicting)


def split(rows: Sequence[Row], *, part: float | int, seed: int) -> tuple[list[Row], list[Row]]:
    """Take rows apart into (training, held out), each in the order of `rows`, fixed by `seed`.

    `part` is what is held out: a float between 0 and 1 is a share of the rows, rounded, at least one row; an
    int is a number of rows. Each label gives its share, rounded down or up, and keeps at least one row in
    training; rows without a label count as a label of their own. Where labels with a single row leave fewer
    rows to hold out than a share asks for, fewer are held out; a number is met or refused.

    DataError if that is impossible, SettingError for a `part` which is no share and no number of rows.
    """
    if not (0 < part < 1 if isinstance(part, float) else part >= 1):
        raise SettingError(
            f"part={part} cannot be held out; use a share between 0 and 1, or a number of rows"
        )
    wanted = max(1, round(part * len(rows))) if isinstance(part, float) else part
    groups: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault(row.label or "", []).append(index)
    sizes = {label: len(groups[label]) for label in sorted(groups)}
    counts = _counts(sizes, min(wanted, len(rows) - 1)) if rows else {}
    possible = sum(counts.values())
    if possible == 0 or (isinstance(part, int) and possible < wanted):
        file = rows[0].file if rows else "the data"
        raise DataError(
            f"{file}: {counted(wanted, 'row')} cannot be held out of {len(rows)} "
            f"with each label's share kept and each label left in training, {possible} can; "
            "give more rows of the rare labels, or a file with --validation"
        )
    # random() is the one method whose numbers Python promises to keep for a seed from version to version.
    chance = random.Random(seed)
    held: set[int] = set()
    for label, count in counts.items():
        held.update(sorted(groups[label], key=lambda _: chance.random())[:count])
    training = [row for index, row in enumerate(rows) if index not in held]
    return training, [rows[index] for index in sorted(held)]


def split_freely(rows: Sequence[Row], *, part: float, seed: int) -> tuple[list[Row], list[Row]]:
    """As `split`, for rows that have a number, or any number of labels: at random, with no shares to keep.

    A row whose label would be left in no other training row is not held out, so there may be fewer.
    """
    if len(rows) < 2:
        file = rows[0].file if rows else "the data"
        raise DataError(
            f"{file}: a row to measure by and one to learn from are needed, and there are {len(rows)}; "
            "give at least two rows, or a file with --validation"
        )
    wanted = min(max(1, round(part * len(rows))), len(rows) - 1)
    left = Counter(name for row in rows for name in row.labels or ())
    chance = random.Random(seed)
    held: set[int] = set()
    for index in sorted(range(len(rows)), key=lambda _: chance.random()):
        names = rows[index].labels or ()
        if len(held) < wanted and all(left[name] > 1 for name in names):
            held.add(index)
            left.subtract(names)
    if not held:
        raise DataError(
            f"{rows[0].file}: no row can be held out with each label left in training; "
            "give more rows, or a file with --validation"
        )
    training = [row for index, row in enumerate(rows) if index not in held]
    return training, [rows[index] for index in sorted(held)]


def _counts(sizes: dict[str, int], wanted: int) -> dict[str, int]:
    """How many rows each label gives: its share rounded down, and one more where most was cut off."""
    total = sum(sizes.values())
    counts = {label: size * wanted // total for label, size in sizes.items()}
    missing = wanted - sum(counts.values())
    able = [label for label, size in sizes.items() if counts[label] + 1 < size]
    for label in sorted(able, key=lambda label: -(sizes[label] * wanted % total))[:missing]:
        counts[label] += 1
    return counts
