"""Files that are whole or not there: written beside their place, flushed to the disk, then moved."""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from clearhead.errors import FolderError

NEXT = ".next"  # files of one model that are whole and on their way into the folder
GONE = ".gone.json"  # among them: which files of the model before leave
PART = ".part-"
# What a killed writer leaves behind; nothing that a person may have named so.
LEFT = re.compile(r"\.part-([a-z0-9_]{8}|state-[0-9]+|run-before)|\..+\.[0-9]+\.part")
UMASK = os.umask(0)
os.umask(UMASK)  # there is no way to read it without setting it


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file."""
    if not path.is_file():
        raise FolderError(f"{path.parent} has no {path.name}; is it a model folder?")
    try:
        values = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise FolderError(f"{path} is not valid JSON ({error}); fetch or save the folder again") from error
    if not isinstance(values, dict):
        raise FolderError(f"{path} holds no JSON object; fetch or save the folder again")
    return values


def write_json(path: Path, values: Any) -> None:
    """Write JSON as people read it."""
    with moved_into_place(path) as place:
        place.write_text(
            json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
        )


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file; where there is no room, the error names the file."""
    try:
        save_file(dict(tensors), path, metadata={"format": "pt"})
    except SafetensorError as error:
        raise FolderError(
            f"{path} cannot be written ({error}); is there room, and may it be written?"
        ) from error


@contextmanager
def moved_into_place(path: Path) -> Iterator[Path]:
    """A path to write to; on success it is flushed to the disk and takes the place of `path` at once."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield beside
        settle(beside)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def moved_together(folder: Path, *, instead: Iterable[str] = ()) -> Iterator[Path]:
    """A folder to write files into, which then take their places in `folder` as one; `instead` names files
    of the model before, which leave with them unless they were written anew.

    One renaming decides: before it, nothing has changed; after it, whoever comes next finishes what a kill
    has cut short (`finish_move`), so that files of two models never stay side by side.
    """
    folder.mkdir(parents=True, exist_ok=True)
    finish_move(folder)
    with tempfile.TemporaryDirectory(prefix=PART, dir=folder) as part:
        whole = Path(part) / "whole"
        whole.mkdir()
        yield whole
        old = [folder / name for name in instead if not (whole / name).exists()]
        if gone := {file.name: identity(file) for file in old if file.is_file()}:
            write_json(whole / GONE, gone)
        for file in whole.iterdir():
            settle(file)
        settle(whole)
        whole.rename(folder / NEXT)
    finish_move(folder)


def finish_move(folder: Path) -> None:
    """Move the files of `moved_together` that were decided on and have not reached their places yet."""
    waiting = folder / NEXT
    if not waiting.is_dir():
        return
    leave = json.loads(waiting.joinpath(GONE).read_text()) if waiting.joinpath(GONE).is_file() else {}
    for name, which in leave.items():
        with suppress(FileNotFoundError):  # another process is finishing the same move
            if identity(folder / name) == which:
                (folder / name).unlink()
    for file in sorted(waiting.iterdir(), key=lambda file: file.name == GONE):
        with suppress(FileNotFoundError):
            if file.name != GONE:
                file.replace(folder / file.name)
            file.unlink(missing_ok=True)  # replacing does nothing where both names are of one file
    with suppress(OSError):
        waiting.rmdir()
    settle(folder)


def identity(file: Path) -> list[int]:
    """What tells a file from another that takes its name."""
    facts = file.stat()
    return [facts.st_ino, facts.st_mtime_ns, facts.st_size]


def settle(place: Path) -> None:
    """Flush a file or a folder's list of names to the disk; a file is then readable as others are."""
    if place.is_dir():
        if os.name == "posix":  # elsewhere a folder cannot be opened
            opened = os.open(place, os.O_RDONLY)
            try:
                os.fsync(opened)
            finally:
                os.close(opened)
        return
    with place.open("rb+") as file:
        os.fsync(file.fileno())
    place.chmod(0o666 & ~UMASK)  # safetensors keeps its files to the owner


def leftovers(folder: Path) -> list[Path]:
    """What killed writers left half-written in a folder."""
    return sorted(path for path in folder.iterdir() if LEFT.fullmatch(path.name))


def remove(place: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if place.is_dir():
        shutil.rmtree(place, ignore_errors=True)
    else:
        place.unlink(missing_ok=True)
