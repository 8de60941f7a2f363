"""A run that learns to find answers in texts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from clearhead.checkpoint.catalog import locate
from clearhead.checkpoint.folder import Loaded, read_folder
from clearhead.checkpoint.fresh import with_head
from clearhead.checkpoint.labels import ENDS, Problem, tokens_head
from clearhead.data.questions import Question, questions_of
from clearhead.data.wording import counted
from clearhead.engine.modes import own_modes
from clearhead.errors import DataError
from clearhead.infer.answer import encode_questions, evaluate_questions, usable
from clearhead.infer.model import Model
from clearhead.learn.answers import Answers
from clearhead.learn.by_loss import ByLoss
from clearhead.learn.corpus import TENTH, digest_of, kept_aside
from clearhead.learn.finish import write_answer_card
from clearhead.learn.start import refuse_translator
from clearhead.model.config import Over
from clearhead.settings import Answerer, Asking, Finding
from clearhead.tasks.scores_answers import AnswerMetrics


class AnswerRun(ByLoss):
    """Learns where answers stand."""

    settings: Answerer
    task_name, noun = "answer", "question"
    ask, metric = 'predict {} --text "…?" --pair "…"', "f1"

    @own_modes(learning=True)
    def __init__(self, settings: Answerer):
        super().__init__(settings)
        self.notes = []
        questions = self.read(settings.data)
        if settings.validation:
            self.questions, self.chosen_by = questions, self.read(settings.validation)
        else:
            self.questions, self.chosen_by = apart(questions, seed=settings.seed, file=settings.data)
        every = (*self.questions, *self.chosen_by)
        said = digest_of(word for one in every for word in (one.text, one.context, repr(one.answers)))
        self.digest = f"{len(self.questions)} {said}"
        loaded = starting_answerer(settings, self.questions)
        self.limit = Model(loaded).limit
        self.objective, self.validation = (
            self.windows(loaded, some) for some in (self.questions, self.chosen_by)
        )
        self.ready(loaded, self.objective)

    def read(self, path: str) -> list[Question]:
        """The questions of a file; bad and blank ones are left out where that is asked for, and told."""
        settings = self.settings
        found, bad = questions_of(path, settings, skip_bad=settings.skip_bad_rows)
        if bad:
            self.notes.append(f"{path}: {counted(bad, 'row')} left out, whose answers are not where they say")
        kept = usable(found, Asking(empty=settings.empty))
        if len(kept) < len(found):
            lost = counted(len(found) - len(kept), "question")
            self.notes.append(f"{path}: {lost} without text, or about none, left out")
        if not kept:
            raise DataError(f"{path}: no question can be used; give a file with at least one")
        return kept

    def asking(self) -> Asking:
        """How long contexts are read: as they are learned."""
        settings = self.settings
        budget = max(4096, settings.batch_tokens)
        return Asking(long=settings.long, stride=settings.stride, batch_tokens=budget)

    def windows(self, loaded: Loaded, questions: Sequence[Question]) -> Answers:
        """Windows to learn from."""
        examples = encode_questions(questions, loaded.tokenizer, limit=self.limit, asking=self.asking())
        found = Answers(loaded.network, questions, examples=examples)
        if several := sum(len(example.windows) > 1 for example in examples):
            self.notes.append(
                f"{several:,} of {len(questions):,} contexts are read in windows of {self.limit} tokens, "
                f"{len(found.windows):,} in all"
            )
        if cut := sum(example.dropped > 0 for example in examples):
            self.notes.append(f"{cut:,} of {len(questions):,} contexts are cut to {self.limit} tokens")
        if found.lost:
            self.notes.append(
                f"{found.lost:,} of {len(questions):,} questions have an answer that no window holds whole, "
                "and are learned as if they had none"
            )
        return found

    @property
    def learned(self) -> list[Question]:
        """What it learns from."""
        return self.questions

    def resolved(self) -> dict[str, Any]:
        """What its settings came to."""
        return {
            "training_texts": len(self.questions),
            "validation_texts": len(self.chosen_by),
            "training_windows": len(self.objective.windows),
            "without_answer": sum(not question.answers for question in self.questions),
            "window": self.limit,
        }

    def made(self) -> str:
        """What its outputs will be."""
        none = any(not question.answers for question in self.questions)
        return "each with a place in its text" + (", or none" if none else "")

    @own_modes()
    def evaluation(self) -> AnswerMetrics:
        """The scores on the questions that were kept aside."""
        finding = Finding(max_answer_tokens=self.settings.max_answer_tokens)
        found = evaluate_questions(self.model, self.chosen_by, asking=self.asking(), finding=finding)
        loss = self.validation.mean_loss(self.model.loaded.network, budget=4096)
        return replace(found.metrics, loss=loss)

    def value_of(self, metrics: AnswerMetrics) -> float:
        """F1 over words."""
        return metrics.f1

    def card(self) -> bool:
        """Write the model card."""
        return write_answer_card(self)


def apart(questions: list[Question], *, seed: int, file: str) -> tuple[list[Question], list[Question]]:
    """Questions to learn from, and those about a tenth of the contexts to choose by: a context that was
    learned from would tell too much of the others'."""
    contexts = list(dict.fromkeys(question.context for question in questions))
    if len(contexts) < 2:
        raise DataError(
            f"{file}: all questions are about one context; give --validation, or questions about others too"
        )
    if len(contexts) < TENTH:
        kept, aside = contexts[:-1], contexts[-1:]
    else:
        kept, aside = kept_aside(contexts, seed=seed)
    groups = (set(kept), set(aside))
    first, second = ([question for question in questions if question.context in group] for group in groups)
    return first, second


def starting_answerer(settings: Answerer, questions: Sequence[Question]) -> Loaded:
    """The model before its first step: its own head of spans, or a new one."""
    loaded = read_folder(locate(settings.base), settings)
    refuse_translator(loaded, settings)
    none = 0.0 if any(not question.answers for question in questions) else None
    threshold = loaded.no_answer_above if loaded.no_answer_above is not None else none
    new = replace(loaded, labels=ENDS, problem=Problem.SPANS, no_answer_above=threshold)
    if loaded.problem is not Problem.SPANS:
        facts = tokens_head(loaded.new_head, Over.SPANS, labels=len(ENDS))
        with_head(loaded.network, facts, seed=settings.seed)
    return new
