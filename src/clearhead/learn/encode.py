"""Files of texts → a corpus on the disk as ids, in chunks, so that whatever stops it costs one of them."""

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from clearhead.checkpoint.catalog import locate
from clearhead.checkpoint.files import remove, settle, write_json
from clearhead.checkpoint.lock import check_free
from clearhead.data.documents import documents
from clearhead.errors import DataError, FolderError, SettingError, naming_place
from clearhead.learn.corpus import add_to
from clearhead.learn.encoded import DOCUMENT, DOCUMENTS, FACTS, FORMAT, ID, IDS, Facts, digest_of, open_end
from clearhead.learn.once import Once
from clearhead.learn.vocabulary import check_folder, half_written
from clearhead.settings import Encode
from clearhead.tasks.pieces import ids_of, up_to
from clearhead.text.tokenizer import Tokenizer

CHUNK = 2**24  # characters between two times of settling on the disk
FILES = {FACTS, IDS, DOCUMENTS, "tokenizer.json", "tokenizer_config.json"}
MAKING = ("data", "documents", "text_column", "format", "errors")  # settings that make a corpus what it is


@dataclass(frozen=True)
class Progress:
    """How far it has come, after a chunk."""

    facts: Facts
    bytes: int  # of text that this call has encoded
    seconds: float


class Encoder(Once[Progress]):
    """Encodes the texts of files as it is iterated over; what can be checked is checked before."""

    kind = "corpus"

    def __init__(self, settings: Encode):
        self.settings, self.out = settings, Path(settings.out).absolute()
        self.tokenizer = Tokenizer.read(locate(settings.tokenizer))
        open_end(self.tokenizer, f"--tokenizer {settings.tokenizer}")
        check_free(Path(settings.out))
        said = {name: value for name, value in asdict(settings).items() if name in MAKING}
        if not settings.resume:
            check_folder(settings, Path(settings.out), files=FILES, what="corpus")
            self.facts = Facts(0, 0, 0, hashlib.sha256().hexdigest(), "", said)
            return
        self.facts = Facts.read(Path(settings.out))
        old = self.facts.settings
        if changed := [f"{name} was {old.get(name)!r}" for name in MAKING if old.get(name) != said[name]]:
            raise SettingError(f"--resume goes on with the same settings, but {', '.join(changed)}")
        if not self.tokenizer.same(Tokenizer.read(self.out)):
            raise SettingError(f"--resume: {settings.out} was begun with another --tokenizer")

    def work(self) -> Iterator[Progress]:
        """Encode what is left."""
        start, before = perf_counter(), self.facts.bytes
        texts, digest = iter(documents(**self.reading())), hashlib.sha256()
        for _, text in zip(range(self.facts.documents), texts, strict=False):
            add_to(digest, text)
        if digest.hexdigest() != self.facts.texts:
            raise SettingError("--resume: the texts have changed since it began; start again: --overwrite")
        some = list(up_to(CHUNK, texts))
        if not some and not self.facts.documents:
            files = ", ".join(self.settings.data)
            raise DataError(f"{files}: there is no text to encode; give files that hold some")
        self.begin()
        self.begun = True
        if self.facts.ids and not some:
            yield Progress(self.facts, 0, perf_counter() - start)  # it was whole
        elif self.facts.ids:
            raise SettingError("--resume: there are more texts than when it ended; start again: --overwrite")
        while not self.facts.ids:
            if some:
                self.add(some, digest)
            else:
                self.note(replace(self.facts, ids=digest_of(self.out)))
            yield Progress(self.facts, self.facts.bytes - before, perf_counter() - start)
            some = list(up_to(CHUNK, texts))

    def reading(self) -> dict[str, Any]:
        """How the files are read."""
        settings = self.settings
        how = {name: getattr(settings, name) for name in ("text_column", "format", "errors")}
        return how | {"paths": settings.data, "whole": settings.documents == "file"}

    def begin(self) -> None:
        """Make the folder what it was after the last whole chunk, or that of a new corpus."""
        if not self.settings.resume:  # once more, now that nobody else can begin
            check_folder(self.settings, self.out, files=FILES, what="corpus")
        elif Facts.read(self.out) != self.facts:
            raise SettingError(f"--resume: {self.settings.out} has changed meanwhile; give the command again")
        for half in half_written(self.out, FILES):
            remove(half)
        if not self.settings.resume:
            for name in FILES:
                remove(self.out / name)
            self.tokenizer.write(self.out)
        facts = self.facts
        for name, size in (
            (IDS, facts.tokens * ID.itemsize),
            (DOCUMENTS, facts.documents * DOCUMENT.itemsize),
        ):
            with (self.out / name).open("ab") as file:
                if file.tell() < size:
                    raise FolderError(f"{self.out / name} has lost its end; start again with --overwrite")
                file.truncate(size)
        self.note(facts)

    def add(self, texts: list[str], digest: Any) -> None:
        """Write a chunk: its numbers are safe on the disk before it is noted that they are there."""
        facts, sizes = self.facts, [add_to(digest, text) for text in texts]
        found = [np.array(ids, ID) for ids in ids_of(self.tokenizer, texts)]
        ends = facts.tokens + np.cumsum([len(ids) for ids in found])
        rows = np.array([*zip(ends.tolist(), sizes, strict=True)], DOCUMENT)
        for name, numbers in ((IDS, np.concatenate(found)), (DOCUMENTS, rows)):
            with naming_place(self.out / name), (self.out / name).open("ab") as file:
                file.write(numbers.tobytes())
            settle(self.out / name)
        self.note(
            replace(
                facts,
                documents=facts.documents + len(texts),
                tokens=int(ends[-1]),
                bytes=facts.bytes + sum(sizes),
                texts=digest.hexdigest(),
            )
        )

    def note(self, facts: Facts) -> None:
        """Say how far it has come."""
        write_json(self.out / FACTS, {"format": FORMAT} | asdict(facts))
        self.facts = facts
