"""The table of docs/grade.md: every exercise, its mistakes, and what the grade of each says."""

import sys
from pathlib import Path

from clearhead.check.grading.exercises import EXERCISES
from clearhead.check.grading.judge import answers_of, judge

BEGIN, END = "<!-- made by scripts/grading_table -->\n", "<!-- end of what is made -->\n"


def table():
    """One section an exercise, one row a mistake. Each is made, graded, and must be named."""
    lines = [BEGIN]
    total = 0
    for exercise in EXERCISES.values():
        call = f"{exercise.name}({', '.join(exercise.parameters)})"
        also = (
            f" Also: {', '.join(f'`{name}`' for name in exercise.accepts[1:])}."
            if exercise.accepts[1:]
            else ""
        )
        lines += [
            f"\n### {exercise.name}\n\n`{call}`.{also} {exercise.contract}\n",
            f"\nEquation: {exercise.equation}. Source: {exercise.source}.\n",
            "\n| mistake | what was done | what the equation says | named |\n| --- | --- | --- | :-: |\n",
        ]
        for mistake in exercise.mistakes:
            total += 1
            cells = (f"`{mistake.name}`", mistake.did, mistake.says, verdict(exercise, mistake))
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n")
    lines.append(f"\n{len(EXERCISES)} exercises, {total} mistakes.\n\n{END}")
    return "".join(lines)


def verdict(exercise, mistake):
    """Whether the grade names this mistake, and only it."""
    if mistake.care:
        return "with care"
    found = judge(exercise, answers_of(exercise, frozenset([mistake.name])), function=exercise.name)
    return "✓" if found.mistakes == (mistake.name,) and not found.alike else "–"


def page_with_table(page):
    """The page with what is made renewed."""
    before, _, rest = page.partition(BEGIN)
    return before + table() + rest.partition(END)[2]


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(page_with_table(file.read_text()))
