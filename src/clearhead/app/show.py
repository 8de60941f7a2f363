"""What people see: progress and notes on stderr, results on stdout (JSON lines where nobody is looking)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from clearhead.app.terminal import as_line, emit, out, plain, say, shown
from clearhead.app.writing import written
from clearhead.check.finding import Finding, Verdict
from clearhead.checkpoint import catalog as names
from clearhead.data.questions import Question
from clearhead.data.rows import Row
from clearhead.data.wording import visible
from clearhead.infer.answer import AnswerEvaluation
from clearhead.infer.continued import Continued
from clearhead.infer.evaluate import Evaluation
from clearhead.tasks.answer import AnswerResult
from clearhead.tasks.classify import Result
from clearhead.tasks.fill import Filled
from clearhead.tasks.regress import NumberResult
from clearhead.tasks.scores import Metrics
from clearhead.tasks.scores_numbers import NumberMetrics
from clearhead.tasks.scores_several import SeveralMetrics
from clearhead.tasks.several import SeveralResult
from clearhead.tasks.tag import TagResult
from clearhead.tasks.task import Answer, Scores

Said = Answer | Continued | Filled | AnswerResult
Asked = Row | Question


INPUT = "input_"  # before the name of a column that is named like one of ours


def span(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def evaluation(found: Evaluation, *, as_json: bool) -> None:
    """Scores, per-class table, confusion matrix."""
    metrics = found.metrics
    if found.truncated:
        say(f"note: longer than the model takes, and cut: {found.truncated} of {metrics.texts} texts")
    if found.windowed:
        say(f"note: too long for one window, and read in several: {found.windowed} of {metrics.texts} texts")
    if plain(as_json):
        unsure = {} if found.answered is None else asdict(found.answered)
        emit(
            asdict(metrics)
            | unsure
            | {"truncated": found.truncated, "windowed": found.windowed, "seconds": found.seconds}
        )
        return
    score_tables(metrics)
    if found.answered:
        accuracy = found.answered.answered_accuracy
        right = "" if accuracy is None else f", {percent(accuracy)} of the answers right"
        out.print(f"answered where sure enough: {percent(found.answered.coverage)} of the texts{right}")


def score_tables(metrics: Scores) -> None:
    """Scores for a terminal."""
    texts = f"{metrics.texts:,} texts"
    match metrics:
        case NumberMetrics():
            figures = {name: decimal(getattr(metrics, name)) for name in ("pearson", "spearman", "r2")}
            out.print(
                f"{texts}: mean absolute error {metrics.mae:.3f}, mean squared error {metrics.mse:.3f}, "
                "Pearson {pearson}, Spearman {spearman}, R² {r2}".format(**figures)
            )
            return
        case SeveralMetrics():
            out.print(
                f"{texts}: all labels right {percent(metrics.accuracy)}, micro F1 {metrics.micro_f1:.3f}, "
                f"macro F1 {metrics.macro_f1:.3f}, loss {metrics.loss:.3f}, AUROC {decimal(metrics.auroc)}"
            )
        case Metrics():
            out.print(
                f"{texts}: accuracy {percent(metrics.accuracy)}, macro F1 {metrics.macro_f1:.3f}, "
                f"loss {metrics.loss:.3f}, MCC {metrics.matthews_correlation:.3f}, "
                f"AUROC {decimal(metrics.auroc)}, calibration error {metrics.calibration_error:.3f}"
            )
    table = Table("label", "precision", "recall", "F1", "texts")
    for score in metrics.classes:
        numbers = [f"{number:.3f}" for number in (score.precision, score.recall, score.f1)]
        table.add_row(shown(score.label), *numbers, f"{score.texts:,}")
    for column in table.columns[1:]:
        column.justify = "right"
    out.print(table)
    if isinstance(metrics, Metrics) and len(metrics.classes) <= 12:
        labels = [score.label for score in metrics.classes]
        matrix = Table("right ↓  predicted →", *(Column(shown(label), justify="right") for label in labels))
        for label, row in zip(labels, metrics.confusion, strict=True):
            matrix.add_row(shown(label), *(f"{count:,}" for count in row))
        out.print(matrix)


def results(found: Sequence[tuple[Asked, Said]], *, as_json: bool, out: str | None = None) -> None:
    """One result a text: a JSON line, also into a file, or a row of a table."""
    if out is not None:
        with written(out) as file:
            file.writelines(as_line(line_of(row, result)) for row, result in found)
    elif plain(as_json):
        for row, result in found:
            emit(line_of(row, result))
    else:
        result_table(found)
    if cut := sum(result.dropped > 0 for _, result in found):
        say(f"note: longer than the model takes, and cut (see dropped): {cut} of {len(found)} texts")


def answers(found: AnswerEvaluation, *, as_json: bool) -> None:
    """Scores of answers to questions."""
    if found.truncated:
        say(f"note: contexts longer than the model takes, and cut: {found.truncated} of {len(found.results)}")
    read = {"truncated": found.truncated, "windowed": found.windowed, "bad_rows": found.bad}
    pairs(asdict(found.metrics) | read | {"seconds": found.seconds}, as_json=as_json)


def line_of(row: Asked, result: Said) -> dict[str, Any]:
    """An answer, then the other columns of its row; one named like ours, also like one that this line does
    not have, gets `input_` before it, so that a column has one name on every line."""
    if isinstance(row, Question):
        asked = {"question": row.text, "context": row.context}
    else:
        asked = {"text": row.text} | ({} if row.pair is None else {"pair": row.pair})
    line: dict[str, Any] = {**asked, **asdict(result)}
    ours = {*line, "pair"}
    for name in ("reason", "evidence"):  # which stand where they were asked for
        if line.get(name, "") is None:
            del line[name]
    for name, value in row.extra.items():
        bare = name
        while bare.startswith(INPUT):
            bare = bare.removeprefix(INPUT)
        line[f"{INPUT}{name}" if bare in ours else name] = value
    return line


def result_table(found: Sequence[tuple[Asked, Said]]) -> None:
    """Results for a terminal."""
    speaks = any(isinstance(result, Continued | Filled | AnswerResult) for _, result in found)
    columns = ("text", "answer") if speaks else ("answer", Column("score", justify="right"), "text")
    table = Table(*columns)
    for row, result in found:
        pair = row.pair if isinstance(row, Row) else None
        text = row.text if pair is None else f"{row.text} | {pair}"
        said, asked = worded(result), " ".join(text.split())[:300]
        table.add_row(*map(shown, (asked, said[0]) if speaks else (*said, asked)))
    out.print(table)


def worded(result: Said) -> tuple[str, str]:
    """An answer, and its probability where it has one."""
    match result:
        case Continued(answer=str(answer)):
            return " ".join(answer.split())[:300], ""
        case Result(label=str(label), score=score, evidence=evidence):
            why = "" if evidence is None else f" – {evidence.text}"
            return label + why, percent(score or 0.0)
        case AnswerResult(answer=answer, score=float(score)):
            return "(no answer)" if answer is None else " ".join(answer.split())[:300], percent(score)
        case Filled(masks=masks) if masks:
            lines = (
                ", ".join(f"{one.token_str.strip()} {percent(one.score)}" for one in mask) for mask in masks
            )
            return "; ".join(lines), ""
        case TagResult(words=words, entities=entities) if words:
            found = (f"{one.text}: {one.label} {percent(one.score)}" for one in entities)
            return "; ".join(found) or "none", ""
        case SeveralResult(labels=tuple(labels), scores=scores):
            return ", ".join(f"{label} {percent(scores[label])}" for label in labels) or "none", ""
        case NumberResult(value=float(value)):
            return f"{value:.3f}", ""
        case Result(reason=str(), score=score):
            return "(unsure)", percent(score or 0.0)
        case _:
            return "(skipped)", ""


def decimal(value: float | None) -> str:
    """A score with three decimals."""
    return "undefined" if value is None else f"{value:.3f}"


def percent(score: float) -> str:
    """A probability with one decimal, never rounded up to certainty."""
    return "> 99.9 %" if 0.9995 <= score < 1 else f"{100 * score:.1f} %"


def findings(found: Iterable[Finding], model: str, *, as_json: bool) -> list[Verdict]:
    """Print findings as they are made; returns their verdicts."""
    styles = {Verdict.PASS: "green", Verdict.FAIL: "bold red", Verdict.NOT_PROMISED: "yellow"}
    verdicts = []
    say(f"holding {model} to its laws on this machine; the first one takes longest")
    for finding in found:
        verdicts.append(finding.verdict)
        if plain(as_json):
            emit(asdict(finding))
            continue
        words = Text(finding.law)
        words.append("\n" + visible(f"{finding.promise}: {finding.figure}"), "dim")
        if finding.hint:
            words.append("\n" + visible(finding.hint))
        grid = Table.grid(Column(width=13), Column())
        grid.add_row(Text(finding.verdict, styles[finding.verdict]), words)
        out.print(grid)
    counts = [verdicts.count(verdict) for verdict in (Verdict.PASS, Verdict.FAIL, Verdict.NOT_PROMISED)]
    say("{}: {} laws hold, {} broken, {} not promised".format(model, *counts))
    return verdicts


def catalog() -> None:
    """The names that `get` knows."""
    for source in names.CATALOG.values():
        here = (names.place_of(source.name) / source.marker).is_file()
        entry = {"name": source.name, "what": source.what, "licence": source.licence, "here": here}
        if plain(False):
            emit(entry)
        else:
            grid = Table.grid(Column(width=15), Column())
            grid.add_row(
                Text(source.name), Text(f"{source.what}; {source.licence}{'; here' if here else ''}")
            )
            out.print(grid)


def pairs(values: Mapping[str, Any], *, as_json: bool) -> None:
    """Names and values."""
    if plain(as_json):
        emit(values)
        return
    width = max(len(name) for name in values)
    grid = Table.grid(Column(width=width + 2), Column())
    for name, value in values.items():
        said = f"{value:.4g}" if isinstance(value, float) else str(value)
        grid.add_row(shown(name), shown(", ".join(value) if isinstance(value, list) else said))
    out.print(grid)
