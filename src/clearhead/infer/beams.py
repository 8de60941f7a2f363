"""Beam search: several answers are kept at a time, and those with the best mean log-probability win.

Scores are of the answer alone, never of the prompt; each text is finished by itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from clearhead.engine.modes import own_modes
from clearhead.errors import SettingError
from clearhead.infer.batches import CALLS, ended
from clearhead.infer.choosing import framed, ruled, settings_of
from clearhead.infer.generate import beginning, check_prompts, most_of, refuse_foreign, refuse_unusable
from clearhead.infer.model import Model
from clearhead.infer.steps import joined, read, speaker
from clearhead.model.cache import Cache
from clearhead.settings import Generating


@dataclass(frozen=True)
class Beam:
    """One answer: its ids, the sum of the model's own log-probabilities in nats, and what it is ranked by:
    that sum, after penalties and biases, divided by length^penalty."""

    ids: tuple[int, ...]
    log_probability: float
    score: float
    ended: bool  # with an end token, not at the length
    trail: object = field(default=None, compare=False, repr=False)  # what whoever watches has seen of it


def beam_search(
    model: Model, prompts: Sequence[Sequence[int]], *, settings: Generating | Sequence[Generating]
) -> Iterator[list[Beam]]:
    """The best `samples` answers to each prompt of ids, best first (Sutskever et al. 2014, section 3.2; the
    penalty as a power of the length: Wu et al. 2016, section 7, without its constant); `settings` of all, or
    of each prompt (`batch_texts` is that of the first).

    Raises `SettingError` for a model without a language head or more beams than tokens, `DataError` for a
    prompt that is empty or fills the positions.
    """
    network = speaker(model)
    vocab = len(network.next_weight)
    check_prompts(prompts, network)
    each = settings_of(settings, prompts)
    if most := [own.beams for own in each if own.beams > vocab]:
        raise SettingError(f"--beams {most[0]} is more than the vocabulary of {vocab}")
    refuse_foreign(network, each)
    waiting, active = list(range(len(prompts)))[::-1], list[Search]()
    cache, found, told, call = Cache(network.config), dict[int, list[Beam]](), 0, next(CALLS)
    while waiting or active:
        free = each[0].batch_texts - len(active)
        if active and free < each[0].batch_texts / 4:
            free = 0  # reading a few texts costs nearly as much as reading many
        some = [waiting.pop() for _ in range(min(free, len(waiting)))]
        come = [Search(model, prompts[index], number=index, settings=each[index]) for index in some]
        with own_modes():
            pieces = [[ids[-1]] for search in active for ids, _, _ in search.running]
            newer = read(network, [prompts[search.number] for search in come])
            begun = [search.before for search in come]
            logits = joined(network, cache, pieces=pieces, newer=newer, begun=begun)
            active += come
            kept, rows = list[int](), 0
            for search in active:
                count = len(search.running)
                trails = cache.trails[rows : rows + count]
                parents = search.advance(torch.cat(logits[rows : rows + count]), trails)
                kept += [rows + parent for parent in parents]
                rows += count
            cache.keep(kept)
        found |= {search.number: search.best for search in active if search.over}
        active = [search for search in active if not search.over]
        while told in found:
            for rank, beam in enumerate(found[told]):
                before, prompt = len(beginning(model, prompts[told])), prompts[told]
                read_so_far = before + len(beam.ids) - 1
                ended(beam.trail, name=(call, told, rank), prompt=prompt, tokens=read_so_far)
            yield found.pop(told)
            told += 1


class Search:
    """The search for answers to one prompt."""

    def __init__(self, model: Model, prompt: Sequence[int], *, number: int, settings: Generating):
        self.ends, self.begin = model.loaded.ends, model.loaded.begin
        self.before, self.number, self.settings = beginning(model, prompt), number, settings
        most = most_of(model, prompt, settings=settings)
        limit = model.config.limit or len(self.before) + most
        self.most = min(most, limit - len(self.before))
        self.running: list[tuple[tuple[int, ...], float, float]] = [((), 0.0, 0.0)]  # ids, ranked by, own
        self.finished: list[Beam] = []
        self.length, self.over = 0, False

    @property
    def best(self) -> list[Beam]:
        """The answers, best first."""
        return self.finished[: self.settings.samples]

    def advance(self, logits: Tensor, trails: Sequence[object]) -> list[int]:
        """One more token for each beam; returns which beam each that still runs goes on from, none where the
        search is over. `trails` are theirs in the cache."""
        self.length += 1
        parents = self.extend(logits, trails)
        if self.running and not self.done(self.length) and self.length < self.most:
            return parents
        if self.running and not self.done(self.length):  # the length has ended those that still run
            for beam, parent in zip(self.running, parents, strict=True):
                self.finish(beam, trails[parent], ended=False)
        self.over, self.running = True, []
        return []

    def extend(self, logits: Tensor, trails: Sequence[object]) -> list[int]:
        """One more token for each beam; returns which beam each of the new ones goes on from."""
        own = logits.log_softmax(-1)
        totals = []
        for (ids, total, _), row in zip(self.running, own, strict=True):
            scores = framed(row, self.begin, new=len(ids))
            whole = [*self.before, *ids]
            totals.append(total + ruled(scores, whole, new=len(ids), ends=self.ends, settings=self.settings))
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
                self.finish((ids, value, said), trails[parent], ended=True)
        self.running = came
        return parents

    def score(self, total: float, length: int) -> float:
        """The sum of log-probabilities over a power of the answer's length."""
        return float(total / length**self.settings.length_penalty)

    def finish(self, beam: tuple[tuple[int, ...], float, float], trail: object, *, ended: bool) -> None:
        """Keep the best answers, in order; of equals the first."""
        ids, total, own = beam
        self.finished.append(Beam(ids, own, self.score(total, len(ids)), ended, trail))
        self.finished.sort(key=lambda beam: -beam.score)
        del self.finished[self.settings.beams :]

    def done(self, length: int) -> bool:
        """Whether no running beam is expected to beat a finished one."""
        if len(self.finished) < self.settings.beams:
            return False
        if self.settings.early_stopping or not self.running:
            return True
        return self.score(self.running[0][1], length) <= self.finished[-1].score
