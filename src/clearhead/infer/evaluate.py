"""Rows of a file → answers, and how well they agree with the labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from torch import Tensor

from clearhead.checkpoint.labels import Problem
from clearhead.data.rows import Row, read_rows
from clearhead.data.wording import place
from clearhead.engine.modes import own_modes
from clearhead.infer.answer import AnswerEvaluation, evaluate_answers
from clearhead.infer.couples import PairEvaluation, evaluate_pairs
from clearhead.infer.embed import asking_for
from clearhead.infer.fill import FillEvaluation, evaluate_fill
from clearhead.infer.model import Model, asked
from clearhead.infer.perplexity import LanguageEvaluation, evaluate_language
from clearhead.infer.tag import TagEvaluation, evaluate_tags
from clearhead.infer.translate import TranslationEvaluation, evaluate_translations, files_of_pairs
from clearhead.settings import (
    Asking,
    Comparing,
    Filling,
    Finding,
    Pairing,
    Scoring,
    Vectors,
    made,
    some_of,
)
from clearhead.tasks.classify import Result
from clearhead.tasks.examples import Example, examples_of, joined
from clearhead.tasks.task import Answer, Scores, held_back


@dataclass(frozen=True)
class Answered:
    """What a model does that gives no label where it is not sure: the share of texts it answers, and how
    many of the answers are right (None where there are none)."""

    abstain_below: float
    coverage: float
    answered_accuracy: float | None


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Metrics over the rows of a file, with all that led to them."""

    metrics: Scores
    rows: list[Row]
    examples: list[Example]
    logits: Tensor
    seconds: float
    answered: Answered | None = None

    @property
    def truncated(self) -> int:
        """Texts that did not fit whole."""
        return sum(example.dropped > 0 for example in self.examples)

    @property
    def windowed(self) -> int:
        """Texts that were read in several windows."""
        return sum(len(example.windows) > 1 for example in self.examples)


AnyEvaluation = (
    Evaluation
    | LanguageEvaluation
    | FillEvaluation
    | TranslationEvaluation
    | AnswerEvaluation
    | TagEvaluation
    | PairEvaluation
)


def evaluate(model: Model, data: str | Path, **options: Any) -> AnyEvaluation:
    """Evaluate a model on a file of labelled texts, a language model or one that fills masks on one of texts,
    one that turns texts into others, or gives vectors, on one of pairs, one that finds answers on one of
    questions, one that tags on one of tagged sentences; options as in `clearhead evaluate --help`."""
    model = asked(model)
    if model.answers:
        finding, options = some_of(Finding, options)
        return evaluate_answers(model, data, asking=made(Asking, options), finding=finding)
    if model.tags:
        return evaluate_tags(model, data, settings=made(Asking, options))
    if model.embeds:
        columns, options = some_of(Pairing, options)
        ways, options = some_of(Vectors, options)
        asking = made(Asking, options)
        return evaluate_pairs(
            model, str(data), columns=columns, reading=asking, settings=asking_for(ways, asking)
        )
    if model.translates:
        comparing, options = some_of(Comparing, options)
        files = files_of_pairs(data, comparing)
        given = {"errors": options.pop("errors")} if "errors" in options else {}
        errors, asking = made(Scoring, given).errors, made(Asking, options)
        return evaluate_translations(model, files, asking=asking, comparing=comparing, errors=errors)
    if model.speaks or model.fills:
        scoring, options = some_of(Scoring, options)
        if model.speaks:
            return evaluate_language(model, data, asking=made(Asking, options), scoring=scoring)
        filling, options = some_of(Filling, options)
        asking = made(Asking, options)
        return evaluate_fill(model, data, asking=asking, scoring=scoring, filling=filling)
    return evaluate_file(model, data, settings=made(Asking, options))


def evaluate_file(model: Model, data: str | Path, *, settings: Asking) -> Evaluation:
    """Evaluate a classifier on a file of labelled texts."""
    several = model.loaded.problem is Problem.MULTI
    return evaluate_rows(model, read_rows(data, several=several, **settings.reading()), settings=settings)


@own_modes()
def evaluate_rows(
    model: Model, rows: list[Row], *, settings: Asking, examples: list[Example] | None = None
) -> Evaluation:
    """Evaluate a model on rows that are read already, or also encoded."""
    start = perf_counter()
    if not model.task:
        raise model.unlabelled()
    model.task.check(rows)
    if examples is None:
        examples = examples_of(rows, model.tokenizer, limit=model.limit, reading=settings)
    logits = logits_of(model, rows, examples=examples, budget=settings.batch_tokens)
    targets = model.task.targets(rows)
    answered = None
    if settings.abstain_below is not None:
        given = held_back(model.task.results(logits, examples), settings.abstain_below)
        answered = covered(rows, given, below=settings.abstain_below)
    metrics = model.task.metrics(logits, targets)
    return Evaluation(metrics, rows, examples, logits, perf_counter() - start, answered)


def logits_of(model: Model, rows: Sequence[Row], *, examples: Sequence[Example], budget: int) -> Tensor:
    """The logits of each row."""
    owners = [row for row, example in zip(rows, examples, strict=True) for _ in example.windows]

    def where(window: int) -> str:
        return place(owners[window].file, owners[window].row)

    flat = [window for example in examples for window in example.windows]
    return joined(model.logits(flat, batch_tokens=budget, where=where), examples)


def covered(rows: Sequence[Row], given: Sequence[Answer], *, below: float) -> Answered:
    """How many rows have an answer, and how many of the answers are right."""
    pairs = [
        (row.label, result.label)
        for row, result in zip(rows, given, strict=True)
        if isinstance(result, Result) and result.label is not None
    ]
    right = sum(label == answer for label, answer in pairs)
    return Answered(below, len(pairs) / len(rows), right / len(pairs) if pairs else None)


@own_modes()
def predict_rows(model: Model, rows: Sequence[Row], *, settings: Asking) -> list[tuple[Row, Answer]]:
    """One result a row, in order. A text of only white space, where it is let through, gets a result without
    label."""
    if not model.task:
        raise model.unlabelled()
    asked = [index for index, row in enumerate(rows) if not row.blank]
    some = [rows[index] for index in asked]
    examples = examples_of(some, model.tokenizer, limit=model.limit, reading=settings)
    logits = logits_of(model, some, examples=examples, budget=settings.batch_tokens)
    answers: list[Answer] = [model.task.skipped()] * len(rows)
    given = held_back(model.task.results(logits, examples), settings.abstain_below)
    for index, result in zip(asked, given, strict=True):
        answers[index] = result
    return list(zip(rows, answers, strict=True))
