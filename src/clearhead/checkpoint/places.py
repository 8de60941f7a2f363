"""Positions as JSON, and back; positions as they are stored."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import FolderError, SettingError
from clearhead.model.config import (
    Config,
    Learned,
    LinearScaling,
    Llama3Scaling,
    Positions,
    Relative,
    Rotary,
    Sinusoidal,
)
from clearhead.model.positions import CHUNK, sinusoids

POSITIONS: dict[str, type] = {
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "rotary": Rotary,
    "relative": Relative,
}
# Names of an encoder–decoder's tables: that of tokens, under which it may be there again, those of positions.
TABLE, TWINS = "shared.weight", tuple(f"{name}.embed_tokens.weight" for name in ("encoder", "decoder"))
SINES = tuple(f"{name}.embed_positions.weight" for name in ("encoder", "decoder"))
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


def refuse_other_sines(config: Config, given: Mapping[str, Tensor | None]) -> None:
    """Refuse stored positions of an encoder–decoder whose positions are sines, where they are none."""
    for name in SINES if isinstance(config.positions, Sinusoidal) else ():
        stored = given.get(name)
        if stored is not None and not is_sines(stored.float(), config.width):
            raise SettingError(f"{name} holds other numbers than sines, which is not supported")


def is_sines(table: Tensor, width: int) -> bool:
    """Whether these are the sines of places, as exact as two bytes hold them."""
    right = torch.cat([sinusoids(chunk, width) for chunk in range(1 + len(table) // CHUNK)])[: len(table)]
    right = torch.cat([right[:, 0::2], right[:, 1::2]], dim=1)
    return table.shape == right.shape and torch.allclose(table, right.float(), rtol=0, atol=5e-3)
