"""Answers in texts: what is learned from, and how answers are looked for."""

from dataclasses import dataclass
from math import isnan
from typing import Annotated

from cyclopts import Parameter

from clearhead.errors import SettingError
from clearhead.settings.asking import Opening, Reading
from clearhead.settings.learning import Learning
from clearhead.settings.options import at_least, option, required
from clearhead.settings.sentences import Skipping

FINDERS = "Models that find answers in texts"  # the heading of their flags


@dataclass(frozen=True, kw_only=True)
class Finding:
    """How answers are looked for: evaluate and predict."""

    max_answer_tokens: Annotated[int, Parameter(group=FINDERS)] = option(30, "most tokens of an answer")
    no_answer_above: Annotated[float | None, Parameter(group=FINDERS)] = option(
        None,
        "say that there is no answer where its score is above the best answer's by more than this; else as "
        "the model's config says (null_score_diff_threshold), and never where it says nothing",
    )

    def __post_init__(self) -> None:
        at_least("max_answer_tokens", self.max_answer_tokens, least=1)
        if self.no_answer_above is not None and isnan(self.no_answer_above):
            raise SettingError(f"--no-answer-above {self.no_answer_above} is no number; give one, or inf")


@dataclass(frozen=True, kw_only=True)
class Answerer(Opening, Skipping, Reading, Learning):
    """A run that trains a model to find answers in texts."""

    data: Annotated[str, Parameter(allow_leading_hyphen=True)] = required(
        "file of questions: SQuAD's .json, or .jsonl, .csv or .tsv with question, context, answer, start; "
        "also .gz",
        path=True,
    )
    epochs: int | None = option(2, "times each question is seen")
    batch_tokens: int = option(4096, "tokens in a batch; there are no padding tokens")
    max_answer_tokens: int = option(30, "most tokens of an answer, where the model is scored")

    def __post_init__(self) -> None:
        Learning.__post_init__(self)
        Reading.__post_init__(self)
        at_least("max_answer_tokens", self.max_answer_tokens, least=1)
        if self.base == "new":
            raise SettingError(
                "--from new: where an answer stands is learned by a model that knows the language; give a "
                "name or a folder"
            )
