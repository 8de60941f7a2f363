"""What a check found."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

RIGHT, SAME, KEPT, TEXT = "it is right", "same text, same answer", "nothing is lost", "text is text"


class Verdict(StrEnum):
    """Pass and fail are about promises; what is not promised for a model, dtype or device says so."""

    PASS = "pass"
    FAIL = "fail"
    NOT_PROMISED = "not promised"


@dataclass(frozen=True)
class Finding:
    """One law, held against one model: the verdict, the figure it rests on, and what it means where it
    failed."""

    promise: str
    law: str
    verdict: Verdict
    figure: str
    hint: str = ""


def judged(promise: str, law: str, *, holds: bool, figure: str, hint: str) -> Finding:
    """A finding that passes or fails; the hint is kept for a failure."""
    return Finding(promise, law, Verdict.PASS if holds else Verdict.FAIL, figure, "" if holds else hint)


def in_company(what: str, together: Sequence[object], *, alone: Sequence[object]) -> Finding:
    """The law that answers to texts are the same to the last bit whichever others are asked with them."""
    same = sum(one == other for one, other in zip(together, alone, strict=True))
    return judged(
        SAME,
        f"{what} every bit in any company",
        holds=same == len(alone),
        figure=f"{same} of {len(alone)} texts the same",
        hint="an answer depends on the others: on their number or their order",
    )
