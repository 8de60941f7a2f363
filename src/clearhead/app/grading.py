"""The command that grades what somebody wrote by hand."""

from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter

from clearhead.app.verbs import Json
from clearhead.errors import SettingError
from clearhead.settings import Grading

File = Annotated[
    str | None, Parameter(help="a .py or .ipynb file, or FILE:function", allow_leading_hyphen=True)
]
Listed = Annotated[bool, Parameter(name="--list", negative="", help="list the exercises, and run nothing")]
Start = Annotated[str | None, Parameter(help="print a file to begin an exercise with, and run nothing")]
Output = Annotated[bool, Parameter(negative="", help="show what the code prints, too")]
Ask = Annotated[Grading, Parameter(name="*")]
ASK = Grading()


def grade(
    file: File = None,
    *,
    settings: Ask = ASK,
    list_exercises: Listed = False,
    start: Start = None,
    show_output: Output = False,
    json: Json = False,
) -> int:
    """Say whether code written by hand computes the published equation and, if not, which mistake it is.

    Functions are found by name. The code runs in a process of its own, as your code does: it is
    trusted, and the
    limits on time and memory are for accidents. Exit status 1 for a wrong answer or one that is not done yet.
    """
    from clearhead.app import grades
    from clearhead.app.terminal import emit, plain
    from clearhead.check.grading.exercises import EXERCISES
    from clearhead.check.grading.run import graded, named
    from clearhead.check.grading.verdict import Outcome

    if list_exercises:
        grades.exercises(EXERCISES.values(), as_json=json)
        return 0
    if start is not None:
        print(grades.beginning(named(start)), end="")
        return 0
    if file is None:
        raise SettingError("no file: give a .py or .ipynb, --list for the exercises, or --start NAME")
    outcomes = []
    for found in graded(file, settings):
        outcomes.append(found.outcome)
        if plain(json):
            emit({name: value for name, value in asdict(found).items() if name != "printed" or show_output})
        else:
            grades.grade(found, EXERCISES[found.exercise], output=show_output)
    grades.counted(outcomes)
    if Outcome.UNUSABLE in outcomes:
        return 2
    return int(Outcome.WRONG in outcomes or Outcome.UNDONE in outcomes)
