"""A run that trains a classifier."""

from collections.abc import Callable
from typing import Any

from clearhead.checkpoint.labels import Problem
from clearhead.data.wording import argument
from clearhead.engine.modes import own_modes
from clearhead.errors import SettingError, refused_by_system
from clearhead.infer.evaluate import Evaluation, evaluate_rows
from clearhead.infer.model import Model
from clearhead.learn import place
from clearhead.learn.answer import AnswerRun
from clearhead.learn.course import Course
from clearhead.learn.embed import EmbedRun
from clearhead.learn.fill import FillRun
from clearhead.learn.finish import write_run_card
from clearhead.learn.labelled import Labelled
from clearhead.learn.language import LanguageRun
from clearhead.learn.start import starting_model
from clearhead.learn.tag import TagRun
from clearhead.learn.texts import measure_of, read_texts
from clearhead.learn.translate import TranslateRun
from clearhead.settings import (
    Answerer,
    Asking,
    Contrasting,
    Language,
    Masked,
    Tagging,
    Training,
    Translating,
    flag,
    made,
)
from clearhead.tasks.examples import examples_of
from clearhead.tasks.task import Scores


def asked_as(settings: Any, *names: str) -> str:
    """The flags of these options, as far as they are given, as a command has them behind its others."""
    given = ((flag(name), getattr(settings, name)) for name in names)
    return "".join(f" {word} {argument(value)}" for word, value in given if value is not None)


def train(task: str, **options: Any) -> Course:
    """Make a run of a task; iterate over it to train. Options as in `clearhead train TASK --help`."""
    for names, run, settings in TASKS:
        if task in names:
            try:
                made_run: Course = run(made(settings, options))
            except OSError as error:
                raise SettingError(refused_by_system(error)) from error
            return made_run
    known = ", ".join(f"{names[0]} (also {', '.join(names[1:])})" for names, _, _ in TASKS)
    raise SettingError(f"unknown task {task!r}; known: {known}")


class Run(Course):
    """Learns from labelled texts."""

    settings: Training

    @own_modes(learning=True)
    def __init__(self, settings: Training):
        super().__init__(settings)
        texts = read_texts(settings)
        self.training, self.validation, self.notes = texts.training, texts.validation, texts.notes
        self.task, self.labels, self.task_name = texts.task, texts.task.labels, texts.task.name
        self.metric = measure_of(settings, self.task.problem)
        loaded = starting_model(settings, self.training, task=self.task)
        limit = Model(loaded).limit
        self.examples = examples_of(self.training, loaded.tokenizer, limit=limit, reading=settings)
        if cut := sum(example.dropped > 0 for example in self.examples):
            self.notes.append(f"{cut} of {len(self.training)} texts are cut to the model's {limit} tokens")
        if several := sum(len(example.windows) > 1 for example in self.examples):
            count = sum(len(example.windows) for example in self.examples)
            self.notes.append(f"{several} of {len(self.training)} texts are read in windows, {count} in all")
        # Looked at now, so that what cannot be read is refused before anything is written.
        self.chosen_by = examples_of(self.validation, loaded.tokenizer, limit=limit, reading=settings)
        targets = self.task.targets(self.training)
        self.objective = Labelled(
            loaded.network, self.task, examples=self.examples, targets=targets, freeze=settings.freeze
        )
        self.ready(loaded, self.objective)

    @property
    def ask(self) -> str:  # type: ignore[override]
        """How the model is tried: as it has learned, in pairs and in windows."""
        pair = ' --pair "…"' if self.settings.pair_column else ""
        return 'predict {} --text "…"' + pair + asked_as(self.settings, "long", "stride")

    def data(self) -> str:
        """SHA-256 of all texts and labels, and of which are learned from and which chosen by."""
        return place.digest_of_rows(self.training, self.validation)

    def resolved(self) -> dict[str, Any]:
        """What its settings came to."""
        return {
            "training_texts": len(self.training),
            "validation_texts": len(self.validation),
            "labels": list(self.labels),
            "problem": str(self.task.problem),
        }

    def made(self) -> str:
        """What its outputs will be."""
        if self.task.problem is Problem.REGRESSION:
            return "each with a number"
        several = ", any number for a text" if self.task.problem is Problem.MULTI else ""
        return f"labels: {', '.join(self.labels[:8])}{' …' if len(self.labels) > 8 else ''}{several}"

    def evaluation(self) -> Scores:
        """The metrics on the validation texts."""
        return self.evaluated().metrics

    def evaluated(self) -> Evaluation:
        """The model as it stands on the validation texts."""
        settings = self.settings
        budget = max(2048, settings.batch_tokens)
        asking = Asking(batch_tokens=budget, long=settings.long, stride=settings.stride)
        return evaluate_rows(self.model, self.validation, settings=asking, examples=self.chosen_by)

    def value_of(self, metrics: Scores) -> float:
        """The score that was asked for."""
        value = -metrics.loss if self.metric == "loss" else getattr(metrics, self.metric)
        return -1.0 if value is None else float(value)  # a constant has no correlation: the worst of them

    def share(self) -> float:
        """By characters."""
        sizes = [sum(len(row.text) for row in rows) for rows in (self.validation, self.training)]
        return sizes[0] / max(1, sizes[1])

    def card(self) -> bool:
        """Write the model card."""
        return write_run_card(self)


# Names of tasks, ours first; what a run of it is, and what it may be asked for.
TASKS: tuple[tuple[tuple[str, ...], Callable[[Any], Course], type], ...] = (
    (("classify", "text-classification"), Run, Training),
    (("language", "text-generation"), LanguageRun, Language),
    (("fill", "fill-mask"), FillRun, Masked),
    (("answer", "question-answering"), AnswerRun, Answerer),
    (("tag", "token-classification"), TagRun, Tagging),
    (("embed", "sentence-similarity", "feature-extraction"), EmbedRun, Contrasting),
    (("translate", "translation", "summarization", "text2text-generation"), TranslateRun, Translating),
)
