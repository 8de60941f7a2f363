"""The commands: each turns flags into one call and prints what comes back.

Heavy imports stand inside the functions, so that help is instant.
"""

import sys
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from clearhead.errors import DataError, SettingError
from clearhead.settings import (
    PAIRS,
    Answering,
    Asking,
    Comparing,
    Filling,
    Generating,
    Language,
    Loading,
    Opening,
    Pairing,
    Scored,
    Searching,
    Training,
    Writing,
    at_home,
    flag,
)

if TYPE_CHECKING:
    from clearhead.infer.model import Model

Settings = Annotated[Training, Parameter(name="*")]
Languages = Annotated[Language, Parameter(name="*")]
Ask = Annotated[Asking, Parameter(name="*")]
Json = Annotated[bool, Parameter(negative="", help="print JSON also on a terminal")]
File = Annotated[
    str | None, Parameter(help="file of texts, one a row; - for standard input", allow_leading_hyphen=True)
]
Texts = Annotated[
    list[str] | None,
    Parameter(
        name="--text", negative="", allow_leading_hyphen=True, help="a text; may be given several times"
    ),
]
Data = Annotated[str, Parameter(help="file of labelled texts", allow_leading_hyphen=True)]
Open = Annotated[Opening, Parameter(name="*")]
Load = Annotated[Loading, Parameter(name="*")]
Write = Annotated[Writing, Parameter(name="*")]
Score = Annotated[Scored, Parameter(name="*", group="Language models")]
Compare = Annotated[Comparing, Parameter(name="*", group=PAIRS)]
Ways = Annotated[Answering, Parameter(name="*", group="Language models")]
ASK, OPEN, LOAD, WRITE, WAYS = Asking(), Opening(), Loading(), Writing(), Answering()
SCORE, COMPARE = Scored(), Comparing()
LABELLED = ("abstain_below", "pair_column", "label_column")
MASKING = ("candidates", *(item.name for item in fields(Filling)))
VECTORING = [item.name for kind in (Searching, Pairing) for item in fields(kind)]
SHARED = ("documents", "context", "errors")  # of all models that learn from texts alone


def train_classify(settings: Settings) -> int:
    """Train a classifier from a file of labelled texts, evaluate it and write a report."""
    from clearhead.app import watch
    from clearhead.app.reporting import report_of_run
    from clearhead.learn.run import Run

    run = Run(settings)
    watch.training(run)
    watch.trained(run, report_of_run(run))
    return 0


def train_language(settings: Languages) -> int:
    """Train a language model on files of texts, from nothing or from another one, and write a report."""
    from clearhead.app import watch
    from clearhead.app.reporting import report_of_language
    from clearhead.learn.language import LanguageRun

    run = LanguageRun(settings)
    watch.training(run)
    watch.trained(run, report_of_language(run))
    return 0


def evaluate(
    model: str,
    data: Data,
    *,
    settings: Ask = ASK,
    scoring: Score = SCORE,
    comparing: Compare = COMPARE,
    opening: Load = LOAD,
    json: Json = False,
) -> int:
    """Evaluate a model on a file of labelled texts; a language model, or one that fills masks, on texts; one
    that turns texts into others, or gives vectors, on pairs of them."""
    from clearhead.app import show
    from clearhead.app.embedding import evaluated
    from clearhead.infer.evaluate import evaluate_file
    from clearhead.infer.fill import evaluate_fill
    from clearhead.infer.model import load
    from clearhead.infer.perplexity import evaluate_language
    from clearhead.infer.translate import evaluate_translations, files_of_pairs

    loaded = load(model, **asdict(opening))
    refuse_other(loaded, settings, scoring, comparing)
    if loaded.embeds:
        evaluated(loaded, data, settings=settings, scoring=scoring, as_json=json)
        return 0
    if loaded.translates:
        compared = evaluate_translations(
            loaded, files_of_pairs(data, comparing), asking=settings, comparing=comparing
        )
        show.pairs(asdict(compared.metrics) | {"seconds": compared.seconds}, as_json=json)
        return 0
    if loaded.speaks or loaded.fills:
        told: Any = (
            evaluate_language(loaded, data, asking=settings, scoring=scoring)
            if loaded.speaks
            else evaluate_fill(loaded, data, asking=settings, scoring=scoring, filling=scoring)
        )
        about = {"context": told.context, "seconds": told.seconds}
        show.pairs(asdict(told.metrics) | about, as_json=json)
        return 0
    check_pairs(loaded, settings)
    evaluation = evaluate_file(loaded, data, settings=settings)
    show.evaluation(evaluation, as_json=json)
    return 0


