"""Questions about texts, with the places of their answers: SQuAD's JSON, or flat rows."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from clearhead.data.read import Record, records, with_all_columns
from clearhead.data.rows import column_of, named, text_in
from clearhead.data.source import opened, refuse_half_characters
from clearhead.data.strict import refuse_unwritable, strictly
from clearhead.data.wording import listed, place, short
from clearhead.errors import DataError
from clearhead.settings import Reading, at_home

QUESTIONS, CONTEXTS = ("question", "query", "text"), ("context", "passage")
ANSWERS, STARTS = ("answer", "answers"), ("start", "answer_start")


@dataclass(frozen=True, slots=True)
class Place:
    """A part of a context: `context[start:end]`, in characters."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a context, both exactly as in the file, and the places of the right answers.

    `answers` is None where the file does not say, and empty where the context does not answer. `number` is
    that of the question in its file, from 1, or in a list (`file` is then empty), from 0; `extra` holds what
    else the file says of it, its id among it.
    """

    text: str
    context: str
    answers: tuple[Place, ...] | None
    file: str
    number: int
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """The place, to speak of it; of one that stands in no file, its number."""
        return place(self.file, self.number) if self.file else f"question {self.number}"

    @property
    def blank(self) -> bool:
        """Whether the question or the context is nothing but white space."""
        return not self.text.strip() or not self.context.strip()

    @property
    def right(self) -> tuple[str, ...]:
        """The right answers as texts, each once."""
        return tuple(dict.fromkeys(self.context[one.start : one.end] for one in self.answers or ()))


class BadRow(DataError):
    """A row that cannot be used, where others of its file can."""


def questions_of(
    path: str, reading: Reading, *, answered: bool = True, skip_bad: bool = False
) -> tuple[list[Question], int]:
    """The questions of a file, in order, and how many rows were left out as bad, where that is asked for.

    A file that ends in .json (or .json.gz) is read as SQuAD's (Rajpurkar et al. 2016, 2018), others as rows
    with the columns question, context, answer, start; in JSONL `answers` may be SQuAD's own object or a list
    of them. An answer without a start is looked for, and must stand in the context once; an empty one, null
    in a row, or SQuAD's `is_impossible` says that there is none. Without `answered` nothing is made of them.

    Raises `DataError`, naming file, row and fix, for what cannot be used.
    """
    given, found, bad = at_home(path), list[Question](), 0
    squad = given.lower().removesuffix(".gz").endswith(".json") and reading.format is None
    rows = _squad(given) if squad else _flat(given, reading, answered=answered)
    for question, said in rows:
        try:
            answers = _answers(said, question.context, where=question.where) if answered else None
            found.append(replace(question, answers=answers))
        except BadRow as error:
            if not skip_bad:
                raise DataError(f"{error}; or leave such rows out: --skip-bad-rows") from None
            bad += 1
    if not found:
        raise DataError(f"{path}: holds no questions that can be used; give a file with at least one")
    return found, bad


def _squad(path: str) -> Iterator[tuple[Question, Any]]:
    """SQuAD's JSON: data, paragraphs, questions; each with what is said of its answers."""
    file = "standard input" if path == "-" else path
    with opened(path, file, newline="\n") as lines:
        text = lines.read()
    refuse_half_characters(text, file, line=text)
    number = 0
    try:
        whole: Any = strictly(text)
        for article in whole["data"]:
            for paragraph in article["paragraphs"]:
                for one in paragraph["qas"]:
                    number += 1
                    asked, context = one["question"], paragraph["context"]
                    if not isinstance(asked, str) or not isinstance(context, str):
                        raise TypeError(f"question {number} is no text")
                    refuse_unwritable([one, context], place(file, number), line=text)
                    extra = {"id": one["id"]} if "id" in one else {}
                    none = one.get("is_impossible") is True
                    said = [] if none else one.get("answers")
                    yield Question(asked, context, None, file, number, extra=extra), said
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        said = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {short(str(error))}"
        where = f"{file}, at question {number}" if number else file
        raise DataError(
            f"{where}: is not SQuAD's JSON ({said}); it holds data → paragraphs → context and qas; rows go "
            "into .jsonl, .csv or .tsv"
        ) from error


