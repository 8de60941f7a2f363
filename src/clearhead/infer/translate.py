"""Files of pairs → how a model's answers compare with those that are there."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from clearhead.data.parallel import Pair, pairs_of
from clearhead.data.rows import Row
from clearhead.data.wording import place
from clearhead.errors import DataError, MissingExtra
from clearhead.infer.continued import Continued, continued
from clearhead.infer.given import refuse_unread
from clearhead.infer.model import Model
from clearhead.settings import Asking, Comparing, Empty, Generating
from clearhead.settings.asking import Errors


@dataclass(frozen=True)
class TranslationScores:
    """How close answers are to references: BLEU (Papineni et al. 2002) and chrF (Popović 2015), 0 to 100,
    with the signatures by which others can compute the same (Post 2018)."""

    texts: int
    bleu: float
    chrf: float
    length_ratio: float  # of answers to references, in BLEU's words
    bleu_signature: str
    chrf_signature: str
    truncated: int  # texts that were cut
    unfinished: int  # answers that ended at their length


@dataclass(frozen=True)
class TranslationEvaluation:
    """What came of it."""

    metrics: TranslationScores
    seconds: float


def evaluate_translations(
    model: Model, paths: Sequence[str], *, asking: Asking, comparing: Comparing, errors: Errors = "strict"
) -> TranslationEvaluation:
    """BLEU and chrF of the model's answers to the pairs of files; one with an empty side is refused or, with
    `empty` "skip", left out. Options that are not read are refused."""
    begin = perf_counter()
    by = f"the evaluation of {model.name}, which turns a text into another"
    refuse_unread(asking, read=("format", "empty", "long"), by=by)
    pairs = usable(pairs_of(paths, comparing, format=asking.format, errors=errors), empty=asking.empty)
    if not pairs:
        raise DataError(f"{', '.join(paths)}: no pair has text on both sides; give files that hold some")
    found = translated(model, pairs, asking=asking, ways=comparing, prefix=comparing.prefix or "")
    answers = [answer.answer or "" for answer in found]
    scored = scores(answers, [pair.target for pair in pairs])
    told = TranslationScores(
        len(pairs),
        **scored,
        truncated=sum(answer.dropped > 0 for answer in found),
        unfinished=sum(answer.end == "length" for answer in found),
    )
    return TranslationEvaluation(told, perf_counter() - begin)


def usable(pairs: Iterable[Pair], *, empty: Empty) -> list[Pair]:
    """The pairs that have text on both sides; `DataError` by place for another where `empty` is "error"."""
    found = list[Pair]()
    for pair in pairs:
        if not pair.blank:
            found.append(pair)
        elif empty == "error":
            where, side = place(pair.file, pair.row), "source" if not pair.source.strip() else "target"
            raise DataError(f"{where}: the {side} is empty; write one, or leave such pairs out: --empty skip")
    return found


def translated(
    model: Model,
    pairs: Sequence[Pair],
    *,
    asking: Asking,
    ways: Generating,
    prefix: str = "",
    context: int | None = None,
) -> list[Continued]:
    """The model's answer to each pair's text, in order; of a text at most `context` tokens are read."""
    rows = [Row(pair.source, None, pair.file, pair.row, {}) for pair in pairs]
    found = continued(model, rows, settings=ways, asking=asking, prefix=prefix, context=context)
    return [answer for _, answer in found]


def scores(answers: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """sacreBLEU's BLEU and chrF of a corpus."""
    try:
        from sacrebleu.metrics import BLEU, CHRF
    except ImportError as error:
        raise MissingExtra("the score BLEU (sacrebleu)", "metrics") from error
    bleu, chrf = BLEU(), CHRF()
    found, other = (metric.corpus_score(list(answers), [list(references)]) for metric in (bleu, chrf))
    return {
        "bleu": found.score,
        "chrf": other.score,
        "length_ratio": found.ratio,
        "bleu_signature": str(bleu.get_signature()),
        "chrf_signature": str(chrf.get_signature()),
    }


def files_of_pairs(data: str | Path, comparing: Comparing) -> list[str]:
    """One file of pairs, or two of lines."""
    return [str(data), *([comparing.references] if comparing.references else [])]
