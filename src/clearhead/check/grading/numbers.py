"""Answers as numbers: brought into one form, compared, and written for people."""

from typing import Any

import numpy as np

NEAR = 2e-5  # relative to the largest number, or 1: float32 answers pass, and known mistakes differ by more


def numbers(answer: Any) -> np.ndarray:
    """An answer as one array of float64; ValueError where it holds no numbers or is ragged."""
    if answer is None or isinstance(answer, str | dict):
        raise ValueError("an array of numbers was expected")
    try:
        return np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("an array of numbers was expected, all rows of equal length") from None


def flat(answer: Any) -> np.ndarray:
    """A list of numbers, each of which may be an array of one."""
    items = [numbers(item) for item in answer] if isinstance(answer, list | tuple) else [numbers(answer)]
    if isinstance(answer, list | tuple) and any(item.size != 1 for item in items):
        raise ValueError("a list of single numbers was expected")
    return np.concatenate([item.reshape(-1) for item in items]) if items else np.zeros(0)


def vectors(answer: Any) -> np.ndarray:
    """A list of column vectors [width, 1], or of vectors [width], as [tokens, width]."""
    array = numbers(answer)
    return array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array


def single(answer: Any) -> np.ndarray:
    """One number, which may stand in an array of one."""
    array = numbers(answer)
    if array.size != 1:
        raise ValueError("one number was expected")
    return array.reshape(())


def close(given: Any, expected: Any) -> bool:
    """Whether two answers in compared form say the same, as far as float32 can."""
    if given is None or expected is None:
        return given is expected
    if isinstance(expected, np.ndarray):
        if not isinstance(given, np.ndarray) or given.shape != expected.shape:
            return False
        finite = np.isfinite(expected)
        if not np.array_equal(np.where(finite, 0.0, expected), np.where(finite, 0.0, given), equal_nan=True):
            return False
        largest = max(1.0, float(np.abs(expected[finite]).max(initial=0.0)))
        return bool(
            (np.abs(np.where(finite, given - np.where(finite, expected, 0.0), 0.0)) <= NEAR * largest).all()
        )
    if isinstance(expected, list | tuple):
        same = isinstance(given, list | tuple) and len(given) == len(expected)
        return same and all(close(one, other) for one, other in zip(given, expected, strict=True))
    return bool(given == expected)


def listed(value: Any) -> Any:
    """A value as JSON can say it: arrays as nested lists, numbers that are none as words."""
    match value:
        case np.ndarray():
            return listed(value.tolist())
        case list() | tuple():
            return [listed(item) for item in value]
        case dict():
            return {str(name): listed(item) for name, item in value.items()}
        case np.generic():
            return listed(value.item())
        case float() if not np.isfinite(value):
            return "nan" if value != value else "inf" if value > 0 else "-inf"
        case float() | int() | str() | None:
            return value
        case _:
            return repr(value)[:80]


def written(value: Any) -> str:
    """A value for people: matrices row below row, numbers with four decimals and no needless zeros."""
    value = listed(value)
    match value:
        case [[*first], *_] if not any(isinstance(item, list) for item in first):
            rows = [[written(item) for item in row] for row in value]
            width = max((len(item) for row in rows for item in row), default=0)
            return (
                "["
                + "\n ".join("[" + " ".join(item.rjust(width) for item in row) + "]" for row in rows)
                + "]"
            )
        case [[*_], *_]:
            return "[" + "\n\n ".join(written(item).replace("\n", "\n ") for item in value) + "]"
        case [*_]:
            return "[" + " ".join(written(item) for item in value) + "]"
        case {**items}:
            return "{" + ", ".join(f"{name!r}: {written(item)}" for name, item in items.items()) + "}"
        case float():
            return decimal(value)
        case "inf" | "-inf":
            return value.replace("inf", "∞").replace("-", "−")
        case str() if value != "nan":
            return repr(value)
        case _:
            return str(value)


def decimal(number: float) -> str:
    """A number with four decimals and no needless zeros; a tiny one keeps two digits."""
    text = f"{number:.4f}".rstrip("0").rstrip(".")
    if text not in ("0", "-0"):
        return text
    return f"{number:.1e}" if number else "0"
