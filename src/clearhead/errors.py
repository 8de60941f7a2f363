"""The exceptions a user can meet. Each message names what was found, what is possible, and which knob to
turn."""

from collections.abc import Iterator
from contextlib import contextmanager
from errno import EACCES, EDQUOT, EFBIG, ENOSPC, EPERM, EROFS

FULL = (ENOSPC, EDQUOT, EFBIG)
FIRST, LAST = 700, 300  # characters


def readable(message: str) -> str:
    """A message without the middle of a value that goes on and on: the thing is named before it, the fix
    behind it."""
    return message if len(message) <= FIRST + LAST else f"{message[:FIRST]} … {message[-LAST:]}"


class ClearheadError(Exception):
    """The root: the command line prints one of these on one line and exits with status 2."""

    def __init__(self, message: str = ""):
        super().__init__(readable(message))


class DataError(ClearheadError):
    """A file of texts cannot be used as it is; the message names file, row and column."""


class SettingError(ClearheadError):
    """An option has a value that cannot work; the message names the option and the values that do."""


class FolderError(ClearheadError):
    """A model folder is missing something, holds something unknown, or does not fit together."""


class NotFinite(ClearheadError):
    """A model, or what it learns by, has come to numbers that are none: NaN or infinity."""


class DownloadError(ClearheadError):
    """`clearhead get` could not fetch what was asked for."""


class MissingExtra(ClearheadError):
    """An optional dependency is not installed; the message gives the command that installs it."""

    def __init__(self, feature: str, extra: str):
        super().__init__(f'{feature} needs an extra: pip install "clearhead[{extra}]"')


class Interrupted(ClearheadError):
    """Training was stopped on request, after its state was saved."""


@contextmanager
def naming_place(path: object) -> Iterator[None]:
    """What the system refuses in here names this path: it does so by itself when it opens a file, and not
    when it reads or writes one."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(path)
        raise


def refused_by_system(error: OSError) -> str:
    """What the system did not do, and with which file."""
    place = f"{error.filename}: " if error.filename else ""
    asked = ""
    if error.errno in FULL:
        asked = "; is there room, and may a file be so large?"
    elif error.errno in (EACCES, EPERM, EROFS):
        asked = "; may it be read, and written where it must be?"
    return f"{place}{error.strerror or error}{asked}"
