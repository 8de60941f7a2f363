"""Tags of words: one label for each word of a text, and the entities that they spell.

A word is told by its first piece: that is learned from, and asked (Devlin et al. 2018, section 5.3).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.checkpoint.labels import Problem
from clearhead.data.labels import check_known
from clearhead.data.schemes import ENDS, OUTSIDE, Place, loosely, places, spelled
from clearhead.data.sentences import Sentence
from clearhead.tasks.examples import Example
from clearhead.tasks.scores_tags import TagMetrics, measure_tags
from clearhead.text.encoding import Span
from clearhead.text.tokenizer import Tokenizer

IGNORED = -100  # the label of what is not learned from, as published


@dataclass(frozen=True)
class Word:
    """A word and the tag it got, with the tag's probability; one that has no piece, or was cut off, is O
    without one. `text[start:end]` is the word."""

    text: str
    tag: str
    score: float | None
    start: int
    end: int


@dataclass(frozen=True)
class Entity:
    """Words of one kind, side by side: `text[start:end]` of the original. `score` is the mean of the
    probabilities of its words' tags."""

    text: str
    label: str
    score: float
    start: int
    end: int


@dataclass(frozen=True)
class TagResult:
    """The answer for one text. `tokens` went through the model in `windows`, `dropped` did not fit, and
    `dropped_words` words began among these, which are O unasked. A text that was skipped has no words."""

    entities: tuple[Entity, ...]
    words: tuple[Word, ...]
    tokens: int
    dropped: int
    dropped_words: int = 0
    windows: int = 1


@dataclass(frozen=True)
class Marked:
    """A text as ids, and where its words are: their characters, and the window and the row in it of each
    one's first piece; None for a word without one, or whose first piece was cut off."""

    example: Example
    text: str
    words: tuple[Span, ...]
    places: tuple[tuple[int, int] | None, ...]
    cut: int = 0  # words whose first piece was cut off


def marked(
    examples: Sequence[Example], texts: Sequence[str], *, words: Sequence[Sequence[str] | None],
    tokenizer: Tokenizer,
) -> list[Marked]:  # fmt: skip
    """Texts with the places of their words; where none are given, they are those of `own_words`."""
    found = []
    wholes = tokenizer.taken_apart(list(texts))
    for example, text, given, ((content,), _) in zip(examples, texts, words, wholes, strict=True):
        pieces = Pieces(text, content.offsets, partial(tokenizer.words, text))
        spans, firsts = pieces.own_words() if given is None else pieces.of_words(spans_of(given))
        seen = Windows.of(example, len(content.ids), side=tokenizer.truncation_side)
        where = tuple(None if first is None else seen.place(first) for first in firsts)
        cut = sum(first is not None and there is None for first, there in zip(firsts, where, strict=True))
        found.append(Marked(example, text, tuple(spans), where, cut))
    return found


def spans_of(words: Iterable[str]) -> list[Span]:
    """The characters of words that are joined by single spaces."""
    found, start = [], 0
    for word in words:
        found.append((start, start + len(word)))
        start += len(word) + 1
    return found


@dataclass(frozen=True)
class Pieces:
    """The tokens of a text: what each covers, and, where that matters, which word it is of."""

    text: str
    offsets: Sequence[Span]
    count: Callable[[], list[int]]

    @cached_property
    def numbers(self) -> list[int]:
        """The number of the word that each token is a piece of, by the tokenizer's own split."""
        return self.count()

    def written(self) -> Iterator[tuple[int, int, Span]]:
        """Each token that covers more than white space; the token that its word would begin with (itself, or
        a space before it that the tokenizer holds for a part of the same word); its characters."""
        space = None
        for token, (start, end) in enumerate(self.offsets):
            piece = self.text[start:end]
            bare = piece.strip()
            if not bare:
                if space is None or self.numbers[space] != self.numbers[token]:
                    space = token
                continue
            together = space is not None and self.numbers[space] == self.numbers[token]
            start += len(piece) - len(piece.lstrip())
            yield token, space if space is not None and together else token, (start, start + len(bare))
            space = None

    def of_words(self, words: Sequence[Span]) -> tuple[list[Span], list[int | None]]:
        """Given words and the first token of each, None for one without."""
        firsts: list[int | None] = [None] * len(words)
        word = 0
        for _, first, (start, _) in self.written():
            while word < len(words) and words[word][1] <= start:
                word += 1
            if word < len(words) and words[word][0] <= start and firsts[word] is None:
                firsts[word] = first
        return list(words), firsts

    def own_words(self) -> tuple[list[Span], list[int | None]]:
        """Words as the tokenizer splits a text before it looks for pieces, and wherever white space stands;
        and the first token of each."""
        spans: list[Span] = []
        firsts: list[int | None] = []
        last = -1
        for token, first, (start, end) in self.written():
            before = spans[-1][1] if spans else 0
            apart = any(sign.isspace() for sign in self.text[before:start])
            if not spans or (start >= before and (apart or self.numbers[token] != self.numbers[last])):
                spans.append((start, end))
                firsts.append(first)
            else:
                spans[-1] = (spans[-1][0], max(before, end))
            last = token
        return spans, firsts


