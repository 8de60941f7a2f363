"""A run's report, from what the run, its log and its evaluation hold."""

from dataclasses import asdict, dataclass
from pathlib import Path

from clearhead.app.machine import machine
from clearhead.app.show import say, span
from clearhead.errors import ClearheadError
from clearhead.explain.mistakes import most_confident_mistakes
from clearhead.explain.report import Answer, Report, write_report
from clearhead.infer.evaluate import Evaluation
from clearhead.infer.model import Model
from clearhead.learn.place import REPORT, read_log
from clearhead.learn.run import Run
from clearhead.model.config import Problem
from clearhead.tasks.baseline import baseline, baseline_name
from clearhead.tasks.task import Scores


@dataclass(frozen=True, kw_only=True)
class Extras:
    """What a demo adds to a report."""

    title: str
    subtitle: str
    metrics_of: str
    baseline: Scores | None = None
    baseline_name: str = ""
    answers: tuple[Answer, ...] = ()
    answers_source: str | None = None
    next_steps: tuple[tuple[str, str], ...] = ()


def report(run: Run, model: Model, *, evaluation: Evaluation, extras: Extras) -> Path:
    """Write the report into the run's folder; returns its place."""
    log = read_log(run.out)
    trained = sum(line["tokens"] for line in log)
    cut = sum(encoding.dropped > 0 for encoding in run.encodings)
    network = model.loaded.network
    facts = {
        "Started from": run.settings.base,
        "Family": model.loaded.family.model_type,
        "Parameters": f"{sum(parameter.numel() for parameter in network.parameters()):,}",
        "Learned from": f"{len(run.training):,} texts; {trained:,} tokens seen in {len(log):,} steps",
        "Chosen by": f"{len(run.validation):,} validation texts, best at step {run.best_step}",
        "Texts cut": f"{cut:,} of {len(run.encodings):,} in training, "
        f"{evaluation.truncated:,} of {evaluation.metrics.texts:,} in evaluation",
    }
    tokens = sum(len(encoding.ids) for encoding in evaluation.encodings)
    timing = {
        "Training": f"{span(run.seconds)}, validation included",
        "Speed": f"{trained / max(run.seconds, 1e-9):,.0f} tokens a second",
        "Evaluation": f"{evaluation.seconds:.1f} s",
        "Evaluation speed": f"{tokens / max(evaluation.seconds, 1e-9):,.0f} tokens a second",
    }
    assert model.task
    results = model.task.results(evaluation.logits, evaluation.encodings)
    path = run.out / REPORT
    write_report(
        path,
        Report(
            title=extras.title,
            subtitle=extras.subtitle,
            metrics=evaluation.metrics,
            metrics_of=extras.metrics_of,
            baseline=extras.baseline,
            baseline_name=extras.baseline_name,
            log=log,
            mistakes=most_confident_mistakes(evaluation.rows, results),
            answers=list(extras.answers),
            answers_source=extras.answers_source,
            facts=facts,
            timing=timing,
            machine={name: value for name, value in machine().items() if name != "cache"},
            settings=asdict(run.settings),
            notes=run.notes,
            next_steps=list(extras.next_steps),
        ),
    )
    return path


def report_of_run(run: Run) -> Path:
    """The report of an ordinary run: the best model on the validation texts."""
    from clearhead.infer.evaluate import evaluate_rows
    from clearhead.infer.model import load
    from clearhead.settings import Asking

    model = load(run.out)
    evaluation = evaluate_rows(model, run.validation, settings=Asking(long=run.settings.long))
    chosen = (
        "the texts the best model was chosen by, so a little hopeful; give a test file to clearhead evaluate"
    )
    steps = (
        ("Ask it", f'clearhead predict {run.out} --text "…"'),
        ("Evaluate it on texts it has never met", f"clearhead evaluate {run.out} --data test.csv"),
        ("Check its promises on this machine", f"clearhead verify {run.out}"),
    )
    other = None
    if run.settings.baseline:
        try:
            other = baseline(run.training, run.validation, task=run.task)
        except ClearheadError as error:
            run.notes.append(f"no baseline: {error}")
            say(f"note: no baseline: {error}")
    numbers = run.task.problem is Problem.REGRESSION
    kind = "a number for each text" if numbers else f"{len(run.labels)} labels"
    extras = Extras(
        title=f"{run.out.name}: text classification",
        subtitle=f"{run.settings.data}, {kind}",
        metrics_of=f"{len(run.validation):,} validation texts ({chosen})",
        baseline=other,
        baseline_name=baseline_name(run.task),
        next_steps=steps,
    )
    return report(run, model, evaluation=evaluation, extras=extras)
