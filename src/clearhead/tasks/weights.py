"""How much the texts of each label count in the loss."""

from collections import Counter
from collections.abc import Sequence
from math import isfinite

from clearhead.data.rows import Row
from clearhead.errors import SettingError

BALANCED = "balanced"


def class_weights(wanted: str, rows: Sequence[Row], *, labels: tuple[str, ...]) -> tuple[float, ...]:
    """A weight for each label: as named (`good=1,bad=2.5`; others 1), or balanced.

    Balanced is published as texts / (labels · texts of the label), so that all labels together count alike.
    SettingError for a label that is not one of these and for a weight that is no number above 0.
    """
    if wanted == BALANCED:
        counts = Counter(row.label for row in rows)
        return tuple(len(rows) / (len(labels) * max(1, counts[label])) for label in labels)
    found = dict.fromkeys(labels, 1.0)
    for part in wanted.split(","):
        name, _, number = part.rpartition("=")
        try:
            weight = float(number)
        except ValueError:
            weight = -1.0
        if name.strip() not in found:
            known = ", ".join(labels[:10])
            raise SettingError(
                f"--class-weights {part!r} names no label; write balanced or label=weight,… with {known}"
            )
        if not isfinite(weight) or weight <= 0:
            raise SettingError(f"--class-weights {part!r}: the weight must be a number above 0")
        found[name.strip()] = weight
    return tuple(found.values())
