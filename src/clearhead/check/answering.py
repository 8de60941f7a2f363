"""The laws of a decoder that answers what an encoder has read: it reads its own text, all of it and nothing
else, never ahead; cached steps change nothing; its answers are those of the equations."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clearhead.check.finding import RIGHT, SAME, Finding, judged
from clearhead.check.outputs import both
from clearhead.check.places import folder_of, same_bits
from clearhead.check.samples import Sample, encoding_of, random_encodings, random_samples
from clearhead.check.speaking import NEAR, SPLITS, said
from clearhead.checkpoint.answering import CONFIG, FIRST, GENERATION, START
from clearhead.checkpoint.files import read_json
from clearhead.engine.modes import own_modes
from clearhead.infer.model import Model
from clearhead.model.cache import Cache
from clearhead.model.kernels import Context, Source
from clearhead.model.layout import pack
from clearhead.reference import folder as reference
from clearhead.reference.translator import WholeTranslator
from clearhead.settings import Generating

CLOSE = 2e-5  # float32, of a log-probability, relative to the largest logit, or 1
TOLD, NEW = 5, 6


def answering(model: Model) -> Iterator[Finding]:
    """All laws of an encoder–decoder; none for others."""
    if model.config.translates:
        yield from ahead(model)
        yield from foreign(model)
        yield from cached(model)
        model = model.merged() if model.loaded.adapters else model
        with folder_of(model) as folder:
            yield from told(model, folder)


def vectors(model: Model, samples: list[Sample]) -> list[Tensor]:
    """The decoder's vectors of each answer, in order."""
    source, target = both(samples)
    stream = model.loaded.network.answering(source, target)
    return [stream[rows] for rows in target.layout.slices]


def ahead(model: Model) -> Iterator[Finding]:
    """A token that changes changes no bit of the vectors before it; another text changes the first vector."""
    chance = random.Random(4)
    compared = moved = blind = 0
    with own_modes():
        for sample in random_samples(model, 13, seed=3):
            ids, vocab = list(sample.answer), model.config.decoder.vocab
            place = chance.randrange(len(ids))
            later = (*ids[:place], (ids[place] + 1) % vocab, *ids[place + 1 :])
            asked = [(id + 1) % model.config.vocab for id in sample.text.ids]
            other = encoding_of(asked, segments=sample.text.segments)
            before, after, apart = (
                vectors(model, [one])[0]
                for one in (sample, Sample(sample.text, later), Sample(other, sample.answer))
            )
            compared += place
            moved += place - int((after[:place] == before[:place]).all(-1).sum())
            blind += torch.equal(after[place], before[place]) or torch.equal(apart[0], before[0])
    yield judged(
        RIGHT,
        "no token of an answer sees what comes later, and each sees the text",
        holds=not moved and not blind,
        figure=f"{moved} of {compared} earlier vectors changed with a later token",
        hint="the mask lets a token see what comes after it, or itself or the text is not seen",
    )


def foreign(model: Model) -> Iterator[Finding]:
    """Whatever stands in the rows of the encoder's stream that are not a text's own, neighbours' and spare
    ones, its answer keeps every bit."""
    network, samples = model.loaded.network, random_samples(model, 13, seed=7)
    source, target = both(samples)
    changed = 0
    with own_modes():
        read = network(source, Context.of(source.layout))
        right = vectors(model, samples)
        for own, rows, vector in zip(source.layout.slices, target.layout.slices, right, strict=True):
            junk = torch.full_like(read, torch.nan)
            junk[own] = read[own]
            meeting = Source.of(junk, source.layout, answers=target.layout)
            stream = network.decode(target, Context.of(target.layout, source=meeting))
            changed += not same_bits(stream[rows], vector)
    yield judged(
        SAME,
        "an answer reads its own text and nothing else: no padding, no neighbour (float32, CPU)",
        holds=not changed,
        figure=f"{changed} of {len(samples)} answers changed with rows that are not their text's; "
        f"{source.layout.spare} spare rows",
        hint="cross-attention reaches beyond the text, into a neighbour or into spare rows",
    )


