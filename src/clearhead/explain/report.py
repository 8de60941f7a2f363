"""The report of a training run: one HTML file that holds all it shows, needs no script and loads nothing."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from clearhead.checkpoint.files import moved_into_place
from clearhead.data.wording import spoken
from clearhead.explain import curves, summary, tables, wording
from clearhead.explain.mistakes import Mistake
from clearhead.explain.summary import Told
from clearhead.tasks.scores import Metrics
from clearhead.tasks.scores_several import SeveralMetrics
from clearhead.tasks.scores_tags import TagMetrics
from clearhead.tasks.task import Scores

TEMPLATE = "report.html.jinja"
FILTERS = ("percent", "probability", "decimal", "shortened", "setting")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A sample sentence with the label it got, and the label's probability."""

    text: str
    label: str
    score: float


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A text that the model went on with, and how."""

    prompt: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """All that a report shows. What is empty or None is left out of the page.

    `metrics_of` names the texts that were scored ("1,000 held-out reviews"), `answers_source` says where the
    sample sentences come from. `log` holds the lines of metrics.jsonl. The dictionaries are shown in their
    order; `next_steps` are pairs of what to do and the command which does it.
    """

    title: str
    subtitle: str
    metrics: Told
    metrics_of: str
    baseline: Scores | None = None
    baseline_name: str | None = None
    log: list[dict[str, Any]] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    samples_source: str | None = None
    answers: list[Answer] = field(default_factory=list)
    answers_source: str | None = None
    facts: dict[str, str] = field(default_factory=dict)
    timing: dict[str, str] = field(default_factory=dict)
    machine: dict[str, str] = field(default_factory=dict)
    settings: dict[str, object] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    next_steps: list[tuple[str, str]] = field(default_factory=list)


def write_report(path: str | Path, report: Report) -> None:
    """Write the report as one HTML file; a reader never meets half of it."""
    with moved_into_place(Path(path)) as place:
        # Half a character (JSON can hold one) has no UTF-8; as a reference a browser shows it as �.
        place.write_text(page(report), encoding="utf-8", errors="xmlcharrefreplace")


def page(report: Report) -> str:
    """The report as HTML."""
    environment = Environment(
        loader=PackageLoader("clearhead.explain", ""),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: spoken(value) if isinstance(value, str) else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {name: getattr(wording, name) for name in FILTERS}
    metrics, baseline = report.metrics, report.baseline
    return environment.get_template(TEMPLATE).render(
        report=report,
        said=summary.said(metrics),
        versus=summary.versus(metrics, baseline) if baseline else None,
        figures=curves.figures(report.log, loss=summary.said(metrics).loss),
        missing_loss=curves.missing(curves.series(report.log, "loss")),
        single=isinstance(metrics, Metrics),
        tagged=isinstance(metrics, TagMetrics),
        matrix=tables.matrix(metrics) if isinstance(metrics, Metrics) else [],
        pairs=tables.confused_pairs(metrics) if isinstance(metrics, Metrics) else [],
        calibration=tables.calibration_rows(metrics) if isinstance(metrics, Metrics) else [],
        classes=rows_of(metrics),
        compared=summary.compared(metrics, baseline) if baseline else [],
    )


def rows_of(metrics: Told) -> list[tuple[str, str, str, str, str]]:
    """The scores of each label, or type of entity, where there are such."""
    match metrics:
        case Metrics() | SeveralMetrics():
            return tables.class_rows(metrics)
        case TagMetrics():
            return tables.type_rows(metrics)
        case _:
            return []
