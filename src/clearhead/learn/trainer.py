"""The training loop: an iterator that yields after each step. It prints, plots and saves nothing."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from clearhead.engine.dropout import Dropout
from clearhead.engine.modes import own_modes
from clearhead.errors import NotFinite
from clearhead.learn.batches import epoch_batches
from clearhead.learn.schedule import Schedule
from clearhead.model.transformer import Transformer


@dataclass(frozen=True)
class Step:
    """One update. `loss` is the mean over the step's texts, in nats; `grad_norm` is before scaling."""

    number: int
    epoch: int  # counted from 0
    last_of_epoch: bool
    loss: float
    learning_rate: float
    grad_norm: float
    tokens: int
    texts: int
    seconds: float


@dataclass(frozen=True)
class Plan:
    """What decides the order and size of steps."""

    epochs: int
    batch_tokens: int
    accumulate: int
    max_steps: int | None
    seed: int
    dropout: float | None
    ema: float | None = None

    def steps(
        self, lengths: Sequence[int], keys: Sequence[Any] | None = None
    ) -> list[tuple[int, bool, list[list[int]]]]:
        """All steps of a run: (epoch, last of its epoch, its batches of indices); `keys` as in
        `epoch_batches`."""
        budget = self.batch_tokens
        return self.steps_of(partial(epoch_batches, lengths, budget=budget, keys=keys))

    def steps_of(self, batches_of: Callable[..., list[list[int]]]) -> list[tuple[int, bool, list[list[int]]]]:
        """The same of batches that are made for each epoch by `batches_of(seed=, epoch=)`."""
        found = []
        for epoch in range(self.epochs):
            batches = batches_of(seed=self.seed, epoch=epoch)
            starts = range(0, len(batches), self.accumulate)
            found += [(epoch, at == starts[-1], batches[at : at + self.accumulate]) for at in starts]
            if self.max_steps is not None and len(found) >= self.max_steps:
                break
        return found[: self.max_steps]


@dataclass(frozen=True)
class Adam:
    """How much of the moments is kept, and what is added to the root (Kingma & Ba 2015, algorithm 1)."""

    betas: tuple[float, float]
    epsilon: float


USUAL = Adam((0.9, 0.999), 1e-8)


class Objective(Protocol):
    """What is learned from each example: whatever a task is, its loss is a sum over examples. One whose
    examples have several lengths also has `keys`, by which they are sorted (`epoch_batches`); one whose loss
    couples examples says with `company(seed=, epoch=)` which are learned together."""

    @property
    def lengths(self) -> Sequence[int]:
        """Tokens of each example."""
        ...

    def size(self, members: Sequence[int]) -> float:
        """What the summed loss of these examples is divided by."""
        ...

    def loss(self, network: Transformer, members: Sequence[int], *, drop: Dropout | None) -> Tensor:
        """The sum of the loss over these examples, in one batch."""
        ...


