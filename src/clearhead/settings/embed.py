"""Vectors of texts: how they are asked for, and how a model learns to make better ones."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from clearhead.errors import SettingError
from clearhead.settings.asking import ERRORS, Errors, Format, Long, Opening
from clearhead.settings.learning import Learning, Making, shaped
from clearhead.settings.options import at_least, check_values, option, required

VECTORS = "Models that give vectors"  # the heading of their flags
Poolings = Literal["cls", "mean", "max", "last"]
Words = Annotated[str | None, Parameter(group=VECTORS, allow_leading_hyphen=True)]
FEWEST_PAIRS = 2


@dataclass(frozen=True, kw_only=True)
class Vectors:
    """How a text becomes a vector; what is not said is as the model's folder has it."""

    pooling: Annotated[Poolings | None, Parameter(group=VECTORS)] = option(
        None, "how the tokens' vectors become one; else as the folder says, or their mean"
    )
    normalise: Annotated[bool | None, Parameter(group=VECTORS)] = option(
        None, "whether vectors get the length 1; else as the folder says, or not"
    )
    dimensions: Annotated[int | None, Parameter(group=VECTORS)] = option(
        None, "keep the first so many numbers of a vector, for models that were trained for it (Matryoshka)"
    )
    prompt: Words = option(None, "name of the folder's prompt that is put before each text, such as query")

    def __post_init__(self) -> None:
        if self.dimensions is not None:
            at_least("dimensions", self.dimensions, least=1)


@dataclass(frozen=True, kw_only=True)
class Embedded(Vectors):
    """The same with all that `Model.embed` is asked for besides."""

    prefix: Words = option(None, "put before each text, in place of the folder's prompt")
    long: Long | None = option(
        None, "a text longer than the model takes: cut (usual), refused, or in windows"
    )
    stride: int | None = option(None, "windows: tokens by which each begins after the one before")
    batch_tokens: int = option(2048, "tokens in a batch; the vectors do not depend on it")

    def __post_init__(self) -> None:
        if self.pooling == "":
            raise SettingError("pooling='' is not one of cls, mean, max, last")
        Vectors.__post_init__(self)
        if self.stride is not None:
            at_least("stride", self.stride, least=1)
        at_least("batch_tokens", self.batch_tokens, least=1)


@dataclass(frozen=True, kw_only=True)
class Searching(Vectors):
    """Which texts of a file are nearest to others."""

    query: Annotated[list[str] | None, Parameter(group=VECTORS, negative="", allow_leading_hyphen=True)] = (
        option(None, "find the texts of the file that are nearest to this one; may be given several times")
    )
    query_prefix: Words = option(None, "put before each --query, in place of the folder's prompt for queries")
    top: Annotated[int, Parameter(group=VECTORS)] = option(5, "nearest texts that are given for each --query")

    def __post_init__(self) -> None:
        Vectors.__post_init__(self)
        at_least("top", self.top, least=1)


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """Which columns of a file hold pairs of texts that belong together."""

    anchor_column: Annotated[str | None, Parameter(group=VECTORS)] = option(
        None, "column of the first texts; else anchor, query, question, sentence1, text1, source or text"
    )
    positive_column: Annotated[str | None, Parameter(group=VECTORS)] = option(
        None,
        "column of what belongs to them; else positive, answer, passage, document, sentence2, text2, pair or "
        "target",
    )
    score_column: Annotated[str | None, Parameter(group=VECTORS)] = option(
        None, "column of numbers that say how similar both are; else score or similarity, where one is there"
    )


@dataclass(frozen=True, kw_only=True)
class Contrasting(Opening, Making, Pairing, Learning):
    """A run that trains a model whose vectors tell which texts belong together, from pairs of them."""

    data: Annotated[str, Parameter(allow_leading_hyphen=True)] = required(
        "file of pairs of texts: .csv, .tsv or .jsonl, also .gz; - for standard input", path=True
    )
    negative_column: str | None = option(
        None, "column of a text that does not belong to the first one; else negative, where it is there"
    )
    format: Format | None = option(None, "format of the file, where its name does not tell")
    errors: Errors = option("strict", ERRORS)
    batch_pairs: int = option(64, "pairs in a step: each text is told from all the others in it")
    symmetric: Annotated[bool, Parameter(negative="")] = option(
        False, "learn also which first text belongs to a second one; the loss is the mean of both"
    )
    scale: float = option(20.0, "what cosines are multiplied by (the inverse of a temperature)")
    pooling: Poolings | None = option(
        None, "how the tokens' vectors become one; else as the folder says, or their mean"
    )
    long: Long | None = option(
        None, "a text longer than the model takes: cut (usual), refused, or in windows"
    )
    stride: int | None = option(None, "windows: tokens by which each begins after the one before")
    batch_tokens: int = option(
        2048, "tokens in a batch where vectors are computed to choose by; a step's size is --batch-pairs"
    )

    def __post_init__(self) -> None:
        Learning.__post_init__(self)
        check_values(self)
        for name in ("layers", "width", "heads", "hidden", "vocab"):
            at_least(name, getattr(self, name), least=1)
        at_least("batch_pairs", self.batch_pairs, least=FEWEST_PAIRS)
        if self.stride is not None:
            at_least("stride", self.stride, least=1)
        if not 0 < self.scale <= 1e4:
            raise SettingError(f"--scale {self.scale} must be above 0 and at most 10000")
        if self.accumulate > 1:
            raise SettingError(
                f"--accumulate {self.accumulate}: each text is told from the others of its step, so that two "
                f"batches are not one large one; make --batch-pairs larger (now {self.batch_pairs})"
            )
        shaped(self, Making)
