"""What a task is, whatever its problem; which one a model was trained for."""

from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor

from clearhead.checkpoint.labels import Problem
from clearhead.data.rows import Row
from clearhead.errors import SettingError
from clearhead.tasks.classify import Classification, Result
from clearhead.tasks.examples import Example
from clearhead.tasks.regress import NumberResult, Regression
from clearhead.tasks.scores import Metrics
from clearhead.tasks.scores_numbers import NumberMetrics
from clearhead.tasks.scores_several import SeveralMetrics
from clearhead.tasks.several import SeveralLabels, SeveralResult
from clearhead.tasks.tag import TagResult

Answer = Result | SeveralResult | NumberResult | TagResult
Scores = Metrics | SeveralMetrics | NumberMetrics

PROBLEMS = {"single": Problem.SINGLE, "multi": Problem.MULTI, "regression": Problem.REGRESSION}


class Task(Protocol):
    """Rows → targets → loss → results → metrics, for a model with these labels, in the order of its
    outputs."""

    @property
    def name(self) -> str: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def problem(self) -> Problem: ...

    def check(self, rows: Sequence[Row]) -> None:
        """DataError, with file and row, at the first label that the task cannot use."""

    def targets(self, rows: Sequence[Row]) -> Tensor:
        """What is right for each row, which was checked: one entry, or row of entries, a text."""
        ...

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The sum over texts. A sum, not a mean: whoever accumulates divides once, by the step's `size`."""
        ...

    def size(self, targets: Tensor) -> float:
        """What the summed loss of these texts is divided by."""
        ...

    def results(self, logits: Tensor, examples: Sequence[Example]) -> Sequence[Answer]:
        """One result a text, in order."""
        ...

    def skipped(self) -> Answer:
        """The result of a text that was not asked about."""
        ...

    def metrics(self, logits: Tensor, targets: Tensor) -> Any:
        """How well logits agree with what is right: one of `Scores`."""


def held_back(results: Sequence[Answer], least: float | None) -> list[Answer]:
    """Results without the labels whose probability is below `least`; SettingError where there are none."""
    if least is None:
        return list(results)
    found: list[Answer] = []
    for result in results:
        if not isinstance(result, Result):
            raise SettingError("--abstain-below is for models with one label a text; this is another")
        found.append(result.if_sure(float(least)))
    return found


def task_of(problem: Problem, labels: tuple[str, ...], *, source: object = "model") -> Task:
    """The task of a head over texts whose outputs mean this. SettingError for a regression of several
    numbers."""
    match problem:
        case Problem.SINGLE:
            return Classification(labels)
        case Problem.MULTI:
            return SeveralLabels(labels)
        case Problem.REGRESSION:
            if len(labels) == 1:
                return Regression(labels)
            raise SettingError(
                f"{source}: a regression with {len(labels)} outputs is not supported; only with 1"
            )
        case Problem.TAGS | Problem.SPANS:
            raise AssertionError(f"{problem} is no problem of whole texts")
