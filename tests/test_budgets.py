"""The budgets of the design: small files, few parameters, few public names, instant help."""

import ast
import io
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import clearhead

ROOT = Path(clearhead.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
# Signatures that the world knows already: the exercises' own, and a linear layer's (x, weight, bias).
PUBLISHED = {
    "self_attention_by_vector", "self_attention", "scaled_dot_product_self_attention", "linear",
}  # fmt: skip
FORWARD = sorted((ROOT / "model").glob("*.py"))


def code_lines(path: Path) -> int:
    """Lines that hold code: no comments, no docstrings, no blank lines."""
    source = path.read_text()
    docstrings = set()
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            docstrings.update(range(node.lineno, node.end_lineno + 1))
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in (
            tokenize.COMMENT,
            tokenize.NL,
            tokenize.NEWLINE,
            tokenize.INDENT,
            tokenize.DEDENT,
        ):
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_has_at_most_300_lines_of_110_characters(path):
    lines = path.read_text().splitlines()
    assert len(lines) <= 300
    assert max(map(len, lines), default=0) <= 110


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_function_has_at_most_seven_parameters_keyword_only_after_the_second(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = [argument.arg for argument in node.args.args if argument.arg not in ("self", "cls")]
            assert not node.args.posonlyargs
            assert len(first) + len(node.args.kwonlyargs) <= 7, node.name
            assert len(first) <= 2 or node.name in PUBLISHED, f"{node.name}{tuple(first)}"


def test_the_forward_path_is_at_most_ten_files_and_1200_lines_of_code():
    files = [path for path in FORWARD if path.name != "__init__.py"]
    assert len(files) <= 10
    assert sum(map(code_lines, FORWARD)) <= 1200


@pytest.mark.parametrize(
    "path", sorted((ROOT / "checkpoint/families").glob("*.py")), ids=lambda path: path.stem
)
def test_a_family_is_at_most_100_lines_of_code_in_one_file(path):
    assert code_lines(path) <= 100


def test_there_are_at_most_14_public_names_and_all_exist():
    assert len(clearhead.__all__) <= 14
    for name in clearhead.__all__:
        assert getattr(clearhead, name) is not None


@pytest.mark.parametrize("arguments", [["--help"], ["train", "classify", "--help"], ["--version"]])
def test_help_imports_neither_torch_nor_numpy(arguments):
    script = (
        "import sys\nfrom clearhead.app.cli import main\n"
        f"try:\n    main({arguments!r})\nfinally:\n"
        "    heavy = {'torch', 'numpy', 'tokenizers', 'safetensors'} & set(sys.modules)\n"
        "    assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not done.stderr


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_says_what_it_is_for(path):
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_the_project_speaks_of_no_machine_and_leaves_nothing_open():
    for path in FILES:
        text = path.read_text()
        assert not any(word in text for word in ("TODO", "FIXME", "XXX")), path
        assert not any(f"/{home}/" in text for home in ("root", "home", "work")), path
