"""What fills a folder while it is iterated over: one at a time in a folder, and each only once."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Generic, TypeVar

from clearhead.checkpoint.lock import locked
from clearhead.errors import SettingError, refused_by_system

Progress = TypeVar("Progress")


class Once(ABC, Generic[Progress]):
    """An iterator over its own work, which begins once: what is held in memory is no longer the beginning."""

    out: Path
    kind: str  # what it makes, to people
    begun = False  # the folder has been touched

    @abstractmethod
    def work(self) -> Iterator[Progress]:
        """The work itself, `begun` from where it touches the folder on."""

    def __iter__(self) -> Iterator[Progress]:
        if self.begun:
            raise SettingError(f"this {self.kind} has begun already; make it again with resume=True to go on")
        try:
            with locked(self.out):
                yield from self.work()
        except BrokenPipeError:
            raise  # whoever reads what is said of it has left
        except OSError as error:
            raise SettingError(refused_by_system(error)) from error
