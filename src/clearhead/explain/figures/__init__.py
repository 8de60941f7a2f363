"""Figures of attention and of what it is part of: of the reference example, or of a model and a text.

The idea: a figure shows numbers that were computed or recorded, and nothing else; each has one name, and is
made by one call or one command. The border: matplotlib is known here alone, and imported when a figure is
drawn.

    draw("routing")                                   # the example of the source texts, in NumPy
    draw("head", model=model, text="great bread", layer=3, head=5)
"""

from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.errors import SettingError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from clearhead.explain.look import Look
    from clearhead.infer.model import Model
    from clearhead.text.encoding import Text

FIGURES = {
    "routing": "each output is a sum of all values, weighted by attention",
    "softmax": "products of queries and keys, and the weights that a softmax makes of them",
    "sparse": "one head as two large matrices: one for the values, one for the weights",
    "matrix": "the same in matrices drawn to scale, with tokens in columns and with tokens in rows",
    "scaling": "the weights before and after the products are divided by the root of the width",
    "positions": "what tells positions apart, and what becomes of it in a longer text",
    "permutation": "tokens in another order, with and without positions",
    "norms": "layer norm and batch norm of one text in two batches",
    "residual": "the gradient at each block with and without residual connections",
    "heads": "the weights of all heads of all layers at once",
    "head": "the weights of one head, token by token",
    "cross": "from each token of an answer to the text that it answers",
    "lens": "what each layer would already answer",
    "effects": "by how much the answer moves without a head, an attention or a feed-forward network",
    "attribution": "how much each token speaks for the answer",
    "rollout": "attention followed through all layers to the text",
    "roles": "heads that look one token back, at the first one, at the same one, or at what came after it",
}
MADE_IN = {
    "one_head": ("routing", "softmax", "sparse", "scaling"),
    "matrices": ("matrix",),
    "order": ("positions", "permutation"),
    "depth": ("norms", "residual"),
    "weights": ("heads", "head", "cross", "rollout"),
    "answers": ("lens", "effects", "attribution", "roles"),
}
ENDINGS = (".svg", ".png")


def draw(
    name: str,
    *,
    look: "Look | None" = None,
    model: "Model | None" = None,
    text: "Text | None" = None,
    layer: int | None = None,
    head: int | None = None,
) -> "Figure":
    """One of `FIGURES`: of the reference example, or of what was looked at, or of a model and a text.

    `layer` and `head` count from 0 (negative: from the last). Raises `SettingError` for a name that is not
    there, for what the model does not have, and, with the reason, where a figure makes no sense.
    """
    if name not in FIGURES:
        raise SettingError(f"figure {name!r} is not one of {', '.join(FIGURES)}")
    from clearhead.explain.figures.canvas import styled
    from clearhead.explain.figures.given import Given

    (place,) = (place for place, names in MADE_IN.items() if name in names)
    make = getattr(import_module(f"clearhead.explain.figures.{place}"), name)
    with styled():
        made: Figure = make(Given(name, look, model, text, layer, head))
    return made


def save(figure: "Figure", path: str | PathLike[str]) -> None:
    """Write a figure as SVG or PNG, as the name ends; the same figure gives the same bytes of SVG.

    Raises `SettingError` for another ending, or a place that cannot be written.
    """
    place = Path(path)
    if place.suffix.lower() not in ENDINGS:
        raise SettingError(f"{place}: a figure is written as {' or '.join(ENDINGS)}; end its name so")
    try:
        write(figure, place, kind=place.suffix[1:].lower())
    except OSError as error:
        raise SettingError(
            f"{place} cannot be written ({error.strerror or error}); give another place"
        ) from error


def write(figure: "Figure", place: Path, *, kind: str) -> None:
    """Write a figure as "svg" or "png", whatever the name."""
    from clearhead.explain.figures.canvas import styled

    nothing = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    with styled():
        figure.savefig(place, format=kind, metadata=nothing, dpi=160)
