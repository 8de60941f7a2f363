"""What a run learns from: the rows of its files, and what its outputs are to mean."""

from dataclasses import dataclass, field, replace

from clearhead.checkpoint.labels import Problem
from clearhead.data.labels import label_names
from clearhead.data.rows import Row, read_rows
from clearhead.data.split import sameness, split, split_freely, without_duplicates
from clearhead.errors import SettingError
from clearhead.settings import Training, flag
from clearhead.tasks.classify import Classification
from clearhead.tasks.regress import LABELS, Regression
from clearhead.tasks.task import PROBLEMS, Task, task_of
from clearhead.tasks.weights import class_weights

# What a best model can be chosen by; the first is the default.
MEASURES = {
    Problem.SINGLE: ("accuracy", "macro_f1", "loss"),
    Problem.MULTI: ("micro_f1", "macro_f1", "accuracy", "loss"),
    Problem.REGRESSION: ("loss", "pearson", "spearman"),
}


@dataclass
class Texts:
    """Training rows, validation rows, the task, and what a person should know about them."""

    training: list[Row]
    validation: list[Row]
    task: Task
    notes: list[str] = field(default_factory=list)


def read_texts(settings: Training) -> Texts:
    """Read the files of a run; DataError, with file and row, for what it cannot learn from.

    Without `problem`, a text has one label, or several where labels are lists.
    """
    problem = PROBLEMS[settings.problem] if settings.problem else None
    several = None if problem is None else problem is Problem.MULTI
    training = read_rows(settings.data, several=several, **settings.reading())
    if problem is None:
        problem = Problem.SINGLE if training[0].labels is None else Problem.MULTI
    notes: list[str] = []
    if settings.validation:
        several = problem is Problem.MULTI
        validation = read_rows(settings.validation, several=several, **settings.reading())
        known = {sameness(row) for row in training}
        if both := sum(sameness(row) in known for row in validation):
            notes.append(f"{both} of {len(validation)} validation texts stand among the training texts too")
        task = task_for(problem, training)
        return finished(Texts(training, validation, task, notes), settings)
    training, twice = without_duplicates(training)
    if twice.dropped:
        other = f", {twice.contradicting} of them with another label" if twice.contradicting else ""
        notes.append(f"{twice.dropped} rows repeat a text{other}; the first of each is used")
    # One class only is named as such, before the split could fail over it.
    task = task_for(problem, training, left_out=twice.dropped)
    task.check(training)
    take = split if problem is Problem.SINGLE else split_freely
    training, validation = take(training, part=0.1, seed=settings.seed)
    return finished(Texts(training, validation, task, notes), settings)


def task_for(problem: Problem, rows: list[Row], *, left_out: int = 0) -> Task:
    """The task of a model for these rows."""
    numbers = problem is Problem.REGRESSION
    return task_of(problem, LABELS if numbers else label_names(rows, left_out=left_out))


def finished(texts: Texts, settings: Training) -> Texts:
    """Texts whose every label the task can use, with a task whose loss is as asked for."""
    task = texts.task
    task.check(texts.training)
    task.check(texts.validation)
    if isinstance(task, Classification):
        asked = settings.class_weights
        weights = class_weights(asked, texts.training, labels=task.labels) if asked else None
        return replace(texts, task=replace(task, weights=weights, smoothing=settings.label_smoothing))
    if isinstance(task, Regression):
        task.check_learnable(texts.training)
    for name in ("class_weights", "label_smoothing"):
        if getattr(settings, name):
            raise SettingError(f"{flag(name)} is for one label a text; this is {task.problem}")
    return texts


def measure_of(settings: Training, problem: Problem) -> str:
    """What the best model is chosen by; SettingError for a score that the problem does not have."""
    measures = MEASURES[problem]
    if settings.metric is None:
        return measures[0]
    if settings.metric not in measures:
        raise SettingError(f"--metric {settings.metric} is not one of {problem}: {', '.join(measures)}")
    return settings.metric
