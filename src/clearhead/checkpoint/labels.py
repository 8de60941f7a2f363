"""What the outputs of a head mean, as config.json says it."""

from dataclasses import replace
from enum import StrEnum
from sys import float_info
from typing import Any

from clearhead.data.rows import bare_name, name_of
from clearhead.errors import FolderError
from clearhead.model.config import Head, Over
from clearhead.text.words import LONE_SURROGATE


class Problem(StrEnum):
    """What a head's outputs mean; of one over texts under the published names (`problem_type`)."""

    SINGLE = "single_label_classification"  # one label a text: softmax
    MULTI = "multi_label_classification"  # any number of labels a text: a sigmoid each
    REGRESSION = "regression"  # numbers as they are
    TAGS = "token_classification"  # one label a token: softmax
    SPANS = "question_answering"  # where an answer begins and ends: a softmax over the tokens for each


ENDS = ("start", "end")
DROPOUT = "dropout of the head"  # as messages about facts name it
THRESHOLD = "null_score_diff_threshold"  # the published scripts' name
PROBLEMS = (Problem.SINGLE, Problem.MULTI, Problem.REGRESSION)  # those of heads over texts


def tokens_head(head: Head, over: Over, *, labels: int) -> Head:
    """A head over tokens from that over texts: as published, without what it makes of the vector of a text
    before the labels, unless a norm follows (ModernBERT); nothing is dropped before the ends of spans."""
    dense = head.dense and head.dense_norm
    dropout = 0.0 if over is Over.SPANS and not dense else head.dropout
    return replace(head, over=over, labels=labels, dense=dense, drop_first=False, dropout=dropout)


def own_dropout(head: Head | None, usual: float | None = None) -> float | None:
    """What a head over texts drops of its own; of one of spans, which drops nothing, the family's usual."""
    return usual if head is None or head.over is Over.SPANS else head.dropout


def problem_of(values: dict[str, Any], head: Head | None, *, source: str) -> Problem:
    """What a head's outputs mean: by the head, as the config says or, as the published code has it, by their
    number."""
    over, labels = (head.over, head.labels) if head else (Over.TEXTS, 0)
    if over is not Over.TEXTS:
        return Problem.TAGS if over is Over.TOKENS else Problem.SPANS
    stated = values.get("problem_type")
    if stated is None:
        return Problem.REGRESSION if labels == 1 else Problem.SINGLE
    if stated not in PROBLEMS:
        raise FolderError(f"{source}: problem_type={stated!r} is not known; known: {', '.join(PROBLEMS)}")
    if stated == Problem.SINGLE and labels == 1:
        raise FolderError(f"{source}: problem_type={stated!r} needs at least 2 labels, and id2label has 1")
    return Problem(stated)


def no_answer_of(values: dict[str, Any], problem: Problem, *, source: str) -> float | None:
    """By how much no answer must beat the best one, of a model of spans; None: it always gives one."""
    said = values.get(THRESHOLD) if problem is Problem.SPANS else None
    number = isinstance(said, int | float) and not isinstance(said, bool)
    if said is not None and not (number and abs(said) <= float_info.max):  # NaN is in no order
        raise FolderError(f"{source}: {THRESHOLD}={said!r:.60} must be a finite number, or null")
    return None if said is None else float(said)


def no_answer_fields(threshold: float | None) -> dict[str, float]:
    """The field that says so."""
    return {} if threshold is None else {THRESHOLD: threshold}


def label_names(values: dict[str, Any], head: Head, *, source: str) -> tuple[str, ...]:
    """Labels of a head in order from id2label, whose keys are strings in JSON; as in a file of labelled
    texts, space around a name is no part of it. The two of spans have names of their own."""
    if head.over is Over.SPANS:
        return ENDS
    count = head.labels
    table = values.get("id2label") or {str(number): f"LABEL_{number}" for number in range(count)}
    if not isinstance(table, dict):
        raise FolderError(f"{source}: id2label is {type(table).__name__}, not a table of names")
    missing = [number for number in range(count) if str(number) not in table]
    if missing:
        raise FolderError(f"{source}: id2label has no entry '{missing[0]}'; it needs 0 to {count - 1}")
    stated = [name_of(table[str(number)]) for number in range(count)]
    names = tuple(map(bare_name, stated))
    if half := [name for name in names if LONE_SURROGATE.search(name)]:
        raise FolderError(f"{source}: id2label holds half a character ({half[0]!r}); write the label anew")
    if len(set(names)) < count:
        why = " (space around a name does not count)" if len(set(stated)) == count else ""
        raise FolderError(f"{source}: id2label gives two labels one name: {', '.join(names)}{why}")
    return names
