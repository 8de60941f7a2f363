"""How much the texts of each label count in the loss."""

from collections import Counter
from collections.abc import Sequence

from clearhead.data.rows import Row
from clearhead.errors import SettingError
from clearhead.settings import BALANCED, named_weights


def class_weights(wanted: str, rows: Sequence[Row], *, labels: tuple[str, ...]) -> tuple[float, ...]:
    """A weight for each label: as named (`good=1,bad=2.5`; others 1), or balanced.

    Balanced is published as texts / (labels · texts of the label), so that all labels together count alike.
    SettingError for a label that is not one of these.
    """
    if wanted == BALANCED:
        counts = Counter(row.label for row in rows)
        return tuple(len(rows) / (len(labels) * max(1, counts[label])) for label in labels)
    named = named_weights(wanted)
    if unknown := [name for name in named if name not in labels]:
        comma = "; a label with a comma cannot be named" if any("," in label for label in labels) else ""
        raise SettingError(
            f"--class-weights {unknown[0]!r} names no label; "
            f"write balanced or label=weight,… with {', '.join(labels[:10])}{comma}"
        )
    return tuple(named.get(label, 1.0) for label in labels)
