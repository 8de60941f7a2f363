"""What an answer comes of: what each layer would say, what it hangs on, and what heads do in general."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from clearhead.explain.attribution import attribution as attributed
from clearhead.explain.effects import effects as measured
from clearhead.explain.effects import head_scores
from clearhead.explain.figures.canvas import (
    BLUE,
    GREY,
    INK,
    LINES,
    RED,
    canvas,
    heat,
    named,
    plain,
    scale,
    shares,
    shown,
    signed,
    square,
)
from clearhead.explain.figures.given import Given, refuse_long
from clearhead.explain.figures.numbers import Array
from clearhead.explain.lens import Lens
from clearhead.explain.lens import lens as lens_of
from clearhead.explain.objective import Objective

LAST = 12  # tokens whose guesses are written out
WORD = 11  # characters of a guess
OF_TOKENS = ("next token", "masked token", "tag", "answer")


def lens(given: Given) -> Figure:
    """The model's own head on the stream behind each block (nostalgebraist 2020)."""
    given.refuse_example("the lens needs a head that answers")
    given.no_layer()
    found = given.seen.lens if given.seen else lens_of(given.reading)
    return written(given, found) if found.kind in OF_TOKENS else drawn(given, found)


def written(given: Given, found: Lens) -> Figure:
    """The best guess of each layer for each token, later layers above."""
    kept = range(max(0, len(found.tokens) - LAST), len(found.tokens))
    best = [[row[place][0] for place in kept] for row in found.layers]
    values = np.array([[guess.probability for guess in row] for row in best])
    some = f" The last {len(kept)} of {len(found.tokens)} tokens." if kept.start else ""
    figure = canvas(
        0.82 * len(kept) + 2.6,
        0.21 * len(best) + 2.0,
        title=f"What each layer would already answer ({found.kind})",
        caption=given.whose() + some + " Layer 0 is the stream before the first block.",
    )
    axes = figure.subplots()
    image = heat(axes, values, colours="share", norm=shares())
    for (layer, place), value in np.ndenumerate(values):
        colour = "w" if value > 0.6 else INK
        word = shown(spaced(best[layer][place].text), WORD)
        axes.text(place, layer, word, ha="center", va="center", fontsize=6.8, color=colour)
    named(
        axes,
        rows=[str(layer) for layer in range(len(best))],
        columns=[spaced(found.tokens[place]) for place in kept],
    )
    for label in axes.get_xticklabels():
        label.set(rotation=30, ha="left")
    axes.set(ylabel="layer", ylim=(-0.5, len(best) - 0.5))
    scale(figure, image, axes=axes, label="probability", shrink=0.8)
    return figure


def spaced(name: str) -> str:
    """A name in a vocabulary, with the signs of vocabularies for a space and a line's end as ours."""
    return name.translate({ord("Ġ"): "␣", ord("▁"): "␣", ord("Ċ"): "␊"})


def drawn(given: Given, found: Lens) -> Figure:
    """One line for each label, or for how like each layer's vector is to the last one's."""
    names = [guess.text for guess in found.layers[-1][0]][: len(LINES)]
    figure = canvas(
        6,
        3.2,
        title="How like each layer's vector is to the last one's"
        if found.kind == "vector"
        else "What each layer would already answer",
        caption=given.whose() + " Layer 0 is the stream before the first block.",
    )
    axes = figure.subplots()
    for name, colour, mark in zip(names, LINES, "osD^vP", strict=False):
        values = [next(guess.probability for guess in row[0] if guess.text == name) for row in found.layers]
        axes.plot(range(len(values)), values, f"{mark}-", color=colour, markersize=4, label=shown(name, 30))
    axes.set(xlabel="layer", ylabel=found.unit)
    axes.set_xticks(range(len(found.layers)))
    if found.kind != "vector":
        axes.legend(frameon=False, fontsize=8)
    plain(axes)
    return figure


def what_of(found: Objective) -> str:
    """What was measured, in words."""
    if found.unit == "nats":
        return f"the log-probability of “{shown(found.name, 40)}”, in nats"
    return f"{shown(found.name, 40)}, in {found.unit}"


