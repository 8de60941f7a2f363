"""The law of a model that tags: what `predict` says of each word is what the equations say."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clearhead.check.finding import RIGHT, TEXT, Finding, in_company, judged
from clearhead.check.samples import TEXTS
from clearhead.check.words import cut, kept, stated_labels
from clearhead.infer.model import Model
from clearhead.reference import folder as reference
from clearhead.reference import softmax
from clearhead.tasks.tag import TagResult, Word
from clearhead.text.tokenizer import Encoding

NEAR = 2e-5  # float32, of a probability


def tagging(model: Model, folder: Path) -> Iterator[Finding]:
    """The laws; `folder` holds the model."""
    given = [*TEXTS, TEXTS[0] * 300]
    alone = [model.predict([text])[0] for text in given]
    yield in_company("the tags of a text keep", model.predict(given[::-1])[::-1], alone=alone)
    limit, whole, table = model.limit or 10**9, reference.read(folder), stated_labels(folder)
    table = table or {str(number): label for number, label in enumerate(model.loaded.labels)}
    numbers = {name: int(number) for number, name in table.items()}
    right = inside = words = 0
    for text, result in zip(given, alone, strict=True):
        assert isinstance(result, TagResult)
        encoding = model.tokenizer.encode([text])[0]
        ids, segments, dropped = cut(encoding, limit, side=model.tokenizer.truncation_side)
        places = kept(encoding, limit, side=model.tokenizer.truncation_side)
        logits = whole.logits(ids, segments)
        firsts = first_pieces(text, encoding, numbers=model.tokenizer.words(text))
        right += result.dropped == dropped and all(
            agrees(word, logits[places.index(firsts[word.start])], best=numbers[word.tag])
            if firsts[word.start] in places
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
    shares = softmax(logits)
    near = word.score is not None and abs(word.score - shares[best]) < NEAR
    return near and bool(shares[best] + NEAR > shares.max())
