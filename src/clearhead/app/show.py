"""What people see: progress and notes on stderr, results on stdout (JSON lines where nobody is looking)."""

import json
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from clearhead.check.finding import Finding, Verdict
from clearhead.checkpoint import catalog as names
from clearhead.data.rows import Row
from clearhead.infer.evaluate import Evaluation
from clearhead.learn.run import Run
from clearhead.tasks.classify import Result
from clearhead.tasks.scores import Metrics

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def say(line: str) -> None:
    """One line of progress."""
    err.print(Text(line), soft_wrap=True)


def plain(as_json: bool) -> bool:
    """Whether to print JSON: asked for, or nobody is looking."""
    return as_json or not sys.stdout.isatty()


def emit(value: Mapping[str, Any]) -> None:
    """One JSON object on one line, numbers unrounded."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")


def span(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def training(run: Run) -> None:
    """Train, with what is about to happen said before it starts and a bar while it does."""
    tokens = sum(len(encoding.ids) for encoding in run.encodings)
    say(
        f"{len(run.training):,} texts to learn from ({tokens:,} tokens), "
        f"{len(run.validation):,} to choose by; "
        f"labels: {', '.join(run.labels[:8])}{' …' if len(run.labels) > 8 else ''}"
    )
    for note in run.notes:
        say(f"note: {note}")
    steps = len(run.trainer.steps)
    left = steps - run.trainer.done
    say(
        f"{left:,} of {steps:,} steps, peak rate {run.learning_rate:g}: "
        f"about {span(run.estimate())} on this machine"
    )
    bar = Progress(
        TextColumn("step {task.completed:.0f}/{task.total:.0f}"), BarColumn(None),
        TextColumn("loss {task.fields[loss]:.3f}  rate {task.fields[rate]:.1e}"),
        TextColumn("{task.fields[speed]:,.0f} tokens/s"),
        TimeRemainingColumn(compact=True), console=err,
    )  # fmt: skip
    quiet = not err.is_terminal
    loss = None
    with bar, stopping(run):
        task = bar.add_task("", total=steps, completed=run.trainer.done, loss=0.0, rate=0.0, speed=0.0)
        for progress in run:
            step = progress.step
            loss = step.loss if loss is None else 0.95 * loss + 0.05 * step.loss
            bar.update(
                task,
                completed=step.number,
                loss=loss,
                rate=step.learning_rate,
                speed=progress.tokens_per_second,
            )
            if progress.metrics:
                kept = "  best so far, saved" if progress.best else ""
                line = f"epoch {step.epoch + 1}, step {step.number}: training loss {loss:.3f}, "
                bar.console.print(Text(line + brief(progress.metrics) + kept), soft_wrap=True)
            elif quiet and step.number % max(1, steps // 10) == 0:
                say(f"step {step.number}/{steps}: loss {loss:.3f}, about {span(progress.remaining)} left")


@contextmanager
def stopping(run: Run) -> Iterator[None]:
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


def brief(metrics: Metrics) -> str:
    """The scores on one line."""
    scores = f"accuracy {metrics.accuracy:.1%}, macro F1 {metrics.macro_f1:.3f}"
    return f"validation loss {metrics.loss:.3f}, {scores}"


def trained(run: Run, report: Path) -> None:
    """Where everything is, and what to do with it."""
    folder = run.out
    say(f"the best model (step {run.best_step}) is in {folder}; how it went: {report}")
    say(f'try it: clearhead predict {folder} --text "…"    check it: clearhead verify {folder}')
    if plain(False):
        emit({"out": str(folder), "report": str(report), "best_step": run.best_step, "seconds": run.seconds})


def evaluation(found: Evaluation, *, as_json: bool) -> None:
    """Scores, per-class table, confusion matrix."""
    metrics = found.metrics
    if found.truncated:
        say(f"note: {found.truncated} of {metrics.texts} texts are longer than the model takes and were cut")
    if plain(as_json):
        emit(asdict(metrics) | {"truncated": found.truncated, "seconds": found.seconds})
        return
    score_tables(metrics)


def score_tables(metrics: Metrics) -> None:
    """Scores for a terminal."""
    auroc = "undefined" if metrics.auroc is None else f"{metrics.auroc:.3f}"
    out.print(
        f"{metrics.texts:,} texts: accuracy {metrics.accuracy:.1%}, macro F1 {metrics.macro_f1:.3f}, "
        f"loss {metrics.loss:.3f}, MCC {metrics.matthews_correlation:.3f}, AUROC {auroc}"
    )
    table = Table("label", "precision", "recall", "F1", "texts")
    for score in metrics.classes:
        numbers = [f"{number:.3f}" for number in (score.precision, score.recall, score.f1)]
        table.add_row(Text(score.label), *numbers, f"{score.texts:,}")
    for column in table.columns[1:]:
        column.justify = "right"
    out.print(table)
    if len(metrics.classes) <= 12:
        labels = [score.label for score in metrics.classes]
        matrix = Table("right ↓  predicted →", *(Column(Text(label), justify="right") for label in labels))
        for label, row in zip(labels, metrics.confusion, strict=True):
            matrix.add_row(Text(label), *(f"{count:,}" for count in row))
        out.print(matrix)


def results(found: Sequence[tuple[Row, Result]], *, as_json: bool) -> None:
    """One result a text: a JSON line, or a row of a table."""
    if plain(as_json):
        for row, result in found:
            emit({"text": row.text, **asdict(result)})
    else:
        result_table(found)
    if cut := sum(result.dropped > 0 for _, result in found):
        say(f"note: {cut} texts are longer than the model takes and were cut (see dropped)")


def result_table(found: Sequence[tuple[Row, Result]]) -> None:
    """Results for a terminal."""
    table = Table("label", Column("score", justify="right"), "text")
    for row, result in found:
        score = "" if result.score is None else percent(result.score)
        short = " ".join(row.text.split())
        table.add_row(Text(result.label or "(skipped)"), score, Text(short[:300]))
    out.print(table)


def percent(score: float) -> str:
    """A probability with one decimal, never rounded up to certainty."""
    return "> 99.9 %" if 0.9995 <= score < 1 else f"{100 * score:.1f} %"


def findings(found: Iterable[Finding], model: str, *, as_json: bool) -> list[Verdict]:
    """Print findings as they are made; returns their verdicts."""
    styles = {Verdict.PASS: "green", Verdict.FAIL: "bold red", Verdict.NOT_PROMISED: "yellow"}
    verdicts = []
    for finding in found:
        verdicts.append(finding.verdict)
        if plain(as_json):
            emit(asdict(finding))
            continue
        line = Text(f"{finding.verdict:>12}  ", styles[finding.verdict])
        line.append(f"{finding.law}", "default not bold").append(
            f"\n{'':14}{finding.promise}: {finding.figure}", "dim"
        )
        if finding.hint:
            line.append(f"\n{'':14}{finding.hint}", "default not bold")
        out.print(line)
    passed, failed = verdicts.count(Verdict.PASS), verdicts.count(Verdict.FAIL)
    say(
        f"{model}: {passed} promises kept, {failed} broken, "
        f"{verdicts.count(Verdict.NOT_PROMISED)} not promised"
    )
    return verdicts


def catalog() -> None:
    """The names that `get` knows."""
    for source in names.CATALOG.values():
        here = (names.place_of(source.name) / source.marker).is_file()
        entry = {"name": source.name, "what": source.what, "licence": source.licence, "here": here}
        if plain(False):
            emit(entry)
        else:
            out.print(Text(f"{source.name:14} {source.what}; {source.licence}{'; here' if here else ''}"))


def pairs(values: Mapping[str, Any], *, as_json: bool) -> None:
    """Names and values."""
    if plain(as_json):
        emit(values)
        return
    width = max(len(name) for name in values)
    for name, value in values.items():
        out.print(Text(f"{name:{width}}  {value}"), soft_wrap=True)


def info(model: str, *, as_json: bool) -> None:
    """Facts and sizes of a folder or of an architecture by name."""
    from clearhead.checkpoint.architectures import ARCHITECTURES
    from clearhead.checkpoint.families import FAMILIES
    from clearhead.infer.model import load
    from clearhead.model.config import sizes

    if model in ARCHITECTURES and not Path(model).exists():
        known = ARCHITECTURES[model]
        config, head, context, printed = known.config, known.head, known.context, known.printed
        facts: dict[str, Any] = {"name": model, "printed": printed}
    else:
        loaded = load(model)
        config, head = loaded.config, loaded.loaded.network.head_facts
        context = min(loaded.limit or 512, 512)
        facts = {"folder": str(loaded.loaded.folder), "family": loaded.loaded.family.model_type}
        facts["labels"] = list(loaded.loaded.labels)
    size = sizes(config, head, context=context)
    costs = asdict(size) | {"weight_bytes": size.weight_bytes, "training_bytes": size.training_bytes}
    if plain(as_json):
        said = FAMILIES["clearhead"].fields(config, head) or {}
        emit(facts | {"facts": said["facts"], "head": said["head"], "sizes": costs})
        return
    lines = {name: value for name, value in facts.items() if value}
    stack = (
        f"{config.layers} blocks"
        if not config.decoder_layers
        else f"{config.layers} + {config.decoder_layers} blocks"
    )
    lines |= {
        "shape": f"{stack}, width {config.width:,}, {config.heads} heads of {config.each_head}, "
        f"feed-forward {config.hidden:,}, vocabulary {config.vocab:,}",
        "positions": f"{config.positions}, norm {'before' if config.norm_first else 'after'} each change",
        "parameters": f"{size.parameters:,} ({size.embedding:,} in tables)",
        "memory": f"{big(size.weight_bytes)}B of float32 weights; "
        f"{big(size.training_bytes)}B to train with AdamW, without activations",
        "operations": f"{big(size.operations)} multiply-adds a token, forward, in a text of {context} tokens",
    }
    pairs(lines, as_json=False)


def big(number: float) -> str:
    """A number with three digits and a prefix."""
    for prefix in ("", "k", "M", "G", "T", "P"):
        if number < 1000:
            return f"{number:.3g} {prefix}"
        number /= 1000
    return f"{number:.3g} E"