def effects(given: Given) -> Figure:
    """Heads, attentions and feed-forward networks left out, one at a time (Michel et al. 2019)."""
    given.refuse_example("without an answer nothing can hang on a head")
    given.no_layer()
    found = measured(given.reading)
    heads, parts = found.heads.double().numpy(), found.parts.double().numpy()
    cross = None if found.cross is None else found.cross.double().numpy()
    matrices = [
        ("heads", heads),
        *([] if cross is None else [("heads to the text", cross)]),
        ("parts", parts),
    ]
    layers, many = heads.shape
    each = 0.32 if layers <= 12 else 0.24
    widths = [max(matrix.shape[1], 3) for _, matrix in matrices]
    figure = canvas(
        each * sum(widths) + 3.9,
        each * layers + 2.1,
        title="How the answer changes without one head, or one part of a layer",
        caption=given.whose()
        + f" Measured: {what_of(found.objective)}. Red: without it, it rises; blue: it falls.",
    )
    every = figure.subplots(1, len(matrices), width_ratios=widths)
    norms = {"parts": signed(parts)} | dict.fromkeys(("heads", "heads to the text"), signed(heads, cross))
    columns = ["attention", *([] if cross is None else ["to the text"]), "feed-forward"]
    for axes, (name, matrix) in zip(every, matrices, strict=True):
        image = heat(axes, matrix, colours="signed", norm=norms[name])
        labels = columns if name == "parts" else [str(n) for n in range(many)]
        named(axes, rows=[str(layer) for layer in range(layers)], columns=labels)
        axes.set_title(name, pad=6)
        axes.set(ylabel="layer")
        if name != "parts":
            axes.set_xlabel("head")
        square(axes)
        if name == "parts" or axes is every[len(matrices) - 2]:
            scale(figure, image, axes=axes, label=f"change in {found.objective.unit}", shrink=0.7)
    return figure


def attribution(given: Given) -> Figure:
    """Integrated gradients by token (Sundararajan et al. 2017)."""
    given.refuse_example("without an answer no token can speak for it")
    given.no_layer()
    found = attributed(given.reading)
    values, tokens = found.values.double().numpy(), given.tokens
    refuse_long(given, len(tokens), most=100)
    sums = f"{values.sum():.3g} of {found.score - found.baseline:.3g}".replace("-", "−")
    figure = canvas(
        6,
        0.19 * len(tokens) + 1.6,
        title="How much each token speaks for the answer",
        caption=given.whose()
        + f" Measured: {what_of(found.objective)}. The bars sum to {sums} (the rest is the "
        "error of the integral).",
    )
    axes = figure.subplots()
    places = np.arange(len(tokens))
    axes.barh(places, values, color=[BLUE if value >= 0 else RED for value in values], height=0.72)
    axes.set_yticks(places, [shown(token) for token in tokens], fontsize=7.5)
    axes.axvline(0, color=GREY, linewidth=0.6)
    axes.set(
        ylim=(len(tokens) - 0.4, -0.6), xlabel=f"{found.objective.unit}: for it to the right, against it left"
    )
    plain(axes)
    return figure


def roles(given: Given) -> Figure:
    """Mean weights where each pattern would be, over random tokens that come twice (Olsson et al. 2022)."""
    given.refuse_example("its three tokens do not come twice")
    given.no_layer()
    found = head_scores(given.given_model)
    panels: Sequence[tuple[str, Array]] = [
        (name, getattr(found, kind).double().numpy())
        for name, kind in (
            ("the token before", "previous"),
            ("the first token", "first"),
            ("the same, before", "duplicate"),
            ("what came after it", "induction"),
        )
    ]
    layers, many = panels[0][1].shape
    each = 0.2 if layers <= 12 else 0.17
    figure = canvas(
        4 * max(each * many, 1.45) + 2.0,
        each * layers + 2.0,
        title="What heads look at, in random tokens that come twice",
        caption=f"{given.model_name}. Mean weights over 4 sequences; the same colours everywhere.",
    )
    every: Sequence[Axes] = figure.subplots(1, 4)
    for axes, (name, values) in zip(every, panels, strict=True):
        image = heat(axes, values, colours="share", norm=shares())
        axes.set(xlabel="head", ylabel="layer" if axes is every[0] else "")
        axes.set_xticks(range(0, many, 1 if many <= 6 else 3))
        axes.set_yticks(range(0, layers, 1 if layers <= 6 else 5))
        axes.set_title(f"{name}\nat most {values.max():.2f}", fontsize=8.5)
        axes.tick_params(length=2, labelsize=7.5)
        square(axes)
    scale(figure, image, axes=list(every), label="mean weight", shrink=0.7)
    return figure
