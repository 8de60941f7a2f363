"""A corpus on the disk as ids: read as a mapped file, so that it may be larger than memory."""

import hashlib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_origin

import numpy as np
import torch
from numpy.typing import NDArray

from clearhead.checkpoint.files import read_json
from clearhead.checkpoint.folder import Loaded
from clearhead.errors import FolderError, SettingError
from clearhead.learn.corpus import BEGINNING, TENTH, Texts, kept_aside
from clearhead.tasks.pieces import Pieces, around
from clearhead.text.tokenizer import Tokenizer

FACTS, IDS, DOCUMENTS = "corpus.json", "ids.bin", "documents.bin"
FORMAT = "clearhead corpus 2"
ID = np.dtype("<i4")  # one after another, all documents
DOCUMENT = np.dtype([("end", "<i8"), ("bytes", "<i8")])  # where it ends among the ids; its bytes as text
AT_ONCE = 2**24  # ids that are looked at together


def is_encoded(path: str | Path) -> bool:
    """Whether a path is a folder of ids."""
    return (Path(path) / FACTS).is_file()


@dataclass(frozen=True)
class Facts:
    """What corpus.json says of a corpus that is whole, or being made."""

    documents: int
    tokens: int
    bytes: int  # of the texts, in UTF-8
    texts: str  # SHA-256 of the texts in order, each after its length
    ids: str  # SHA-256 of both files of numbers; empty while the corpus is being made
    settings: dict[str, Any]  # what it is made from, and how

    @classmethod
    def read(cls, folder: Path) -> "Facts":
        """The facts of a folder; FolderError where they are not what this program writes."""
        said = read_json(folder / FACTS)
        kinds = {item.name: get_origin(item.type) or item.type for item in fields(cls)}
        right = said.pop("format", None) == FORMAT and said.keys() == kinds.keys()
        if not right or not all(type(said[name]) is kind for name, kind in kinds.items()):
            raise FolderError(f"{folder / FACTS} does not describe a corpus of ids; encode the texts again")
        return cls(**said)