def predict(
    model: str,
    file: File = None,
    *,
    text: Texts = None,
    settings: Ask = ASK,
    ways: Ways = WAYS,
    opening: Load = LOAD,
    writing: Write = WRITE,
) -> int:
    """Predict the label of each text of a file, of --text, or of standard input or, with a language model,
    how it goes on or, with one that fills masks, what stands at each [MASK] or, with a model without labels,
    its vector, or the texts that are nearest to --query; one JSON object a line."""
    from clearhead.app import show
    from clearhead.app.writing import check_out
    from clearhead.infer.continued import continued
    from clearhead.infer.evaluate import predict_rows
    from clearhead.infer.fill import fill_rows
    from clearhead.infer.model import load

    if text and file is not None:
        raise SettingError(f"both {file} and --text are given; give one of them")
    if not text and file is None and sys.stdin.isatty():
        raise SettingError("no texts: give a file, --text TEXT, or - for standard input")
    if file and file != "-" and not Path(at_home(file)).exists() and (" " in file or "." not in file):
        raise SettingError(f"there is no file {file!r}; to ask about a text, write --text {file!r}")
    loaded = load(model, **asdict(opening))
    refuse_other(loaded, settings, ways)
    if writing.out is not None:
        check_out(writing.out, model=loaded.loaded.folder)
    if loaded.embeds:
        from clearhead.app.embedding import answered

        answered(loaded, file, texts=text, settings=settings, ways=ways, writing=writing)
        return 0
    if text:
        rows = texts_as_rows(text, settings)
        if column := pair_column_of(loaded):
            show.say(f"note: {model} was trained on pairs of texts ({column}); each --text is asked alone")
    else:
        rows = rows_of("-" if file is None else file, loaded, settings=settings)
    if loaded.speaks or loaded.translates:
        prefix = ways.prefix or ""
        found: Any = continued(loaded, rows, settings=ways, long=settings.long, prefix=prefix)
    elif loaded.fills:
        found = fill_rows(loaded, rows, settings=settings, candidates=ways.candidates)
    else:
        found = predict_rows(loaded, rows, settings=settings)
    show.results(found, as_json=writing.json, out=writing.out)
    return 0


def refuse_other(model: "Model", *given: Any) -> None:
    """Refuse, by name, options of these settings that are for another kind of model."""
    for settings in given:
        for name in (item.name for item in fields(settings)):
            if isinstance(settings, Asking):
                texts = model.embeds or model.speaks or model.fills or model.translates
                what, right = "labels", name not in LABELLED or not texts
            elif name in VECTORING:
                what, right = "models that give vectors", model.embeds
            elif name in MASKING:
                what, right = "models that fill masks", model.fills
            elif isinstance(settings, Comparing):
                what, right = "models that turn a text into another", model.translates
            elif isinstance(settings, Generating):
                what, right = "language models", model.speaks or model.translates
            else:
                what, right = "language models", model.speaks or (model.fills and name in SHARED)
            if model.embeds and not isinstance(settings, Asking):
                right = name in VECTORING or name == "prefix"
            if not right and getattr(settings, name) != getattr(type(settings)(), name):
                raise SettingError(
                    f"{flag(name)} is for {what}, and {model.name} is of another kind; leave it out"
                )


def rows_of(path: str, model: "Model", *, settings: Asking) -> list[Any]:
    """The rows of a file to predict; labels are kept where there are some."""
    from clearhead.checkpoint.labels import Problem
    from clearhead.data.rows import read_rows

    check_pairs(model, settings)
    several = model.loaded.problem is Problem.MULTI
    return read_rows(path, labelled=False, several=several, **settings.reading())


def check_pairs(model: "Model", settings: Asking) -> None:
    """Refuse to ask about single texts of a file where the model was trained on pairs."""
    if settings.pair_column is None and (column := pair_column_of(model)):
        raise SettingError(
            f"{model.loaded.folder} was trained on pairs of texts; name the column of the second one with "
            f"--pair-column (in training: {column})"
        )


def pair_column_of(model: "Model") -> str | None:
    """The column of the second texts a model was trained on; None where its folder tells of none."""
    from clearhead.checkpoint.files import read_json
    from clearhead.learn.place import SETTINGS, is_run

    folder = model.loaded.folder
    if folder is None or not is_run(Path(folder)):
        return None
    column = read_json(Path(folder) / SETTINGS)["settings"].get("pair_column")
    return column if isinstance(column, str) else None


def texts_as_rows(texts: list[str], settings: Asking) -> list[Any]:
    """Texts of the command line as rows."""
    from clearhead.data.rows import Row

    for name in ("text_column", "pair_column", "label_column", "format"):
        if getattr(settings, name) is not None:
            raise SettingError(f"{flag(name)} is for a file, and --text is given; leave one of them out")
    for number, text in enumerate(texts, 1):
        refuse_bytes(text, f"--text number {number}")
        if settings.empty == "error" and not text.strip():
            raise DataError(
                f"--text number {number} is empty; leave it out, or get an empty answer: --empty skip"
            )
    return [Row(text, None, "--text", number, {}) for number, text in enumerate(texts, 1)]


def refuse_bytes(text: str, what: str) -> None:
    """Refuse what was typed or piped in and is not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{what} is not UTF-8 from character {error.start + 1} on; use UTF-8") from error


def verify(model: str, *, opening: Open = OPEN, json: Json = False) -> int:
    """Check on this machine that a model keeps its promises; exit status 1 if one is broken."""
    from clearhead.app import show
    from clearhead.check.finding import Verdict
    from clearhead.check.verify import battery
    from clearhead.infer.model import load

    verdicts = show.findings(battery(load(model, **asdict(opening))), model, as_json=json)
    return int(Verdict.FAIL in verdicts)
