"""SentencePiece's model files (Kudo and Richardson 2018): what lies in one."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from clearhead.errors import FolderError


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
        for name, value in _fields(path.read_bytes()):
            if name == 1:
                pieces.append(_piece(value))
            elif name == 2:
                unigram = dict(_fields(value)).get(3, 1) == 1
            elif name == 3:
                charsmap = bytes(dict(_fields(value)).get(2, b""))
        if not pieces or not all(isfinite(piece.score) for piece in pieces):
            raise ValueError("it holds no pieces with finite scores")
    except (ValueError, TypeError, struct.error) as error:
        raise FolderError(f"{path} is not a sentencepiece model ({error}); fetch it again") from error
    return Model(pieces, charsmap, unigram)


def _piece(message: bytes) -> Piece:
    stated: dict[int, Any] = dict(_fields(message))
    (score,) = struct.unpack("<f", stated.get(2, bytes(4)))
    return Piece(stated.get(1, b"").decode(), score, Sort(stated.get(3, Sort.NORMAL)))


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Each field's number and its value: a whole number, or bytes."""
    place = 0
    while place < len(message):
        key, place = _number(message, place)
        match key & 7:
            case 0:
                value, place = _number(message, place)
                yield key >> 3, value
                continue
            case 1 | 5 as kind:
                size = 8 if kind == 1 else 4
            case 2:
                size, place = _number(message, place)
            case kind:
                raise ValueError(f"fields of kind {kind}")
        if place + size > len(message):
            raise ValueError("it ends too early")
        yield key >> 3, message[place : place + size]
        place += size


def _number(message: bytes, place: int) -> tuple[int, int]:
    """A whole number in 7 bits a byte, and the place behind it."""
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(message):
            raise ValueError("it ends too early")
        byte = message[place]
        value, place = value | (byte & 127) << shift, place + 1
        if byte < 128:
            return value, place
    raise ValueError("a number without end")