class Trainer:
    """AdamW (Loshchilov & Hutter 2019) over packed batches.

    The loss of a step is the sum over its examples divided by their size, whatever batches they came in.
    """

    def __init__(self, network: Transformer, objective: Objective, *, plan: Plan):
        self.network, self.objective = network, objective
        batches = getattr(objective, "company", None)
        keys = getattr(objective, "keys", None)
        self.steps = plan.steps_of(batches) if batches else plan.steps(objective.lengths, keys)
        self.done = 0
        self.drop = Dropout(torch.Generator().manual_seed(plan.seed), plan.dropout)
        self.ema = plan.ema
        self.averages: dict[str, Tensor] = {}

    def prepare(
        self, schedule: Schedule, *, weight_decay: float, max_grad_norm: float, adam: Adam = USUAL
    ) -> None:
        """Make the optimiser: decay for matrices, none for biases and norms."""
        self.schedule, self.max_grad_norm = schedule, max_grad_norm
        trained = [p for p in self.network.parameters() if p.requires_grad]
        matrices = [p for p in trained if p.ndim > 1]
        vectors = [p for p in trained if p.ndim <= 1]
        groups = [
            {"params": matrices, "weight_decay": weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(
            groups, lr=schedule.peak, betas=adam.betas, eps=adam.epsilon, fused=True
        )
        if self.ema is not None:
            self.averages = {name: weight.detach().clone() for name, weight in self.learned()}

    def learned(self) -> list[tuple[str, nn.Parameter]]:
        """The weights that learn, by name."""
        return [(name, one) for name, one in self.network.named_parameters() if one.requires_grad]

    def average(self) -> None:
        """Take the newest weights into their moving average (Polyak & Juditsky 1992): after step s it is
        d · average + (1 − d) · weight with d = min(ema, (1 + s) / (10 + s)), so that the first weights, which
        know nothing, are soon forgotten."""
        if self.ema is not None:
            share = 1 - min(self.ema, (1 + self.done) / (10 + self.done))
            for name, weight in self.learned():
                self.averages[name].lerp_(weight.detach(), share)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The network has its averages for weights, where there are some."""
        kept = {name: weight.detach().clone() for name, weight in self.learned() if name in self.averages}
        try:
            self.take(self.averages)
            yield
        finally:
            self.take(kept)

    @torch.no_grad()
    def take(self, weights: Mapping[str, Tensor]) -> None:
        """Put these numbers in the place of the weights of their names."""
        for name, weight in self.learned():
            if name in weights:
                weight.copy_(weights[name])

    def run(self) -> Iterator[Step]:
        """Go on from the step after `done` to the last one."""
        while self.done < len(self.steps):
            yield self.step()

    @own_modes(learning=True)
    def step(self) -> Step:
        """The step after `done`."""
        epoch, last, batches = self.steps[self.done]
        start = perf_counter()
        rate = self.schedule(self.done + 1)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        loss = self.gradients(batches, self.drop)
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), self.max_grad_norm)
        if not norm.isfinite():
            raise NotFinite(
                f"the gradient is not finite at step {self.done + 1} (loss {loss:g}); lower --learning-rate"
            )
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.done += 1
        self.average()
        texts = sum(len(batch) for batch in batches)
        tokens = sum(self.objective.lengths[index] for batch in batches for index in batch)
        seconds = perf_counter() - start
        return Step(self.done, epoch, last, loss, rate, float(norm), tokens, texts, seconds)

    def gradients(self, batches: Sequence[Sequence[int]], drop: Dropout | None) -> float:
        """Add the gradient of the mean loss over all examples of the batches; returns that loss."""
        size = self.objective.size([index for batch in batches for index in batch])
        total = 0.0
        for number, members in enumerate(batches, 1):
            loss = self.objective.loss(self.network, list(members), drop=drop) / size
            if not loss.isfinite():
                raise NotFinite(
                    f"the loss is not finite at step {self.done + 1}, batch {number} of {len(batches)} "
                    f"(loss {loss.item():g}); lower --learning-rate"
                )
            loss.backward()
            total += loss.item()
        return total

    @own_modes(learning=True)
    def estimate(self) -> float:
        """Seconds that the remaining steps will take, from two timed tries that change nothing."""
        rest = self.steps[self.done :]
        if not rest:
            return 0.0
        tokens = [sum(self.objective.lengths[index] for batch in step[2] for index in batch) for step in rest]
        typical = sorted(range(len(rest)), key=tokens.__getitem__)[len(rest) // 2]
        drop = Dropout(torch.Generator().manual_seed(0), self.drop.rate)
        for _ in range(2):  # the first try also warms up
            start = perf_counter()
            self.gradients(rest[typical][2], drop)
            seconds = perf_counter() - start
            self.optimizer.zero_grad()
        return 1.1 * seconds * sum(tokens) / max(1, tokens[typical])  # a tenth for the update itself
