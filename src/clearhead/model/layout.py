"""How a batch of texts lies in one row of tokens.

Texts lie one after another, sorted by length, so that all texts of one length form one contiguous slice which
a kernel can view as `[texts, length, …]` without a copy. No padding token exists; the row is only rounded up
to a multiple of 8 (spare rows belong to no text), because the rows of a matrix product come out the same in
every company only if no kernel is chosen for a ragged number of rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

import torch
from jaxtyping import Int
from torch import Tensor

MULTIPLE = 8


def round_up(count: int, multiple: int = MULTIPLE) -> int:
    """The next multiple, of 8 unless another is given."""
    return -(-count // multiple) * multiple


@dataclass(frozen=True)
class Group:
    """Texts of equal length: `texts * length` rows from `start`."""

    start: int
    texts: int
    length: int

    @property
    def tokens(self) -> int:
        """Rows of the group."""
        return self.texts * self.length


@dataclass(frozen=True)
class Run:
    """Texts that lie side by side and answer texts that do too: `texts` of `length` tokens from the row
    `start`, to each `seen` tokens of what it answers, from the row `source`."""

    start: int
    source: int
    texts: int
    length: int
    seen: int


@dataclass(frozen=True, eq=False)
class Layout:
    """Where each text lies. Made once per batch and handed to every layer.

    `lengths` and everything a caller sees are in the caller's order; `order[place]` is the index of the text
    that lies at that place of the row. A text of 0 tokens takes no place in the row.
    """

    lengths: tuple[int, ...]
    order: tuple[int, ...]
    groups: tuple[Group, ...]
    tokens: int  # rows, spare ones included
    positions: Int[Tensor, " tokens"]
    begins: tuple[int, ...]  # the position of each text's first token, as the texts lie
    names: tuple[object, ...] | None = None  # what whoever watches is told that each text is

    @classmethod
    def of(
        cls,
        lengths: Sequence[int],
        *,
        past: Sequence[int] | None = None,
        beside: Sequence[int] | None = None,
        multiple: int = MULTIPLE,
        names: tuple[object, ...] | None = None,
        device: torch.device | str = "cpu",
    ) -> "Layout":
        """Lay out texts of these lengths; `past` says how many tokens of each came before these, `beside`
        how long what it answers, or its answer, is: those of one length lie sorted by it."""
        others = beside or [0] * len(lengths)
        order = sorted(range(len(lengths)), key=lambda index: (lengths[index], others[index]))
        begins = [past[index] if past else 0 for index in order]
        groups, start = [], 0
        for length, members in groupby(order, key=lambda index: lengths[index]):
            groups.append(Group(start, len(list(members)), length))
            start += groups[-1].tokens
        tokens = round_up(start, multiple)
        positions = torch.zeros(tokens, dtype=torch.long)
        place = 0
        for group in groups:
            first = torch.tensor(begins[place : place + group.texts])
            places = (first[:, None] + torch.arange(group.length)).flatten()
            positions[group.start : group.start + group.tokens] = places
            place += group.texts
        rows = positions.to(device, non_blocking=True)
        return cls(tuple(lengths), tuple(order), tuple(groups), tokens, rows, tuple(begins), names)

    @property
    def device(self) -> torch.device:
        """Where the row lies; kernels are chosen by it."""
        return self.positions.device

    @property
    def spare(self) -> int:
        """Rows that belong to no text: at most 7, the last ones."""
        return self.tokens - sum(self.lengths)

    @cached_property
    def reach(self) -> int:
        """One more than the last position of any text."""
        ends = (begin + self.lengths[index] for begin, index in zip(self.begins, self.order, strict=True))
        return max(ends, default=0)

    @cached_property
    def placed(self) -> tuple[slice, ...]:
        """The rows of each text, as the texts lie."""
        return tuple(self.slices[index] for index in self.order)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """The rows of each text, in the caller's order."""
        found = [slice(0, 0)] * len(self.lengths)
        start = 0
        for index in self.order:
            found[index] = slice(start, start + self.lengths[index])
            start += self.lengths[index]
        return tuple(found)

    def in_order(self, packed: Tensor) -> Tensor:
        """Bring one row per text, `[texts, …]` as they lie, into the caller's order."""
        inverse = torch.empty(len(self.order), dtype=torch.long)
        inverse[torch.tensor(self.order, dtype=torch.long)] = torch.arange(len(self.order))
        return packed.index_select(0, inverse.to(packed.device))


def meetings(answers: Layout, source: Layout) -> Iterator[Run]:
    """Where each text of one layout meets what it answers in the other, a run for texts that lie side by side
    in both with the same lengths; short answers first."""
    run: Run | None = None
    for index in answers.order:
        rows, seen = answers.slices[index], source.slices[index]
        length, count = rows.stop - rows.start, seen.stop - seen.start
        if not length:
            continue
        if run and (run.length, run.seen, run.source + run.texts * count) == (length, count, seen.start):
            run = replace(run, texts=run.texts + 1)
            continue
        if run:
            yield run
        run = Run(rows.start, seen.start, 1, length, count)
    if run:
        yield run


@dataclass(frozen=True, eq=False)
class Batch:
    """Ids and segments in one row, and how they lie."""

    ids: Int[Tensor, " tokens"]
    segments: Int[Tensor, " tokens"]
    layout: Layout


def within_budget(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Indices in batches of at most `budget` tokens (a longer text goes alone), short texts first."""
    members: list[int] = []
    tokens = 0
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if members and tokens + lengths[index] > budget:
            yield members
            members, tokens = [], 0
        members.append(index)
        tokens += lengths[index]
    if members:
        yield members


def pack(
    texts: Sequence[Sequence[int]],
    segments: Sequence[Sequence[int]] | None = None,
    *,
    past: Sequence[int] | None = None,
    beside: Sequence[int] | None = None,
    multiple: int = MULTIPLE,
    names: tuple[object, ...] | None = None,
    device: torch.device | str = "cpu",
) -> Batch:
    """Lay texts of ids (and of segment numbers, 0 where not given) in one row; `past`, `beside` and `names`
    as in `Layout.of`."""
    lengths = [len(text) for text in texts]
    layout = Layout.of(lengths, past=past, beside=beside, multiple=multiple, names=names, device=device)

    def row(parts: Sequence[Sequence[int]]) -> Tensor:
        flat = [number for index in layout.order for number in parts[index]]
        return torch.tensor(flat + [0] * layout.spare, dtype=torch.long, device=device)

    zeros = torch.zeros(layout.tokens, dtype=torch.long, device=device)
    return Batch(row(texts), row(segments) if segments else zeros, layout)
