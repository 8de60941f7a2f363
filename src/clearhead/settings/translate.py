"""What a model learns that turns a text into another, and what a new one is."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from clearhead.errors import SettingError
from clearhead.settings.asking import ERRORS, Errors, Format, Opening
from clearhead.settings.generating import PAIRS, Generating, Prefixed
from clearhead.settings.learning import Decay, Learning, shaped
from clearhead.settings.options import at_least, check_values, option, required

Translators = Literal["transformer"]
Files = Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")]


@dataclass(frozen=True, kw_only=True)
class Parallel(Prefixed):
    """How pairs of texts are read."""

    source_column: Annotated[str | None, Parameter(group=PAIRS)] = option(
        None, "column of the texts that are read; else source, src or text"
    )
    target_column: Annotated[str | None, Parameter(group=PAIRS)] = option(
        None, "column of what they become; else target, tgt, translation or summary"
    )

    def __post_init__(self) -> None:
        check_values(self)


@dataclass(frozen=True, kw_only=True)
class Comparing(Generating, Parallel):
    """How a model that turns texts into others answers, and with what its answers are compared: evaluate."""

    references: Annotated[str | None, Parameter(group=PAIRS)] = option(
        None, "file of what each line of --data becomes, where that is a file of lines", path=True
    )

    def __post_init__(self) -> None:
        Generating.__post_init__(self)
        Parallel.__post_init__(self)


@dataclass(frozen=True, kw_only=True)
class Translator:
    """A new encoder–decoder and its vocabulary (`--from new`)."""

    architecture: Translators = option(
        "transformer", "new model: the transformer of 2017, norm after, sinusoids, one table of tokens"
    )
    layers: int = option(3, "new model: blocks of the encoder, and of the decoder")
    width: int = option(256, "new model: numbers that stand for one token")
    heads: int = option(4, "new model: attention heads of each block")
    hidden: int | None = option(None, "new model: width of the feed-forward network; else 4 times the width")
    vocab: int = option(8000, "new model: most tokens of its vocabulary, learned from both sides")
    separate: Annotated[bool, Parameter(negative="")] = option(
        False, "new model: a vocabulary for each side, each of so many tokens; else both share one"
    )


@dataclass(frozen=True, kw_only=True)
class Translating(Opening, Translator, Parallel, Learning):
    """A run that learns to turn texts into others from pairs of them."""

    data: Annotated[list[str], Parameter(consume_multiple=True, negative="")] = required(
        "two files of texts, line by line, first what is read; or one file of pairs: .csv, .tsv or .jsonl; "
        "also .gz",
        path=True,
    )
    validation: Files = option(  # type: ignore[assignment]
        None, "two files, or one, to choose the best model by; else a tenth of the data, by seed", path=True
    )
    base: Annotated[str, Parameter(name="--from")] = option(
        "new", "model to start from: a name from `clearhead get`, a folder, or new", path=True
    )
    format: Format | None = option(None, "format of the files, where their names do not tell")
    errors: Errors = option("strict", ERRORS)
    context: int = option(256, "most tokens of a text, and of what it becomes; longer ones are cut, and told")
    label_smoothing: float = option(0.1, "share of a token's label that is spread over all tokens")
    epochs: int | None = option(20, "times each pair is seen")
    batch_tokens: int = option(4096, "tokens of both sides in a batch; there are no padding tokens")
    learning_rate: float | None = option(
        None, "peak learning rate; else of a new model 1/√(width · warm-up steps), as in 2017; another 1e-4"
    )
    schedule: Decay = option(
        "inverse_sqrt", "how the rate falls from its peak; the formulas: docs/classify.md"
    )

    def __post_init__(self) -> None:
        Learning.__post_init__(self)
        Parallel.__post_init__(self)
        for name in ("layers", "width", "heads", "vocab", "hidden"):
            if getattr(self, name) is not None:
                at_least(name, getattr(self, name), least=1)
        at_least("context", self.context, least=2)
        shaped(self, Translator)
        for name in ("data", "validation"):
            files = getattr(self, name)
            if files is not None and len(files) not in (1, 2):
                hint = "" if files else " (standard input is one file of pairs, --data=-)"
                raise SettingError(
                    f"--{name} names {len(files)} files{hint}; give two (what is read, what it "
                    "becomes), or one of pairs"
                )
        if not 0 <= self.label_smoothing < 1:
            raise SettingError(f"--label-smoothing {self.label_smoothing} must be at least 0 and below 1")
