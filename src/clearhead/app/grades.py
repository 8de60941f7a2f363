"""How grades and exercises look."""

from collections.abc import Iterable, Iterator
from textwrap import fill

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Column, Table
from rich.text import Text

from clearhead.app.terminal import emit, out, plain, say, shown
from clearhead.check.grading.exercise import Exercise
from clearhead.check.grading.numbers import written
from clearhead.check.grading.verdict import Example, Grade, Outcome
from clearhead.data.wording import spoken

STYLES = {
    Outcome.RIGHT: ("✓", "bold green"),
    Outcome.CARE: ("✓", "bold yellow"),
    Outcome.WRONG: ("✗", "bold red"),
    Outcome.UNDONE: ("○", "bold cyan"),
    Outcome.UNUSABLE: ("!", "bold red"),
}
WIDE = 13  # of the words before what is said


def grade(found: Grade, exercise: Exercise, *, output: bool) -> None:
    """One grade for a terminal."""
    sign, style = STYLES[found.outcome]
    head = Text(f"{sign} {found.outcome}", style)
    head.append("  ")
    head.append_text(Text(found.function, "bold"))
    if found.exercise != found.function:
        head.append(f"  as {found.exercise}", "dim")
    out.print()
    out.print(head)
    out.print(Padding(Group(*said(found, exercise, output=output)), (0, 0, 0, 2)))


def said(found: Grade, exercise: Exercise, *, output: bool) -> Iterator[RenderableType]:
    """What stands below the outcome, part by part."""
    table = Table.grid(Column(width=WIDE, style="dim"), Column(max_width=90))
    if not found.mistakes:
        table.add_row("", shown(found.why))
    for name, did, says in zip(found.mistakes, found.did, found.says, strict=True):
        table.add_row("mistake", Text(name, "bold"))
        table.add_row("done", shown(did))
        table.add_row("right", shown(says))
    if found.alike:
        table.add_row("or", shown(f"{', '.join(found.alike)}: no input tells them apart"))
    for law in found.laws:
        table.add_row("law broken", shown(law))
    if found.outcome is not Outcome.RIGHT:
        table.add_row("equation", shown(exercise.equation))
        table.add_row("source", shown(exercise.source))
    for note in found.notes:
        table.add_row("note", shown(note))
    yield table
    if found.example is not None:
        yield from worked(found.example)
    if output and found.printed:
        yield Rule("what it printed", style="dim", align="left")
        yield shown(spoken(found.printed.rstrip()))


def worked(example: Example) -> Iterator[RenderableType]:
    """The smallest input that goes wrong, what is right and what was given."""
    yield Text("\nthe smallest input that shows it", "dim")
    yield Columns([matrix(name, value) for name, value in example.arguments.items()], padding=(0, 3))
    yield Text()
    results = [matrix("expected", example.expected, style="green")]
    if example.given is not None:
        results.append(matrix("given", example.given, style="red"))
    yield Columns(results, padding=(0, 3))


def matrix(name: str, value: object, *, style: str = "") -> RenderableType:
    """A name and its numbers, row below row."""
    grid = Table.grid(padding=(0, 1))
    grid.add_row(Text(f"{name} =", "dim"), Text(written(value), style))
    return grid


def exercises(every: Iterable[Exercise], *, as_json: bool) -> None:
    """The exercises: a table, or JSON lines."""
    table = Table("exercise", "equation", "mistakes known", box=None, padding=(0, 2, 0, 0))
    table.columns[2].justify = "right"
    for one in every:
        if plain(as_json):
            about = {name: getattr(one, name) for name in ("name", "accepts", "parameters", "contract")}
            names = [mistake.name for mistake in one.mistakes]
            emit(about | {"equation": one.equation, "source": one.source, "mistakes": names})
        else:
            table.add_row(one.name, Text(one.equation), str(len(one.mistakes)))
    if not plain(as_json):
        out.print(table)
        say(
            "clearhead grade --start NAME > mine.py is a beginning; clearhead grade mine.py says how "
            "far it is"
        )


def beginning(exercise: Exercise) -> str:
    """A file to begin with: what is asked for as comments, and the function."""
    asked = f"{exercise.contract} Equation: {exercise.equation}. Source: {exercise.source}."
    return fill(asked, 100, initial_indent="# ", subsequent_indent="# ") + "\n\n" + exercise.starter


def counted(outcomes: list[Outcome]) -> None:
    """How many functions are what, on stderr."""
    parts = [f"{outcomes.count(outcome)} {outcome}" for outcome in Outcome if outcome in outcomes]
    say(f"{len(outcomes)} graded: {', '.join(parts)}")
