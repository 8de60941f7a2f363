"""How a model folder is opened, a file of texts read, and a model asked."""

from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from clearhead.errors import SettingError
from clearhead.settings.options import at_least, check_values, option
from clearhead.settings.sentences import Sentences

Long = Literal["truncate", "error", "window"]
Empty = Literal["error", "skip"]
Dtype = Literal["float32", "bfloat16"]
Format = Literal["csv", "tsv", "jsonl", "text", "conll"]
Errors = Literal["strict", "replace", "ignore"]
ERRORS = (
    "what to do with bytes that are not UTF-8: refuse the file, put a sign (�) in their place, leave them out"
)


@dataclass(frozen=True, kw_only=True)
class Opening:
    """How a model folder is opened."""

    allow_bin: Annotated[bool, Parameter(negative="")] = option(
        False, "read weights from pytorch_model.bin too, as a table of tensors; nothing in it is run"
    )
    fingerprint: bool = option(True, "whether a model must be what its fingerprint.json says was saved")


@dataclass(frozen=True, kw_only=True)
class Loading(Opening):
    """How a model folder is opened to be asked."""

    dtype: Dtype = option(
        "float32", "what weights and numbers are held in; bfloat16 halves the memory, with 3 digits each"
    )
    adapter: Annotated[list[str] | None, Parameter(negative="")] = option(
        None, "folder of an adapter (LoRA) to put on the model; may be given several times", path=True
    )

    def __post_init__(self) -> None:
        check_values(self)


@dataclass(frozen=True, kw_only=True)
class Writing:
    """Where results go."""

    out: str | None = option(None, "new file to write the JSON lines to, instead of printing", path=True)
    json: Annotated[bool, Parameter(negative="")] = option(False, "print JSON also on a terminal")

    def __post_init__(self) -> None:
        check_values(self)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a file of texts is read."""

    text_column: str | None = option(None, "column of the texts; else text, sentence or review")
    pair_column: str | None = option(None, "column of the second text, where a row holds a pair of texts")
    label_column: str | None = option(None, "column of the labels; else label or sentiment")
    label_separator: str = option("|", "what separates labels in a cell, where a text may have several")
    format: Format | None = option(None, "format of the file, where its name does not tell")
    empty: Empty = option("error", "what to do with a text that is empty or only white space")
    long: Long | None = option(
        None,
        "a text longer than the model takes: cut it, refuse it, or read it in windows; results tell; else it "
        "is cut, and answers are looked for in windows",
    )
    stride: int | None = option(
        None,
        "windows: tokens by which each begins after the one before; else half a window, where a language "
        "model is evaluated a whole one",
    )

    def __post_init__(self) -> None:
        check_values(self)
        if self.stride is not None:
            at_least("stride", self.stride, least=1)

    def reading(self) -> dict[str, Any]:
        """These options alone, of settings that have others too."""
        return {item.name: getattr(self, item.name) for item in fields(Reading)}


@dataclass(frozen=True, kw_only=True)
class Asking(Sentences, Reading):
    """How a model is asked: evaluate and predict."""

    batch_tokens: int = option(2048, "tokens in a batch; the answers do not depend on it")
    abstain_below: float | None = option(
        None, "give no label where the best probability is below this; one label a text only"
    )

    def __post_init__(self) -> None:
        Reading.__post_init__(self)
        at_least("batch_tokens", self.batch_tokens, least=1)
        if self.abstain_below is not None and not 0 <= self.abstain_below <= 1:
            raise SettingError(f"--abstain-below {self.abstain_below} must be from 0 to 1")
