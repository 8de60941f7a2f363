"""A run that learns to tag words."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from clearhead.checkpoint.catalog import locate
from clearhead.checkpoint.folder import Loaded, read_folder
from clearhead.checkpoint.fresh import with_head
from clearhead.checkpoint.labels import Problem, tokens_head
from clearhead.data.schemes import parts
from clearhead.data.sentences import Sentence, read_tagged
from clearhead.data.split import without_duplicates
from clearhead.data.wording import counted
from clearhead.engine.modes import own_modes
from clearhead.errors import DataError, SettingError
from clearhead.infer.model import Model
from clearhead.infer.tag import TagEvaluation, evaluate_sentences, marked_rows
from clearhead.learn import place
from clearhead.learn.corpus import tenth_aside
from clearhead.learn.course import Course
from clearhead.learn.finish import write_tag_card
from clearhead.learn.start import new_encoder, refuse_translator
from clearhead.learn.tagged import Tagged
from clearhead.model.config import Head, Over
from clearhead.settings import Asking, Tagging
from clearhead.tasks.scores_tags import TagMetrics
from clearhead.tasks.tag import Tags


class TagRun(Course):
    """Learns the tag of each word."""

    settings: Tagging
    task_name, noun = "tag", "sentence"
    ask = 'predict {} --text "…"'

    @own_modes(learning=True)
    def __init__(self, settings: Tagging):
        super().__init__(settings)
        self.notes = []
        self.metric = settings.metric or "f1"
        self.training, self.validation = self.read()
        self.task = Tags(labels_of((*self.training, *self.validation)))
        loaded = starting_tagger(settings, self.training, labels=self.task.labels)
        model = Model(loaded)
        self.examples = marked_rows(model, self.training, reading=settings)
        self.tell(model.limit)
        # Looked at now, so that what cannot be read is refused before anything is written.
        self.chosen_by = marked_rows(model, self.validation, reading=settings)
        targets = self.task.targets(self.training, self.examples)
        self.objective = Tagged(loaded.network, self.examples, targets=targets, freeze=settings.freeze)
        if not sum(self.objective.counts):
            raise DataError(f"{settings.data}: no word has a piece in the model's vocabulary, to learn from")
        self.ready(loaded, self.objective)

    def read(self) -> tuple[list[Sentence], list[Sentence]]:
        """Sentences to learn from and to choose by."""
        settings = self.settings
        found = read_tagged(settings.data, settings, format=settings.format)
        self.notes.append(found.note)
        labels_of(found.sentences)  # that there are entities is said before what the split needs
        if settings.validation:
            aside = read_tagged(settings.validation, settings, format=settings.format)
            self.notes.append(aside.note)
            known = {row.text for row in found.sentences}
            if both := sum(row.text in known for row in aside.sentences):
                self.notes.append(
                    f"{both} of {len(aside.sentences)} validation sentences stand among the training ones too"
                )
            refuse_unknown(found.sentences, aside.sentences)
            return found.sentences, aside.sentences
        rows, twice = without_duplicates(found.sentences)
        if twice.dropped:
            other = f", {twice.contradicting} of them with other tags" if twice.contradicting else ""
            self.notes.append(f"{twice.dropped} rows repeat a sentence{other}; the first of each is used")
        what = counted(len(rows), "sentence")
        return tenth_aside(cast(list[Sentence], rows), seed=settings.seed, what=what, data=settings.data)

    def tell(self, limit: int | None) -> None:
        """Say what was cut, or read in windows."""
        examples = [one.example for one in self.examples]
        if cut := sum(example.dropped > 0 for example in examples):
            words = sum(one.cut for one in self.examples)
            self.notes.append(
                f"{cut} of {len(examples)} sentences are cut to the model's {limit} tokens, which loses "
                f"{counted(words, 'word')}"
            )
        if several := sum(len(example.windows) > 1 for example in examples):
            count = sum(len(example.windows) for example in examples)
            self.notes.append(f"{several} of {len(examples)} sentences are read in windows, {count} in all")

    def data(self) -> str:
        """SHA-256 of all sentences and tags, and of which are learned from and which chosen by."""
        return place.digest_of_rows(self.training, self.validation)

    def resolved(self) -> dict[str, Any]:
        """What its settings came to."""
        return {
            "training_texts": len(self.training),
            "validation_texts": len(self.validation),
            "training_words": sum(self.objective.counts),
            "labels": list(self.task.labels),
            "problem": str(self.task.problem),
        }

    def made(self) -> str:
        """What its outputs will be."""
        types = self.task.types
        return f"entities: {', '.join(types[:8])}{' …' if len(types) > 8 else ''}"

    def evaluation(self) -> TagMetrics:
        """The metrics on the validation sentences."""
        return self.evaluated().metrics

    def evaluated(self) -> TagEvaluation:
        """The model as it stands on the validation sentences."""
        asking, examples = self.asking(), self.chosen_by
        return evaluate_sentences(self.model, self.validation, settings=asking, examples=examples)

    def asking(self) -> Asking:
        """How sentences are read."""
        settings = self.settings
        budget = max(2048, settings.batch_tokens)
        return Asking(batch_tokens=budget, long=settings.long, stride=settings.stride)

    def value_of(self, metrics: TagMetrics) -> float:
        """The score that was asked for."""
        return -metrics.loss if self.metric == "loss" else float(getattr(metrics, self.metric))

    def share(self) -> float:
        """By characters."""
        sizes = [sum(len(row.text) for row in rows) for rows in (self.validation, self.training)]
        return sizes[0] / max(1, sizes[1])

    def card(self) -> bool:
        """Write the model card."""
        return write_tag_card(self)


def labels_of(rows: Sequence[Sentence]) -> tuple[str, ...]:
    """O, then B- and I- of each type, by name; DataError where there is no entity."""
    types = sorted({parts(tag)[1] for row in rows for tag in row.labels or ()} - {""})
    if not types:
        raise DataError(f"{rows[0].file}: every tag is O; give sentences with some entities")
    return ("O", *(f"{prefix}-{kind}" for kind in types for prefix in "BI"))


def refuse_unknown(rows: Sequence[Sentence], others: Sequence[Sentence]) -> None:
    """DataError at the first sentence to choose by with a type that none to learn from has."""
    Tags(labels_of(rows)).named(others)


def starting_tagger(settings: Tagging, rows: Sequence[Sentence], *, labels: tuple[str, ...]) -> Loaded:
    """The model before its first step; a head that already has exactly these labels, in order, is kept, any
    other is made new from the seed."""
    if settings.base == "new":
        head = tokens_head(Head(len(labels), dense=False), Over.TOKENS, labels=len(labels))
        loaded = new_encoder(settings, [row.text for row in rows], head=head)
        return replace(loaded, labels=labels, problem=Problem.TAGS)
    loaded = read_folder(locate(settings.base), settings)
    refuse_translator(loaded, settings)
    network = loaded.network
    if network.config.causal:
        raise SettingError(
            f"--from {settings.base} is a decoder, which does not see what follows a word; give an encoder"
        )
    if loaded.problem is Problem.TAGS and loaded.labels == labels:
        return loaded
    if loaded.problem is Problem.TAGS and network.head_facts:
        facts = replace(network.head_facts, labels=len(labels))
    else:
        facts = tokens_head(loaded.new_head, Over.TOKENS, labels=len(labels))
    with_head(network, facts, seed=settings.seed)
    return replace(loaded, labels=labels, problem=Problem.TAGS)
