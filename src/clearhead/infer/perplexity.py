"""How well a language model knows the texts of a file."""

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from clearhead.data.documents import documents
from clearhead.errors import DataError, SettingError
from clearhead.infer.model import Model
from clearhead.settings import Asking, Scoring
from clearhead.tasks.language import LanguageScores
from clearhead.tasks.pieces import Pieces, ids_of

CONTEXT = 1024  # tokens read at a time by a model without a limit


@dataclass(frozen=True)
class LanguageEvaluation:
    """What came of it."""

    metrics: LanguageScores
    context: int
    seconds: float


def context_of(model: Model, scoring: Scoring) -> int:
    """How many tokens are read at a time; SettingError for more than the model takes."""
    context = scoring.context or model.limit or CONTEXT
    if model.limit is not None and context > model.limit:
        raise SettingError(f"--context {context} is more than {model.name} takes: {model.limit} tokens")
    return context


def texts_of(data: str | Path, *, asking: Asking, scoring: Scoring) -> list[str]:
    """The documents of a file of texts, or of a folder of such files."""
    how: dict[str, Any] = {
        "text_column": asking.text_column,
        "format": asking.format,
        "errors": scoring.errors,
    }
    return list(documents([str(data)], whole=scoring.documents == "file", **how))


def refuse_long(model: Model, asking: Asking) -> None:
    """Refuse a rule for long texts where texts are read in pieces anyway."""
    if asking.long is not None:
        raise SettingError(
            f"--long {asking.long} is for texts that are read whole; {model.name} is evaluated on pieces of "
            "--context tokens: leave it out"
        )


def evaluate_language(
    model: Model, data: str | Path, *, asking: Asking, scoring: Scoring
) -> LanguageEvaluation:
    """Loss, perplexity and bits per byte of a file of texts, or of a folder of such files.

    Raises `DataError` where there is no text, `SettingError` for a context beyond the model's.
    """
    begin = perf_counter()
    refuse_long(model, asking)
    context = context_of(model, scoring)
    if asking.stride is not None and asking.stride > context:
        raise SettingError(f"--stride {asking.stride} is more than the {context} tokens of the context")
    texts = texts_of(data, asking=asking, scoring=scoring)
    pieces = Pieces.of(ids_of(model.tokenizer, texts), context=context, stride=asking.stride)
    if not pieces.spans:
        raise DataError(f"{data} holds no text that a token of could be told from those before; give another")
    scores = pieces.scores(
        model.loaded.network,
        texts=len(texts),
        bytes=sum(len(text.encode()) for text in texts),
        budget=max(asking.batch_tokens, context),
    )
    return LanguageEvaluation(scores, context, perf_counter() - begin)
