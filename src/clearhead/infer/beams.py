"""Beam search: several answers are kept at a time, and those with the best mean log-probability win.

Scores are of the answer alone, never of the prompt; each text is finished by itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.errors import SettingError
from clearhead.infer.choosing import ruled
from clearhead.infer.generate import check_prompts, refuse_foreign, refuse_unusable, speaker, step
from clearhead.infer.model import Model
from clearhead.model.cache import Cache
from clearhead.model.transformer import own_modes
from clearhead.settings import Generating


@dataclass(frozen=True)
class Beam:
    """One answer: its ids, the sum of the model's own log-probabilities in nats, and what it is ranked by:
    that sum, after penalties and biases, divided by length^penalty."""

    ids: tuple[int, ...]
    log_probability: float
    score: float
    ended: bool  # with an end token, not at the length


def beam_search(
    model: Model, prompts: Sequence[Sequence[int]], *, settings: Generating
) -> Iterator[list[Beam]]:
    """The best `samples` answers to each prompt of ids, best first (Sutskever et al. 2014, section 3.2; the
    penalty as a power of the length: Wu et al. 2016, section 7, without its constant).

    Raises `SettingError` for a model without a language head or more beams than tokens, `DataError` for a
    prompt that is empty or fills the positions.
    """
    network = speaker(model)
    if settings.beams > network.config.vocab:
        raise SettingError(f"--beams {settings.beams} is more than the vocabulary of {network.config.vocab}")
    refuse_foreign(network, [settings])
    check_prompts(prompts, network)
    for prompt in prompts:
        with own_modes():
            found = Search(model, list(prompt), settings=settings).run()
        yield found


class Search:
    """The search for answers to one prompt."""

    def __init__(self, model: Model, prompt: list[int], *, settings: Generating):
        self.network, self.ends = model.loaded.network, model.loaded.ends
        self.prompt, self.settings = prompt, settings
        limit = self.network.config.limit or len(prompt) + settings.max_new_tokens
        self.most = min(settings.max_new_tokens, limit - len(prompt))
        self.running: list[tuple[tuple[int, ...], float, float]] = [((), 0.0, 0.0)]  # ids, ranked by, own
        self.finished: list[Beam] = []

    def run(self) -> list[Beam]:
        """All finished answers, best first."""
        cache = Cache(self.network.config, 1)
        pieces = [self.prompt]
        for length in range(1, self.most + 1):
            logits = torch.cat(step(self.network, cache, pieces=pieces, wanted=[1] * len(pieces)))
            parents = self.extend(logits)
            if not self.running or self.done(length):
                break
            cache.keep(parents)
            pieces = [[ids[-1]] for ids, _, _ in self.running]
        else:  # the length has ended those that still run
            for beam in self.running:
                self.finish(beam, ended=False)
        return self.finished[: self.settings.samples]

    def extend(self, logits: Tensor) -> list[int]:
        """One more token for each beam; returns which beam each of the new ones goes on from."""
        own = logits.log_softmax(-1)
        totals = []
        for (ids, total, _), row in zip(self.running, own, strict=True):
            whole = [*self.prompt, *ids]
            totals.append(total + ruled(row, whole, new=len(ids), ends=self.ends, settings=self.settings))
        vocab = logits.shape[-1]
        flat = torch.cat(totals)
        refuse_unusable(logits, flat)
        width = min(len(flat), self.settings.beams * (1 + len(self.ends)))
        best = flat.topk(width)
        came: list[tuple[tuple[int, ...], float, float]] = []
        parents = []
        for rank, (value, place) in enumerate(zip(best.values.tolist(), best.indices.tolist(), strict=True)):
            if value == -torch.inf or len(came) == self.settings.beams:
                break
            parent, id = divmod(place, vocab)
            ids = (*self.running[parent][0], id)
            said = self.running[parent][2] + float(own[parent, id])
            if id not in self.ends:
                came.append((ids, value, said))
                parents.append(parent)
            elif rank < self.settings.beams:
                self.finish((ids, value, said), ended=True)
        self.running = came
        return parents

    def score(self, total: float, length: int) -> float:
        """The sum of log-probabilities over a power of the answer's length."""
        return float(total / length**self.settings.length_penalty)

    def finish(self, beam: tuple[tuple[int, ...], float, float], *, ended: bool) -> None:
        """Keep the best answers, in order; of equals the first."""
        ids, total, own = beam
        self.finished.append(Beam(ids, own, self.score(total, len(ids)), ended))
        self.finished.sort(key=lambda beam: -beam.score)
        del self.finished[self.settings.beams :]

    def done(self, length: int) -> bool:
        """Whether no running beam is expected to beat a finished one."""
        if len(self.finished) < self.settings.beams:
            return False
        if self.settings.early_stopping or not self.running:
            return True
        return self.score(self.running[0][1], length) <= self.finished[-1].score
