"""Files of conversations: JSON lines whose `messages` are a list of what was said, and by whom."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from clearhead.data.documents import files_of
from clearhead.data.read import form_of, records
from clearhead.data.wording import place
from clearhead.errors import DataError

COLUMN = "messages"


@dataclass(frozen=True)
class Conversation:
    """What was said, in order, and where it stands in its file."""

    messages: tuple[dict[str, Any], ...]
    file: str
    row: int

    @property
    def where(self) -> str:
        """The place, to speak of it."""
        return place(self.file, self.row, column=COLUMN)


def are_conversations(paths: Sequence[str], *, format: str | None = None, errors: str = "strict") -> bool:
    """Whether files hold conversations: the first row of the first one decides."""
    first = files_of(paths)[0]
    if not os.path.isfile(first) or form_of(first, format) != "jsonl":  # a pipe can be read only once
        return False
    return isinstance(next(records(first, format=format, errors=errors)).values.get(COLUMN), list)


def conversations(
    paths: Sequence[str], *, format: str | None = None, errors: str = "strict"
) -> Iterator[Conversation]:
    """The conversations of files, in order. DataError, with file and row, for a row that holds none."""
    for path in files_of(paths):
        for record in records(path, format=format, errors=errors):
            said = record.values.get(COLUMN)
            where = place(record.file, record.row, column=COLUMN)
            if not isinstance(said, list) or not said:
                raise DataError(f"{where}: holds no list of messages, as the first row does; write one")
            if odd := [number for number, message in enumerate(said) if not isinstance(message, dict)]:
                raise DataError(f"{where}: message {odd[0]} is no object with role and content; write one")
            yield Conversation(tuple(said), record.file, record.row)
