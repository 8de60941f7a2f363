"""Which of some given answers a language model would give: for yes or no, or a list of names."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from clearhead.engine.modes import own_modes
from clearhead.errors import SettingError
from clearhead.infer.batches import CALLS, ended
from clearhead.infer.generate import beginning, check_prompts
from clearhead.infer.given import check_texts
from clearhead.infer.model import Model
from clearhead.infer.steps import read, speaker, step
from clearhead.model.kernels import Context
from clearhead.model.layout import pack


@dataclass(frozen=True)
class Choice:
    """One given answer: its log-probability after the prompt in nats, all its tokens together, and its share
    among the given ones."""

    text: str
    log_probability: float
    share: float
    tokens: int


def choose(model: Model, prompt: Sequence[int], *, options: Sequence[str]) -> list[Choice]:
    """The given answers to a prompt of ids, the most likely first. A longer answer is less likely for its
    length alone; give answers of like length, or compare means.

    The prompt is computed once; each answer's ids are those of its own string, so begin it with the space
    that would stand there. Raises `SettingError` for no or empty options, or one that is there twice.
    """
    network = speaker(model)
    check_texts(options)
    if len(set(options)) < len(options) or not options:
        raise SettingError("give at least one answer to choose from, and none twice")
    pieces = model.loaded.writer.plain(options)
    if not all(pieces):
        raise SettingError("an answer to choose from is empty")
    longest = max(map(len, pieces))
    check_prompts([prompt], network)
    before = beginning(model, prompt)
    if not model.translates:
        check_prompts([[*prompt, *[0] * (longest - 1)]], network)
    call = next(CALLS)
    with own_modes():
        cache = read(network, [prompt])
        first = step(network, cache, pieces=[before], wanted=[1])[0][0].double().log_softmax(-1)
        cache.keep([0] * len(pieces))
        totals, trails = [float(first[piece[0]]) for piece in pieces], cache.trails
        later = [index for index, piece in enumerate(pieces) if len(piece) > 1]
        if later:
            cache.keep(later)
            rows = [pieces[index][:-1] for index in later]
            batch = pack(rows, past=cache.lengths)
            stream = network.speaking(batch, Context.of(batch.layout, cache=cache))
            said = network.next_logits(stream).double().log_softmax(-1)
            for index, span in zip(later, batch.layout.slices, strict=True):
                next_ids = torch.tensor(pieces[index][1:])
                totals[index] += float(said[span].gather(1, next_ids[:, None]).sum())
            gone_on = dict(zip(later, cache.trails, strict=True))
            trails = [gone_on.get(index, trail) for index, trail in enumerate(trails)]
        for index, (trail, piece) in enumerate(zip(trails, pieces, strict=True)):
            ended(trail, name=(call, index), prompt=prompt, tokens=len(before) + len(piece) - 1)
    shares = torch.tensor(totals, dtype=torch.float64).softmax(-1).tolist()
    found = [
        Choice(text, total, share, len(piece))
        for text, total, share, piece in zip(options, totals, shares, pieces, strict=True)
    ]
    return sorted(found, key=lambda choice: -choice.log_probability)
