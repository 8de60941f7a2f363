"""Byte pair encoding: the tokens of a text after some merges."""

from collections import Counter
from itertools import pairwise
from typing import Any

from clearhead.check.grading.exercise import Arguments, Exercise, Law, Random, Wrong, table
from clearhead.reference.bpe import END, Word, merged

MISTAKES = table(
    (
        "last-of-ties",
        "choice",
        "Of equally frequent pairs the one met last is merged.",
        "It is the one met first, reading the distinct words in the order in which they came.",
    ),
    (
        "rarest-pair",
        "choice",
        "The rarest pair is merged.",
        "It is the most frequent one.",
    ),
    (
        "first-pair",
        "choice",
        "The first pair is merged, however often it stands there.",
        "It is the most frequent one.",
    ),
    (
        "words-counted-once",
        "count",
        "Every distinct word counts once.",
        "A pair counts as often as it stands in the text: times the number of times its word came.",
    ),
    (
        "pair-once-a-word",
        "count",
        "A pair that stands in a word several times counts once there.",
        "It counts as often as it stands there.",
    ),
    (
        "no-end-mark",
        "mark",
        "Words have no mark for their end.",
        f"Every word ends with the token {END}, so that an ending differs from the same letters "
        "inside a word.",
    ),
    (
        "lower-cased",
        "case",
        "The text is written in small letters first.",
        "Characters are taken as they are.",
    ),
    (
        "across-words",
        "border",
        "Pairs reach from the end of one word into the next.",
        "A pair lies within one word.",
    ),
    (
        "first-place-only",
        "merge",
        "A pair is merged only where it first stands in a word.",
        "It is merged everywhere.",
    ),
    (
        "one-merge-too-many",
        "number",
        "One merge more is made.",
        "There are num_merges of them.",
    ),
    (
        "one-merge-too-few",
        "number",
        "One merge less is made.",
        "There are num_merges of them.",
    ),
    (
        "distinct-words-only",
        "result",
        "The tokens of every distinct word are counted once.",
        "A token's number is that of the text: a word's tokens count as often as the word came.",
    ),
)


def twin(arguments: Arguments, wrong: Wrong) -> dict[str, int]:
    text, merges = arguments
    merges += int("one-merge-too-many" in wrong) - int("one-merge-too-few" in wrong)
    words = text.lower().split() if "lower-cased" in wrong else text.split()
    mark = () if "no-end-mark" in wrong else (END,)
    if "across-words" in wrong:
        words = [tuple(token for word in words for token in (*word, *mark))]
        counted: dict[Word, int] = {words[0]: 1}
    else:
        counted = dict(Counter((*word, *mark) for word in words))
    for _ in range(merges):
        counts = pair_counts(counted, wrong)
        if not counts:
            break
        best = chosen(counts, wrong)
        joined: Counter[Word] = Counter()
        for word, count in counted.items():
            joined[merge(word, best, once="first-place-only" in wrong)] += count
        counted = dict(joined)
    tokens: Counter[str] = Counter()
    for word, count in counted.items():
        for token in word:
            tokens[token] += 1 if "distinct-words-only" in wrong else count
    return dict(tokens)


def pair_counts(words: dict[Word, int], wrong: Wrong) -> dict[tuple[str, str], int]:
    """How often each pair is met, in the order of meeting."""
    counts: Counter[tuple[str, str]] = Counter()
    for word, count in words.items():
        found = list(pairwise(word))
        for pair in dict.fromkeys(found) if "pair-once-a-word" in wrong else found:
            counts[pair] += 1 if "words-counted-once" in wrong else count
    return counts


def chosen(counts: dict[tuple[str, str], int], wrong: Wrong) -> tuple[str, str]:
    """The pair to merge."""
    if "first-pair" in wrong:
        return next(iter(counts))
    if "rarest-pair" in wrong:
        return min(counts, key=counts.__getitem__)
    order = reversed(list(counts)) if "last-of-ties" in wrong else counts
    return max(order, key=counts.__getitem__)


def merge(word: Word, pair: tuple[str, str], *, once: bool) -> Word:
    """A word with the pair as one token, everywhere or once."""
    found: list[str] = []
    place, left = 0, 1 if once else len(word)
    while place < len(word):
        together = left > 0 and tuple(word[place : place + 2]) == pair
        found.append("".join(pair) if together else word[place])
        left -= together
        place += 2 if together else 1
    return tuple(found)


def form(answer: Any) -> dict[str, int]:
    """Tokens with their counts; of (tokens, vocabulary), the first."""
    if isinstance(answer, list | tuple) and answer and isinstance(answer[0], dict):
        answer = answer[0]
    if not isinstance(answer, dict):
        raise ValueError(
            "a dictionary from every token to its number was expected, alone or as the first of two"
        )
    try:
        return {str(token): int(count) for token, count in answer.items()}
    except (TypeError, ValueError):
        raise ValueError("the number of every token was expected to be a whole number") from None


def inputs(random: Random, size: int) -> Arguments:
    letters = "ab" if size < 3 else "abA" if size < 6 else "abcdB"
    count = [1, 2, 2, 3, 4, 5, 6, 8, 10][size]
    longest = min(2 + size, 7)
    known = ["".join(random.choice(list(letters), size=random.integers(1, longest))) for _ in range(count)]
    words = [*known, *random.choice(known, size=size)]
    return (" ".join(words), int(random.integers(0, size + 2)))


TOKENIZE = Exercise(
    name="tokenize",
    accepts=("tokenize", "bpe", "byte_pair_encoding"),
    parameters=("text", "num_merges"),
    contract=(
        "text is split at white space; every word is its characters and the end mark </w>. "
        "num_merges times (or "
        "until there is no pair) the most frequent pair of neighbours becomes one token; of equally "
        "frequent ones "
        "the pair met first. The result is a dictionary from each token to its number in the text; a second "
        "result, the vocabulary of words, is welcome and not looked at."
    ),
    equation="merge argmax over pairs (a, b) of count(a b), num_merges times",
    source=(
        "Sennrich et al. 2016, algorithm 1; Prince, Understanding Deep Learning, figure 12.8, notebook 12.3"
    ),
    right=lambda text, num_merges: merged(text, num_merges).tokens,
    twin=twin,
    inputs=inputs,
    mistakes=MISTAKES,
    laws=(
        Law(
            "the tokens, put together, have as many characters as the text",
            lambda arguments, first, _: (
                sum(len(token.replace(END, "")) * count for token, count in first.items())
                == len("".join(arguments[0].split()))
            ),
        ),
        Law(
            "the end mark stands as often as there are words",
            lambda arguments, first, _: (
                sum(count for token, count in first.items() if token.endswith(END))
                == len(arguments[0].split())
            ),
        ),
    ),
    form=form,
    starter="""\
def tokenize(text, num_merges):
    # 1. Split the text into words, and every word into its characters and "</w>"
    # 2. num_merges times: count pairs, merge the most frequent one
    # 3. Count the tokens
    # Replace this line
    tokens = {}
    return tokens
""",
)
EXERCISES = (TOKENIZE,)
