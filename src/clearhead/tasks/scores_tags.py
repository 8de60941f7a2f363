"""Scores of a tagger: how many entities it finds, whole and of the right type."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clearhead.data.schemes import Place


@dataclass(frozen=True)
class TypeScore:
    """How one type of entity fares: `entities` of it are there, the model gave `given`. A ratio without
    cases is 0, as is its F1."""

    label: str
    precision: float
    recall: float
    f1: float
    entities: int
    given: int


@dataclass(frozen=True)
class TagMetrics:
    """Scores over a set of texts, all between 0 and 1 but `loss` (nats a word).

    An entity is right if its type, its first and its last word are (Tjong Kim Sang & De Meulder 2003);
    `precision`, `recall` and `f1` are those of all entities together, `macro_f1` is the plain mean over the
    model's types. What the model began with an I- does not count as given, as in seqeval's strict mode for
    IOB2. `accuracy` is the share of words whose tag is right.
    """

    texts: int
    words: int
    entities: int
    loss: float
    precision: float
    recall: float
    f1: float
    macro_f1: float
    accuracy: float
    classes: tuple[TypeScore, ...]

    def summary(self) -> dict[str, Any]:
        """The single numbers, under the names of the field (`eval_…`), for logs."""
        names = ("loss", "precision", "recall", "f1", "macro_f1", "accuracy")
        return {f"eval_{name}": getattr(self, name) for name in names}


def measure_tags(
    right: Sequence[Sequence[Place]], said: Sequence[Sequence[Place]], *, types: Sequence[str], words: int,
    same: int, loss: float,
) -> TagMetrics:  # fmt: skip
    """All scores from the entities of each text; `same` of the `words` have the right tag."""
    there = Counter(one.type for some in right for one in some)
    given = Counter(one.type for some in said for one in some)
    hits = Counter(
        one.type for some, others in zip(right, said, strict=True) for one in set(some).intersection(others)
    )
    names = [*types, *sorted(there.keys() - set(types))]
    classes = tuple(
        TypeScore(name, *ratios(hits[name], given[name], there=there[name]), there[name], given[name])
        for name in names
    )
    precision, recall, f1 = ratios(hits.total(), given.total(), there=there.total())
    return TagMetrics(
        texts=len(right),
        words=words,
        entities=there.total(),
        loss=loss,
        precision=precision,
        recall=recall,
        f1=f1,
        macro_f1=sum(score.f1 for score in classes) / max(1, len(classes)),
        accuracy=same / max(1, words),
        classes=classes,
    )


def ratios(hits: int, given: int, *, there: int) -> tuple[float, float, float]:
    """Precision, recall and F1; 0 where there are no cases."""
    both = given + there
    return hits / given if given else 0.0, hits / there if there else 0.0, 2 * hits / both if both else 0.0
