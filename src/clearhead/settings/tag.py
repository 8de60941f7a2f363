"""What a model learns that tags words."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from clearhead.settings.asking import Long, Opening
from clearhead.settings.learning import Learning, Making, shaped
from clearhead.settings.options import at_least, option, required
from clearhead.settings.sentences import Sentences

TagMeasures = Literal["f1", "macro_f1", "accuracy", "loss"]


@dataclass(frozen=True, kw_only=True)
class Tagging(Opening, Making, Sentences, Learning):
    """A run that learns to tag words from a file of tagged sentences."""

    data: Annotated[str, Parameter(allow_leading_hyphen=True)] = required(
        "file of tagged sentences: CoNLL (a word and its tag a line) or .jsonl; also .gz; - is stdin",
        path=True,
    )
    format: Literal["conll", "jsonl"] | None = option(
        None, "format of the file, where its name does not tell: conll or jsonl"
    )
    long: Long | None = option(
        None, "a sentence longer than the model takes: cut it (usual), refuse it, or read it in windows"
    )
    stride: int | None = option(
        None, "windows: tokens by which each begins after the one before; else half a window"
    )
    freeze: Annotated[bool, Parameter(negative="")] = option(
        False, "train the head alone; the body's vectors are computed once, without dropout"
    )
    metric: TagMeasures | None = option(None, "what the best model is chosen by; else f1, that of entities")

    def __post_init__(self) -> None:
        Learning.__post_init__(self)
        shaped(self, Making)
        at_least("vocab", self.vocab, least=1)
        if self.stride is not None:
            at_least("stride", self.stride, least=1)
