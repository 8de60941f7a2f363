"""The laws of a language model: no look ahead, nothing changed by a cache, by company or by a place."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from clearhead.check.finding import RIGHT, SAME, Finding, judged
from clearhead.check.samples import random_encodings
from clearhead.engine.modes import own_modes
from clearhead.infer.beams import beam_search
from clearhead.infer.generate import Token, tokens
from clearhead.infer.model import Model
from clearhead.model.cache import Cache
from clearhead.model.kernels import Context
from clearhead.model.layout import pack
from clearhead.settings import Generating

NEAR = 1e-5  # float32, relative to the largest number of a text, or 1
SPLITS: tuple[tuple[int, ...], ...] = ((1, 2), (5, 3, 2), (2, 1, 1, 7), (1,) * 12, (40, 1, 20))
ANSWERS, NEW, BEAMS = 9, 12, 2


def speaking(model: Model) -> Iterator[Finding]:
    """All laws of a language model; none for others."""
    if model.config.causal:
        yield from ahead(model)
        yield from cached(model)
    if model.config.language_head:
        yield from generated(model)


def vectors(model: Model, ids: Sequence[int]) -> Tensor:
    """The vector of each token of one text, `[tokens, width]`."""
    batch = pack([ids])
    return model.loaded.network(batch, Context.of(batch.layout))[: len(ids)]


def ahead(model: Model) -> Iterator[Finding]:
    """A token that changes changes no bit of the vectors before it."""
    chance = random.Random(4)
    compared = moved = blind = 0
    with own_modes():
        for encoding in random_encodings(model, 13, seed=3):
            ids = list(encoding.ids)
            before = vectors(model, ids)
            place = chance.randrange(len(ids))
            after = vectors(model, [*ids[:place], (ids[place] + 1) % model.config.vocab, *ids[place + 1 :]])
            compared += place
            moved += place - int((after[:place] == before[:place]).all(-1).sum())
            blind += torch.equal(after[place], before[place])
    yield judged(
        RIGHT,
        "no token sees what comes later",
        holds=not moved and not blind,
        figure=f"{moved} of {compared} earlier vectors changed with a later token",
        hint="the mask lets a query see keys that come after it, or the token itself is not seen",
    )


def cached(model: Model) -> Iterator[Finding]:
    """Any split into cached steps = the whole pass."""
    chance = random.Random(5)
    most = min(model.config.limit or 512, 512)
    ids = [chance.randrange(model.config.vocab) for _ in range(most)]
    splits = [split for split in SPLITS if sum(split) <= most]
    splits += [tuple(chance.randint(1, 9) for _ in range(max(1, most // 12))) for _ in range(3)]
    gap = 0.0
    with own_modes():
        for split in splits:
            text = ids[: min(sum(split), most)]
            cache, parts = Cache(model.config, 1), []
            for size in split:
                piece = text[cache.lengths[0] : cache.lengths[0] + size]
                if not piece:
                    break
                batch = pack([piece], past=cache.lengths)
                stream = model.loaded.network(batch, Context.of(batch.layout, cache=cache))
                parts.append(stream[: len(piece)])
            whole = vectors(model, text)
            gap = max(gap, float((torch.cat(parts) - whole).abs().max() / whole.abs().max().clamp(min=1)))
    yield judged(
        RIGHT,
        "computed in cached steps, a text is the same as at once (float32)",
        holds=gap <= NEAR,
        figure=f"largest gap {gap:.1e} over {len(splits)} splits, allowed {NEAR:.0e}",
        hint="a cached step stands at another position, or sees other keys, than the whole pass",
    )


def generated(model: Model) -> Iterator[Finding]:
    """Answers in company = alone, to the bit: greedy ones, sampled ones, and those of beam search."""
    most = max(1, min(100, (model.limit or 100 + NEW) - NEW))  # the answer stands behind it
    prompts = [list(encoding.ids)[:most] for encoding in random_encodings(model, ANSWERS, seed=6)]
    greedy = Generating(max_new_tokens=NEW)
    for law, asked in (
        ("greedy answers and their log-probabilities keep every bit in any company", greedy),
        (
            "a seed gives the same answer in any company and order",
            replace(greedy, temperature=1.0, seed=11),
        ),
    ):
        together = said(model, prompts[::-1], settings=asked)[::-1]
        alone = [said(model, [prompt], settings=asked)[0] for prompt in prompts]
        same = sum(
            [(token.id, token.log_probability) for token in one]
            == [(token.id, token.log_probability) for token in two]
            for one, two in zip(together, alone, strict=True)
        )
        yield judged(
            SAME,
            law,
            holds=same == ANSWERS,
            figure=f"{same} of {ANSWERS} answers the same",
            hint="an answer depends on the others: on their number, their order or their random numbers",
        )
    beams = replace(greedy, beams=BEAMS, samples=BEAMS)
    found = list(beam_search(model, prompts[::-1], settings=beams))[::-1]
    same = sum(
        one == next(beam_search(model, [prompt], settings=beams))
        for one, prompt in zip(found, prompts, strict=True)
    )
    yield judged(
        SAME,
        "beam search finds the same answers, and scores them the same to the bit, in any company",
        holds=same == ANSWERS,
        figure=f"{same} of {ANSWERS} searches the same, {BEAMS} beams each",
        hint="a search depends on the others: on their number, their order or whose beams are kept",
    )


def said(model: Model, prompts: list[list[int]], *, settings: Generating) -> list[list[Token]]:
    """The tokens of each answer."""
    found: list[list[Token]] = [[] for _ in prompts]
    for token in tokens(model, prompts, settings=settings):
        found[token.text].append(token)
    return found
