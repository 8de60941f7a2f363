"""Rows and files of texts → what stands behind masks, and how well a model knows hidden tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from clearhead.data.rows import Row
from clearhead.data.wording import place
from clearhead.errors import SettingError
from clearhead.infer.model import Model
from clearhead.infer.perplexity import context_of, refuse_long, texts_of
from clearhead.settings import Asking, Filling, Scoring
from clearhead.tasks.fill import Filled, FillScores, Gaps, Hiding


@dataclass(frozen=True)
class FillEvaluation:
    """What came of it."""

    metrics: FillScores
    context: int
    seconds: float


def fill_rows(
    model: Model, rows: Sequence[Row], *, settings: Asking, candidates: int
) -> list[tuple[Row, Filled]]:
    """One answer a row, in order; a text of only white space, where it is let through, gets no masks.

    Raises `DataError`, naming file and row, for a text without a mask, or one longer than the model takes
    that is not to be cut or read in windows.
    """
    asked = [row for row in rows if not row.blank]
    names = [place(row.file, row.row) for row in asked]
    texts = [row.asked for row in asked]
    found = iter(model.filled(texts, names, candidates=candidates, asking=settings))
    return [(row, Filled((), 0) if row.blank else next(found)) for row in rows]


def evaluate_fill(
    model: Model, data: str | Path, *, asking: Asking, scoring: Scoring, filling: Filling
) -> FillEvaluation:
    """Loss, perplexity and accuracy over hidden tokens of a file of texts, or of a folder of such files.

    Which tokens are hidden follows from the seed and each text alone. Raises `DataError` where there is no
    token to hide, `SettingError` for a context beyond the model's.
    """
    begin = perf_counter()
    refuse_long(model, asking)
    if asking.stride is not None:
        raise SettingError(f"--stride is for language models, and {model.name} fills masks; leave it out")
    context = context_of(model, scoring)
    texts = texts_of(data, asking=asking, scoring=scoring)
    hiding = Hiding(model.tokenizer, filling, seed=filling.mask_seed, source=model.name)
    gaps = Gaps(texts, model.tokenizer, hiding=hiding, context=context)
    gaps.check(f"the texts of {data}", source=model.name)
    budget = max(asking.batch_tokens, context)
    scores = gaps.scores(model.loaded.network, texts=len(texts), budget=budget)
    return FillEvaluation(scores, context, perf_counter() - begin)
