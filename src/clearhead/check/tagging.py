"""The law of a model that tags: what `predict` says of each word is what the equations say."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clearhead.check.finding import RIGHT, SAME, TEXT, Finding, judged
from clearhead.check.samples import TEXTS
from clearhead.check.words import cut, stated_labels
from clearhead.infer.model import Model
from clearhead.reference import folder as reference
from clearhead.tasks.tag import TagResult, Word
from clearhead.text.tokenizer import Encoding

NEAR = 2e-5  # float32, of a probability


def tagging(model: Model, folder: Path) -> Iterator[Finding]:
    """The laws; `folder` holds the model."""
    given = [*TEXTS, TEXTS[0] * 300]
    together = model.predict(given[::-1])[::-1]
    alone = [model.predict([text])[0] for text in given]
    same = sum(one == other for one, other in zip(together, alone, strict=True))
    yield judged(
        SAME,
        "the tags of a text keep every bit in any company",
        holds=same == len(given),
        figure=f"{same} of {len(given)} texts the same",
        hint="an answer depends on the others: on their number or their order",
    )
    limit, whole, table = model.limit or 10**9, reference.read(folder), stated_labels(folder)
    table = table or {str(number): label for number, label in enumerate(model.loaded.labels)}
    numbers = {name: int(number) for number, name in table.items()}
    right = inside = words = 0
    for text, result in zip(given, alone, strict=True):
        assert isinstance(result, TagResult)
        encoding = model.tokenizer.encode([text])[0]
        ids, segments, dropped = cut(encoding, limit, side=model.tokenizer.truncation_side)
        kept = kept_of(encoding, dropped, side=model.tokenizer.truncation_side)
        logits = whole.logits(ids, segments)
        firsts = first_pieces(text, encoding, numbers=model.tokenizer.words(text))
        right += result.dropped == dropped and all(
            agrees(word, logits[kept.index(firsts[word.start])], best=numbers[word.tag])
            if firsts[word.start] in kept
            else (word.tag, word.score) == ("O", None)
            for word in result.words
        )
        spans = [(one.start, one.end, one.text) for one in result.words]
        spans += [(one.start, one.end, one.text) for one in result.entities]
        inside += all(text[start:end] == said != "" for start, end, said in spans)
        words += len(result.words)
    yield judged(
        RIGHT,
        "predict tags each word as the equations do (float32, within 2e-5)",
        holds=right == len(given),
        figure=f"{right} of {len(given)} texts, {words:,} words",
        hint="between the texts and the equations something is lost, or the wrong pieces are asked",
    )
    yield judged(
        TEXT,
        "words and entities are slices of the text that was given",
        holds=inside == len(given),
        figure=f"{inside} of {len(given)} texts",
        hint="offsets belong to a changed text",
    )


def kept_of(encoding: Encoding, dropped: int, *, side: str) -> list[int]:
    """The tokens of a whole text that are left where some are cut off."""
    content = [place for place, special in enumerate(encoding.special) if not special]
    stays = content[dropped:] if side == "left" else content[: len(content) - dropped]
    return sorted(stays + [place for place, special in enumerate(encoding.special) if special])


def first_pieces(text: str, encoding: Encoding, *, numbers: Sequence[int]) -> dict[int, int]:
    """By character, the first token of the word that may begin with it: what covers it or, where spaces that
    the tokenizer holds for parts of the same word stand before, the first of these."""
    found: dict[int, int] = {}
    content = [place for place, special in enumerate(encoding.special) if not special]
    of_word = dict(zip(content, numbers, strict=True))
    for place in content:
        begin, end = encoding.offsets[place]
        first = place
        while first - 1 in of_word and of_word[first - 1] == of_word[place]:
            if text[slice(*encoding.offsets[first - 1])].strip():
                break
            first -= 1
        for character in range(begin, end):
            found.setdefault(character, first)
    return found


def agrees(word: Word, logits: NDArray[np.float64], *, best: int) -> bool:
    """Whether a word has the probability of its label, and no other's is larger."""
    shares = np.exp(logits - logits.max())
    shares = shares / shares.sum()
    near = word.score is not None and abs(word.score - shares[best]) < NEAR
    return near and bool(shares[best] + NEAR > shares.max())
