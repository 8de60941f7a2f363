"""The texts a model was most wrong about."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clearhead.data.rows import Row
from clearhead.explain.wording import decimal
from clearhead.tasks.classify import Result
from clearhead.tasks.regress import NumberResult
from clearhead.tasks.several import SeveralResult
from clearhead.tasks.task import Answer


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A text that got another label than its own; `score` is the probability the model gave its guess, None
    where a guess has none (a number, several labels)."""

    text: str
    right: str
    guessed: str
    score: float | None
    file: str
    row: int


def most_confident_mistakes(
    rows: Sequence[Row], results: Sequence[Answer], *, most: int = 12
) -> list[Mistake]:
    """The wrong answers with the highest probability, that one first; of equals, in the order of the rows.

    Where a text may have several labels, the probability is that of the label it was most wrong about; of
    numbers, those come first that are furthest off. Rows without a label and texts that were skipped are
    neither right nor wrong.
    """
    found = [pair for row, result in zip(rows, results, strict=True) for pair in wrong(row, result)]
    return [mistake for _, mistake in sorted(found, key=lambda pair: -pair[0])[:most]]


def wrong(row: Row, result: Answer) -> Iterator[tuple[float, Mistake]]:
    """How wrong an answer is, with the mistake; nothing where it is right."""
    text = row.text if row.pair is None else f"{row.text} | {row.pair}"
    if row.label is None:
        return
    match result:
        case Result(label=str(label), score=float(score)):
            if label != row.label:
                yield (
                    score,
                    Mistake(
                        text=text, right=row.label, guessed=label, score=score, file=row.file, row=row.row
                    ),
                )
        case SeveralResult(labels=tuple(labels), scores=scores):
            worst = max(abs(score - (label in row.names)) for label, score in scores.items())
            if set(labels) != set(row.names):
                right, guessed = (", ".join(names) or "none" for names in (row.names, labels))
                yield (
                    worst,
                    Mistake(text=text, right=right, guessed=guessed, score=None, file=row.file, row=row.row),
                )
        case NumberResult(value=float(value)):
            if value != float(row.label):
                yield (
                    abs(value - float(row.label)),
                    Mistake(
                        text=text,
                        right=row.label,
                        guessed=decimal(value),
                        score=None,
                        file=row.file,
                        row=row.row,
                    ),
                )
