"""What a model is asked about: rows of a file, or texts of the command line."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.errors import DataError, SettingError
from clearhead.settings import Asking, flag

if TYPE_CHECKING:
    from clearhead.infer.model import Model

FILED = (  # what says how a file is read
    "text_column", "pair_column", "label_column", "label_separator", "tokens_column", "tags_column", "format",
    "skip_bad_rows",
)  # fmt: skip


def rows_of(path: str, model: "Model", *, settings: Asking) -> list[Any]:
    """The rows of a file to predict; labels are kept where there are some. Of a model that turns texts into
    others, a file whose name tells no format (test.en) holds a text a line, as in training."""
    from clearhead.checkpoint.labels import Problem
    from clearhead.data.read import form_by_ending
    from clearhead.data.rows import read_rows

    check_pairs(model, settings)
    several = model.loaded.problem is Problem.MULTI
    reading = settings.reading()
    if model.translates and reading["format"] is None and form_by_ending(path) is None:
        reading["format"] = "text"
    return read_rows(path, labelled=False, several=several, **reading)


def check_pairs(model: "Model", settings: Asking) -> None:
    """Refuse to ask about single texts of a file where the model was trained on pairs."""
    if settings.pair_column is None and (column := pair_column_of(model)):
        raise SettingError(
            f"{model.loaded.folder} was trained on pairs of texts; name the column of the second one with "
            f"--pair-column (in training: {column})"
        )


def pair_column_of(model: "Model") -> str | None:
    """The column of the second texts a model was trained on; None where its folder tells of none."""
    from clearhead.checkpoint.files import run_in

    run = run_in(Path(model.loaded.folder)) if model.loaded.folder else None
    column = run["settings"].get("pair_column") if run else None
    return column if isinstance(column, str) else None


def questions_as_rows(texts: list[str], settings: Asking, *, pair: str | None) -> list[Any]:
    """Questions of the command line, all about one text."""
    from clearhead.data.questions import Question

    if pair is None:
        raise SettingError("--text is a question; give the text that answers it with --pair")
    rows = texts_as_rows(texts, settings, pair=pair)
    return [Question(row.text, pair, None, row.file, row.row) for row in rows]


def questions_in(file: str | None, settings: Asking) -> list[Any]:
    """The questions of a file, or of standard input; blank ones get no answer where they are let through."""
    from clearhead.data.questions import questions_of
    from clearhead.infer.answer import usable

    if settings.skip_bad_rows:
        raise SettingError(
            "--skip-bad-rows is for training and evaluation; predict makes nothing of a file's own answers"
        )
    questions, _ = questions_of("-" if file is None else file, settings, answered=False)
    usable(questions, settings)
    return questions


def texts_as_rows(texts: list[str], settings: Asking, *, pair: str | None = None) -> list[Any]:
    """Texts of the command line as rows, beside each the second one of a pair where there is one."""
    from clearhead.data.rows import Row

    for name in FILED:
        if getattr(settings, name) != getattr(Asking(), name):
            raise SettingError(f"{flag(name)} is for a file, and --text is given; leave one of them out")
    for number, text in enumerate(texts, 1):
        refuse_bytes(text, f"--text number {number}")
        if settings.empty == "error" and not text.strip():
            raise DataError(
                f"--text number {number} is empty; leave it out, or get an empty answer: --empty skip"
            )
    if pair is not None:
        refuse_bytes(pair, "--pair")
        if settings.empty == "error" and not pair.strip():
            raise DataError("--pair is empty; give a text, or get an empty answer: --empty skip")
    return [Row(text, None, "--text", number, {}, pair=pair) for number, text in enumerate(texts, 1)]


def refuse_bytes(text: str, what: str) -> None:
    """Refuse what was typed or piped in and is not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{what} is not UTF-8 from character {error.start + 1} on; use UTF-8") from error
