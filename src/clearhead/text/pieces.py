"""SentencePiece's model files (Kudo and Richardson 2018): what lies in one, and texts as its pieces."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from clearhead.errors import FolderError, MissingExtra
from clearhead.text.encoding import Span
from clearhead.text.wire import fields

SPACE = "▁"  # how a piece spells the space before a word


class Sort(IntEnum):
    """What a piece is, as a file numbers it."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    WRITTEN = 4  # found in a text before all others (user-defined)
    UNUSED = 5
    BYTE = 6


class Piece(NamedTuple):
    """One entry of a model's vocabulary; its place is its id."""

    text: str
    score: float
    sort: Sort = Sort.NORMAL


@dataclass(frozen=True)
class Model:
    """A model file, as far as others than SentencePiece itself can use it."""

    pieces: Sequence[Piece]
    charsmap: bytes
    """The table of replacements in the form that the `tokenizers` library takes; may be empty."""
    unigram: bool


def read_model(path: Path) -> Model:
    """What a model file says, without SentencePiece: its fields are protocol buffers, which say themselves
    where each ends. FolderError for what is no such file."""
    try:
        pieces, charsmap, unigram = [], b"", True
        for name, value in fields(path.read_bytes()):
            if name == 1:
                pieces.append(_piece(value))
            elif name == 2:
                unigram = dict(fields(value)).get(3, 1) == 1
            elif name == 3:
                charsmap = bytes(dict(fields(value)).get(2, b""))
        if not pieces or not all(isfinite(piece.score) for piece in pieces):
            raise ValueError("it holds no pieces with finite scores")
    except (ValueError, TypeError, struct.error) as error:
        raise FolderError(f"{path} is not a sentencepiece model ({error}); fetch it again") from error
    return Model(pieces, charsmap, unigram)


def _piece(message: bytes) -> Piece:
    stated: dict[int, Any] = dict(fields(message))
    (score,) = struct.unpack("<f", stated.get(2, bytes(4)))
    return Piece(stated.get(1, b"").decode(), score, Sort(stated.get(3, Sort.NORMAL)))


class Found(NamedTuple):
    """The tokens of a string, in the form of the `tokenizers` library's own."""

    ids: list[int]
    offsets: list[Span]
    word_ids: list[int]


@dataclass(frozen=True)
class Kept:
    """Published files that a tokenizer is read from and written to as they are: no tokenizer.json says what
    stands in them."""

    files: Mapping[str, bytes] = field(repr=False)
    model: str
    """The one of them that finds the pieces."""


class PieceReader:
    """Texts to ids as Marian has it: SentencePiece finds the pieces, a vocabulary of its own numbers them.

    A piece that the vocabulary lacks is unknown. A language code at the beginning of a text, `>>fra<<`, is
    one token, by its place alone: any text from `>>` to the first `<<` is.

    It is called as the `tokenizers` library's object is.
    """

    def __init__(self, kept: Kept, vocabulary: Mapping[str, int], *, unknown: int):
        """MissingExtra without the `sentencepiece` package; FolderError if it cannot read the model."""
        self._vocabulary, self._unknown = vocabulary, unknown
        try:
            import sentencepiece
        except ImportError as error:
            raise MissingExtra(f"reading {kept.model}, a sentencepiece model,", "sentencepiece") from error
        self._model = sentencepiece.SentencePieceProcessor()
        try:
            self._model.LoadFromSerializedProto(kept.files[kept.model])
        except RuntimeError as error:
            raise FolderError(
                f"{kept.model} is not a sentencepiece model ({error}); fetch it again"
            ) from error

    def encode(self, text: str, *, add_special_tokens: bool = False) -> Found:
        """The tokens of a text, with nothing around it."""
        code = code_of(text)
        rest = text[len(code) :]
        _, borders = self._model.Normalize(rest, with_offsets=True)
        tokens, words = ([code] if code else []), 0
        offsets, word_ids = [(0, len(code))] * len(tokens), [0] * len(tokens)
        place = rank = 0
        for piece in self._model.EncodeAsPieces(rest):
            start, size = place, len(piece)
            if self._model.IsByte(self._model.PieceToId(piece)):
                # The bytes of one character stand for it together.
                byte = int(piece[1:-1], 16)
                rank = rank - 1 if rank else 3 if byte >= 0xF0 else 2 if byte >= 0xE0 else int(byte >= 0xC0)
                size = 1
            place = start + (0 if rank else size)
            offsets.append((borders[start] + len(code), borders[start + size] + len(code)))
            words += piece.startswith(SPACE) and bool(word_ids)
            word_ids.append(words)
            tokens.append(piece)
        return Found([self._vocabulary.get(token, self._unknown) for token in tokens], offsets, word_ids)

    def encode_batch(self, texts: Sequence[str], *, add_special_tokens: bool = False) -> list[Found]:
        """`encode` of each text."""
        return [self.encode(text) for text in texts]

    encode_batch_fast = encode_batch


def code_of(text: str) -> str:
    """The language code that a text begins with, or nothing."""
    end = text.find("<<") + 2 if text.startswith(">>") else 0
    return text[:end] if end > 1 else ""