def _flat(path: str, reading: Reading, *, answered: bool) -> Iterator[tuple[Question, Any]]:
    """The same of rows of a table or of JSON lines."""
    found = list(records(path, format=reading.format))
    first, whole = found[0], with_all_columns(found)
    text = column_of(first, reading.text_column, usual=QUESTIONS, role="text", taken={})
    context = column_of(first, reading.pair_column, usual=CONTEXTS, role="pair", taken={text: "text"})
    taken: dict[str | None, str] = {text: "text", context: "pair"}
    answer: str | None = None
    start: str | None = None
    if answered:
        answer = column_of(first, reading.label_column, usual=ANSWERS, role="label", taken=taken)
        starts = named(whole.values, STARTS)
        if len(starts) > 1:
            both = f"{listed(starts)} could each be where answers start"
            raise DataError(f"{first.file}: {both}; take one column out")
        start = next(iter(starts), None)
    ours = (text, context, answer, start)
    for record in found:
        said = None if answer is None else _stated(record, answer, start=start)
        extra = {name: value for name, value in record.values.items() if name not in ours}
        asked, about = text_in(record, text), text_in(record, context)
        yield Question(asked, about, None, record.file, record.row, extra=extra), said


def _stated(record: Record, answer: str, *, start: str | None) -> Any:
    """What a row says of its answers, as SQuAD would: a list of objects, or one object of lists; None where
    it has no such column."""
    value = record.values.get(answer)
    if value is None:
        return [] if answer in record.values else None
    if not isinstance(value, str):
        return value
    if not value.strip():
        return []
    said = None if start is None else record.values.get(start)
    return [{"text": value, "answer_start": None if said in (None, "") else said}]


def _answers(said: Any, context: str, *, where: str) -> tuple[Place, ...]:
    """The places of answers; BadRow where they are not there, or nothing is said of any."""
    if said is None:
        raise BadRow(
            f"{where}: says nothing of an answer; write answers or, where the context has none, an empty one "
            '("answer": "" in rows, "answers": [] in SQuAD\'s JSON)'
        )
    if isinstance(said, dict):  # as the datasets library has it: an object of lists
        texts, starts = said.get("text"), said.get("answer_start")
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            raise BadRow(f"{where}: answers must hold as many text as answer_start; write both as lists")
        said = [{"text": one, "answer_start": at} for one, at in zip(texts, starts, strict=True)]
    if not isinstance(said, list) or not all(isinstance(one, dict) for one in said):
        raise BadRow(f"{where}: {short(json.dumps(said))} is no list of answers with text and answer_start")
    pairs = [(one.get("text"), one.get("answer_start")) for one in said]
    return tuple(_place(text, start, context=context, where=where) for text, start in pairs)


def _place(text: Any, start: Any, *, context: str, where: str) -> Place:
    """Where an answer stands; BadRow where it does not stand there."""
    if not isinstance(text, str) or not text.strip():
        raise BadRow(
            f"{where}: an answer is {short(json.dumps(text))}; write a text that stands in the context"
        )
    if start is None:
        if (times := context.count(text)) != 1:
            fix = "give its start" if times else "take it from the context, letter for letter"
            raise BadRow(
                f"{where}: the answer {short(repr(text))} stands {times} times in the context; {fix}"
            )
        start = context.index(text)
    try:
        at = int(start) if not isinstance(start, bool | float) else -1
    except (TypeError, ValueError):
        at = -1
    if at < 0 or context[at : at + len(text)] != text:
        there = short(repr(context[at : at + len(text)])) if 0 <= at < len(context) else "nothing"
        once = context.count(text) == 1
        fix = f"it stands at {context.index(text)}" if once else "correct it (characters, counted from 0)"
        raise BadRow(
            f"{where}: at answer_start {short(str(start))} the context has {there}, not the answer "
            f"{short(repr(text))}; {fix}"
        )
    return Place(at, at + len(text))
