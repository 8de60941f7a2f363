"""Masked tokens: what a model that fills them learns from, what a new one is, and how it is asked."""

from dataclasses import dataclass, fields
from typing import Annotated, Literal

from cyclopts import Parameter

from clearhead.errors import SettingError
from clearhead.settings.asking import Format, Opening
from clearhead.settings.generating import Generating
from clearhead.settings.language import Documents
from clearhead.settings.learning import Learning
from clearhead.settings.options import at_least, check_choices, flag, option, required

FILLERS = "Models that fill masks"  # the heading of their flags
Encoders = Literal["bert", "roberta", "modernbert"]


@dataclass(frozen=True, kw_only=True)
class Hidden:
    """Which tokens are hidden (Devlin et al. 2018, section 3.1)."""

    mask_share: float = option(0.15, "share of tokens that are hidden, of each piece at least one")
    whole_words: Annotated[bool, Parameter(negative="")] = option(
        False, "hide words: all pieces of a word together"
    )

    def __post_init__(self) -> None:
        if not 0 < self.mask_share < 1:
            raise SettingError(f"--mask-share {self.mask_share} must be above 0 and below 1")


@dataclass(frozen=True, kw_only=True)
class Filling(Hidden):
    """How a model that fills masks is evaluated."""

    mask_seed: int = option(0, "the same seed hides the same tokens of a text")

    def __post_init__(self) -> None:
        Hidden.__post_init__(self)
        at_least("mask_seed", self.mask_seed, least=0)


@dataclass(frozen=True, kw_only=True)
class Answering(Generating):
    """How a language model goes on, and what one that fills masks gives: predict."""

    candidates: Annotated[int, Parameter(group=FILLERS)] = option(
        5, "most likely tokens that are given for each mask"
    )

    def __post_init__(self) -> None:
        Generating.__post_init__(self)
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
        None, "new model: folder or name of a model or tokenizer to take; else one is learned from the texts"
    )
    vocab: int = option(8000, "new model: most tokens of the tokenizer that is learned")
    lowercase: bool | None = option(
        None, "new model: whether its tokenizer lower-cases texts; else that of bert alone does"
    )


@dataclass(frozen=True, kw_only=True)
class Masked(Opening, Encoder, Hidden, Learning):
    """A run that trains a model to say which tokens are hidden in texts."""

    data: Annotated[list[str], Parameter(consume_multiple=True, negative="")] = required(
        "files of texts, or folders of them: .txt, .md, .csv, .tsv or .jsonl, also .gz"
    )
    base: Annotated[str, Parameter(name="--from")] = option(
        "new", "model to start from: a name from `clearhead get`, a folder, or new"
    )
    documents: Documents = option(
        "file", "what a document is in a file of plain text: the whole file, or each line"
    )
    text_column: str | None = option(None, "column of the texts; else text, sentence or review")
    format: Format | None = option(None, "format of the files, where their names do not tell")
    epochs: int = option(5, "times each text is seen, each time with other tokens hidden")
    learning_rate: float | None = option(
        None, "peak learning rate; else 1e-3 for a new model, 5e-5 for one that goes on"
    )
    batch_tokens: int = option(4096, "tokens in a batch; there are no padding tokens")

    def __post_init__(self) -> None:
        check_choices(self)
        Learning.__post_init__(self)
        Hidden.__post_init__(self)
        for name in ("layers", "width", "heads", "vocab", "context"):
            at_least(name, getattr(self, name), least=1)
        if self.hidden is not None:
            at_least("hidden", self.hidden, least=1)
        made = [item.name for item in fields(Encoder) if getattr(self, item.name) != item.default]
        made = [name for name in made if name != "context"]  # which a model that is there has too
        if made and self.base != "new":
            raise SettingError(
                f"{flag(made[0])} shapes a new model, but --from is {self.base}; use --from new"
            )
        if not self.data:
            raise SettingError("--data names no file; give at least one")
