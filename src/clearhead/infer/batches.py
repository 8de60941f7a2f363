"""Encoded texts in batches, each one row of tokens."""

from collections.abc import Callable, Iterator, Sequence
from itertools import count

import torch
from jaxtyping import Int
from torch import Tensor

from clearhead.data.wording import counted
from clearhead.engine.watching import WATCHERS
from clearhead.errors import DataError, NotFinite
from clearhead.model.config import Config
from clearhead.model.layout import Batch, pack, within_budget
from clearhead.text.tokenizer import Encoding

CALLS = count()  # what whoever watches knows calls by
IN_STEPS = "answered in steps"  # the name of a text that is read once for all answers to it


def batches_of(encodings: Sequence[Encoding], budget: int) -> Iterator[tuple[list[int], Batch]]:
    """Batches of at most `budget` tokens (a longer text goes alone), short ones first, with indices."""
    call = next(CALLS)
    for members in within_budget([len(encoding.ids) for encoding in encodings], budget):
        names = tuple((call, member) for member in members)
        yield members, packed([encodings[member] for member in members], names)


def check_encodings(encodings: Sequence[Encoding], config: Config) -> None:
    """Refuse what is no encoded text, and pairs of texts where a model has one kind of segment only."""
    if isinstance(encodings, str) or not isinstance(encodings, Sequence):
        raise DataError(f"{type(encodings).__name__} was given where a list is needed that encode has made")
    for number, encoding in enumerate(encodings):
        if not isinstance(encoding, Encoding):
            raise DataError(
                f"text {number} is {type(encoding).__name__}; encode it first: model.encode(texts)"
            )
        if config.segments and max(encoding.segments, default=0) >= config.segments:
            raise DataError(
                f"the tokenizer marks second texts as segment {max(encoding.segments)}, and the model has "
                f"{counted(config.segments, 'kind')} of segment: it takes single texts, no pairs"
            )


def packed(encodings: Sequence[Encoding], names: tuple[object, ...] | None = None) -> Batch:
    """Encoded texts in one row."""
    ids, segments = ([getattr(one, part) for one in encodings] for part in ("ids", "segments"))
    return pack(ids, segments, names=names)


def ended(trail: object, *, name: object, prompt: Sequence[int], tokens: int) -> None:
    """Tell whoever watches that an answer is whole, whose model has read so many tokens of it."""
    for watcher in WATCHERS.get():
        watcher.ended(trail, name=name, prompt=tuple(prompt), tokens=tokens)


def finite(numbers: Tensor, where: Callable[[int], str]) -> Tensor:
    """These numbers, a row a text; NotFinite, saying `where`, at the first row that holds others."""
    wrong = (~numbers.isfinite()).any(-1).nonzero()
    if len(wrong):
        text = where(int(wrong[0]))
        raise NotFinite(f"{text}: the model computes numbers that are not finite, so it has no answer")
    return numbers


def unpad(
    input_ids: Int[Tensor, "texts longest"],
    attention_mask: Int[Tensor, "texts longest"] | None = None,
    *,
    token_type_ids: Int[Tensor, "texts longest"] | None = None,
) -> Batch:
    """Turn a padded rectangle (1 = keep), padded on either side, into a row. Positions count kept tokens
    only."""
    keep = torch.ones_like(input_ids) if attention_mask is None else attention_mask
    kinds = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
    rows = [
        (ids[mask.bool()].tolist(), kind[mask.bool()].tolist())
        for ids, mask, kind in zip(input_ids, keep, kinds, strict=True)
    ]
    return pack([ids for ids, _ in rows], [kind for _, kind in rows], device=input_ids.device)
