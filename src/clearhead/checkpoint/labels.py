"""What the outputs of a head mean, as config.json says it."""

from typing import Any

from clearhead.data.rows import name_of
from clearhead.errors import FolderError
from clearhead.model.config import Problem


def problem_of(values: dict[str, Any], labels: int, *, source: str) -> Problem:
    """What a head's outputs mean: as the config says or, as the published code has it, by their number."""
    stated = values.get("problem_type")
    if stated is None:
        return Problem.REGRESSION if labels == 1 else Problem.SINGLE
    if stated not in list(Problem):
        raise FolderError(f"{source}: problem_type={stated!r} is not known; known: {', '.join(Problem)}")
    if stated == Problem.SINGLE and labels == 1:
        raise FolderError(f"{source}: problem_type={stated!r} needs at least 2 labels, and id2label has 1")
    return Problem(stated)


def label_names(values: dict[str, Any], count: int, *, source: str) -> tuple[str, ...]:
    """Labels in order from id2label, whose keys are strings in JSON; as in a file of labelled texts, space
    around a name is no part of it."""
    table = values.get("id2label") or {str(number): f"LABEL_{number}" for number in range(count)}
    if not isinstance(table, dict):
        raise FolderError(f"{source}: id2label is {type(table).__name__}, not a table of names")
    missing = [number for number in range(count) if str(number) not in table]
    if missing:
        raise FolderError(f"{source}: id2label has no entry '{missing[0]}'; it needs 0 to {count - 1}")
    stated = [name_of(table[str(number)]) for number in range(count)]
    names = tuple(map(bare_name, stated))
    if len(set(names)) < count:
        why = " (space around a name does not count)" if len(set(stated)) == count else ""
        raise FolderError(f"{source}: id2label gives two labels one name: {', '.join(names)}{why}")
    return names


def bare_name(name: str) -> str:
    """A label without the space around it, unless it is nothing else."""
    return name.strip() or name
