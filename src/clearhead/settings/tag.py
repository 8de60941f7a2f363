"""What a model learns that tags words."""

from dataclasses import dataclass, fields
from typing import Annotated, Literal

from cyclopts import Parameter

from clearhead.errors import SettingError
from clearhead.settings.asking import Long, Opening
from clearhead.settings.learning import Learning, Making
from clearhead.settings.options import at_least, flag, option, required
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
        made = [item.name for item in fields(Making) if getattr(self, item.name) != item.default]
        if made and self.base != "new":
            raise SettingError(
                f"{flag(made[0])} shapes a new model, but --from is {self.base}; use --from new"
            )
        at_least("vocab", self.vocab, least=1)
        if self.stride is not None:
            at_least("stride", self.stride, least=1)
        if self.freeze and self.base == "new":
            raise SettingError("--freeze keeps the body, and a new one knows nothing; give another --from")
