"""Which texts of a file are nearest to others, however large it is."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice

import numpy as np
from torch import Tensor

from clearhead.checkpoint.embedding import Embedding
from clearhead.data.rows import Row
from clearhead.infer.embed import DOCUMENT, QUERY, blocks, embedded, of_rows
from clearhead.infer.model import Model
from clearhead.settings import Embedded
from clearhead.tasks.embed import Vectors


@dataclass(frozen=True)
class Near:
    """A text of a file: its row (the first is 1), and how similar it is."""

    row: int
    score: float
    text: str
    dropped: int


@dataclass(frozen=True)
class Nearest:
    """A text, and those that are most similar to it, the best first; of equal ones those that come first."""

    query: str
    tokens: int
    dropped: int
    windows: int
    nearest: tuple[Near, ...]


def nearest(
    model: Model,
    rows: Iterable[Row],
    *,
    queries: Sequence[str],
    settings: Embedded,
    asking: Embedded,
    top: int,
) -> list[Nearest]:
    """For each query the rows that are most similar to it; `settings` are those of rows, `asking` those of
    queries. No more than a block of rows has vectors at a time. Rows of white space are left out."""
    names = [f"--query number {number}" for number in range(1, len(queries) + 1)]
    given, read = embedded(model, queries, names=names, settings=asking, roles=QUERY)
    how = (model.loaded.embedding or Embedding()).similarity
    best: list[list[Near]] = [[] for _ in queries]
    for some in blocks(row for row in rows if not row.blank):
        vectors, examples = of_rows(model, some, settings=settings, roles=DOCUMENT)
        for number, query in enumerate(given.double()):
            scores = similar(vectors.double(), query, how=how)
            order = np.argsort(-scores, kind="stable")[:top]
            found = [
                Near(some[at].row, float(scores[at]), some[at].text, examples[at].dropped) for at in order
            ]
            both = merge(best[number], found, key=lambda near: -near.score)  # earlier rows first, where equal
            best[number] = list(islice(both, top))
    return [
        Nearest(query, example.tokens, example.dropped, len(example.windows), tuple(found))
        for query, example, found in zip(queries, read, best, strict=True)
    ]


def similar(vectors: Tensor, query: Tensor, *, how: str) -> Vectors:
    """How similar each vector is to one, the higher the more: the cosine (0 for zeros) or the dot product, or
    the distance (euclidean, manhattan) below 0. Each row by itself, so that none hangs on the others."""
    match how:
        case "euclidean":
            found = -(vectors - query).norm(dim=1)
        case "manhattan":
            found = -(vectors - query).abs().sum(1)
        case "dot":
            found = (vectors * query).sum(1)
        case _:
            lengths = vectors.norm(dim=1) * query.norm()
            found = ((vectors * query).sum(1) / lengths.clamp(min=1e-12)).clamp(-1, 1)
    made: Vectors = found.numpy()
    return made
