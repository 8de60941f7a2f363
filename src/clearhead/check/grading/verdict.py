"""What is found about one function: right, wrong in which way, or not done yet."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """What a grade says. Right with care: the equation is computed, but not for large numbers."""

    RIGHT = "right"
    CARE = "right, with care"
    WRONG = "wrong"
    UNDONE = "not done yet"
    UNUSABLE = "unusable"


@dataclass(frozen=True)
class Example:
    """The smallest input that was found to go wrong: its arguments by name, what is right, what was given."""

    arguments: dict[str, Any]
    expected: Any
    given: Any


@dataclass(frozen=True)
class Grade:
    """What was found about one function.

    why: in one sentence. mistakes: the names of what was done wrong, together, where that is known; did and
    says tell of each what was done and what the equation says. alike: other names, or pairs of them, which
    answer the same on every input here. laws: those that are broken. notes: what else was seen.
    """

    function: str
    exercise: str
    outcome: Outcome
    why: str
    mistakes: tuple[str, ...] = ()
    did: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()
    laws: tuple[str, ...] = ()
    example: Example | None = None
    notes: tuple[str, ...] = ()
    printed: str = ""
