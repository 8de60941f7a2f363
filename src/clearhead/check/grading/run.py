"""One file from its path to its grades."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from clearhead.check.grading.exercise import Exercise
from clearhead.check.grading.exercises import BY_FUNCTION, EXERCISES
from clearhead.check.grading.judge import judge
from clearhead.check.grading.runner import Process
from clearhead.check.grading.source import cells_of
from clearhead.check.grading.verdict import Grade, Outcome
from clearhead.errors import DataError, SettingError
from clearhead.settings import Grading, made

Job = tuple[str, Exercise]


def grade(path: str | Path, **options: Any) -> list[Grade]:
    """Whether the functions of a file compute the published equations.

    path: a .py or .ipynb whose functions have the names that exercises accept, or FILE:function.
    options: those
    of `Grading`; `exercise` is for a function that is called otherwise, or where only that one is asked for.
    The code runs in a process of its own and is trusted: `time` and `memory` are for accidents. One grade a
    function, in their order.
    Raises DataError for a file that cannot be used, SettingError for a name that does not exist.
    """
    return list(graded(path, made(Grading, options)))


def graded(path: str | Path, asked: Grading) -> Iterator[Grade]:
    """The grades one by one, as they are made."""
    file, function = parted(str(path))
    cells = cells_of(file)
    chosen = None if asked.exercise is None else named(asked.exercise)
    with Process(cells, file.resolve().parent, limits=asked) as process:
        there = list(process.own)
        if function is not None and function in process.functions and function not in there:
            there.append(function)
        try:
            jobs = jobs_of(there, file, function=function, chosen=chosen)
        except DataError as error:
            failed = f"; running it: {process.failed[0]}" if process.failed else ""
            raise DataError(f"{error}{failed}") from None
        process.printed()  # what loading printed belongs to no function
        for name, one in jobs:
            found = of_function(process, name, exercise=one)
            yield replace(found, printed=process.printed()) if not found.printed else found


def parted(path: str) -> tuple[Path, str | None]:
    """FILE:function as its two parts; a file that has a colon in its name is one file."""
    file, colon, function = path.rpartition(":")
    if colon and function.isidentifier() and not Path(path).exists():
        return Path(file).expanduser(), function
    return Path(path).expanduser(), None


def named(exercise: str) -> Exercise:
    """The exercise of this name, or of a function name that it accepts."""
    found = EXERCISES.get(exercise) or BY_FUNCTION.get(exercise)
    if found is None:
        raise SettingError(
            f"there is no exercise {exercise!r}; there are {', '.join(EXERCISES)} (clearhead grade --list)"
        )
    return found


def jobs_of(there: list[str], file: Path, *, function: str | None, chosen: Exercise | None) -> list[Job]:
    """Which functions are held to which exercises. DataError where there is nothing to grade."""
    have = f"it has {', '.join(there)}" if there else "it has no functions"
    if function is not None:
        if function not in there:
            raise DataError(f"{file}: there is no function {function}; {have}")
        one = chosen or BY_FUNCTION.get(function)
        if one is None:
            raise DataError(
                f"{file}: {function} is not the name of an exercise; say which one it is for with "
                "--exercise NAME: " + ", ".join(EXERCISES)
            )
        return [(function, one)]
    if chosen is not None:
        jobs = [(name, chosen) for name in there if name in chosen.accepts]
        if not jobs:
            raise DataError(
                f"{file}: no function is called {' or '.join(chosen.accepts)}; {have}; "
                f"say which one it is: FILE:function"
            )
        return jobs
    jobs = [(name, BY_FUNCTION[name]) for name in there if name in BY_FUNCTION]
    if not jobs:
        raise DataError(
            f"{file}: no function has the name of an exercise; {have}; exercises are {', '.join(EXERCISES)}; "
            "give FILE:function and --exercise NAME"
        )
    return jobs


def of_function(process: Process, name: str, *, exercise: Exercise) -> Grade:
    """The grade of one function."""
    wanted = len(exercise.parameters)
    least, most = process.functions[name]
    assert least is not None
    if least > wanted or (most is not None and most < wanted - exercise.optional):
        takes = f"{least}" if least == most else f"{least} or more" if most is None else f"{least} to {most}"
        return Grade(
            name,
            exercise.name,
            Outcome.UNUSABLE,
            f"It takes {takes} {'argument' if takes == '1' else 'arguments'}; "
            f"the exercise has {wanted}: ({', '.join(exercise.parameters)}).",
        )
    taken = None if most is None else min(most, wanted)
    found = judge(exercise, lambda cases: process.call(name, cases), function=name, taken=taken)
    if process.failed:
        found = replace(
            found, notes=(*found.notes, f"part of the file failed when it ran: {process.failed[0]}")
        )
    return found
