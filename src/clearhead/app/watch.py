"""A training run as people see it: what is about to happen, a bar while it does, what came of it."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from clearhead.app.show import decimal, percent, span
from clearhead.app.terminal import emit, err, plain, say
from clearhead.data.wording import argument, counted
from clearhead.explain.summary import Told
from clearhead.learn.course import Course
from clearhead.learn.run import Run
from clearhead.learn.tag import TagRun
from clearhead.tasks.embed import RetrievalScores, SimilarityScores
from clearhead.tasks.fill import FillScores
from clearhead.tasks.language import LanguageScores
from clearhead.tasks.scores import Metrics
from clearhead.tasks.scores_answers import AnswerMetrics
from clearhead.tasks.scores_numbers import NumberMetrics
from clearhead.tasks.scores_several import SeveralMetrics
from clearhead.tasks.scores_tags import TagMetrics
from clearhead.tasks.translate import TranslationLoss


def training(run: Course) -> None:
    """Train, with what is about to happen said before it starts and a bar while it does."""
    tokens = sum(run.trainer.objective.lengths)
    known = run.resolved()
    texts, aside = known["training_texts"], known["validation_texts"]
    count = counted(texts, run.noun)
    say(f"{count} to learn from ({tokens:,} tokens), {aside:,} to choose by; {run.made()}")
    for note in run.notes:
        say(f"note: {note}")
    if isinstance(run, Run | TagRun) and run.settings.freeze:
        say("the body stays as it is: its vectors of the texts are computed once, which comes first")
    steps = len(run.trainer.steps)
    left = steps - run.trainer.done
    count = f"{left:,} more of {steps:,} steps" if left < steps else f"{steps:,} steps"
    say(f"{count}, peak rate {run.learning_rate:g}: about {span(run.estimate())} if the machine is idle")
    bar = Progress(
        TextColumn("step {task.completed:.0f}/{task.total:.0f}"), BarColumn(None),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(compact=True), console=err,
    )  # fmt: skip
    quiet = not err.is_terminal
    loss = None
    with bar, stopping(run):
        task = bar.add_task("", total=steps, completed=run.trainer.done, figures="")
        for progress in run:
            step = progress.step
            loss = step.loss if loss is None else 0.95 * loss + 0.05 * step.loss
            figures = (
                f"loss {loss:.3f}  rate {step.learning_rate:.1e}  {progress.tokens_per_second:,.0f} tokens/s"
            )
            bar.update(task, completed=step.number, figures=figures)
            if progress.metrics:
                kept = "  best so far, saved" if progress.best else ""
                line = f"epoch {step.epoch + 1}, step {step.number}: training loss {loss:.3f} (moving mean), "
                bar.console.print(Text(line + brief(progress.metrics) + kept), soft_wrap=True)
            elif quiet and step.number % max(1, steps // 10) == 0:
                say(f"step {step.number}/{steps}: loss {loss:.3f}, about {span(progress.remaining)} left")


@contextmanager
def stopping(run: Course) -> Iterator[None]:
    """The first Ctrl-C stops after the running step, with the state saved; the second stops at once."""

    def stop(number: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        err.print("stopping after this step; once more stops at once")
        run.stop()

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def brief(metrics: Told) -> str:
    """The scores on one line."""
    match metrics:
        case LanguageScores():
            scores = f"perplexity {metrics.perplexity:,.2f}, {metrics.bits_per_byte:.3f} bits a byte"
        case TranslationLoss():
            scores = f"perplexity {metrics.perplexity:,.2f} of the answers' tokens"
        case AnswerMetrics():
            scores = f"exact match {metrics.exact_match:.1f}, F1 {metrics.f1:.1f}"
        case TagMetrics():
            scores = f"entity F1 {metrics.f1:.3f}, {percent(metrics.accuracy)} of words right"
        case RetrievalScores():
            first = percent(metrics.recall_at_1)
            scores = f"MRR@10 {metrics.mrr_at_10:.3f}, {first} found first of {metrics.candidates:,}"
        case SimilarityScores():
            scores = f"Pearson {decimal(metrics.pearson)}, Spearman {decimal(metrics.spearman)}"
        case FillScores():
            right = percent(metrics.accuracy)
            scores = f"perplexity {metrics.perplexity:,.2f}, {right} of hidden tokens right"
        case Metrics():
            scores = f"accuracy {percent(metrics.accuracy)}, macro F1 {metrics.macro_f1:.3f}"
        case SeveralMetrics():
            scores = f"micro F1 {metrics.micro_f1:.3f}, macro F1 {metrics.macro_f1:.3f}"
        case NumberMetrics():
            scores = f"mean absolute error {metrics.mae:.3f}, Pearson {decimal(metrics.pearson)}"
    return f"validation loss {decimal(metrics.loss)}, {scores}"


def trained(run: Course, report: Path) -> None:
    """Where everything is, and what to do with it."""
    folder, named = run.shown, argument(run.shown)
    report = folder / report.name
    say(f"the best model (step {run.best_step}) is in {folder}; how it went: {report}")
    say(f"try it: clearhead {run.ask.format(named)}    check it: clearhead verify {named}")
    if plain(False):
        emit({"out": str(folder), "report": str(report), "best_step": run.best_step, "seconds": run.seconds})
