"""One head, step by step (Prince, figures 12.1 to 12.3): products, softmax, sums of values."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from clearhead.explain.figures.canvas import (
    BLUE,
    GREY,
    LINES,
    bare,
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
from clearhead.explain.figures.numbers import Array, OneHead, one_head

FEW = 6  # tokens whose numbers are written into cells
BLOCKS = 4  # tokens of large matrices
WIDE, END = 1.3, 3.3  # a strip of numbers is so wide; where those of outputs begin


def routing(given: Given) -> Figure:
    """Lines from values to outputs, as thick as the weights (Prince, figure 12.1)."""
    one = one_head(given)
    count, few = len(one.tokens), len(one.tokens) <= 4
    refuse_long(given, count, most=40)
    figure = canvas(
        8.4 if few else 7,
        1 + count * (0.85 if few else 0.24),
        title="Each output is a sum of all values, weighted by attention",
        caption=one.whose
        + " A line is as thick as its weight; a vector is a strip of its numbers."
        + ("" if few else " Weights below 0.02 are left out."),
    )
    axes = figure.subplots()
    norm = signed(one.values, one.outputs)
    for output in range(count):
        for value in range(count):
            line(axes, value, output=output, weight=float(one.weights[output, value]), few=few)
    half = 0.22 if few else 0.36
    for side, vectors, left in (("values", one.values, 0.0), ("outputs", one.outputs, END)):
        for place, vector in enumerate(vectors):
            at = left, left + WIDE, place + half, place - half
            image = heat(
                axes, vector[None], colours="signed", norm=norm, numbers=2 if few else None, extent=at
            )
            name, value = shown(one.tokens[place]), side == "values"
            edge = left - 0.06 if value else left + WIDE + 0.06
            axes.text(edge, place, name, ha="right" if value else "left", va="center")
        axes.text(left + WIDE / 2, -0.75, side, ha="center", va="center", fontsize=9.5)
    axes.set(xlim=(-0.75, END + WIDE + 0.75), ylim=(count - 0.4, -0.95))
    bare(axes)
    scale(figure, image, axes=axes, label="a number of a vector", shrink=0.6)
    return figure


def line(axes: Axes, value: int, *, output: int, weight: float, few: bool) -> None:
    """From a value to an output."""
    if weight < (0.005 if few else 0.02):
        return
    colour = LINES[output % len(LINES)] if few else BLUE
    thick, seen = 0.4 + 6 * weight, min(1, 0.25 + 0.7 * weight if few else 0.1 + 1.5 * weight)
    ends = [WIDE + 0.03, END - 0.03], [value, output]
    axes.plot(*ends, color=colour, linewidth=thick, alpha=seen, solid_capstyle="butt", zorder=1)
    if few:
        place = WIDE + 0.75 * (END - WIDE), value + 0.75 * (output - value)
        box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": colour, "linewidth": 0.6}
        axes.text(*place, f"{weight:.2f}", ha="center", va="center", fontsize=7, bbox=box, zorder=3)


def softmax(given: Given) -> Figure:
    """Products of queries and keys beside the weights that come of them (Prince, figure 12.3)."""
    one = one_head(given)
    count = len(one.tokens)
    refuse_long(given, count, most=64)
    each = max(2.4, count * 0.19)
    along = "column" if one.columns else "row"
    what = "products of queries and keys" + (f", times {one.scale:.3g}" if one.scale != 1 else "")
    more = " A bias for each distance is added between the two." if one.biased else ""
    if np.isnan(one.products).any():
        more += " Grey: a key that this query does not see."
    figure = canvas(
        2 * each + 2.4,
        each + 1.35,
        title=f"A softmax of each {along} makes weights of the products",
        caption=one.whose + more,
    )
    left, right = figure.subplots(1, 2)
    places = 2 if count <= FEW else None
    for axes, values, head in (
        (left, one.products, what),
        (right, one.weights, f"weights: a {along} sums to 1"),
    ):
        colours, norm = ("signed", signed(values)) if axes is left else ("share", fitting(count))
        image = heat(axes, turned(values, one), colours=colours, norm=norm, numbers=places)
        tokens_of(axes, one, head=head)
        scale(figure, image, axes=axes, label="product" if axes is left else "weight", shrink=0.6)
    return figure


def fitting(tokens: int) -> Normalize:
    """Colours of weights: among many tokens most are small, and grow with the root."""
    return shares(1 if tokens <= FEW else 0.5)


def turned(values: Array, one: OneHead) -> Array:
    """As its source writes it: outputs across, or queries down."""
    return values.T if one.columns else values


def tokens_of(axes: Axes, one: OneHead, *, head: str) -> None:
    """The tokens beside a matrix of weights."""
    count = len(one.tokens)
    named(axes, rows=one.tokens, columns=one.tokens, size=8 if count <= 24 else 6.5)
    axes.set_ylabel("keys" if one.columns else "queries")
    axes.set_xlabel("outputs" if one.columns else "keys")
    axes.set_title(head, pad=8)
    square(axes)


def scaling(given: Given) -> Figure:
    """The weights without and with the scale (Vaswani et al. 2017, section 3.2.1; Prince, equation 12.9)."""
    one = one_head(given)
    count, width = one.keys.shape
    refuse_long(given, count, most=64)
    each = max(2.2, count * 0.17)
    own = one.scale == 1
    figure = canvas(
        2 * each + 3.9,
        each + 1.35,
        title="Large products make extreme weights; divided by the root of the width they are less so",
        caption=one.whose
        + (" This model does not scale its products: the second is what it would be." if own else ""),
    )
    left, middle, right = figure.subplots(1, 3, width_ratios=[each, each, 1.4])
    both = one.with_scale(1.0), one.with_scale(width**-0.5)
    heads = "softmax of the products", f"of the products / √{width}"
    for axes, values, head in zip((left, middle), both, heads, strict=True):
        places = 3 if count <= FEW else None
        image = heat(axes, turned(values, one), colours="share", norm=fitting(count), numbers=places)
        tokens_of(axes, one, head=head)
    scale(figure, image, axes=[left, middle], label="weight", shrink=0.6)
    rows = np.arange(count)
    for values, colour, mark, label in zip(
        both, (LINES[1], BLUE), "so", ("as they are", "divided"), strict=True
    ):
        right.plot(values.max(1), rows, mark, color=colour, markersize=4, label=label)
    right.hlines(rows, both[1].max(1), both[0].max(1), color=GREY, linewidth=0.6, zorder=0)
    right.set(xlim=(0, 1.05), ylim=(count - 0.5, -0.5), title="largest weight")
    right.set_yticks(rows, [shown(token) for token in one.tokens], fontsize=8 if count <= 24 else 6.5)
    right.legend(fontsize=7, frameon=False, loc="upper center", bbox_to_anchor=(0.45, -0.08))
    plain(right)
    return figure


def sparse(given: Given) -> Figure:
    """Values as one matrix with blocks on its diagonal, weights as one of scaled unit matrices (Prince,
    figure 12.2): all tokens' numbers in one column, one token's below another's."""
    one = one_head(given)
    count = min(BLOCKS, len(one.tokens))
    values = np.kron(np.eye(count), one.matrix)
    width = one.values.shape[1]
    weights = np.kron(one.weights[:count, :count], np.eye(width))
    some = "" if count == len(one.tokens) else f" The first {count} of {len(one.tokens)} tokens."
    figure = canvas(
        8.4,
        4.3,
        title="One head as two large matrices, both mostly zeros",
        caption=one.whose + some + " Palest: exactly 0. Values get a bias besides.",
    )
    both = figure.subplots(1, 2)
    for axes, matrix, across in zip(both, (values, weights), (one.matrix.shape[1], width), strict=True):
        first = axes is both[0]
        image = heat(
            axes,
            matrix,
            colours="signed" if first else "share",
            norm=signed(matrix) if first else fitting(len(one.tokens)),
        )
        blocks(axes, one.tokens[:count], down=width, across=across)
        axes.set_title(
            "inputs → values: the same block for each" if first else "values → outputs: a weight times 1",
            pad=8,
        )
        axes.set(ylabel="values" if first else "outputs", xlabel="inputs" if first else "values")
        scale(figure, image, axes=axes, label="weight of the layer" if first else "attention", shrink=0.7)
        if across == width:
            square(axes)
    return figure


def blocks(axes: Axes, tokens: tuple[str, ...], *, down: int, across: int) -> None:
    """The names of a matrix's blocks, and lines between them."""
    named(axes)
    count = len(tokens)
    axes.set_yticks([(n + 0.5) * down - 0.5 for n in range(count)], [shown(token, 10) for token in tokens])
    turn = 90 if max(map(len, tokens)) > 4 else 0
    axes.set_xticks(
        [(n + 0.5) * across - 0.5 for n in range(count)],
        [shown(token, 10) for token in tokens],
        rotation=turn,
    )
    for n in range(1, count):
        axes.axhline(n * down - 0.5, color=GREY, linewidth=0.4)
        axes.axvline(n * across - 0.5, color=GREY, linewidth=0.4)
