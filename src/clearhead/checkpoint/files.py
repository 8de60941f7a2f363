"""Files that are whole or not there: written beside their place, flushed to the disk, then moved."""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from errno import EEXIST
from itertools import chain, count
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from clearhead.checkpoint.lock import SETTINGS, held
from clearhead.errors import FolderError, naming_place

NEXT = ".clearhead-next"  # files of one model that are whole and on their way into the folder
MANIFEST = ".clearhead-files.json"  # among them: their names, and which files of the model before leave
PART = ".part-"
# What a killed writer leaves behind; nothing that a person may have named so.
LEFT = re.compile(
    r"\.part-([a-z0-9_]{8}|state-[0-9]+|run-before)"
    r"|\.(settings\.json|metrics\.jsonl|report\.html|README\.md)\.[0-9]+\.part"
)
UMASK = os.umask(0)
os.umask(UMASK)  # there is no way to read it without setting it


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file."""
    if not path.is_file():
        raise FolderError(f"{path.parent} has no {path.name}; is it a model folder?")
    values = _json(path)
    if not isinstance(values, dict):
        raise FolderError(f"{path} holds no JSON object; fetch or save the folder again")
    return values


def read_list(path: Path) -> list[dict[str, Any]]:
    """A JSON list of objects from a file that is there."""
    values = _json(path)
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise FolderError(f"{path} holds no list of JSON objects; fetch or save the folder again")
    return values


def _json(path: Path) -> Any:
    try:
        with naming_place(path):
            return json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise FolderError(f"{path} is not valid JSON ({error}); fetch or save the folder again") from error


def run_in(folder: Path) -> dict[str, Any] | None:
    """The task of the run of this program that a folder holds, its settings and what they came to; None where
    it holds none."""
    try:
        values = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or not {"task", "settings", "resolved"} <= values.keys():
        return None
    whole = isinstance(values["settings"], dict) and isinstance(values["resolved"], dict)
    return values if whole else None


def files_in(folder: Path) -> dict[str, Path]:
    """The files of a folder and of the folders in it, by their paths from there."""
    found = [*folder.iterdir(), *folder.glob("*/*")]
    return {path.relative_to(folder).as_posix(): path for path in sorted(found) if path.is_file()}


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
    with written_beside(path) as beside:
        yield beside
        settle(beside)
        beside.replace(path)


@contextmanager
def made_new(path: Path) -> Iterator[Path]:
    """The same for a new file. Where one has come to be there meanwhile, both stay: `FileExistsError`, whose
    second name is that of what was written."""
    with written_beside(path) as beside:
        yield beside
        settle(beside)
        others = (path.with_stem(f"{path.stem}-{number}") for number in count(2))
        place = next(place for place in chain([path], others) if claimed(place, beside))
        if place != path:
            raise FileExistsError(EEXIST, "is there already", str(path), None, str(place))


@contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """A path in the same folder, where nothing is left; what the system refuses in here names `path`."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with naming_place(path):
            yield beside
    finally:
        beside.unlink(missing_ok=True)


def claimed(path: Path, beside: Path) -> bool:
    """Give a file the name `path` unless something has it. Where a system knows no second names of files, the
    name is taken first, by an empty file."""
    try:
        os.link(beside, path)
    except FileExistsError:
        return False
    except OSError:
        try:
            path.open("xb").close()
        except FileExistsError:
            return False
        beside.replace(path)
    return True


@contextmanager
def moved_together(folder: Path, *, instead: Iterable[str] = ()) -> Iterator[Path]:
    """A folder to write files into, which then take their places in `folder` as one; `instead` names files
    of the model before, which leave with them unless they were written anew.

    One renaming decides: before it, nothing has changed; after it, whoever comes next finishes what a kill
    has cut short (`finish_move`), so that files of two models never stay side by side.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=PART, dir=folder) as part, naming_place(folder):
        whole = Path(part) / "whole"
        whole.mkdir()
        yield whole
        names = list(files_in(whole))
        old = {name: folder / name for name in instead if name not in names}
        gone = {name: identity(file) for name, file in old.items() if file.is_file()}
        write_json(whole / MANIFEST, {"files": names, "gone": gone})
        for place in (*whole.iterdir(), *whole.glob("*/*"), whole):
            settle(place)
        with held(folder):
            _finish(folder)
            whole.rename(folder / NEXT)
            _finish(folder)


def finish_move(folder: Path) -> None:
    """Move the files of `moved_together` that were decided on and have not reached their places yet."""
    if (folder / NEXT / MANIFEST).is_file():
        with held(folder):
            _finish(folder)


def _finish(folder: Path) -> None:
    """What the manifest says, and nothing without one: a folder of that name may be anybody's."""
    waiting = folder / NEXT
    try:
        said = json.loads((waiting / MANIFEST).read_text(encoding="utf-8"))
        names, gone = list(said["files"]), dict(said["gone"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return
    if not all(isinstance(name, str) and _inside(name) for name in [*names, *gone]):
        return
    for name, which in gone.items():
        with suppress(FileNotFoundError):
            if identity(folder / name) == which:
                (folder / name).unlink()
    for file in (waiting / name for name in names):
        with suppress(FileNotFoundError):  # it has been moved before a kill
            inner = file.relative_to(waiting)
            (folder / inner).parent.mkdir(exist_ok=True)
            file.replace(folder / inner)
            file.unlink(missing_ok=True)  # replacing does nothing where both names are of one file
    (waiting / MANIFEST).unlink(missing_ok=True)
    inner_folders = {Path(name).parent for name in [*names, *gone]} - {Path()}
    for inner in inner_folders:
        if (folder / inner).is_dir():
            settle(folder / inner)
        for place in (waiting / inner, folder / inner):
            with suppress(OSError):  # not empty
                place.rmdir()
    with suppress(OSError):
        waiting.rmdir()
    settle(folder)


def _inside(name: str) -> bool:
    """Whether a name is that of a file in a folder, or in one of its folders, and leads nowhere else."""
    parts = Path(name).parts
    return (
        1 <= len(parts) <= 2 and Path(*parts).as_posix() == name and parts[0] not in ("/", "..") != parts[-1]
    )


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
    found = [path for path in folder.iterdir() if LEFT.fullmatch(path.name)]
    if (folder / NEXT).is_dir() and not any((folder / NEXT).iterdir()):
        found.append(folder / NEXT)
    return sorted(found)


def remove(place: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if place.is_dir():
        shutil.rmtree(place, ignore_errors=True)
    else:
        place.unlink(missing_ok=True)
