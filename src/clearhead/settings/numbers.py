"""Numbers that make sense as sizes, rates and shares; others are refused by name."""

from typing import Any

from clearhead.errors import SettingError

LARGEST = 1e30  # number that float32 can still compute with
MOST = 2**28  # of any size: the product of two is the number of bytes of a tensor that could still be named


def whole_number(name: str, value: Any, *, least: int) -> None:
    """Refuse what is not a whole number of at least `least`, or beyond any model, by name."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SettingError(f"{name}={value!r} must be a whole number of at least {least}")
    if value > MOST:
        raise SettingError(f"{name}={value!r} is beyond any model; at most {MOST}")


def finite_number(name: str, value: Any) -> None:
    """Refuse what is not a number of at least 0, by name."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST:
        raise SettingError(f"{name}={value!r} must be a number of at least 0 and at most {LARGEST:g}")


def share(name: str, value: Any) -> None:
    """Refuse what is not a number of at least 0 and below 1, by name."""
    finite_number(name, value)
    if value >= 1:
        raise SettingError(f"{name}={value} must be at least 0 and below 1")
