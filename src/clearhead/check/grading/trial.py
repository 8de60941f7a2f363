"""One input with its answer, and what can be said of answers in which no known mistake is seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from clearhead.check.grading.exercise import Arguments
from clearhead.check.grading.numbers import close, listed
from clearhead.check.grading.runner import Answer


@dataclass
class Trial:
    """One input, the right answer, what came back, and that in the form that is compared."""

    arguments: Arguments
    expected: Any
    answer: Answer
    given: Any = None
    misfit: str = ""

    @property
    def size(self) -> int:
        """How much goes in."""
        return sum(map(amount, self.arguments))

    @cached_property
    def right(self) -> bool:
        return not self.answer.kind and not self.misfit and close(self.given, self.expected)


def amount(given: Any) -> int:
    """How many numbers or characters there are."""
    if isinstance(given, list | tuple):
        return sum(map(amount, given))
    return len(given) if isinstance(given, str) else int(np.size(given))


def undone(trials: Sequence[Trial]) -> str:
    """A hint where the answers are those of code that is still to be written; else nothing."""
    if all(trial.answer.kind == "NotImplementedError" for trial in trials):
        return "It raises NotImplementedError: write what goes there."
    if any(trial.answer.kind for trial in trials):
        return ""
    if all(trial.answer.value is None for trial in trials):
        return "It returns nothing: write the computation, and `return` its result."
    if all(trial.answer.value is Ellipsis for trial in trials):
        return "It returns an ellipsis: write what goes there."
    if all(isinstance(trial.answer.value, list | dict) and not trial.answer.value for trial in trials):
        return "It returns nothing but an empty list or dictionary: write the computation."
    if all(unchanged(trial) for trial in trials):
        return "It returns its input as it is: replace this line by the computation."
    values = [np.asarray(trial.given) for trial in trials if not trial.misfit]
    if len(values) == len(trials) and values[0].dtype.kind in "fiu" and values[0].size:
        first = values[0].flat[0]
        if all((value == first).all() for value in values):
            what = {0.0: "zeros", 1.0: "ones"}.get(float(first), f"the number {float(first):g}")
            return f"It returns {what}, whatever it is given: replace this line by the computation."
    return ""


def unchanged(trial: Trial) -> bool:
    """Whether what came back is the first argument."""
    first = trial.arguments[0]
    try:
        if isinstance(first, list):
            given = trial.answer.value
            return len(given) == len(first) and all(map(np.array_equal, given, first))
        return bool(np.array_equal(trial.answer.value, first))
    except (ValueError, TypeError):
        return False


def explained(trial: Trial) -> str:
    """What is wrong with one answer, in one sentence."""
    if trial.misfit:
        return capital(trial.misfit) + "."
    given, expected = trial.given, trial.expected
    if isinstance(given, np.ndarray) and isinstance(expected, np.ndarray):
        if given.shape != expected.shape:
            said = f"Its shape is {tuple(given.shape)} where {tuple(expected.shape)} was expected"
            if given.ndim == 2 and close(given.T, expected):
                return said + ": this is the transpose of the right answer."
            if given.size == expected.size and close(given.reshape(expected.shape), expected):
                return said + "; the numbers are right."
            return said + "."
        if np.isnan(given).any() and not np.isnan(expected).any():
            return "There is a NaN in it: zero was divided by zero, or a number was too large."
    return "It is wrong, and not in a way that is known here."


def raised_by(trial: Trial) -> str:
    """Why there is no answer: their exception as it is, or what stopped the process."""
    answer = trial.answer
    match answer.kind:
        case "time":
            return capital(answer.error) + ": does a loop not end? (--time allows more)"
        case "memory":
            return f"It takes more memory than it may (--memory allows more): {answer.error}"
        case "ended" | "form":
            return capital(answer.error) + "."
        case _:
            return answer.error


def capital(sentence: str) -> str:
    """A sentence with a large first letter, unless it begins with a file."""
    return sentence[:1].upper() + sentence[1:] if sentence.split(" ")[0].isalpha() else sentence


def shown(trial: Trial) -> Any:
    """What came back, as JSON can say it."""
    if trial.answer.kind:
        return None
    return listed(trial.answer.value if trial.misfit or trial.given is None else trial.given)
