"""The border of the folder: what it may import."""

import ast
import sys
from pathlib import Path

import clearhead.reference

FILES = sorted(Path(clearhead.reference.__file__).parent.rglob("*.py"))
ALLOWED = {"numpy", "clearhead.errors"}


def imported(file: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: write the whole name of what you import"
            names.add(node.module)
    return names


def test_the_reference_imports_numpy_our_errors_and_nothing_else():
    for file in FILES:
        for name in imported(file):
            top = name.split(".")[0]
            ours = name.startswith("clearhead.reference.")
            assert ours or top in sys.stdlib_module_names or {name, top} & ALLOWED, f"{file} imports {name}"


def test_every_public_name_is_there_and_explained():
    for name in clearhead.reference.__all__:
        assert getattr(clearhead.reference, name).__doc__, name
