"""The commands: each turns flags into one call and prints what comes back.

Heavy imports stand inside the functions, so that help is instant.
"""

import sys
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from clearhead.app import tagging
from clearhead.app.asking import (
    check_pairs,
    pair_column_of,
    questions_as_rows,
    questions_in,
    rows_of,
    texts_as_rows,
)
from clearhead.errors import SettingError
from clearhead.settings import (
    PAIRS,
    Answering,
    Asking,
    Comparing,
    Filling,
    Finding,
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
LABELLED = ("abstain_below", "pair_column", "label_column", "label_separator")
FINDING = [item.name for item in fields(Finding)]
TAGGING = ("tokens_column", "tags_column")
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
    that turns texts into others, or gives vectors, on pairs of them; one that finds answers on questions; one
    that tags words on tagged sentences."""
    from clearhead.app import show
    from clearhead.app.embedding import evaluated
    from clearhead.infer.answer import evaluate_answers
    from clearhead.infer.evaluate import evaluate_file
    from clearhead.infer.fill import evaluate_fill
    from clearhead.infer.model import load
    from clearhead.infer.perplexity import evaluate_language
    from clearhead.infer.translate import evaluate_translations, files_of_pairs

    loaded = load(model, **asdict(opening))
    refuse_other(loaded, settings, scoring, comparing)
    if loaded.answers:
        show.answers(evaluate_answers(loaded, data, asking=settings, finding=scoring), as_json=json)
        return 0
    if loaded.tags:
        tagging.evaluate(loaded, data, settings=settings, as_json=json)
        return 0
    if loaded.embeds:
        evaluated(loaded, data, settings=settings, scoring=scoring, as_json=json)
        return 0
    if loaded.translates:
        compared = evaluate_translations(
            loaded,
            files_of_pairs(data, comparing),
            asking=settings,
            comparing=comparing,
            errors=scoring.errors,
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
    how it goes on; one that fills masks: what stands at each [MASK]; one that finds answers: where in its
    text the answer to each question stands; one that tags words: the entities; one without labels: its
    vector, or the texts that are nearest to --query. One JSON object a line."""
    from clearhead.app import show
    from clearhead.app.writing import check_out
    from clearhead.infer.answer import find
    from clearhead.infer.continued import continued
    from clearhead.infer.evaluate import predict_rows
    from clearhead.infer.evidence import with_evidence
    from clearhead.infer.fill import fill_rows
    from clearhead.infer.model import load
    from clearhead.infer.tag import rows_to_tag, tag_rows

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
    if ways.pair is not None and not text:
        raise SettingError("--pair is the second text beside each --text; give that, or name --pair-column")
    if loaded.embeds:
        from clearhead.app.embedding import answered

        answered(loaded, file, texts=text, settings=settings, ways=ways, writing=writing)
        return 0
    if loaded.answers:
        questions = (
            questions_as_rows(text, settings, pair=ways.pair) if text else questions_in(file, settings)
        )
        answers = find(loaded, questions, asking=settings, finding=ways)
        show.results(list(zip(questions, answers, strict=True)), as_json=writing.json, out=writing.out)
        return 0
    if text:
        rows = texts_as_rows(text, settings, pair=ways.pair)
        if ways.pair is None and (column := pair_column_of(loaded)):
            show.say(f"note: {model} was trained on pairs of texts ({column}); each --text is asked alone")
    elif loaded.tags:
        rows = rows_to_tag("-" if file is None else file, settings=settings)
    else:
        rows = rows_of("-" if file is None else file, loaded, settings=settings)
    if loaded.speaks or loaded.translates:
        prefix = ways.prefix or ""
        found: Any = continued(loaded, rows, settings=ways, asking=settings, prefix=prefix)
    elif loaded.fills:
        found = fill_rows(loaded, rows, settings=settings, candidates=ways.candidates)
    elif loaded.tags:
        found = list(zip(rows, tag_rows(loaded, rows, settings=settings), strict=True))
    else:
        found = predict_rows(loaded, rows, settings=settings)
        found = with_evidence(loaded, found, settings=settings) if ways.evidence else found
    show.results(found, as_json=writing.json, out=writing.out)
    return 0


def refuse_other(model: "Model", *given: Any) -> None:
    """Refuse, by name, options of these settings that are for another kind of model."""
    for settings in given:
        for name in (item.name for item in fields(settings)):
            if name == "errors" and model.translates:
                continue  # read with the pairs, as in training
            if name == "skip_bad_rows":
                what, right = "models that find answers or tag words", model.answers or model.tags
            elif name in TAGGING:
                what, right = "models that tag words", model.tags
            elif isinstance(settings, Asking):
                other = model.embeds or model.speaks or model.fills or model.translates or model.tags
                foreign = LABELLED if other else (LABELLED[0], LABELLED[-1]) if model.answers else ()
                what, right = "labels", name not in foreign
            elif name in VECTORING:
                what, right = "models that give vectors", model.embeds
            elif name in FINDING:
                what, right = "models that find answers in texts", model.answers
            elif name == "evidence":
                what, right = "labels", model.task is not None
            elif name == "pair":
                what, right = "labels and answers", model.task is not None or model.answers
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


def verify(model: str, *, opening: Open = OPEN, json: Json = False) -> int:
    """Check on this machine that a model keeps its promises; exit status 1 if one is broken."""
    from clearhead.app import show
    from clearhead.check.finding import Verdict
    from clearhead.check.verify import battery
    from clearhead.infer.model import load

    verdicts = show.findings(battery(load(model, **asdict(opening))), model, as_json=json)
    return int(Verdict.FAIL in verdicts)
