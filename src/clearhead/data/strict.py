"""JSON that is read strictly: nothing is guessed, and what is read can be written again."""

import json
from collections.abc import Iterator
from math import isfinite
from typing import NoReturn

from clearhead.data.source import refuse_half_characters
from clearhead.errors import DataError


def strictly(text: str) -> object:
    """The value that a text of JSON states (RFC 8259); ValueError or RecursionError for one that is not JSON,
    or states a key twice."""
    return json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_refuse_constant)


def refuse_unwritable(value: object, where: str, *, line: str) -> None:
    """DataError for a value, or anything in it, that could be read and never be written again; `line` is the
    text it was read from."""
    for part in _parts(value):
        if isinstance(part, str):
            refuse_half_characters(part, where, line=line)
        if isinstance(part, float) and not isfinite(part):
            raise DataError(f"{where}: holds a number too large for a float; write it as a string, in quotes")


def _parts(value: object) -> Iterator[object]:
    """All strings, numbers and names inside of a value of JSON, however deep."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case list(values):
                waiting.extend(values)
            case dict(values):
                waiting.extend([*values, *values.values()])
            case part:
                yield part


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {repeated!r} is there more than once")
    return values


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f'{name} is not JSON: write null or "{name}"')
