"""Counting the words of a stream of texts in bounded memory, the same from the same texts."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from heapq import nsmallest

KEPT = 250_000  # distinct words
LONGEST = 256  # characters; what is longer is no word but a blob, and one alone could take hours

# Texts are cut where white space begins: no splitter joins anything to the white space behind it. BERT's
# deletes three of Unicode's white-space characters, and joins what stands around them; no cut is made there.
SPACE, DELETED = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000", r"\x0b\x0c\x85"
CHUNK = re.compile(rf"[{SPACE}]*+(?:[^{SPACE}]++(?:[{DELETED}][{SPACE}]*+)?+)++|[{SPACE}]++")
BORDER, PART = re.compile(r"(?<=\S) (?=\S)"), 2**20  # where long texts may be cut, and to how many characters
LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def count_words(texts: Iterable[str], split: Callable[[str], Iterable[str]]) -> list[tuple[str, int]]:
    """How often each word occurs, in the order of the words; `split` takes a piece of text apart.

    Only counts are held, and at most twice `KEPT` of them: where there are more, the `KEPT` most frequent
    stay (of equally frequent ones the first in order). Words longer than `LONGEST` are left out.
    """
    words: Counter[str] = Counter()
    chunks: Counter[str] = Counter()
    for text in texts:
        chunks.update(map(re.Match.group, CHUNK.finditer(clean(text))))
        if len(chunks) > KEPT:
            words = _split(chunks, words, split=split)
            chunks.clear()
    return sorted(_split(chunks, words, split=split).items())


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


def _split(
    chunks: Counter[str], words: Counter[str], *, split: Callable[[str], Iterable[str]]
) -> Counter[str]:
    for chunk, count in chunks.items():
        for word in split(chunk):
            if len(word) <= LONGEST:
                words[word] += count
                if len(words) > 2 * KEPT:
                    kept = nsmallest(KEPT, words.items(), key=lambda entry: (-entry[1], entry[0]))
                    words = Counter(dict(kept))
    return words
