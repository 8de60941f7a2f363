"""Files of pairs of texts → how well vectors tell what belongs together."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from clearhead.checkpoint.files import run_in
from clearhead.data.couples import Couple, couples_of, scored
from clearhead.data.wording import place
from clearhead.errors import DataError
from clearhead.infer.embed import DOCUMENT, QUERY, embedded, prompt_of
from clearhead.infer.model import Model
from clearhead.settings import Embedded, Pairing, Reading
from clearhead.tasks.embed import (
    SCALE,
    PairScores,
    Vectors,
    largest_score,
    retrieval,
    similarity,
)


@dataclass(frozen=True)
class PairEvaluation:
    """What came of it. `truncated` counts texts that were cut."""

    metrics: PairScores
    truncated: int
    seconds: float


def evaluate_couples(
    model: Model,
    couples: Sequence[Couple],
    *,
    settings: Embedded,
    scale: float = SCALE,
    largest: float | None = None,
) -> tuple[PairScores, int]:
    """How well vectors tell what belongs together, or agree with scores; and how many texts were cut. First
    texts are read as queries and second ones as documents, where the model's folder has prompts for these and
    pairs have no scores."""
    where = {text: place(c.file, c.row) for c in reversed(couples) for text in (c.anchor, c.positive)}

    def vectors(texts: Iterable[str], roles: Sequence[str]) -> tuple[Mapping[str, Vectors], int]:
        each = list(dict.fromkeys(texts))
        names = [where[text] for text in each]
        found, examples = embedded(model, each, names=names, settings=settings, roles=roles)
        cut = sum(example.dropped > 0 for example in examples)
        return dict(zip(each, found.double().numpy(), strict=True)), cut

    ones, others = [c.anchor for c in couples], [c.positive for c in couples]
    if scored(couples):
        found, cut = vectors([*ones, *others], ())
        return similarity(couples, found, largest=largest or largest_score(couples)), cut
    prompts = {prompt_of(model, settings, roles=roles) for roles in (QUERY, DOCUMENT)}
    if len(prompts) == 1:
        found, cut = vectors([*ones, *others], QUERY)
        return retrieval(couples, found, candidates=found, scale=scale), cut
    (asking, cut), (found, more) = vectors(ones, QUERY), vectors(others, DOCUMENT)
    return retrieval(couples, asking, candidates=found, scale=scale), cut + more


def evaluate_pairs(
    model: Model, data: str, *, columns: Pairing, reading: Reading, settings: Embedded
) -> PairEvaluation:
    """The same for a file of pairs; one with an empty side is refused or, with `empty` "skip", left out."""
    begin = perf_counter()
    couples = list[Couple]()
    try:
        for couple in couples_of(data, columns, format=reading.format):
            if not couple.blank:
                couples.append(couple)
            elif reading.empty == "error":
                where = place(couple.file, couple.row)
                raise DataError(f"{where}: a text is empty; write one, or go on without it: --empty skip")
    except DataError as error:
        if "no column" not in str(error):
            raise
        raise DataError(
            f"{error}. {model.name} gives vectors, which are evaluated on pairs of texts; for labels it has "
            "to be trained: clearhead train classify"
        ) from error
    if not couples:
        raise DataError(f"{data} holds no pair with text on both sides; give some")
    scale, largest = learned(model)
    metrics, cut = evaluate_couples(model, couples, settings=settings, scale=scale, largest=largest)
    return PairEvaluation(metrics, cut, perf_counter() - begin)


def learned(model: Model) -> tuple[float, float | None]:
    """What cosines were multiplied and scores divided by in training, where the model's folder is that of the
    run; else the usual scale, and None."""
    run = run_in(Path(model.loaded.folder)) if model.loaded.folder else None
    if run is None:
        return SCALE, None
    said = run["settings"].get("scale"), run["resolved"].get("scores_divided_by")
    scale, largest = (float(one) if isinstance(one, int | float) and one > 0 else None for one in said)
    return scale or SCALE, largest
