"""The solutions in NumPy once more, with every number in float32."""

import functools
from pathlib import Path

import numpy as np

names = {}
exec((Path(__file__).parent / "by_arrays.py").read_text(), names)


def narrowed(value):
    if isinstance(value, list):
        return [narrowed(item) for item in value]
    if isinstance(value, np.ndarray) and value.dtype == np.float64:
        return value.astype(np.float32)
    return value


def in_float32(function):
    @functools.wraps(function)
    def inner(*given):
        return function(*map(narrowed, given))

    return inner


globals().update(
    {
        name: in_float32(value)
        for name, value in list(names.items())
        if callable(value) and getattr(value, "__module__", None) != "collections"
    }
)
