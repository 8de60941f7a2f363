"""A text looked at as the model is, and with heads switched off: what the live page asks for."""

from collections.abc import Sequence
from typing import Any

from clearhead.errors import SettingError
from clearhead.explain.asked import whole_numbers
from clearhead.explain.edit import Edit, ablate, edit
from clearhead.explain.look import Look, look
from clearhead.explain.told import answers, shown
from clearhead.infer.model import Model
from clearhead.text.encoding import Text

STACKS: dict[str, dict[str, bool]] = {
    "self": {},
    "decoder": {},
    "cross": {"cross": True},
    "encoder": {"encoder": True},
}


def tried(model: Model, text: Text, *, off: Sequence[Sequence[Any]] = (), **chosen: Any) -> dict[str, Any]:
    """What a page shows of a look at a text with these heads off, each its kind of attention, layer and head;
    under `before` what the model answers with all of them on, None where none is off. `chosen` is as in
    `look`. Raises `SettingError` for a head that is not there, `DataError` as `look` does."""
    edits = [switched_off(model, one) for one in off]
    with edit(model, *edits):
        found = shown(look(model, text, **chosen))
    return found | {"before": before(look(model, text, **chosen)) if edits else None}


def before(found: Look) -> dict[str, Any]:
    """The answers alone."""
    return {"answers": answers(found), "answer": found.answer}


def switched_off(model: Model, given: Sequence[Any]) -> Edit:
    """The edit that leaves out one head."""
    kinds = ("cross", "encoder", "decoder") if model.translates else ("self",)
    if not isinstance(given, list | tuple) or len(given) != 3 or given[0] not in kinds:
        raise SettingError(f"off={given!r:.60} is no head: give {' or '.join(kinds)}, its layer and its head")
    kind, layer, head = given
    whole_numbers([layer, head], "off")
    if not 0 <= head < model.config.heads:
        raise SettingError(f"head={head}: the model has {model.config.heads}, 0 to {model.config.heads - 1}")
    return ablate(layer, head, **STACKS[kind])
