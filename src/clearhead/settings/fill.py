"""Masked tokens: what a model that fills them learns from, what a new one is, and how it is asked."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from clearhead.errors import SettingError
from clearhead.settings.answer import Finding
from clearhead.settings.asking import Opening
from clearhead.settings.embed import Pairing, Searching, Vectors
from clearhead.settings.generating import Generating, Prefixed
from clearhead.settings.language import Corpus, Scoring
from clearhead.settings.options import at_least, option

FILLERS = "Models that fill masks"  # the heading of their flags
Encoders = Literal["bert", "roberta", "modernbert"]


@dataclass(frozen=True, kw_only=True)
class Hidden:
    """Which tokens are hidden (Devlin et al. 2018, section 3.1)."""

    mask_share: Annotated[float, Parameter(group=FILLERS)] = option(
        0.15, "share of tokens that are hidden, of each piece at least one"
    )
    whole_words: Annotated[bool, Parameter(negative="", group=FILLERS)] = option(
        False, "hide words: all pieces of a word together"
    )

    def __post_init__(self) -> None:
        if not 0 < self.mask_share < 1:
            raise SettingError(f"--mask-share {self.mask_share} must be above 0 and below 1")


@dataclass(frozen=True, kw_only=True)
class Filling(Hidden):
    """How a model that fills masks is evaluated."""

    mask_seed: Annotated[int, Parameter(group=FILLERS)] = option(
        0, "the same seed hides the same tokens of a text"
    )

    def __post_init__(self) -> None:
        Hidden.__post_init__(self)
        at_least("mask_seed", self.mask_seed, least=0)


@dataclass(frozen=True, kw_only=True)
class Scored(Scoring, Filling, Finding, Pairing, Vectors):
    """How models that learn from texts alone, find answers, or give vectors, are scored: evaluate."""

    def __post_init__(self) -> None:
        Scoring.__post_init__(self)
        Filling.__post_init__(self)
        Finding.__post_init__(self)
        Vectors.__post_init__(self)


@dataclass(frozen=True, kw_only=True)
class Answering(Generating, Prefixed, Finding, Searching):
    """How a language model goes on, what one that fills masks gives, how answers are found, and what vectors
    are: predict."""

    candidates: Annotated[int, Parameter(group=FILLERS)] = option(
        5, "most likely tokens that are given for each mask"
    )
    evidence: Annotated[bool, Parameter(negative="", group="Parameters")] = option(
        False, "labels: tell also which sentence weighs most, by leaving out each (of a pair, of the second)"
    )
    pair: Annotated[str | None, Parameter(group="Parameters", allow_leading_hyphen=True)] = option(
        None, "the second text beside each --text: of pairs, or the text in which questions are answered"
    )

    def __post_init__(self) -> None:
        Generating.__post_init__(self)
        Finding.__post_init__(self)
        Searching.__post_init__(self)
        at_least("candidates", self.candidates, least=1)


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """A new model for masked tokens and its tokenizer (`--from new`)."""

    architecture: Encoders = option("bert", "new model: the published family it is built as")
    layers: int = option(4, "new model: blocks")
    width: int = option(256, "new model: numbers that stand for one token")
    heads: int = option(4, "new model: attention heads of each block")
    hidden: int | None = option(
        None, "new model: width of the feed-forward network; else 4 times the width, of modernbert 1.5 times"
    )
    context: int = option(128, "most tokens of a piece, special ones included; a new model's longest text")
    tokenizer: str | None = option(
        None,
        "new model: folder or name of a model or tokenizer to take; else one is learned from the texts",
        path=True,
    )
    vocab: int = option(8000, "new model: most tokens of the tokenizer that is learned")
    lowercase: bool | None = option(
        None, "new model: whether its tokenizer lower-cases texts; else that of bert alone does"
    )


@dataclass(frozen=True, kw_only=True)
class Masked(Opening, Encoder, Hidden, Corpus):
    """A run that trains a model to say which tokens are hidden in texts."""

    epochs: int | None = option(5, "times each text is seen, each time with other tokens hidden")

    def __post_init__(self) -> None:
        Corpus.__post_init__(self)
        Hidden.__post_init__(self)
        self.check_corpus(Encoder)
