"""What callers give: texts, refused where they are no list, and folders, refused where something would be
lost."""

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import fields
from pathlib import Path
from typing import Any

from clearhead.checkpoint.folder import holds_model
from clearhead.checkpoint.lock import LOG, SETTINGS, check_free
from clearhead.errors import DataError, SettingError
from clearhead.settings import flag
from clearhead.text.encoding import Text


def as_list(texts: Iterable[Any]) -> list[Any]:
    """Refuse what is often passed by mistake for a list of texts: one string, or something without order."""
    if isinstance(texts, str):
        raise DataError("one string was given where a list of texts is needed; write [text]")
    if isinstance(texts, Set | Mapping) or hasattr(texts, "columns"):
        raise DataError(f"a {type(texts).__name__} was given, which is no list of texts; write a list")
    if not isinstance(texts, Iterable) or getattr(texts, "ndim", 1) == 0:
        raise DataError(f"{type(texts).__name__} was given where a list of texts is needed; write [text]")
    return list(texts)


def check_texts(texts: Iterable[Any]) -> list[Text]:
    """The same, and what is no string and no pair."""
    ready = as_list(texts)
    for number, text in enumerate(ready):
        if isinstance(text, tuple | list) and len(text) == 2 and all(isinstance(one, str) for one in text):
            continue
        if not isinstance(text, str):
            raise DataError(f"text {number} is {type(text).__name__}, not a string or a pair of strings")
    return ready


def check_replaced(place: Path, *, overwrite: bool) -> bool:
    """Whether a model is replaced there; SettingError where something else would be lost."""
    if (place.exists() or place.is_symlink()) and not place.is_dir():
        kind = "a file" if place.exists() else "a link to nothing"
        raise SettingError(f"{place} is {kind}; give a folder")
    check_free(place)
    if not place.is_dir() or not any(place.iterdir()):
        return False
    if not overwrite:
        raise SettingError(
            f"{place} is not empty; give another folder, or overwrite=True to replace the model in it"
        )
    if not holds_model(place):
        raise SettingError(f"overwrite: {place} holds no model to replace; give another folder")
    if (place / LOG).is_file() and (place / SETTINGS).is_file():
        raise SettingError(
            f"overwrite: {place} is the folder of a run, whose report says what it holds; give another folder"
        )
    return True


def refuse_unread(settings: Any, *, read: Collection[str], by: str) -> None:
    """Refuse, by name, options that change nothing where these alone are read."""
    for item in fields(settings):
        if item.name not in read and getattr(settings, item.name) != item.default:
            known = ", ".join(map(flag, read))
            raise SettingError(f"{flag(item.name)} is not read by {by}; leave it out (read are {known})")
