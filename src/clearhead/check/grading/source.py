"""The file to be graded: its code, cell by cell, without running it."""

import ast
import json
from pathlib import Path

from clearhead.check.grading.runner import Cell
from clearhead.errors import DataError


def cells_of(path: Path) -> list[Cell]:
    """The code of a .py as one cell, of an .ipynb as its own ones, without lines for the notebook itself.

    Raises DataError for what cannot be read, is no notebook or no Python.
    """
    if not path.is_file():
        raise DataError(f"{path}: there is no such file; give a .py or an .ipynb")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{path}: this is not text in UTF-8; give a .py or an .ipynb") from None
    if path.suffix == ".ipynb":
        cells = [Cell(f"{path}, cell {place}", code) for place, code in enumerate(code_in(text, path), 1)]
    elif path.suffix == ".py":
        cells = [Cell(str(path), text)]
    else:
        raise DataError(f"{path}: only .py and .ipynb files can be graded")
    if len(cells) == 1:
        refuse_other_than_python(cells[0])
    return cells


def code_in(text: str, path: Path) -> list[str]:
    """The code cells of a notebook; lines that begin with % or ! speak to the notebook and become empty."""
    try:
        notebook = json.loads(text)
        found = [cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
        sources = ["".join(source) for source in found]
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{path}: this is not a notebook; give a .py or an .ipynb") from None
    return ["\n".join(map(python_line, source.splitlines())) for source in sources]


def python_line(line: str) -> str:
    """A line without what only a notebook understands; in a block, something must stay."""
    bare = line.lstrip()
    if not bare.startswith(("%", "!")):
        return line
    return line[: len(line) - len(bare)] + "pass" if bare != line else ""


def refuse_other_than_python(cell: Cell) -> None:
    """DataError with the line if this is not Python."""
    try:
        ast.parse(cell.source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        said = getattr(error, "msg", error)
        raise DataError(f"{cell.name}, line {line}: this is not Python ({said})") from None
    except (RecursionError, MemoryError):
        raise DataError(f"{cell.name}: this is nested too deeply to be read") from None
