"""Files made for one test, and the error message a file ends in."""

from collections.abc import Callable
from pathlib import Path

import pytest

from clearhead.data.rows import Row, read_rows
from clearhead.errors import DataError


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], str]:
    """Write a file exactly as given (text as UTF-8, no line end changed) and give its path back."""

    def write_file(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return str(path)

    return write_file


@pytest.fixture
def refusal() -> Callable[..., str]:
    """Read a file which cannot be used; give the message back, with the file's path cut to its name."""

    def message(path: str, **options: object) -> str:
        with pytest.raises(DataError) as caught:
            read_rows(path, **options)  # type: ignore[arg-type]
        said = str(caught.value)
        assert "\n" not in said
        return said.replace(str(Path(path).parent) + "/", "")

    return message


@pytest.fixture
def row() -> Callable[..., Row]:
    """Make a row by hand."""

    def make(text: str, label: str | None = None, number: int = 1) -> Row:
        return Row(text, label, "reviews.csv", number, {})

    return make
