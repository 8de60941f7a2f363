"""From the logits of the next token to a token: penalties, bans, and what sampling may choose from.

Each rule is held equal to its textbook form in `reference/`.
"""

import hashlib
import random
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.checkpoint.answering import Begin
from clearhead.errors import SettingError
from clearhead.settings import Generating

Scores = Float[Tensor, " vocab"]


def settings_of(
    settings: Generating | Sequence[Generating], prompts: Sequence[Sequence[int]]
) -> list[Generating]:
    """The settings of each prompt: those of all, or its own."""
    each = [settings] * len(prompts) if isinstance(settings, Generating) else list(settings)
    if len(each) != len(prompts):
        raise SettingError(f"{len(each)} settings were given for {len(prompts)} prompts; give one for each")
    return each


def stream_of(seed: int, prompt: Sequence[int], *, sample: int) -> random.Random:
    """The random numbers of one answer: from the seed, the prompt and the sample's number alone, so that they
    do not depend on which other texts there are."""
    said = f"{seed} {sample} {' '.join(map(str, prompt))}".encode()
    return random.Random(int.from_bytes(hashlib.blake2b(said, digest_size=16).digest(), "big"))


def penalised(scores: Scores, ids: Sequence[int], *, penalty: float) -> Scores:
    """Tokens that are there already: positive logits divided, negative multiplied (Keskar et al. 2019,
    section 4.1, with the sign minded)."""
    there = torch.tensor(sorted(set(ids)))
    found = scores[there]
    return scores.index_copy(0, there, torch.where(found > 0, found / penalty, found * penalty))


def banned(ids: Sequence[int], *, size: int) -> list[int]:
    """The tokens that would complete a sequence of `size` tokens which is there already (Paulus et al. 2017,
    section 2.5)."""
    if len(ids) + 1 < size:
        return []
    tail = tuple(ids[len(ids) - size + 1 :])
    starts = range(len(ids) - size + 1)
    return [ids[start + size - 1] for start in starts if tuple(ids[start : start + size - 1]) == tail]


def ruled(
    scores: Scores, ids: Sequence[int], *, new: int, ends: Sequence[int], settings: Generating
) -> Scores:
    """Logits after biases, penalties and bans, −inf where banned; `ids` are the prompt's and the answer's so
    far, `new` the answer's number."""
    if settings.biases:
        places = torch.tensor(list(settings.biases))
        scores = scores.index_add(0, places, torch.tensor(list(settings.biases.values()), dtype=scores.dtype))
    if settings.repetition_penalty != 1 and ids:
        scores = penalised(scores, ids, penalty=settings.repetition_penalty)
    out = banned(ids, size=settings.no_repeat_ngram_size) if settings.no_repeat_ngram_size else []
    if new < settings.min_new_tokens:
        out = [*out, *ends]
    if out:
        scores = scores.index_fill(0, torch.tensor(out), -torch.inf)
    return scores


def framed(scores: Scores, begin: Begin, *, new: int) -> Scores:
    """Logits of the answer's token number `new`, −inf for what an answer never holds and, of the first, for
    all but the one that is always first."""
    if begin.never:
        scores = scores.index_fill(0, torch.tensor(begin.never), -torch.inf)
    if begin.first is not None and not new:
        return torch.full_like(scores, -torch.inf).index_fill(0, torch.tensor([begin.first]), 0.0)
    return scores


def chances(scores: Scores, settings: Generating) -> Float[Tensor, " vocab"]:
    """Probabilities to sample from, float64: temperature, then top-k (Fan et al. 2018, section 5.4), nucleus
    (Holtzman et al. 2020, section 3.1) and min-p (Nguyen et al. 2024, section 3), each on what is left."""
    logits = scores.double()
    logits = (logits - logits.max()) / settings.temperature
    if settings.top_k is not None and settings.top_k < len(logits):
        least = logits.topk(settings.top_k).values[-1]
        logits = logits.masked_fill(logits < least, -torch.inf)
    shares = logits.softmax(-1)
    if settings.top_p is not None and settings.top_p < 1:
        sorted_shares, order = shares.sort(descending=True, stable=True)
        before = sorted_shares.cumsum(-1) - sorted_shares
        shares = shares.index_fill(0, order[before >= settings.top_p], 0.0)
        shares = shares / shares.sum()
    if settings.min_p is not None:
        shares = shares.masked_fill(shares < settings.min_p * shares.max(), 0.0)
        shares = shares / shares.sum()
    return shares


def chosen(scores: Scores, settings: Generating, *, chance: random.Random) -> int:
    """The next token: the most likely one (of equals the first), or the one that a random number picks."""
    if settings.temperature == 0:
        return int(scores.argmax())
    heights = chances(scores, settings).cumsum(-1)
    place = int(torch.searchsorted(heights, chance.random() * heights[-1].item(), right=True))
    return min(place, len(heights) - 1)
