"""The command that trains a model to tag words, its report, and how an evaluation of one is shown."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from clearhead.data.wording import argument
from clearhead.settings import Asking, Tagging

if TYPE_CHECKING:
    from clearhead.data.sentences import Sentence
    from clearhead.explain.mistakes import Mistake
    from clearhead.infer.model import Model
    from clearhead.infer.tag import TagEvaluation
    from clearhead.learn.tag import TagRun
    from clearhead.tasks.tag import TagResult

Settings = Annotated[Tagging, Parameter(name="*")]
MOST = 12  # mistakes that a report shows


def train_tag(settings: Settings) -> int:
    """Train a model to tag the words of sentences (named entities and the like), evaluate it and write a
    report."""
    from clearhead.app import watch
    from clearhead.learn.tag import TagRun

    run = TagRun(settings)
    watch.training(run)
    watch.trained(run, report_of(run))
    return 0


def evaluate(model: "Model", data: str, *, settings: Asking, as_json: bool) -> None:
    """Scores, and a table of types."""
    from rich.table import Table

    from clearhead.app import show
    from clearhead.infer.tag import evaluate_tags

    found = evaluate_tags(model, data, settings=settings)
    metrics = found.metrics
    for note in found.notes:
        show.say(f"note: {note}")
    for what, count in (("cut", found.truncated), ("read in windows", found.windowed)):
        if count:
            show.say(f"note: longer than the model takes, and {what}: {count} of {metrics.texts} sentences")
    if show.plain(as_json):
        told = {"truncated": found.truncated, "windowed": found.windowed, "seconds": found.seconds}
        show.emit(asdict(metrics) | told)
        return
    show.out.print(
        f"{metrics.texts:,} sentences, {metrics.entities:,} entities: F1 {metrics.f1:.3f}, precision "
        f"{metrics.precision:.3f}, recall {metrics.recall:.3f}, macro F1 {metrics.macro_f1:.3f}; "
        f"{show.percent(metrics.accuracy)} of {metrics.words:,} words right, loss {metrics.loss:.3f}"
    )
    table = Table("type", "precision", "recall", "F1", "entities", "given")
    for score in metrics.classes:
        numbers = [f"{number:.3f}" for number in (score.precision, score.recall, score.f1)]
        table.add_row(show.shown(score.label), *numbers, f"{score.entities:,}", f"{score.given:,}")
    for column in table.columns[1:]:
        column.justify = "right"
    show.out.print(table)


def report_of(run: "TagRun") -> Path:
    """The report of a tagger: the best model on the validation sentences."""
    from clearhead.app.machine import machine
    from clearhead.app.show import span
    from clearhead.explain.report import Report, write_report
    from clearhead.infer.model import load
    from clearhead.infer.tag import evaluate_sentences
    from clearhead.learn.place import REPORT, read_log

    model = load(run.out)
    found = evaluate_sentences(model, run.validation, settings=run.asking())
    log, named = read_log(run.out), argument(run.shown)
    trained = sum(line["tokens"] for line in log)
    cut = sum(one.example.dropped > 0 for one in run.examples)
    weights = sum(parameter.numel() for parameter in model.loaded.network.parameters())
    facts = {
        "Started from": run.settings.base,
        "Family": model.loaded.family.model_type,
        "Parameters": f"{weights:,}",
        "Learned from": f"{len(run.training):,} sentences; {trained:,} tokens seen in {len(log):,} steps",
        "Chosen by": f"{len(run.validation):,} validation sentences, best at step {run.best_step}",
        "Sentences cut": f"{cut:,} of {len(run.examples):,} in training, "
        f"{found.truncated:,} of {len(found.rows):,} in evaluation",
    }
    timing = {
        "Training": f"{span(run.seconds)}, validation included",
        "Speed": f"{trained / max(run.seconds, 1e-9):,.0f} tokens a second",
        "Evaluation": f"{found.seconds:.1f} s",
    }
    path = run.out / REPORT
    write_report(
        path,
        Report(
            title=f"{run.out.name}: tags of words",
            subtitle=f"{run.settings.data}, {len(run.task.types)} types of entities",
            metrics=found.metrics,
            metrics_of=f"{len(run.validation):,} validation sentences (the sentences the best model was "
            "chosen by, so a little hopeful; give a test file to clearhead evaluate)",
            log=log,
            mistakes=mistakes(found),
            facts=facts,
            timing=timing,
            machine={name: value for name, value in machine().items() if name != "cache"},
            settings=asdict(run.settings),
            notes=run.notes,
            next_steps=[
                ("Ask it", f'clearhead predict {named} --text "…"'),
                (
                    "Evaluate it on others",
                    f"clearhead evaluate {named} --data test.conll",
                ),
                ("Check its promises on this machine", f"clearhead verify {named}"),
            ],
        ),
    )
    return path


def mistakes(found: "TagEvaluation") -> list["Mistake"]:
    """The sentences with entities that are wrong, first those whose wrong one was surest."""
    answered = zip(found.rows, found.results, strict=True)
    pairs = [pair for row, result in answered for pair in wrong(row, result)]
    return [mistake for _, mistake in sorted(pairs, key=lambda pair: -pair[0])[:MOST]]


def wrong(row: "Sentence", result: "TagResult") -> Iterator[tuple[float, "Mistake"]]:
    """How wrong an answer is, with the mistake; nothing where it is right."""
    from clearhead.data.schemes import places
    from clearhead.explain.mistakes import Mistake

    words = row.words or ()
    right = [(place.type, " ".join(words[place.begin : place.end])) for place in places(row.labels or ())]
    said = [(one.label, one.text) for one in result.entities]
    if right == said:
        return
    sure = [one.score for one in result.entities if (one.label, one.text) not in right]
    score = max(sure, default=None)
    yield (
        score or 0.0,
        Mistake(
            text=row.text, right=told(right), guessed=told(said), score=score, file=row.file, row=row.row
        ),
    )


def told(entities: Sequence[tuple[str, str]]) -> str:
    """Entities in words."""
    return "; ".join(f"{kind}: {text}" for kind, text in entities) or "none"
