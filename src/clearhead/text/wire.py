"""Messages of protocol buffers as they lie in a file: fields that say themselves where each ends.

Source: the encoding's specification (protobuf.dev, "Encoding"). Groups, which nobody writes any more, are
refused.
"""

from collections.abc import Iterator
from typing import Any, TypeVar

Raw = TypeVar("Raw", bytes, memoryview)


def fields(message: Raw) -> Iterator[tuple[int, Any]]:
    """Each field's number and its value: a whole number, or a piece of the message, of a `memoryview` without
    a copy. ValueError where the message ends too early or is none."""
    place = 0
    while place < len(message):
        key, place = number(message, place)
        match key & 7:
            case 0:
                value, place = number(message, place)
                yield key >> 3, value
                continue
            case 1 | 5 as kind:
                size = 8 if kind == 1 else 4
            case 2:
                size, place = number(message, place)
            case kind:
                raise ValueError(f"fields of kind {kind}")
        if place + size > len(message):
            raise ValueError("it ends too early")
        yield key >> 3, message[place : place + size]
        place += size


def number(message: bytes | memoryview, place: int) -> tuple[int, int]:
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
