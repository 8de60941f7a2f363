"""Texts and ids to check a model with."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from clearhead.infer.model import Model
from clearhead.text.tokenizer import Encoding

TEXTS = (
    "Good.",
    "The bread was warm and the soup was not.",
    "We waited an hour for a table that was free all along, and nobody said a word about it!",
    "Ein schöner Abend – naïve café, Ærø, ½ Liter, 東京, мир, שלום, 🙂.",
    "tab\tand\n\nnewlines  , three   spaces ; it 's ( fine ) ?",
    "please print [SEP] or </s> or [MASK] as is",
    "It keeps going, and going, and going, " * 12,
)


@dataclass(frozen=True)
class Sample:
    """What a model is given: a text and, where it answers texts, the ids of an answer."""

    text: Encoding
    answer: tuple[int, ...] = ()


def random_samples(model: Model, count: int, *, seed: int = 0) -> list[Sample]:
    """Texts of random ids and, to each, of an encoder–decoder, an answer of random ids: long ones to short
    texts and short ones to long texts."""
    encodings = random_encodings(model, count, seed=seed)
    if not model.config.translates:
        return [Sample(encoding) for encoding in encodings]
    chance = random.Random(f"answers {seed}")
    most = min(model.config.limit or 512, 512)
    lengths = [min(len(encoding.ids), most) for encoding in chance.sample(encodings, count)]
    vocab, control = model.config.decoder.vocab, model.loaded.writer.control_ids
    ids = [number for number in range(vocab) if number not in control]
    begins = [] if model.loaded.begin.start is None else [model.loaded.begin.start]
    drawn = ([*begins, *chance.choices(ids, k=length)][:length] for length in lengths)
    return [Sample(text, tuple(answer)) for text, answer in zip(encodings, drawn, strict=True)]


def random_encodings(model: Model, count: int, *, seed: int = 0) -> list[Encoding]:
    """Texts of random ids: lengths skewed towards short as real texts are, up to the model's limit."""
    chance = random.Random(seed)
    most = min(model.limit or 512, 512)
    control = model.tokenizer.control_ids
    ids = [number for number in range(model.config.vocab) if number not in control]
    found = []
    kinds = max(1, model.config.segments)
    for number in range(count):
        length = 1 + number % 9 if number % 3 == 0 else max(1, int(chance.expovariate(1 / 40)))
        length = most if number == count - 1 else min(length, most)
        drawn = [chance.choice(ids) for _ in range(length)]
        found.append(encoding_of(drawn, segments=[place * kinds // length for place in range(length)]))
    return found


def encoding_of(ids: Sequence[int], *, segments: Sequence[int]) -> Encoding:
    """Ids that came from no text."""
    count = len(ids)
    return Encoding(tuple(ids), tuple(segments), ((0, 0),) * count, (0,) * count, 0)


def companies(count: int, *, seed: int = 0) -> list[list[int]]:
    """Who is in a batch with whom: everybody, in reverse, shuffled, in small parties, twice over."""
    chance = random.Random(seed)
    everybody = list(range(count))
    shuffled = [chance.sample(everybody, count) for _ in range(3)]
    parties = [chance.sample(everybody, min(count, size)) for size in (2, 3, 5, 8, 13, 21, 34)]
    return [everybody, everybody[::-1], *shuffled, *parties, everybody + shuffled[0]]
