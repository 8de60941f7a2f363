"""What an exercise is made of: its equation, inputs from small to large, laws, and known mistakes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from clearhead.check.grading.numbers import numbers

Arguments = tuple[Any, ...]
Wrong = frozenset[str]
Random = np.random.Generator
NOTHING: Wrong = frozenset()
SIZES, DRAWS = 9, 4


@dataclass(frozen=True)
class Mistake:
    """One thing done wrong: a switch of the exercise's twin.

    did: what was done; says: what the equation says, both as sentences. Mistakes of one `group` exclude each
    other. With `care` the equation is computed, and only the exercise's hard inputs (large numbers) show it.
    """

    name: str
    did: str
    says: str
    group: str = ""
    care: bool = False


@dataclass(frozen=True)
class Law:
    """What holds for every right answer.

    `other` makes a second input of the first, where the law compares two answers; `holds` gets the first
    input and the answers to both (the second is None without `other`).
    """

    sentence: str
    holds: Callable[..., bool]
    other: Callable[[Arguments], Arguments] | None = None


@dataclass(frozen=True)
class Exercise:
    """One equation to be written by hand.

    accepts: names of functions that are taken for it, the first being the one of the starter.
    parameters: as published; the last `optional` of them may be left out.
    right: the reference, called with the arguments. twin: the same from (arguments, wrong), where `wrong`
    holds names of mistakes.
    inputs: arguments from (random, size); size 0 is the smallest. hard: arguments with large numbers.
    form: brings an answer into the form that is compared; raises ValueError where it cannot be one.
    """

    name: str
    accepts: tuple[str, ...]
    parameters: tuple[str, ...]
    contract: str
    equation: str
    source: str
    right: Callable[..., Any]
    twin: Callable[[Arguments, Wrong], Any]
    inputs: Callable[[Random, int], Arguments]
    mistakes: tuple[Mistake, ...]
    starter: str
    laws: tuple[Law, ...] = ()
    hard: tuple[Arguments, ...] = ()
    optional: int = 0
    form: Callable[[Any], Any] = numbers
    sizes: int = SIZES

    def cases(self) -> Iterator[Arguments]:
        """Inputs in the order in which they are tried: the same each time, the smallest first."""
        for size in range(self.sizes):
            for draw in range(DRAWS):
                yield self.inputs(np.random.default_rng([size, draw]), size)

    @cached_property
    def known(self) -> list[tuple[Arguments, Any]]:
        """Every input with its right answer, made once."""
        return [(case, self.expected(case)) for case in self.cases()]

    def expected(self, arguments: Arguments) -> Any:
        """The reference's answer, in the form that is compared."""
        return self.form(self.right(*arguments))

    def mistaken(self, arguments: Arguments, wrong: Wrong) -> Any:
        """The answer of one who makes these mistakes; None where they make one impossible."""
        with np.errstate(all="ignore"):
            try:
                return self.form(self.twin(arguments, wrong))
            except (ValueError, IndexError, ZeroDivisionError, OverflowError):
                return None

    def mistakes_by_size(self) -> Iterator[Wrong]:
        """Every mistake alone, then every two that can be made together."""
        visible = [mistake for mistake in self.mistakes if not mistake.care]
        for mistake in visible:
            yield frozenset([mistake.name])
        for one, other in combinations(visible, 2):
            if not one.group or one.group != other.group:
                yield frozenset([one.name, other.name])

    def named(self, name: str) -> Mistake:
        """The mistake of this name."""
        (found,) = (mistake for mistake in self.mistakes if mistake.name == name)
        return found

    @property
    def care(self) -> Mistake | None:
        """The mistake that only hard inputs show."""
        return next((mistake for mistake in self.mistakes if mistake.care), None)


# ---- inputs ------------------------------------------------------------------------------------------------

WHOLE_NUMBERS = 5  # sizes below this one get whole numbers, which people can follow by hand


def draw(random: Random, size: int, *, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of this shape: small whole ones in small sizes, normal ones in large."""
    if size < WHOLE_NUMBERS:
        return random.integers(-2, 3, size=shape).astype(np.float64)
    return random.normal(size=shape)


def distinct(random: Random, size: int, *, count: int) -> np.ndarray:
    """Numbers of which no two are equal, in any order."""
    if size < WHOLE_NUMBERS:
        return random.permutation(np.arange(count) - count // 2).astype(np.float64)
    return random.normal(size=count)


def table(*mistakes: tuple[str, str, str, str]) -> tuple[Mistake, ...]:
    """Mistakes as rows: name, group, what was done, what the equation says."""
    return tuple(Mistake(name, did, says, group) for name, group, did, says in mistakes)
