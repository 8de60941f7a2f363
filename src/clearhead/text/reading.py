"""The library's tokenizer as a reader of texts: it panics over some broken files, which is no `Exception`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tokenizers import Encoding as CoreEncoding
from tokenizers import Tokenizer as Core

from clearhead.errors import FolderError


class Reader:
    """Reads texts with a core. What a broken normaliser leads to is an error that names its file."""

    def __init__(self, core: Core):
        self._core = core

    def encode(self, text: str, **options: Any) -> CoreEncoding:
        """One text."""
        with panics(BROKEN):
            return self._core.encode(text, **options)

    def encode_batch(self, texts: list[str], **options: Any) -> list[CoreEncoding]:
        """Several texts."""
        with panics(BROKEN):
            return self._core.encode_batch(texts, **options)

    def encode_batch_fast(self, texts: list[str], **options: Any) -> list[CoreEncoding]:
        """Several texts, without offsets."""
        with panics(BROKEN):
            return self._core.encode_batch_fast(texts, **options)


BROKEN = "tokenizer.json cannot be used: the tokenizers library fails at a text"


@contextmanager
def panics(said: str) -> Iterator[None]:
    """Where the library panics, a `FolderError` that begins with what is `said`."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise FolderError(f"{said} ({error}); fetch or save the folder again") from error
