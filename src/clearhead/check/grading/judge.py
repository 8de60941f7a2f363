"""Whether answers are the equation's, and where they are not, whose mistake they are."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from clearhead.check.grading.exercise import NOTHING, Arguments, Exercise, Law, Wrong
from clearhead.check.grading.numbers import close, listed
from clearhead.check.grading.runner import Answer
from clearhead.check.grading.trial import Trial, explained, raised_by, shown, undone
from clearhead.check.grading.verdict import Example, Grade, Outcome

Ask = Callable[[Sequence[Arguments]], list[Answer]]
UNFIT = (ValueError, TypeError, KeyError, IndexError, OverflowError)
SHOWN_LAWS = 8  # inputs on which laws are tried
UNLIKE = 12  # pairs of mistakes that are named beside the first


def judge(exercise: Exercise, ask: Ask, *, function: str, taken: int | None = None) -> Grade:
    """The grade of one function. `ask` calls it; `taken` is how many arguments it takes at most."""
    trials = tried(exercise, ask, taken=taken)
    notes = tuple(noted(exercise, trials, taken=taken))
    wrong = [trial for trial in trials if not trial.right]
    failing = min(wrong, key=lambda trial: (not trial.answer.stopped, trial.size), default=None)
    if failing is None:
        return large_numbers(exercise, ask, function=function, notes=notes)
    if failing.answer.stopped:
        return graded(exercise, function, failing=failing, why=raised_by(failing), notes=notes)
    if hint := undone(trials):
        return Grade(function, exercise.name, Outcome.UNDONE, hint, notes=notes)
    found = mistaken(exercise, trials)
    if found:
        notes += tuple(also_large(exercise, ask, wrong=found[0]))
        return named(exercise, function, failing=failing, found=found, notes=notes)
    raised = next((trial for trial in trials if trial.answer.kind), None)
    if raised is not None and (raised is failing or raised.answer.stopped):
        return graded(exercise, function, failing=raised, why=raised_by(raised), notes=notes)
    laws = tuple(broken(exercise, ask, trials=trials))
    return graded(exercise, function, failing=failing, why=explained(failing), laws=laws, notes=notes)


def tried(exercise: Exercise, ask: Ask, *, taken: int | None = None, hard: bool = False) -> list[Trial]:
    """Every input with its answer; after one that stopped the process there are no more."""
    known = [(case, exercise.expected(case)) for case in exercise.hard] if hard else exercise.known
    fit = [fitting(exercise, case, taken=taken) for case, _ in known]
    trials = [
        Trial(case, right if len(case) == len(whole) else exercise.expected(case), answer)
        for (whole, right), case, answer in zip(known, fit, ask(fit), strict=False)
    ]
    for trial in trials:
        if not trial.answer.kind:
            try:
                trial.given = exercise.form(trial.answer.value)
            except UNFIT as error:
                trial.misfit = str(error)
    return trials


def fitting(exercise: Exercise, case: Arguments, *, taken: int | None) -> Arguments:
    """The arguments without those that may be left out and are not taken."""
    return case if taken is None else case[: max(taken, len(exercise.parameters) - exercise.optional)]


def noted(exercise: Exercise, trials: Sequence[Trial], *, taken: int | None) -> list[str]:
    """What is to be said whatever the grade."""
    notes = []
    if taken is not None and taken < len(exercise.parameters):
        left = ", ".join(exercise.parameters[taken:])
        notes.append(f"{left} is not taken, so it was left out")
    if any(trial.answer.mutated for trial in trials):
        notes.append("it changes its inputs: work on a copy, or whoever calls loses what they had")
    if any(trial.answer.dtype == "float16" for trial in trials):
        notes.append("it answers in float16, which is too rough to be compared; use float32 or float64")
    if any(trial.answer.dtype.startswith(("int", "uint")) for trial in trials if not trial.right):
        notes.append(
            "it answers in whole numbers: an array made of integers cuts off what comes after the point"
        )
    return notes


# ---- large numbers -----------------------------------------------------------------------------------------


def large_numbers(exercise: Exercise, ask: Ask, *, function: str, notes: tuple[str, ...]) -> Grade:
    """The grade of one that is right on usual inputs: is it on large ones?"""
    trials = tried(exercise, ask, hard=True) if exercise.hard else []
    failing = next((trial for trial in trials if not trial.right), None)
    care = exercise.care
    if failing is None or care is None:
        return Grade(function, exercise.name, Outcome.RIGHT, "It computes the equation.", notes=notes)
    example = Example(named_arguments(exercise, failing.arguments), listed(failing.expected), shown(failing))
    return Grade(
        function,
        exercise.name,
        Outcome.CARE,
        "It computes the equation, but breaks down on large numbers.",
        mistakes=(care.name,),
        did=(care.did,),
        says=(care.says,),
        example=example,
        notes=notes,
    )


def also_large(exercise: Exercise, ask: Ask, *, wrong: Wrong) -> list[str]:
    """A note if a known mistake comes with one that only large numbers show."""
    if exercise.care is None:
        return []
    for trial in tried(exercise, ask, hard=True):
        mistaken = exercise.mistaken(trial.arguments, wrong)
        if trial.given is None or (finite(mistaken) and not finite(trial.given)):
            return [f"it also breaks down on large numbers ({exercise.care.name}): {exercise.care.says}"]
    return []


def finite(answer: Any) -> bool:
    """Whether an answer holds no NaN and no infinity."""
    return isinstance(answer, np.ndarray) and bool(np.isfinite(answer).all())


# ---- known mistakes ----------------------------------------------------------------------------------------


def mistaken(exercise: Exercise, trials: Sequence[Trial]) -> list[Wrong]:
    """The mistakes that answer as the code does on every input: single ones or, if there are none, pairs."""
    if any(trial.misfit for trial in trials):
        return []
    # Where the code is wrong most mistakes differ at once, which saves the rest.
    trials = sorted(trials, key=lambda trial: trial.right)
    found: list[Wrong] = []
    for wrong in exercise.mistakes_by_size():
        if found and len(wrong) > len(found[0]):
            break
        if same_everywhere(exercise, trials, wrong=wrong):
            found.append(wrong)
    return found


def same_everywhere(exercise: Exercise, trials: Sequence[Trial], *, wrong: Wrong) -> bool:
    """Whether a mistake answers as the code does; where it makes an answer impossible, the code has none."""
    for trial in trials:
        if not close(trial.given, exercise.mistaken(trial.arguments, wrong)):
            return False
    return any(trial.given is not None and not trial.right for trial in trials)


def named(
    exercise: Exercise, function: str, *, failing: Trial, found: list[Wrong], notes: tuple[str, ...]
) -> Grade:
    """The grade of a known mistake."""
    order = [mistake.name for mistake in exercise.mistakes]
    together = [sorted(wrong, key=order.index) for wrong in found]
    first = [exercise.named(name) for name in together[0]]
    return graded(
        exercise,
        function,
        failing=failing,
        why="It is wrong in a known way." if len(first) == 1 else "Two things are wrong in known ways.",
        mistakes=tuple(mistake.name for mistake in first),
        did=tuple(mistake.did for mistake in first),
        says=tuple(mistake.says for mistake in first),
        alike=tuple(" + ".join(names) for names in islice(together, 1, UNLIKE)),
        notes=notes,
    )


# ---- what is wrong in no known way -------------------------------------------------------------------------


def broken(exercise: Exercise, ask: Ask, *, trials: Sequence[Trial]) -> list[str]:
    """The laws that some answer breaks."""
    usable = [trial for trial in trials if trial.given is not None][:SHOWN_LAWS]
    if any(np.shape(trial.given) != np.shape(trial.expected) for trial in usable):
        return []
    sentences = []
    for law in exercise.laws:
        seconds: list[Any] = [None] * len(usable)
        if law.other is not None:
            others = [law.other(trial.arguments) for trial in usable]
            answers = ask(others)
            if len(answers) < len(others) or any(answer.kind for answer in answers):
                continue
            try:
                seconds = [exercise.form(answer.value) for answer in answers]
            except UNFIT:
                continue
        for trial, second in zip(usable, seconds, strict=True):
            if not held(law, trial, second=second):
                sentences.append(law.sentence)
                break
    return sentences


def held(law: Law, trial: Trial, *, second: Any) -> bool:
    """Whether a law holds for an answer; it does not for one of which it cannot even be asked."""
    try:
        with np.errstate(all="ignore"):
            return law.holds(trial.arguments, trial.given, second)
    except UNFIT:
        return False


def graded(exercise: Exercise, function: str, *, failing: Trial, why: str, **more: Any) -> Grade:
    """The grade of a wrong answer, with its smallest example."""
    example = Example(named_arguments(exercise, failing.arguments), listed(failing.expected), shown(failing))
    return Grade(function, exercise.name, Outcome.WRONG, why, example=example, **more)


def named_arguments(exercise: Exercise, arguments: Arguments) -> dict[str, Any]:
    """The arguments by the names that were published."""
    return dict(zip(exercise.parameters, map(listed, arguments), strict=False))


def answers_of(exercise: Exercise, wrong: Wrong = NOTHING) -> Ask:
    """The answers of one who makes these mistakes, for tests and tables: no process is started."""

    def ask(cases: Sequence[Arguments]) -> list[Answer]:
        answers = []
        for case in cases:
            with np.errstate(all="ignore"):
                try:
                    answers.append(Answer(exercise.twin(case, wrong)))
                except (ValueError, IndexError, ZeroDivisionError, OverflowError) as error:
                    answers.append(Answer(error=str(error), kind=type(error).__name__))
        return answers

    return ask
