"""One writer at a time in the folder of a run."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from clearhead.errors import SettingError

try:
    import fcntl
except ImportError:  # not a POSIX machine: two runs into one folder are not noticed there
    fcntl = None  # type: ignore[assignment]

LOCK, SETTINGS, LOG = ".running", "settings.json", "metrics.jsonl"


@contextmanager
def held(folder: Path, *, shared: bool = False) -> Iterator[None]:
    """Keep others out while files of a folder take their places or, `shared`, while they are read. The lock
    is on the folder itself and leaves nothing there; where the system has none, there is none."""
    try:
        opened = os.open(folder, os.O_RDONLY)
    except OSError:
        opened = None
    try:
        if opened is not None and fcntl is not None:
            with suppress(OSError):
                fcntl.flock(opened, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        if opened is not None:
            os.close(opened)


def check_free(folder: Path) -> None:
    """Refuse a folder in which a run is going on."""
    if process := holder(folder):
        raise in_use(folder, process)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other runs out of a folder, which is made if need be.

    The lock is the system's, on a file that names the process: it ends with the process, however that ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    while True:
        with path.open("a+", encoding="utf-8") as file:
            if not _taken(file):
                raise in_use(folder, holder(folder) or "?")
            if not path.exists() or not os.path.samestat(os.fstat(file.fileno()), path.stat()):
                continue  # the run before has just removed it
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def is_lock(path: Path) -> bool:
    """Whether a file is what `locked` leaves where it is killed."""
    try:
        return path.read_text(encoding="utf-8").isdigit() or not path.stat().st_size
    except (OSError, ValueError):
        return False


def holder(folder: Path) -> str | None:
    """The process whose run is going on in a folder."""
    try:
        with (folder / LOCK).open("r+", encoding="utf-8") as file:
            return None if _taken(file) else file.read().strip() or "?"
    except OSError:
        return None


def in_use(folder: Path, process: str) -> SettingError:
    """The error of two runs into one folder."""
    return SettingError(
        f"a run is going on in {folder} (process {process}); wait for its end, stop it, or give another --out"
    )


def _taken(file: IO[str]) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
