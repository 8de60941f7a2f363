"""Where a network's numbers can be watched and changed, and who does so in this thread.

A network shows its numbers at each `Point` to the watches of its call, and goes on with what they give back;
it knows nothing of what they are for. Watchers belong to a thread, not to the network, so that two threads
may watch one network, each for itself.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from torch import Tensor


class Point(StrEnum):
    """Places in a network, by the names that researchers use (Elhage et al. 2021; Nanda's TransformerLens).
    Queries and keys are as they meet: normed and turned."""

    EMBED = "embed"  # vectors of tokens, before positions and norm
    RESID_PRE = "resid_pre"  # the stream into a block
    Q = "q"
    K = "k"
    V = "v"
    Z = "z"  # what each head has gathered
    ATTN_OUT = "attn_out"
    RESID_MID = "resid_mid"
    CROSS_Q = "cross_q"
    CROSS_Z = "cross_z"
    CROSS_ATTN_OUT = "cross_attn_out"
    RESID_MID_CROSS = "resid_mid_cross"
    MLP_OUT = "mlp_out"
    RESID_POST = "resid_post"


@dataclass(frozen=True, eq=False)
class Meeting:
    """Queries of all texts and, as the texts lie, the keys and values that each text's queries meet; how."""

    queries: Tensor  # [tokens, heads, head_width]
    spans: Sequence[Any]  # the model's `Span`, one a text
    sight: Any  # the model's `Sight`
    weights: dict[int, Tensor] = field(default_factory=dict)  # that were changed, by the text's place


@runtime_checkable
class Watch(Protocol):
    """One call of a network that somebody watches."""

    def seen(self, point: Point, x: Tensor, *, layer: int, meeting: Meeting | None) -> Tensor:
        """The numbers the call goes on with: those that came, unless they are to be changed. Of what heads
        have gathered, `meeting` says where from."""
        ...


class Watcher(Protocol):
    """Whoever watches the calls that a thread makes."""

    def begins(self, network: Any, batch: Any, *, context: Any) -> Watch | None:
        """A call begins; None where it is no concern of theirs."""
        ...

    def ended(self, trail: object, *, name: object, prompt: tuple[int, ...], tokens: int) -> None:
        """An answer that was made in steps is whole: its trail in the cache, what it is called, what it
        answers; so many `tokens` of what the trail saw were right."""
        ...


WATCHERS: ContextVar[tuple[Watcher, ...]] = ContextVar("WATCHERS", default=())


@contextmanager
def watching(watcher: Watcher, *, early: bool = False) -> Iterator[None]:
    """Calls in here have one more watcher; `early`, it is shown numbers before others are. Whoever leaves
    takes itself out, in whatever order they leave."""
    WATCHERS.set((watcher, *WATCHERS.get()) if early else (*WATCHERS.get(), watcher))
    try:
        yield
    finally:
        WATCHERS.set(tuple(one for one in WATCHERS.get() if one is not watcher))


@contextmanager
def unwatched() -> Iterator[None]:
    """Nobody watches the calls in here."""
    token = WATCHERS.set(())
    try:
        yield
    finally:
        WATCHERS.reset(token)
