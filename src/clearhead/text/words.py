"""Counting the words of a stream of texts in bounded memory, the same from the same texts."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import nsmallest

KEPT = 250_000  # distinct words
LONGEST = 256  # characters; what is longer is no word but a run, and one alone could take hours
PIECES = 16_000  # distinct pieces of such runs, each of which takes the room of dozens of words
HELD = 2**26  # characters

# Texts are cut where white space begins: no splitter joins anything to the white space behind it. BERT's
# deletes three of Unicode's white-space characters, and joins what stands around them; no cut is made there.
SPACE, DELETED = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000", r"\x0b\x0c\x85"
CHUNK = re.compile(rf"[{SPACE}]*+(?:[^{SPACE}]++(?:[{DELETED}][{SPACE}]*+)?+)++|[{SPACE}]++")
BORDER, PART = re.compile(r"(?<=\S) (?=\S)"), 2**20  # where long texts may be cut, and to how many characters
LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass
class Counts:
    """Words, pieces of longer runs, and what was left out."""

    words: Counter[str] = field(default_factory=Counter)
    pieces: Counter[str] = field(default_factory=Counter)
    characters: int = 0
    left: int = 0  # of these characters
    runs: int = 0  # that were left out, or a part of them

    def ordered(self) -> list[tuple[str, int]]:
        """How often each word and piece occurs, in their order."""
        return sorted((self.words + self.pieces).items())


def count_words(
    texts: Iterable[str], split: Callable[[str], Iterable[str]], *, longest: int | None = None
) -> Counts:
    """How often each word occurs; `split` takes a piece of text apart.

    Only counts are held, and at most twice `KEPT` of them: where there are more, the `KEPT` most frequent
    stay (of equally frequent ones the first in order). Words longer than `longest` are left out; without it
    those longer than `LONGEST` are counted in pieces, and left out where they have more than `PIECES`.
    """
    counts, held = Counts(), 0
    chunks: Counter[str] = Counter()
    for text in texts:
        chunks.update(map(re.Match.group, CHUNK.finditer(clean(text))))
        held += len(text)
        if len(chunks) > KEPT or held > HELD:
            _count(chunks, counts, split=split, longest=longest)
            chunks.clear()
            held = 0
    _count(chunks, counts, split=split, longest=longest)
    return counts


def clean(text: str) -> str:
    """A text that can be written in UTF-8: half a character is U+FFFD."""
    return LONE_SURROGATE.sub("\ufffd", text)


def parts(text: str) -> Iterator[str]:
    """A text in parts of about a million characters, each but the first with the space before it."""
    start = 0
    while len(text) - start > PART and (border := BORDER.search(text, start + PART)):
        yield text[start : border.start()]
        start = border.start()
    yield text[start:]


def _count(
    chunks: Counter[str], counts: Counts, *, split: Callable[[str], Iterable[str]], longest: int | None
) -> None:
    for chunk, count in chunks.items():
        for word in split(chunk):
            counts.characters += count * len(word)
            if len(word) <= (longest or LONGEST):
                counts.words[word] += count
                if len(counts.words) > 2 * KEPT:
                    kept = nsmallest(KEPT, counts.words.items(), key=lambda entry: (-entry[1], entry[0]))
                    counts.words = Counter(dict(kept))
                continue
            left = 0
            for start in range(0, len(word), LONGEST):
                piece = word[start : start + LONGEST]
                if longest is None and (piece in counts.pieces or len(counts.pieces) < PIECES):
                    counts.pieces[piece] += count
                else:
                    left += len(piece)
            counts.left += count * left
            counts.runs += count if left else 0
