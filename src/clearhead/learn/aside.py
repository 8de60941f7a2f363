"""The run that another one replaces: it is put aside, until the new one has a model of its own."""

import shutil
from contextlib import suppress
from pathlib import Path

from clearhead.checkpoint.card import CARD, is_ours
from clearhead.checkpoint.embedding import POOLING
from clearhead.checkpoint.files import PART, moved_into_place, remove, settle
from clearhead.errors import (
    ClearheadError,
    DataError,
    FolderError,
    Interrupted,
    NotFinite,
    SettingError,
    refused_by_system,
)
from clearhead.learn.place import LOG, MODEL, REPORT, SETTINGS
from clearhead.learn.state import states

BEFORE = ".run-before"


def set_aside(folder: Path) -> None:
    """Move a run's files into `.run-before`; of a run that has no model, nothing is kept.

    States go first. The settings stay until those of the new run take their place. So the folder is that of
    one run at every moment, and a kill between leaves the old run at its beginning, with its model aside.
    """
    before, moving = folder / BEFORE, half_moved(folder)
    if moving or any((folder / name).is_file() for name in MODEL):
        if not moving:
            forget(folder)
        before.mkdir(exist_ok=True)
        for path in files_of_run(folder):
            place = before / path.relative_to(folder)
            place.parent.mkdir(exist_ok=True)
            path.rename(place)
        with moved_into_place(before / SETTINGS) as place:
            shutil.copyfile(folder / SETTINGS, place)
        settle(before)
        settle(folder)
    for path in files_of_run(folder):
        remove(path)
    with suppress(OSError):  # not there, or not empty
        (folder / POOLING).rmdir()


def go_on_aside(folder: Path, state: Path | None) -> None:
    """Settle what a kill within `set_aside` has left, in a folder whose run goes on from a state."""
    if half_moved(folder):
        if state:
            forget(folder)  # nothing but other states of this run was moved
        else:
            set_aside(folder)


def half_moved(folder: Path) -> bool:
    """Whether a kill has cut `set_aside` short: the settings are the last to come."""
    return (folder / BEFORE).is_dir() and not (folder / BEFORE / SETTINGS).is_file()


def forget(folder: Path) -> None:
    """Remove the run that is aside, if there is one; a kill between leaves what counts as half-written."""
    if (folder / BEFORE).is_dir():
        part = folder / f"{PART}run-before"
        remove(part)
        (folder / BEFORE).rename(part)
        remove(part)


def kept(folder: Path, step: int | None) -> str:
    """What there is of a run that failed, whose best model was that of a step (None: it had none yet)."""
    if step is not None:
        return f"the best model so far, of step {step}, is kept"
    if (folder / BEFORE).is_dir():
        return f"this run has no model yet; the run that it was to replace is kept in {folder / BEFORE}"
    return "this run has no model yet"


def worded(error: Exception, folder: Path, *, step: int | None) -> ClearheadError:
    """An error that ends a run, with what there is of it and of the run it was to replace."""
    said = refused_by_system(error) if isinstance(error, OSError) else str(error)
    if isinstance(error, NotFinite) or (step is None and (folder / BEFORE).is_dir()):
        said += f"; {kept(folder, step)}"
    if isinstance(error, OSError):
        return SettingError(said)
    kept_kinds = (DataError, FolderError, SettingError, Interrupted)
    return type(error)(said) if isinstance(error, kept_kinds) else ClearheadError(said)


def files_of_run(folder: Path) -> list[Path]:
    """The states, the model, the log, the report and the card of a run, as far as they are there."""
    names = [*MODEL, LOG, REPORT, *([CARD] if is_ours(folder / CARD) else [])]
    return [*states(folder), *(folder / name for name in names if (folder / name).is_file())]
