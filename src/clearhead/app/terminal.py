"""Where words go: results to stdout (JSON lines where nobody is looking), progress and notes to stderr."""

import json
import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from clearhead.data.wording import visible


class Pipe(Console):
    """A console whose reader may leave: that is the command's business, not a reason to exit here."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(self.stderr)


out = Pipe(highlight=False)
err = Pipe(stderr=True, highlight=False)


def say(line: str) -> None:
    """One line of progress."""
    err.print(shown(line), soft_wrap=True)


def shown(text: str) -> Text:
    """A text for a terminal, which obeys nothing in it."""
    return Text(visible(text))


def plain(as_json: bool) -> bool:
    """Whether to print JSON: asked for, or nobody is looking."""
    return as_json or not sys.stdout.isatty()


def emit(value: Mapping[str, Any]) -> None:
    """One JSON object on one line, numbers unrounded."""
    sys.stdout.write(as_line(value))


def as_line(value: Mapping[str, Any]) -> str:
    """One JSON object on one line."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"
