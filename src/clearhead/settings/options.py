"""What one option is: its default, what it does, what it takes; and settings from keyword arguments."""

import os
from collections.abc import Sequence
from dataclasses import MISSING, field, fields
from errno import EACCES, ENAMETOOLONG
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from clearhead.errors import SettingError

hints_of = cache(get_type_hints)  # half a millisecond, asked for in each call of predict
# What an option of a type takes, in words and in Python.
TYPES = {bool: "True or False", int: "a whole number", float: "a number", str: "a string"}
TAKEN = {bool: bool, int: int, float: int | float, str: str}


def option(default: Any, help: str, *, path: bool = False) -> Any:
    """One option: its default and what it does, said once, and whether it is a path."""
    return field(default=default, metadata={"help": help, "path": path})


def required(help: str, *, path: bool = False) -> Any:
    """An option without a default."""
    return field(metadata={"help": help, "path": path})


def at_home(path: str) -> str:
    """A path with the user's folder in place of a leading `~`, which shells leave there in `--out=~/run`."""
    return os.path.expanduser(path)


def flag(name: str) -> str:
    """The flag of an option."""
    return "--from" if name == "base" else f"--{name.replace('_', '-')}"


def at_least(name: str, value: float, *, least: float) -> None:
    """Refuse a number that is too small, by the name of its flag."""
    if value >= 2**63:
        raise SettingError(f"{flag(name)} {value} must be below 2**63")
    if not least <= value:
        raise SettingError(f"{flag(name)} {value} must be at least {least}")


def a_path(given: Any, what: str) -> Path:
    """A path that a person gave, `~` being the user's folder; SettingError for what cannot be one."""
    try:
        bare = os.fsencode(given)
    except (TypeError, UnicodeEncodeError):
        bare = b""
    if not bare or b"\0" in bare or isinstance(given, bytes):
        raise SettingError(f"{what} {given!r} is no path and no name; give a string or a Path")
    return Path(at_home(os.fspath(given)))


def check_values(settings: Any) -> None:
    """Refuse a string that is empty, and a value outside a Literal, which Python callers could pass; paths
    begin at the user's folder where they say so."""
    hints = hints_of(settings.__class__)
    for item in fields(settings):
        given = getattr(settings, item.name)
        words = given if isinstance(given, list) else [given]
        if "" in words:
            raise SettingError(
                f"{flag(item.name)} is empty; give a value, or leave it out ({item.metadata['help']})"
            )
        if item.metadata["path"] and given is not None:
            homes = [at_home(word) for word in words]
            object.__setattr__(settings, item.name, homes if isinstance(given, list) else homes[0])
        if item.metadata["path"]:
            check_reach(flag(item.name), words)
        choices = [
            value for kind in (hints[item.name], *get_args(hints[item.name])) for value in _literals(kind)
        ]
        value = getattr(settings, item.name)
        if choices and value is not None and value not in choices:
            raise SettingError(f"{flag(item.name)} {value!r} is not one of {', '.join(choices)}")


def check_reach(flag: str, words: Sequence[Any]) -> None:
    """Refuse a path that the system cannot look at: one that is too long, or behind a closed folder."""
    for word in words:
        try:
            os.stat(word)
        except (TypeError, ValueError):
            continue  # nothing was given
        except OSError as error:
            if error.errno not in (ENAMETOOLONG, EACCES):
                continue  # nothing is there yet
            said = word if len(word) <= 60 else f"{word[:60]}…"
            raise SettingError(
                f"{flag} {said} cannot be used ({error.strerror}); give another path"
            ) from error


def check_written(settings: Any, *, but: Sequence[str] = ()) -> None:
    """Refuse a string that is not UTF-8, in settings that are written into files: half a character stands in
    it for a byte."""
    for item in fields(settings):
        given = () if item.name in but else getattr(settings, item.name)
        for word in given if isinstance(given, list) else [given]:
            if isinstance(word, str) and any("\ud800" <= sign <= "\udfff" for sign in word):
                fix = "rename it" if os.path.exists(word) else "give another name"
                raise SettingError(
                    f"{flag(item.name)} {word!r} is not UTF-8, and is written into files; {fix}"
                )


def _literals(kind: Any) -> tuple[str, ...]:
    return get_args(kind) if getattr(kind, "__origin__", None) is Literal else ()


def made(kind: type, values: dict[str, Any]) -> Any:
    """Settings from keyword arguments; an unknown name is refused with the nearest known one."""
    from difflib import get_close_matches

    known = [item.name for item in fields(kind)]
    for name in values:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(known)}"
            raise SettingError(f"unknown option {name!r}{hint}")
    for item in fields(kind):
        if item.default is MISSING and item.name not in values:
            raise SettingError(f"the option {item.name!r} is missing: {item.metadata['help']}")
    hints = hints_of(kind)
    given = [item for item in fields(kind) if item.name in values]
    return kind(**{item.name: fitted(item, values[item.name], hint=hints[item.name]) for item in given})


def fitted(item: Any, value: Any, *, hint: Any) -> Any:
    """A value that a Python caller gave for an option, as the option's type: a path is a string, and a number
    of NumPy or torch is a number. SettingError for what is of another type."""
    kinds = [one for one in (hint, *get_args(hint)) if one in TYPES or get_origin(one) is list] or [str]
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, PathLike):
        value = str(value)
    if isinstance(value, str) and "\0" in value:
        raise SettingError(f"{item.name}={value!r} holds a null character, which no {flag(item.name)} has")
    if kinds[0] not in TYPES and isinstance(value, dict):  # as the flag spells it
        value = [f"{key}={number}" for key, number in value.items()]
    if kinds[0] not in TYPES:
        if isinstance(value, list | tuple) and all(isinstance(one, str | PathLike) for one in value):
            return [str(one) for one in value]
    elif isinstance(value, TAKEN[kinds[0]]) and (bool in kinds or not isinstance(value, bool)):
        return value
    if value is None and type(None) in get_args(hint):
        return value
    said = f"{item.name}={value!r}"
    said = said if len(said) <= 60 else f"{said[:60]}…"
    needed = TYPES.get(kinds[0], "a list of strings")
    raise SettingError(f"{' '.join(said.split())} is not {needed} ({item.metadata['help']})")


def some_of(kind: type, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The settings of one kind, and the options that are left."""
    names = {item.name for item in fields(kind)}
    given = {name: value for name, value in options.items() if name in names}
    return made(kind, given), {name: value for name, value in options.items() if name not in names}
