"""Texts → tags of their words and entities, by a model that tags; and how well those of a file are found."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.data.read import form_by_ending, records
from clearhead.data.rows import Row, read_rows
from clearhead.data.rows import named as columns_named
from clearhead.data.sentences import TOKENS, Sentence, is_conll, read_tagged, read_words
from clearhead.data.wording import place
from clearhead.engine.modes import own_modes
from clearhead.errors import DataError, SettingError
from clearhead.infer.batches import batches_of, check_encodings, finite
from clearhead.model.layout import Layout
from clearhead.settings import Asking, flag
from clearhead.tasks.examples import examples_of
from clearhead.tasks.scores_tags import TagMetrics
from clearhead.tasks.tag import Marked, TagResult, Tags, by_window, marked

if TYPE_CHECKING:
    from clearhead.infer.model import Model


@dataclass(frozen=True, eq=False)
class TagEvaluation:
    """Metrics over the sentences of a file, with all that led to them."""

    metrics: TagMetrics
    rows: list[Sentence]
    results: list[TagResult]
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def truncated(self) -> int:
        """Sentences that did not fit whole."""
        return sum(result.dropped > 0 for result in self.results)

    @property
    def windowed(self) -> int:
        """Sentences that were read in several windows."""
        return sum(result.windows > 1 for result in self.results)


def task_of(model: "Model") -> Tags:
    """The task of a model that tags; SettingError for any other."""
    if not model.tags:
        raise SettingError(f"{model.name} does not tag words; train a model that does: clearhead train tag")
    return Tags(model.loaded.labels)


def asked_rows(layout: Layout, asked: Sequence[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor]:
    """The rows of a batch that are asked, and the numbers of the words they stand for; `asked` of each of
    its windows as in `by_window`."""
    pairs = list(zip(layout.slices, asked, strict=True))
    rows = [lying.start + row for lying, (rows, _) in pairs for row in rows]
    return torch.tensor(rows, dtype=torch.long), torch.tensor(
        [word for _, (_, words) in pairs for word in words], dtype=torch.long
    )


def word_logits(
    model: "Model", examples: Sequence[Marked], *, budget: int, where: Callable[[int], str]
) -> Float[Tensor, "words labels"]:
    """The logits of each word of these texts, one after another; zeros for those that are not asked. Raises
    `NotFinite`, saying `where`, at the first text whose logits are no numbers."""
    windows = [window for one in examples for window in one.example.windows]
    check_encodings(windows, model.config)
    asked = by_window(examples)
    owners = [index for index, one in enumerate(examples) for _ in one.words]
    found = torch.zeros(len(owners), len(model.loaded.labels), dtype=torch.float32)
    for members, batch in batches_of(windows, budget):
        rows, words = asked_rows(batch.layout, [asked[member] for member in members])
        found[words] = model.loaded.network.classify(batch)[rows].float()
    return finite(found, lambda word: where(owners[word]))


@own_modes()
def tag_rows(model: "Model", rows: Sequence[Row], *, settings: Asking) -> list[TagResult]:
    """One result a row, in order. A text of only white space, where it is let through, gets no words."""
    task = task_of(model)
    refuse_abstaining(settings)
    asked = [row for row in rows if not row.blank]
    examples = marked_rows(model, asked, reading=settings)
    logits = word_logits(model, examples, budget=settings.batch_tokens, where=places_of(asked))
    found = iter(task.results(logits, examples))
    return [task.skipped() if row.blank else next(found) for row in rows]


@own_modes()
def tag_texts(model: "Model", texts: Sequence[Any], *, settings: Asking) -> list[TagResult]:
    """One result a text, or list of words, in order."""
    return tag_rows(model, [row_of(text, number) for number, text in enumerate(texts)], settings=settings)


def row_of(text: Any, number: int) -> Row:
    """A text, or a list of words, as a row; DataError for anything else."""
    if isinstance(text, str):
        return Row(text, None, "text", number, {})
    if not isinstance(text, list | tuple) or not all(isinstance(word, str) for word in text):
        raise DataError(f"text {number} is {type(text).__name__}, not a string or a list of words")
    for word in text:
        if not word or any(sign.isspace() for sign in word):
            raise DataError(
                f"text {number} is a list with {word!r:.60} in it, which is no word; a list holds the words "
                "of one text, each without white space"
            )
    return Sentence(" ".join(text), None, "text", number, {}, words=tuple(text))


def places_of(rows: Sequence[Row]) -> Callable[[int], str]:
    """What messages call a row; texts that Python gave have no file."""
    return lambda index: named(rows[index])


def named(row: Row) -> str:
    """The place of a row in messages."""
    return f"text {row.row}" if row.file == "text" else place(row.file, row.row)


def marked_rows(model: "Model", rows: Sequence[Row], *, reading: Any) -> list[Marked]:
    """Rows with the places of their words."""
    examples = examples_of(rows, model.tokenizer, limit=model.limit, reading=reading)
    words = [row.words if isinstance(row, Sentence) else None for row in rows]
    return marked(examples, [row.text for row in rows], words=words, tokenizer=model.tokenizer)


def refuse_abstaining(settings: Asking) -> None:
    """Refuse what is for whole texts."""
    if settings.abstain_below is not None:
        raise SettingError("--abstain-below is for models with one label a text; this one tags words")


def rows_to_tag(path: str | Path, *, settings: Asking) -> list[Row]:
    """The rows of a file to predict: words where it holds such, else texts."""
    how, given = settings.format, str(path)
    for name in ("tags_column", "skip_bad_rows"):
        if getattr(settings, name):
            raise SettingError(
                f"{flag(name)} is for training and evaluation; predict answers each row as it is"
            )
    words = is_conll(given, how)
    if not words and settings.text_column is None and (how or form_by_ending(given)) == "jsonl":
        first = next(records(path, format="jsonl"))
        wanted = [settings.tokens_column] if settings.tokens_column else TOKENS
        words = any(isinstance(first.values[name], list) for name in columns_named(first.values, wanted))
    if words:
        return list(read_words(path, settings, format=how, empty=settings.empty))
    if settings.tokens_column is not None:
        raise SettingError(f"--tokens-column is for JSONL with lists of words; {given} holds none there")
    return read_rows(path, labelled=False, **settings.reading())


def evaluate_tags(model: "Model", data: str | Path, *, settings: Asking) -> TagEvaluation:
    """Evaluate a model that tags on a file of tagged sentences."""
    task_of(model)
    found = read_tagged(data, settings, format=settings.format)
    return evaluate_sentences(model, found.sentences, settings=settings, notes=(found.note,))


@own_modes()
def evaluate_sentences(
    model: "Model",
    rows: list[Sentence],
    *,
    settings: Asking,
    notes: tuple[str, ...] = (),
    examples: Sequence[Marked] | None = None,
) -> TagEvaluation:
    """The same of sentences that are read already or, with `examples`, encoded too."""
    start = perf_counter()
    task = task_of(model)
    refuse_abstaining(settings)
    examples = marked_rows(model, rows, reading=settings) if examples is None else examples
    targets = task.targets(rows, examples)
    logits = word_logits(model, examples, budget=settings.batch_tokens, where=places_of(rows))
    results = task.results(logits, examples)
    known = targets >= 0
    losses = torch.nn.functional.cross_entropy(logits[known].double(), targets[known], reduction="sum")
    metrics = task.metrics(rows, results, nats=float(losses), asked=int(known.sum()))
    return TagEvaluation(metrics, rows, results, perf_counter() - start, notes)