class Encoded:
    """Documents as ids in a folder, as texts are to a run."""

    noun, opened, ask = Texts.noun, Texts.opened, Texts.ask

    def __init__(self, folder: Path, facts: Facts, *, tokenizer: Tokenizer, rows: NDArray[Any]):
        """`rows`: of each document where it begins and ends among the ids, and its bytes `[documents, 3]`."""
        self.folder, self.facts, self.tokenizer, self.rows = folder, facts, tokenizer, rows
        self.bytes = int(rows[:, 2].sum())
        self.notes: list[str] = []

    @classmethod
    def read(cls, path: str | Path) -> "Encoded":
        """The corpus of a folder, all of its numbers looked at once.

        Raises `FolderError`, naming the file, for what is not whole or not as it was written.
        """
        folder = Path(path)
        facts = Facts.read(folder)
        if not facts.ids:
            raise FolderError(f"{folder} is not finished; go on with the same command and --resume")
        tokenizer = Tokenizer.read(folder)
        sizes = {IDS: facts.tokens * ID.itemsize, DOCUMENTS: facts.documents * DOCUMENT.itemsize}
        for name, size in sizes.items():
            if not (folder / name).is_file() or (folder / name).stat().st_size != size:
                raise FolderError(f"{folder / name} does not hold {size:,} bytes; encode the texts again")
        if digest_of(folder) != facts.ids:
            raise FolderError(
                f"{folder}: the numbers are not those that were written; encode the texts again"
            )
        documents = np.fromfile(folder / DOCUMENTS, DOCUMENT)
        ends = documents["end"].astype(np.int64)
        rows = np.stack([np.append(0, ends[:-1]), ends, documents["bytes"]], 1)
        if (np.diff(rows[:, :2]) < 0).any() or (len(ends) and ends[-1] != facts.tokens):
            raise FolderError(f"{folder / DOCUMENTS}: the documents are in no order; encode the texts again")
        ids = mapped(folder, facts)
        for start in range(0, len(ids), AT_ONCE):
            some = ids[start : start + AT_ONCE]
            if some.min() < 0 or some.max() >= tokenizer.vocab_size:
                raise FolderError(
                    f"{folder / IDS} holds ids that its tokenizer has not; encode the texts again"
                )
        return cls(folder, facts, tokenizer=tokenizer, rows=rows)

    def __len__(self) -> int:
        return len(self.rows)

    def digest(self) -> str:
        """SHA-256 of the corpus, and of which of its ids are meant."""
        return hashlib.sha256(self.facts.ids.encode() + self.rows.tobytes()).hexdigest()

    def parts(self, seed: int) -> tuple["Encoded", "Encoded"]:
        """Documents to learn from and to choose by: a tenth by seed or, of few, the last tenth of the ids of
        each."""
        if len(self) >= TENTH:
            kept, aside = kept_aside(range(len(self)), seed=seed)
            return self.of(self.rows[kept]), self.of(self.rows[aside])
        begins, ends, sizes = self.rows.T
        borders = ends - (ends - begins) // TENTH
        late = [self.size_of(begin, end) for begin, end in zip(borders, ends, strict=True)]
        early = np.stack([begins, borders, sizes - late], 1)
        return self.of(early), self.of(np.stack([borders, ends, late], 1)[ends > borders])

    def of(self, rows: NDArray[Any]) -> "Encoded":
        """Some of it."""
        return Encoded(self.folder, self.facts, tokenizer=self.tokenizer, rows=rows)

    def size_of(self, begin: int, end: int) -> int:
        """Bytes of the text that ids stand for."""
        return len(self.tokenizer.decode(mapped(self.folder, self.facts)[begin:end].tolist()).encode())

    def pieces(self, loaded: Loaded, *, context: int, blocks: bool) -> Pieces:
        """What is learned; SettingError where the model has another tokenizer."""
        if not self.tokenizer.same(loaded.tokenizer):
            raise SettingError(
                f"{self.folder} was encoded with another tokenizer than the model's; encode the texts again "
                "with --tokenizer naming the model"
            )
        ids = torch.from_numpy(mapped(self.folder, self.facts))
        return Pieces.cut(
            ids, [(begin, end) for begin, end, _ in self.rows.tolist()], context=context, blocks=blocks
        )

    def openings(self, loaded: Loaded, *, most: int) -> list[tuple[str, list[int]]]:
        """The beginnings of a few, as people read them and as ids."""
        ids = mapped(self.folder, self.facts)
        texts = [
            self.tokenizer.decode(ids[begin : min(end, begin + 4 * BEGINNING)].tolist())
            for begin, end, _ in self.rows[:most]
        ]
        return Texts(texts).openings(loaded, most=most)


def open_end(tokenizer: Tokenizer, source: str) -> int | None:
    """The token that ends a document, where there is one; SettingError, naming the source, where every text
    gets one behind it, as a classifier reads texts: no prompt could be gone on with."""
    _, behind = around(tokenizer)
    if behind:
        raise SettingError(
            f"{source} ends texts with {tokenizer.name(behind[0])!r} (its post_processor), so no "
            "prompt could be gone on with; clearhead tokenizer train --no-closed learns one that does not"
        )
    return tokenizer.roles.get("eos_token")


def mapped(folder: Path, facts: Facts) -> NDArray[np.int32]:
    """The ids of a folder; an empty file cannot be mapped."""
    if not facts.tokens:
        return np.zeros(0, ID)
    return np.memmap(folder / IDS, ID, mode="c")  # copy on write: torch has no tensors that are only read


def digest_of(folder: Path) -> str:
    """SHA-256 of both files of numbers."""
    digest = hashlib.sha256()
    for name in (IDS, DOCUMENTS):
        with (folder / name).open("rb") as file:
            while part := file.read(AT_ONCE):
                digest.update(part)
    return digest.hexdigest()
