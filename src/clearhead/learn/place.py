"""The folder of a run: what may be written there, by whom, and its log."""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any

from clearhead.checkpoint.adapter_files import MEANT as ADAPTER_FILES
from clearhead.checkpoint.card import CARD
from clearhead.checkpoint.embedding import FILES as SENTENCE_FILES
from clearhead.checkpoint.files import leftovers, moved_into_place, read_json, run_in, settle
from clearhead.checkpoint.fingerprint import FINGERPRINT, MEANT
from clearhead.checkpoint.folder import GENERATION, OLD
from clearhead.checkpoint.lock import LOCK, LOG, SETTINGS, is_lock
from clearhead.data.rows import Row
from clearhead.errors import SettingError, naming_place
from clearhead.learn.state import not_states
from clearhead.settings import Learning, Opening

REPORT = "report.html"
MODEL = (*MEANT, *SENTENCE_FILES, *ADAPTER_FILES, "tokenizer_config.json", GENERATION, FINGERPRINT)
# Settings that do not change what is computed.
FREE = ("resume", "overwrite", "out", "baseline", *(item.name for item in fields(Opening)))


def chosen(settings: Learning) -> dict[str, Any]:
    """The settings that make a run what it is."""
    return {name: value for name, value in asdict(settings).items() if name not in FREE}


def differences(settings: Learning, out: Path) -> dict[str, Any]:
    """The settings of the run in a folder that are not these, as they are there."""
    usual = {item.name: item.default for item in fields(type(settings)) if item.default is not MISSING}
    old = usual | read_json(out / SETTINGS)["settings"]
    return {name: old.get(name) for name, value in chosen(settings).items() if old.get(name) != value}


def check_place(settings: Learning, out: Path) -> None:
    """Refuse a folder whose content could be lost, before any work."""
    for place in (out, *out.parents):
        if os.path.lexists(place) and not place.is_dir():
            kind = "a link to nothing" if place.is_symlink() and not place.exists() else "a file"
            raise SettingError(f"--out {out}: {place} is {kind}; give a folder")
    base = Path(settings.base).resolve()
    if settings.base != "new" and base.is_dir() and base.is_relative_to(out.resolve()):
        raise SettingError(
            f"--from {settings.base} lies in --out {out}, which the run changes; give another --out"
        )
    for name in ("data", "validation", "tokenizer"):
        given = getattr(settings, name, None) or []
        for file in [given] if isinstance(given, str) else given:
            if Path(file).exists() and Path(file).resolve().is_relative_to(out.resolve()):
                raise SettingError(
                    f"--{name} {file} lies in --out {out}, whose files the run replaces; move it"
                )
            if (
                name != "tokenizer"
                and Path(file).is_dir()
                and out.resolve().is_relative_to(Path(file).resolve())
            ):
                raise SettingError(
                    f"--out {out} lies in --{name} {file}, all of whose files are read; give another --out"
                )
    run = run_in(out) is not None
    if (settings.resume or settings.overwrite) and (foreign := not_states(out)):
        raise SettingError(
            f"{foreign[0]} has the name of a state, and is none; the run would replace it: move it away"
        )
    if run and (folders := [name for name in (*MODEL, LOG, REPORT, CARD) if (out / name).is_dir()]):
        raise SettingError(f"{out / folders[0]} is a folder, where the run has a file; move it away")
    if run and settings.overwrite and (others := [name for name in OLD if (out / name).is_file()]):
        raise SettingError(f"--overwrite: {out / others[0]} is no file of a run; move it away")
    if settings.resume:
        if not run:
            raise SettingError(f"--resume: {out} holds no run to go on with; leave --resume out")
        said = read_json(out / SETTINGS)
        if said["settings"].keys() - chosen(settings).keys() - {*FREE}:
            raise SettingError(f"--resume: {out} holds a run of another task ({said['task']})")
        if changed := differences(settings, out):
            flags = ", ".join(f"{name} was {value!r}" for name, value in changed.items())
            raise SettingError(f"--resume goes on with the same settings, but {flags}")
    elif settings.overwrite and content(out) and not run:
        raise SettingError(f"--overwrite: {out} is not a run of this program; give another --out")
    elif not settings.overwrite and content(out):
        going_on = "--resume to go on, --overwrite to replace it, or another --out"
        raise SettingError(f"{out} is not empty; {going_on if run else 'give another --out'}")


def content(folder: Path) -> list[Path]:
    """What is in a folder, leaving out what a killed run may leave behind before it began."""
    if not folder.is_dir():
        return []
    left = [*leftovers(folder), *([folder / LOCK] if is_lock(folder / LOCK) else [])]
    return [path for path in folder.iterdir() if path not in left]


def append_log(folder: Path, line: dict[str, Any]) -> None:
    """Append a line to metrics.jsonl."""
    with naming_place(folder / LOG), (folder / LOG).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, allow_nan=False) + "\n")


def settle_log(folder: Path) -> None:
    """Flush the log to the disk: a state must not know more than it."""
    settle(folder / LOG)


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The whole lines of a run's log, in order; what a kill has cut short is left out."""
    try:
        lines = (folder / LOG).read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        try:
            values = json.loads(line)
            if line.endswith("\n") and isinstance(values["step"], int):
                found.append(values)
        except (ValueError, TypeError, KeyError):
            continue
    return found


def cut_log(folder: Path, *, step: int) -> None:
    """Drop the log's lines after a step."""
    kept = [line for line in read_log(folder) if line["step"] <= step]
    with moved_into_place(folder / LOG) as place:
        place.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")


def digest_of_rows(*groups: Sequence[Row]) -> str:
    """SHA-256 of texts and labels in order, and of where each group of them ends; several labels count as
    they are, whatever is in their names."""
    digest = hashlib.sha256()
    for rows in groups:
        digest.update(f"{len(rows)} ".encode())
        for row in rows:
            pair = [] if row.pair is None else [row.pair]
            label = row.label if row.labels is None else row.labels
            digest.update(json.dumps([row.text, label, *pair]).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
