"""Files of words, with their tags or without: CoNLL and JSONL."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from clearhead.data.read import form_by_ending, records
from clearhead.data.rows import Row, bare_name, column_of, name_of
from clearhead.data.schemes import WrongTag, as_bio, check_tags, scheme_of
from clearhead.data.source import ended, opened, refuse_half_characters, without_end
from clearhead.data.wording import counted, place, short
from clearhead.errors import DataError
from clearhead.settings import Empty, Sentences, at_home

ENDINGS = (".conll", ".conll03", ".iob", ".iob2", ".bio")
TOKENS, TAGS = ("tokens", "words"), ("tags", "ner_tags", "labels")
DOCUMENT = "-DOCSTART-"  # begins a line that begins a document (CoNLL 2003)
NO_WORDS = "holds no words; write at least one, or take the row out"
EXAMPLE = '{"tokens": ["Ada", "waits"], "tags": ["B-PERSON", "O"]}'
Lines = Sequence[tuple[int, str]]  # with their numbers


@dataclass(frozen=True)
class Sentence(Row):
    """Words, one after another; `text` is all of them with a space between two.

    `labels` are their tags in BIO, in order, as often as they occur; None where the file has none. `words` is
    None for a text of which no words are given: it is what the model's tokenizer makes them.
    """

    words: tuple[str, ...] | None = None

    @classmethod
    def of(cls, words: Sequence[str], tags: Sequence[str] | None, *, file: str, row: int) -> "Sentence":
        """A sentence of these words."""
        label = None if tags is None else " ".join(tags)
        labels = None if tags is None else tuple(tags)
        return cls(" ".join(words), label, file, row, {}, labels, words=tuple(words))


@dataclass(frozen=True)
class TaggedFile:
    """The sentences of a file, the scheme that their tags were in, and how many were left out."""

    sentences: list[Sentence]
    scheme: str
    skipped: int

    @property
    def note(self) -> str:
        """What a person should know."""
        file = self.sentences[0].file
        read = "" if self.scheme == "BIO" else ", read as BIO"
        left = f"; left out as unusable: {self.skipped}" if self.skipped else ""
        return f"{file}: {counted(len(self.sentences), 'sentence')}, tags in {self.scheme}{read}{left}"


class Bad(Exception):
    """A sentence that cannot be used: the number of the word, from 0, or None for all of it; what; fix."""

    def __init__(self, word: int | None, said: str):
        super().__init__(said)
        self.word = word


def is_conll(path: str, format: str | None) -> bool:
    """Whether a file holds a word a line."""
    named = path.lower().removesuffix(".gz").endswith(ENDINGS)
    return format == "conll" or (format is None and named)


def read_tagged(path: str | Path, reading: Sentences, *, format: str | None = None) -> TaggedFile:
    """The sentences of a file with their tags as BIO, in order. A row is a sentence, counted from 1.

    CoNLL: a word a line, first column the word, last its tag, whatever stands between; columns end at tabs
    or, in a line without one, at spaces. Blank lines end sentences; lines that begin with -DOCSTART- do, and
    are left out. JSONL: a list of words and a list of tags. Which scheme the tags are in, the whole file
    tells (`scheme_of`).

    DataError, with file, row and line, for what cannot be used; with `skip_bad_rows` such sentences are left
    out and counted.
    """
    found: list[tuple[Sentence, tuple[int, ...]]] = []
    skipped = 0

    def refuse(sentence: Sentence, lines: Sequence[int], *, bad: Bad) -> None:
        nonlocal skipped
        if not reading.skip_bad_rows:
            raise DataError(f"{_where(sentence, lines, word=bad.word)}: {bad}") from None
        skipped += 1

    for sentence, lines, tags in _read(path, reading, format=format):
        try:
            words = _checked(sentence.words or ())
            names = _names(tags or (), words)
            if not words:
                raise Bad(None, NO_WORDS)
            found.append((Sentence.of(words, names, file=sentence.file, row=sentence.row), lines))
        except Bad as bad:
            refuse(sentence, lines, bad=bad)
    scheme = scheme_of(one.labels or () for one, _ in found)
    rows = []
    for sentence, lines in found:
        try:
            spelled = as_bio(sentence.labels or (), scheme)
            rows.append(replace(sentence, label=" ".join(spelled), labels=spelled))
        except WrongTag as wrong:
            refuse(sentence, lines, bad=Bad(wrong.place, str(wrong)))
    if not rows:
        left = f" ({counted(skipped, 'sentence')} left out as unusable)" if skipped else ""
        raise DataError(f"{path}: holds no tagged sentence{left}; give a file with at least one")
    return TaggedFile(rows, scheme, skipped)


def read_words(
    path: str | Path, reading: Sentences, *, format: str | None = None, empty: Empty = "error"
) -> list[Sentence]:
    """The sentences of a file whose words are given, to be tagged; what else stands in a row is kept. One
    without words is refused, or kept where `empty` is "skip"."""
    found = []
    for sentence, lines, _ in _read(path, reading, format=format, tagged=False):
        try:
            words = _checked(sentence.words or ())
            if not words and empty == "error":
                raise Bad(None, f"{NO_WORDS}, or go on without it with --empty skip")
        except Bad as bad:
            raise DataError(f"{_where(sentence, lines, word=bad.word)}: {bad}") from None
        found.append(replace(sentence, text=" ".join(words)))
    if not found:
        raise DataError(f"{path}: holds no sentence; give a file with at least one")
    return found


def _where(sentence: Sentence, lines: Sequence[int], *, word: int | None) -> str:
    found = place(sentence.file, sentence.row)
    if lines:
        return f"{found}, line {lines[word or 0]}"
    return found if word is None else f"{found}, word {word + 1}"


def _checked(words: Sequence[object]) -> list[str]:
    """Words that can be joined by spaces and found again; `Bad` for others."""
    found = []
    for number, word in enumerate(words):
        if not isinstance(word, str):
            raise Bad(number, f"{short(name_of(word))} is not a word; write it as a string, in quotes")
        if not word:
            raise Bad(number, "the word is empty; write it, or take it out with its tag")
        if any(sign.isspace() for sign in word):
            raise Bad(number, f"the word {short(repr(word))} holds white space; make it two, each with a tag")
        found.append(word)
    return found


def _names(tags: Sequence[object], words: Sequence[str]) -> list[str]:
    """The tags of words, without the space around them, as they will be read from a model's folder; `Bad`
    for what is none, or does not fit the words."""
    if len(tags) != len(words):
        had = f"{counted(len(words), 'word')} and {counted(len(tags), 'tag')}"
        raise Bad(None, f"{had}; give each word one tag")
    found = []
    for number, tag in enumerate(tags):
        if tag is None:
            raise Bad(number, "has no tag; write one (in CoNLL: the word, a tab or a space, and its tag)")
        if not isinstance(tag, str):
            raise Bad(number, f"the tag {short(name_of(tag))} is no name; write names, such as B-PERSON")
        found.append(bare_name(tag))
    try:
        check_tags(found)
    except WrongTag as wrong:
        raise Bad(wrong.place, str(wrong)) from None
    return found


Found = tuple[Sentence, tuple[int, ...], list[object] | None]


def _read(
    path: str | Path, reading: Sentences, *, format: str | None, tagged: bool = True
) -> Iterator[Found]:
    """Each sentence of a file, unchecked, with the lines of its words and their tags as they stand."""
    given = at_home(str(path))
    if is_conll(given, format):
        yield from _conll(given, tagged=tagged)
        return
    if (format or form_by_ending(given)) != "jsonl":
        raise DataError(
            f"{given}: tagged words are read from CoNLL ({' '.join(ENDINGS)}) and .jsonl files; say which "
            "with --format conll or jsonl"
        )
    found = records(given, format="jsonl")
    first = next(found)
    words = column_of(first, reading.tokens_column, usual=TOKENS, role="tokens", taken={})
    tags = None
    if tagged:
        tags = column_of(first, reading.tags_column, usual=TAGS, role="tags", taken={words: "tokens"})
    for record in chain([first], found):
        lists = []
        for name in (words, *([tags] if tags else [])):
            value = record.values.get(name)
            if not isinstance(value, list):
                where = place(record.file, record.row, column=name)
                said = short(name_of(value)) if name in record.values else "nothing"
                raise DataError(f"{where}: holds {said}, not a list; write {EXAMPLE}")
            lists.append(value)
        extra = {name: value for name, value in record.values.items() if name not in (words, tags)}
        sentence = Sentence("", None, record.file, record.row, extra, words=tuple(lists[0]))
        yield sentence, (), lists[1] if tags else None


def _conll(given: str, *, tagged: bool) -> Iterator[Found]:
    file = "standard input" if given == "-" else given
    with opened(given, file, newline="\n") as lines:
        for row, some in enumerate(_groups(ended(lines, file)), start=1):
            numbers, words, tags = list[int](), list[str](), list[object]()
            for number, line in some:
                refuse_half_characters(line, f"{place(file, row)}, line {number}", line=line)
                columns = line.split("\t") if "\t" in line else re.split(" +", line.strip(" "))
                numbers.append(number)
                words.append(columns[0])
                tags.append(columns[-1].strip() if len(columns) > 1 else None)
            extra: dict[str, object] = {"tags": tags} if any(tags) else {}
            sentence = Sentence("", None, file, row, extra, words=tuple(words))
            yield sentence, tuple(numbers), tags


def _groups(lines: Iterator[str]) -> Iterator[Lines]:
    """The lines of each sentence, without their ends."""
    group: list[tuple[int, str]] = []
    for number, line in enumerate(lines, start=1):
        bare = without_end(line)
        if bare.strip() and not bare.startswith(DOCUMENT):
            group.append((number, bare))
        elif group:
            yield group
            group = []
    if group:
        yield group
