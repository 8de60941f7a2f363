"""Attention weights from queries and keys: what a fused kernel computes on its way and never shows."""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.engine.watching import Meeting
from clearhead.model.cache import Span

ROOM = 4 * 2**20  # numbers of weights that are made at a time


def pattern(
    meeting: Meeting,
    span: Span,
    *,
    lying: slice,
    begin: int,
    places: Sequence[int],
    heads: Sequence[int] | None = None,
) -> Float[Tensor, "heads queries keys"]:
    """softmax(q · kᵀ · scale + bias) of one text (Vaswani et al. 2017, equation 1), before dropout; keys from
    the text's first token on, 0 where unseen.

    The text's new tokens lie in the rows `lying` and begin at the position `begin`; `places` are the
    positions whose rows are wanted. Made a chunk at a time.
    """
    first, sight, queries = span.first, meeting.sight, meeting.queries[lying]
    every = list(range(queries.shape[1]) if heads is None else heads)
    group = queries.shape[1] // span.keys.shape[0]
    keys = span.keys[[head // group for head in every]].transpose(-1, -2)
    found = queries.new_zeros(len(every), len(places), first + keys.shape[-1])
    if not keys.shape[-1]:
        return found
    at = 0
    for run in runs_of(places, most=max(1, ROOM // (len(every) * keys.shape[-1]))):
        q = queries[run.start - begin : run.stop - begin, every].transpose(0, 1)
        scores = q @ keys * sight.scale
        mask = sight.mask(run, range(first, first + keys.shape[-1]))
        if mask is not None and mask.dtype == torch.bool:
            scores = scores.masked_fill(~mask, -torch.inf)
        elif mask is not None:
            scores = scores + mask[every]
        found[:, at : at + len(run), first:] = scores.softmax(-1)
        at += len(run)
    return found


def runs_of(places: Sequence[int], *, most: int) -> Iterator[range]:
    """Places that follow one another, at most so many at a time."""
    start = 0
    for at in range(1, len(places) + 1):
        if at == len(places) or places[at] != places[at - 1] + 1 or at - start == most:
            yield range(places[start], places[at - 1] + 1)
            start = at
