"""Pieces of error messages, so that every one names a place, a list and a long value in the same way."""

import shlex
from collections.abc import Iterable
from typing import Any

# The signs of Unicode for the ASCII controls; the later ones have none, and get one that says "unknown".
_SIGNS = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "\u2421"}
_SIGNS |= dict.fromkeys(range(0x80, 0xA0), "\ufffd")
# What turns the direction of writing, so that a text could stand there as another one.
_SIGNS |= dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd")


def place(file: str, row: int, *, column: str | None = None) -> str:
    """Name a place as `reviews.csv, row 3, column 'text'`; row 0 is the header."""
    named = f"{file}, row {row}" if row else f"{file}, header"
    return named if column is None else f"{named}, column {short(repr(column))}"


def listed(names: Iterable[str]) -> str:
    """Quote and join names; the first ten of them, however long the list is."""
    every = [short(repr(name)) for name in names]
    return ", ".join(every[:10]) + (f" and {len(every) - 10} more" if len(every) > 10 else "")


def visible(text: str) -> str:
    """A text as a terminal may show it: its control characters, which could command one, as their signs."""
    return text.translate(_SIGNS)


def spoken(text: str) -> str:
    """As `visible`, but a text that is read as it stands keeps its lines."""
    return text.translate(_SIGNS | {ord(kept): kept for kept in "\n\t"})


def argument(value: Any) -> str:
    """A path or a name as one word of a command that a person may copy; never taken for an option."""
    word = str(value)
    return shlex.quote(f"./{word}" if word.startswith("-") else word)


def short(text: str) -> str:
    """Cut a text to its first 40 characters, so that a message stays one readable line."""
    return text if len(text) <= 40 else f"{text[:40]}…"


def counted(number: int, noun: str) -> str:
    """Write a number with its noun: `1 row`, `2 rows`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
