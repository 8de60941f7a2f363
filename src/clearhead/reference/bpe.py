"""Byte pair encoding: a vocabulary grows by merging the pair of neighbouring tokens that is met most often.

Words are what white space separates. A word begins as its characters and a mark for its end; no pair reaches
from one word into the next.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

END = "</w>"
Word = tuple[str, ...]


class Merge(NamedTuple):
    """Two tokens that became one, and how often they stood side by side."""

    pair: tuple[str, str]
    times: int


class Merged(NamedTuple):
    """What a text has become: its tokens and its words with their counts, and the merges."""

    tokens: dict[str, int]
    words: dict[Word, int]
    merges: tuple[Merge, ...]


def merged(text: str, merges: int) -> Merged:
    """The text after this many merges, or as many as there are pairs for.

    The most frequent pair is merged, of several the one that was met first, reading the distinct words in
    the order in which they first came and each from left to right.
    Source: Sennrich et al. 2016, section 3.2 and algorithm 1; Prince, notebook 12.3.
    """
    words = {(*word, END): count for word, count in Counter(text.split()).items()}
    done: list[Merge] = []
    for _ in range(merges):
        counts = pairs(words)
        if not counts:
            break
        best = max(counts, key=counts.__getitem__)
        done.append(Merge(best, counts[best]))
        words = {joined(word, best): count for word, count in words.items()}
    return Merged(tokens_of(words), words, tuple(done))


def pairs(words: dict[Word, int]) -> dict[tuple[str, str], int]:
    """How often each two tokens stand side by side, in the order in which they are met."""
    counts: Counter[tuple[str, str]] = Counter()
    for word, count in words.items():
        for pair in pairwise(word):
            counts[pair] += count
    return dict(counts)


def joined(word: Sequence[str], pair: tuple[str, str]) -> Word:
    """A word in which the pair is one token wherever it stands, from left to right."""
    found: list[str] = []
    place = 0
    while place < len(word):
        together = tuple(word[place : place + 2]) == pair
        found.append("".join(pair) if together else word[place])
        place += 2 if together else 1
    return tuple(found)


def tokens_of(words: dict[Word, int]) -> dict[str, int]:
    """Every token with how often it stands in the text."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for token in word:
            counts[token] += count
    return dict(counts)
