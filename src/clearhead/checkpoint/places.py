"""Positions as JSON, and back."""

from dataclasses import asdict
from typing import Any

from clearhead.errors import FolderError
from clearhead.model.config import (
    Learned,
    LinearScaling,
    Llama3Scaling,
    Positions,
    Relative,
    Rotary,
    Sinusoidal,
)

POSITIONS: dict[str, type] = {
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "rotary": Rotary,
    "relative": Relative,
}
SCALINGS: dict[str, type] = {"linear": LinearScaling, "llama3": Llama3Scaling}


def positions(value: dict[str, Any], source: str) -> Positions:
    """Positions from JSON such as {"kind": "learned", "count": 512}."""
    rest = dict(value)
    kind = rest.pop("kind", None)
    if kind not in POSITIONS:
        raise FolderError(
            f"{source}: positions of kind {kind!r} are not known; known: {', '.join(POSITIONS)}"
        )
    if scaling := rest.get("scaling"):
        name = scaling.get("kind")
        if name not in SCALINGS:
            raise FolderError(f"{source}: scaling {name!r} is not known; known: {', '.join(SCALINGS)}")
        rest["scaling"] = SCALINGS[name](**{key: value for key, value in scaling.items() if key != "kind"})
    return POSITIONS[kind](**rest)


def spelled(positions: Positions) -> dict[str, Any]:
    """Positions as JSON."""
    kind = next(name for name, kind in POSITIONS.items() if isinstance(positions, kind))
    said = {"kind": kind, **asdict(positions)}
    if scaling := getattr(positions, "scaling", None):
        name = next(name for name, kind in SCALINGS.items() if isinstance(scaling, kind))
        said["scaling"] = {"kind": name, **asdict(scaling)}
    return said
