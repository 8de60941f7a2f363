"""Keys and values already computed: each text's own, as long as it is, without padding.

Texts join and leave at any step. Room for a text grows in blocks; where a block sees only a window, what no
later token can see is dropped.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from clearhead.model.config import Config
from clearhead.model.layout import Layout

BLOCK = 64


@dataclass(frozen=True, eq=False)
class Span:
    """Keys and values of one text in one block, from the position `first` on."""

    keys: Float[Tensor, "kv_heads seen head_width"]
    values: Float[Tensor, "kv_heads seen head_width"]
    first: int


@dataclass(eq=False)
class Memory:
    """What one block keeps of one text: `held` tokens from the position `first` on, with room for more."""

    window: int | None
    store: Float[Tensor, "2 kv_heads room head_width"] | None = None
    first: int = 0
    held: int = 0

    @property
    def end(self) -> int:
        """The position of the next token."""
        return self.first + self.held

    def add(self, keys: Tensor, values: Tensor) -> Span:
        """Keep the keys and values of new tokens, `[new, kv_heads, head_width]`; what these tokens see."""
        begin, new = self.end, len(keys)
        store = self.room_for(new, like=keys)
        at = slice(self.held, self.held + new)
        store[0, :, at], store[1, :, at] = keys.transpose(0, 1), values.transpose(0, 1)
        self.held += new
        start = 0 if self.window is None else max(0, begin - self.window - self.first)
        return Span(store[0, :, start : self.held], store[1, :, start : self.held], self.first + start)

    def room_for(self, new: int, *, like: Tensor) -> Tensor:
        """The store with room for new tokens. Where it must grow, what the window no longer reaches goes."""
        if self.store is not None and self.held + new <= self.store.shape[2]:
            return self.store
        kept = self.held if self.window is None else min(self.held, self.window)
        needed = (kept + new) * 5 // 4
        grown = like.new_empty(2, like.shape[1], -(-needed // BLOCK) * BLOCK, like.shape[2])
        if self.store is not None:
            grown[:, :, :kept] = self.store[:, :, self.held - kept : self.held]
        self.first, self.held, self.store = self.end - kept, kept, grown
        return grown

    def forget(self, count: int) -> None:
        """Take the last tokens back. What a window has dropped before does not come back."""
        assert count <= self.held
        self.held -= count

    def copy(self) -> "Memory":
        """Another one with the same tokens."""
        store = None if self.store is None else self.store[:, :, : self.held].clone()
        return Memory(self.window, store, self.first, self.held)


class Cache:
    """The memories of some texts, in the caller's order: one a text and block."""

    def __init__(self, config: Config, texts: int = 0):
        self.windows = [config.window_of(layer) for layer in range(config.decoder_layers or config.layers)]
        self.texts: list[list[Memory]] = []
        self.answered: list[Sequence[Span]] = []  # of an encoder–decoder: what each answers, a span a block
        self.trails: list[object] = []  # what whoever watches has seen of each
        self.join(texts)

    @property
    def lengths(self) -> list[int]:
        """How many tokens of each text are known."""
        return [memories[0].end for memories in self.texts]

    def join(self, texts: int = 1) -> None:
        """Texts of which nothing is known yet come in, behind the others."""
        self.texts += [[Memory(window) for window in self.windows] for _ in range(texts)]
        self.trails += [None] * texts

    def take(self, other: "Cache") -> None:
        """The texts of another cache come in, behind the others."""
        self.texts += other.texts
        self.answered += other.answered
        self.trails += other.trails

    def sources(self, layer: int, layout: Layout) -> list[Span]:
        """What a block recalls of each text, as the texts lie."""
        return [self.answered[index][layer] for index in layout.order]

    def keep(self, texts: Sequence[int]) -> None:
        """Go on with these texts in this order: others leave, and one named twice is copied."""
        used: set[int] = set()
        kept = []
        for index in texts:
            memories = self.texts[index]
            kept.append([memory.copy() for memory in memories] if index in used else memories)
            used.add(index)
        self.texts = kept
        self.trails = [self.trails[index] for index in texts]
        self.answered = [self.answered[index] for index in texts] if self.answered else []

    def forget(self, counts: Sequence[int]) -> None:
        """Take back the last tokens of each text."""
        for memories, count in zip(self.texts, counts, strict=True):
            for memory in memories:
                memory.forget(count)

    def remember(self, layer: int, layout: Layout, *, keys: Tensor, values: Tensor) -> list[Span] | None:
        """Keep a block's new keys and values; the spans of the texts as they lie, or None where all of them
        begin here, so that the layout says all."""
        spans = [
            self.texts[index][layer].add(keys[rows], values[rows])
            for index, rows in zip(layout.order, layout.placed, strict=True)
        ]
        return spans if any(layout.begins) else None