@dataclass(frozen=True)
class Windows:
    """Where the windows of a text begin and end among its tokens, and how many stand before them there."""

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    before: int

    @classmethod
    def of(cls, example: Example, tokens: int, *, side: str) -> "Windows":
        """Those of an example of a text of so many tokens: windows begin at equal steps, all but the last are
        full; what was cut off stood at this side."""
        lengths = [sum(source >= 0 for source in window.sources) for window in example.windows]
        first = example.windows[0]
        before = next((place for place, source in enumerate(first.sources) if source >= 0), 0)
        if len(lengths) == 1:
            start = first.dropped if side == "left" else 0
            return cls((start,), (start + lengths[0],), before)
        step = (tokens - lengths[-1]) // (len(lengths) - 1)
        starts = tuple(step * number for number in range(len(lengths)))
        return cls(starts, tuple(map(sum, zip(starts, lengths, strict=True))), before)

    def place(self, token: int) -> tuple[int, int] | None:
        """The window in which a token is furthest from the nearer edge, of equals the first; and its row."""
        best = None
        for window, (start, end) in enumerate(zip(self.starts, self.ends, strict=True)):
            if start <= token < end:
                room = min(token - start, end - 1 - token)
                if best is None or room > best[0]:
                    best = room, window, token - start + self.before
        return best and best[1:]


def by_window(examples: Sequence[Marked]) -> list[tuple[list[int], list[int]]]:
    """For each window of these texts, one after another: the rows that are asked in it, and the numbers of
    the words they stand for, counted over all texts."""
    found: list[tuple[list[int], list[int]]] = []
    count = 0
    for example in examples:
        here: list[tuple[list[int], list[int]]] = [([], []) for _ in example.example.windows]
        for place in example.places:
            if place is not None:
                here[place[0]][0].append(place[1])
                here[place[0]][1].append(count)
            count += 1
        found += here
    return found


@dataclass(frozen=True)
class Tags:
    """The task for a model with these labels, in the order of its outputs."""

    labels: tuple[str, ...]
    name: str = "tag"
    problem: Problem = Problem.TAGS

    @property
    def scheme(self) -> str:
        """How its labels spell entities."""
        prefixes = {label[:1] for label in self.labels if label[1:2] == "-"}
        return next((scheme for scheme, ends in ENDS.items() if prefixes.intersection(ends)), "BIO")

    @property
    def types(self) -> tuple[str, ...]:
        """The kinds of entities, in the order of its labels."""
        return tuple(dict.fromkeys(kind for _, kind, _ in map(loosely, self.labels) if kind))

    def named(self, rows: Sequence[Sentence]) -> list[Sentence]:
        """Sentences with tags as the labels spell them; DataError at the first that is not one of these."""
        found = [replace(row, labels=spelled(row.labels or (), self.scheme)) for row in rows]
        check_known(found, self.labels)
        return found

    def targets(self, rows: Sequence[Sentence], examples: Sequence[Marked]) -> Int[Tensor, " words"]:
        """The number of each word's label, −100 for words that are not asked; all words in a row."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        found = [
            IGNORED if place is None else numbers[tag]
            for row, example in zip(self.named(rows), examples, strict=True)
            for tag, place in zip(row.labels or (), example.places, strict=True)
        ]
        return torch.tensor(found, dtype=torch.long)

    def results(self, logits: Float[Tensor, "words labels"], examples: Sequence[Marked]) -> list[TagResult]:
        """One result a text, in order; the logits are those of all words, one after another."""
        shares = iter(logits.double().softmax(-1).tolist())
        return [self.result(example, [next(shares) for _ in example.words]) for example in examples]

    def result(self, one: Marked, shares: Sequence[Sequence[float]]) -> TagResult:
        """The result of a text from the probabilities of each word's labels."""
        words = []
        for (start, end), place, row in zip(one.words, one.places, shares, strict=True):
            best = max(range(len(row)), key=row.__getitem__)
            tag, score = (OUTSIDE, None) if place is None else (self.labels[best], row[best])
            words.append(Word(one.text[start:end], tag, score, start, end))
        entities = tuple(entity(one.text, words, place=place) for place in places([w.tag for w in words]))
        example = one.example
        windows = len(example.windows)
        return TagResult(entities, tuple(words), example.tokens, example.dropped, one.cut, windows)

    def skipped(self) -> TagResult:
        """The result of a text that was not asked about."""
        return TagResult((), (), 0, 0)

    def metrics(
        self, rows: Sequence[Sentence], results: Sequence[TagResult], *, nats: float, asked: int
    ) -> TagMetrics:
        """How well answers agree with what is right; `nats` is the loss of the words that were asked."""
        right = [row.labels or () for row in self.named(rows)]
        said = [[word.tag for word in result.words] for result in results]
        same = sum(
            one == other
            for tags, others in zip(right, said, strict=True)
            for one, other in zip(tags, others, strict=True)
        )
        return measure_tags(
            [places(tags) for tags in right], [places(tags, strict=True) for tags in said],
            types=self.types, words=sum(map(len, right)), same=same, loss=nats / max(1, asked),
        )  # fmt: skip


def entity(text: str, words: Sequence[Word], *, place: Place) -> Entity:
    """The entity of some words."""
    some = words[place.begin : place.end]
    start, end = some[0].start, some[-1].end
    score = sum(word.score or 0.0 for word in some) / len(some)
    return Entity(text[start:end], place.type, score, start, end)
