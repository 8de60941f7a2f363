"""The capability matrix: docs/capabilities.md, made from the tests that passed and nothing else.

python -m pytest -m "shows and not slow" --matrix docs/capabilities.md
"""

from collections import defaultdict
from pathlib import Path

import pytest

COLUMNS = ("load", "save", "gradients", "train", "verify", "record")
# Names of parameters, and the tasks they stand for.
TASKS = {"fills": "fill", "translates": "translate", "embeds": "embed"}
HEAD = """# What works for which family

Made by `scripts/matrix` from the tests of this repository: a mark stands where every test of that cell
passed, an empty cell where there is none. The test of a column:

- **load**: vectors (and logits, where the task has any) equal the
  published code's in float64 to 1e-10, with default and wide weights;
- **save**: a folder we save is read by the published code and answers the same (float32, 1e-5);
- **gradients**: those of the loss equal the published code's in float64;
- **train**: `clearhead train` runs, and the folder it makes loads as the same family;
- **verify**: every law of `clearhead verify` holds, the NumPy twin among them; of a decoder also that
  no token sees later ones, that cached steps are the whole pass, and that answers do not depend on
  their company; of an encoder–decoder all this, and that an answer reads its own text and nothing else;
- **record**: the attention that is recorded equals the published eager code's in float64 to 1e-10 in every
  layer (of what generates: at once, in cached steps and in beams), and its rows sum to 1.

"""


class Matrix:
    """Collects which cells passed; written at the end where `--matrix` asks for it."""

    def __init__(self) -> None:
        self.cells: dict[tuple[str, str, str], list[bool]] = defaultdict(list)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]):
        """Note the outcome of a test that shows something."""
        report = (yield).get_result()
        mark = item.get_closest_marker("shows")
        if mark is None or call.when != "call" or not isinstance(item, pytest.Function):
            return
        params = item.callspec.params
        if "speaks" in params:
            task = "generate" if params["speaks"] else "vectors"
        elif "over" in params:
            task = params["over"]
        elif named := [name for name in TASKS if name in params]:
            task = TASKS[named[0]]
        else:
            task = "classify" if params.get("labels", True) else "vectors"
        self.cells[params["name"], task, mark.args[0]].append(report.passed)

    def page(self) -> str:
        """The page in Markdown."""
        rows = list(dict.fromkeys((family, task) for family, task, _ in self.cells))
        lines = [
            "| family | task | " + " | ".join(COLUMNS) + " |",
            "| --- | --- |" + " :-: |" * len(COLUMNS),
        ]
        for family, task in sorted(rows):
            marks = ["✓" if all(self.cells.get((family, task, what), [False])) else "" for what in COLUMNS]
            lines.append(f"| {family} | {task} | " + " | ".join(marks) + " |")
        return HEAD + "\n".join(lines) + "\n"


def write_page(matrix: Matrix, path: str) -> None:
    """Write the page."""
    Path(path).write_text(matrix.page(), encoding="utf-8")
