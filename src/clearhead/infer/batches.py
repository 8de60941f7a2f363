"""Encoded texts in batches, each one row of tokens."""

from collections.abc import Callable, Iterator, Sequence

from torch import Tensor

from clearhead.data.wording import counted
from clearhead.errors import DataError, NotFinite
from clearhead.model.config import Config
from clearhead.model.layout import Batch, pack, within_budget
from clearhead.text.tokenizer import Encoding


def batches_of(encodings: Sequence[Encoding], budget: int) -> Iterator[tuple[list[int], Batch]]:
    """Batches of at most `budget` tokens (a longer text goes alone), short ones first, with indices."""
    for members in within_budget([len(encoding.ids) for encoding in encodings], budget):
        yield members, packed([encodings[member] for member in members])


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


def packed(encodings: Sequence[Encoding]) -> Batch:
    """Encoded texts in one row."""
    return pack([encoding.ids for encoding in encodings], [encoding.segments for encoding in encodings])


def finite(numbers: Tensor, where: Callable[[int], str]) -> Tensor:
    """These numbers, a row a text; NotFinite, saying `where`, at the first row that holds others."""
    wrong = (~numbers.isfinite()).any(-1).nonzero()
    if len(wrong):
        text = where(int(wrong[0]))
        raise NotFinite(f"{text}: the model computes numbers that are not finite, so it has no answer")
    return numbers
