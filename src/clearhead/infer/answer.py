"""Files of questions → answers in their contexts, and how well a model finds them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from torch import Tensor

from clearhead.data.questions import Question, questions_of
from clearhead.engine.modes import own_modes
from clearhead.errors import DataError, SettingError
from clearhead.infer.batches import batches_of, check_encodings, finite
from clearhead.infer.given import refuse_unread
from clearhead.infer.model import Model
from clearhead.settings import Asking, Finding, made, some_of
from clearhead.tasks.answer import AnswerResult, result_of, skipped, spans_of
from clearhead.tasks.examples import Example, in_windows, refuse_stride
from clearhead.tasks.scores_answers import AnswerMetrics, measure
from clearhead.text.encoding import Text
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.windows import cut_to_one

BEST = 20  # candidates that a result lists at most, as the published scripts have it


@dataclass(frozen=True, eq=False)
class AnswerEvaluation:
    """What came of it; `bad` rows were left out."""

    metrics: AnswerMetrics
    questions: list[Question]
    results: list[AnswerResult]
    bad: int
    seconds: float

    @property
    def truncated(self) -> int:
        """Contexts that were cut."""
        return sum(result.dropped > 0 for result in self.results)

    @property
    def windowed(self) -> int:
        """Contexts that were read in several windows."""
        return sum(result.windows > 1 for result in self.results)


def encode_questions(
    questions: Sequence[Question], tokenizer: Tokenizer, *, limit: int | None, asking: Asking
) -> list[Example]:
    """Questions, each before its context, in windows unless the settings say otherwise: cut, the context
    loses its end, or its beginning where the tokenizer's files say so; refused, `DataError` by place."""
    long = asking.long or "window"
    pairs = [(question.text, question.context) for question in questions]
    names = [question.where for question in questions]
    if long == "window":
        return in_windows(pairs, tokenizer, names=names, limit=limit, stride=asking.stride)
    refuse_stride(asking)
    found = cut_to_one(tokenizer, pairs, names=names, limit=limit)
    for question, one in zip(questions, found, strict=True):
        if long == "error" and one.dropped:
            count = len(one.ids) + one.dropped
            said = f"the question and its context have {count} tokens, the model takes {limit}"
            raise DataError(
                f"{question.where}: {said}; shorten the context, or read it in windows: --long window"
            )
    return [Example((one,)) for one in found]


@own_modes()
def find(
    model: Model, questions: Sequence[Question], *, asking: Asking, finding: Finding
) -> list[AnswerResult]:
    """One result a question, in order; a question or a context of nothing but white space has no answer.

    Raises `SettingError` for a model of another kind, `NotFinite` where its numbers are none.
    """
    if not model.answers:
        how = "clearhead train answer --data FILE --out FOLDER"
        raise SettingError(f"{model.name} finds no answers in texts; train a model that does: {how}")
    asked = [question for question in questions if not question.blank]
    limit, threshold = model.limit, finding.no_answer_above
    threshold = model.loaded.no_answer_above if threshold is None else threshold
    examples = encode_questions(asked, model.tokenizer, limit=limit, asking=asking)
    logits = iter(logits_of(model, asked, examples=examples, budget=asking.batch_tokens))
    found = []
    for question, example in zip(asked, examples, strict=True):
        own = [next(logits) for _ in example.windows]
        context, most = question.context, finding.max_answer_tokens
        spans = spans_of(own, example, context=context, most=most, best=BEST)
        found.append(result_of(spans, example, context=context, threshold=threshold))
    given = iter(found)
    return [skipped() if question.blank else next(given) for question in questions]


def logits_of(
    model: Model, questions: Sequence[Question], *, examples: Sequence[Example], budget: int
) -> list[Tensor]:
    """The logits of each window's tokens, `[tokens, 2]`, in order."""
    windows = [window for example in examples for window in example.windows]
    owners = [q.where for q, one in zip(questions, examples, strict=True) for _ in one.windows]
    check_encodings(windows, model.config)
    found: dict[int, Tensor] = {}
    for members, batch in batches_of(windows, budget):
        rows = model.loaded.network.classify(batch).float()
        for member, lying in zip(members, batch.layout.slices, strict=True):
            found[member] = finite(rows[lying], ([owners[member]] * len(windows[member].ids)).__getitem__)
    return [found[index] for index in range(len(windows))]


def answer(model: Model, questions: Sequence[Text], **options: Any) -> list[AnswerResult]:
    """Answers to pairs of a question and its context; a blank one has none, unless `empty` is "error"."""
    finding, others = some_of(Finding, options)
    asking: Asking = made(Asking, {"empty": "skip"} | others)
    refuse_unread(asking, read=("long", "stride", "batch_tokens", "empty"), by="Model.answer")
    rows = []
    for number, pair in enumerate(questions):
        if isinstance(pair, str):
            raise DataError(f"question {number} is one string; give pairs of a question and its context")
        rows.append(Question(pair[0], pair[1], None, "", number))
    usable(rows, asking)
    return find(model, rows, asking=asking, finding=finding)


def evaluate_answers(model: Model, data: str | Path, *, asking: Asking, finding: Finding) -> AnswerEvaluation:
    """Exact match and F1 on a file of questions; options as `clearhead evaluate --help` lists them."""
    questions, bad = questions_of(str(data), asking, skip_bad=asking.skip_bad_rows)
    return evaluate_questions(model, usable(questions, asking), asking=asking, finding=finding, bad=bad)


def usable(questions: Sequence[Question], asking: Asking) -> list[Question]:
    """Questions that can be asked: blank ones are an error, or left out where that is asked for."""
    for question in questions:
        if question.blank and asking.empty == "error":
            part = "question" if not question.text.strip() else "context"
            fix = "write one, or go on without it with --empty skip"
            raise DataError(f"{question.where}: the {part} holds no text; {fix}")
    return [question for question in questions if not question.blank]


def evaluate_questions(
    model: Model, questions: list[Question], *, asking: Asking, finding: Finding, bad: int = 0
) -> AnswerEvaluation:
    """The same of questions that are read already."""
    start = perf_counter()
    results = find(model, questions, asking=asking, finding=finding)
    metrics = measure(
        [result.answer for result in results],
        [question.right for question in questions],
        best=[result.candidates[0].answer if result.candidates else "" for result in results],
        margins=[result.margin if result.margin is not None else float("inf") for result in results],
    )
    return AnswerEvaluation(metrics, questions, results, bad, perf_counter() - start)