def cached(model: Model) -> Iterator[Finding]:
    """Any split into cached steps, of a few answers side by side, = the whole pass."""
    chance, network = random.Random(5), model.loaded.network
    splits = [*SPLITS, *(tuple(chance.randint(1, 9) for _ in range(9)) for _ in range(3))]
    gap = 0.0
    with own_modes():
        for number, split in enumerate(splits):
            samples = random_samples(model, 3, seed=number)
            source, _ = both(samples)
            cache = Cache(network.config, len(samples))
            cache.answered = [*network.remember(source)]
            parts: list[list[Tensor]] = [[] for _ in samples]
            rest = max(len(sample.answer) for sample in samples)
            for size in (*split, rest):
                starts = list(cache.lengths)
                pieces = [
                    sample.answer[start : start + size] for sample, start in zip(samples, starts, strict=True)
                ]
                if not any(pieces):
                    break
                batch = pack(pieces, past=starts)
                stream = network.decode(batch, Context.of(batch.layout, cache=cache))
                for part, rows in zip(parts, batch.layout.slices, strict=True):
                    part.append(stream[rows])
            for part, whole in zip(parts, vectors(model, samples), strict=True):
                here = float((torch.cat(part) - whole).abs().max() / whole.abs().max().clamp(min=1))
                gap = max(gap, here if here == here else float("inf"))
    yield judged(
        RIGHT,
        "answered in cached steps, of itself and of the text, an answer is the same as at once (float32)",
        holds=gap <= NEAR,
        figure=f"largest gap {gap:.1e} over {len(splits)} splits, allowed {NEAR:.0e}",
        hint="a cached step stands at another position, or sees other keys, than the whole pass",
    )


def told(model: Model, folder: Path) -> Iterator[Finding]:
    """Greedy answers, token by token = what the equations answer, which begin as the folder says."""
    whole = reference.read(folder)
    assert isinstance(whole, WholeTranslator)
    start, first, never = (said_of(folder, name) for name in (START, FIRST, "bad_words_ids"))
    most = max(1, min(100, (model.limit or 100 + NEW) - NEW))
    prompts = [list(encoding.ids)[:most] for encoding in random_encodings(model, TOLD, seed=8)]
    told = said(model, prompts, settings=Generating(max_new_tokens=NEW))
    wrong = count = 0
    for prompt, answer in zip(prompts, told, strict=True):
        memory, ids = whole.encode(prompt), [start]
        for token in answer:
            logits = whole.next_logits(memory, ids)
            sure = logits - np.logaddexp.reduce(logits)
            out = [id for row in never or [] for id in row]
            if first is not None and len(ids) == 1:
                out = [id for id in range(len(sure)) if id != first]
            likely = sure.copy()
            likely[out] = -np.inf
            near = CLOSE * max(1.0, float(np.abs(logits).max()))
            right = abs(sure[token.id] - token.log_probability) < near
            right = right and likely[token.id] > likely.max() - near
            count, wrong = count + 1, wrong + (not right)
            ids.append(token.id)
    yield judged(
        RIGHT,
        "greedy answers are what the equations answer, begun as the folder says (float32, within 2e-5)",
        holds=not wrong,
        figure=f"{count - wrong} of {count} tokens of {len(prompts)} answers",
        hint="an answer begins with another token, or between the steps and the equations something is lost",
    )


def said_of(folder: Path, name: str) -> Any:
    """A field of generation_config.json where it is there, else of config.json, as the published code has
    it."""
    config = read_json(folder / CONFIG)
    if not (folder / GENERATION).is_file():
        old = name == FIRST and config.get("force_bos_token_to_be_generated")
        return config.get("bos_token_id" if old else name)
    values = read_json(folder / GENERATION)
    if name == START and values.get(START) is None:
        bos = values.get("bos_token_id")
        return config.get(START) if bos is None else bos
    return values.get(name)
