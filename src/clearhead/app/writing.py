"""Where results are written to: a new file, and nothing that is there is lost."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from clearhead.checkpoint.files import made_new
from clearhead.errors import SettingError


def check_out(out: str, *, model: Path | None) -> None:
    """SettingError, naming `out`, unless it is the place of a new file in a folder that is there, and not in
    the model's folder."""
    real = Path(os.path.realpath(out))
    if real.is_dir() or out.endswith(("/", os.sep)):
        raise SettingError(f"--out {out} is a folder; give the name of a file to make")
    if os.path.lexists(real):
        what = "is there already" if real.is_file() else "is there and is no file"
        raise SettingError(f"--out {out} {what}; remove it, or give another name")
    if model and real.is_relative_to(os.path.realpath(model)):
        raise SettingError(f"--out {out} is inside the model's folder; give another place")
    if not real.parent.is_dir():
        raise SettingError(f"--out {out}: there is no folder {Path(out).parent}; make it first")


@contextmanager
def placed(out: str) -> Iterator[Path]:
    """The path of a new file to make, whole or not there; through a link, where that leads. What has come to
    be there meanwhile stays, and so does what was written, by another name."""
    try:
        with made_new(Path(os.path.realpath(out))) as place:
            yield place
    except FileExistsError as error:
        other = Path(out).with_name(Path(error.filename2).name)
        raise SettingError(
            f"--out {out} has come to be there meanwhile and stays; it went to {other}"
        ) from error
    except OSError as error:
        raise SettingError(f"--out {out} cannot be written ({error.strerror}); give another place") from error


@contextmanager
def written(out: str) -> Iterator[IO[str]]:
    """A new file to write text to, whole or not there."""
    with placed(out) as place, place.open("w", encoding="utf-8") as file:
        yield file
