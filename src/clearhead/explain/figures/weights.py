"""Weights as they were recorded: of all heads at once, of one, from an answer to its text, and followed
through all layers."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from clearhead.engine.modes import own_modes
from clearhead.errors import SettingError
from clearhead.explain.effects import rollout as rolled
from clearhead.explain.figures.canvas import canvas, heat, named, scale, shares, square
from clearhead.explain.figures.given import Given, refuse_long
from clearhead.explain.figures.numbers import Array, columns_of, example, example_of_heads, xs
from clearhead.explain.look import Weights
from clearhead.explain.record import record

READABLE = 100  # tokens whose names can stand beside a matrix


class Grid(NamedTuple):
    """Weights of some layers and heads: `[layers, heads, queries, keys]`, and their numbers."""

    kind: str
    values: Array
    layers: Sequence[int]
    heads: Sequence[int]


def grid_of(weights: Weights) -> Grid:
    """Of what was looked at."""
    return Grid(weights.kind, weights.values.double().numpy(), weights.layers, weights.heads)


def heads(given: Given) -> Figure:
    """A small matrix for each head, layers down, heads across; of a translator those of its encoder, of its
    decoder, and from one to the other."""
    given.no_layer()
    if given.example:
        drawn = example_of_heads()
        values = np.stack([columns_of(drawn, head).T for head in range(len(drawn.heads))])[None]
        grids = [Grid("self", values, [0], [0, 1])]
        whose = "Of the source's example of multi-head attention: six tokens, two heads."
    else:
        grids, whose = [grid_of(one) for one in given.every], given.whose()
    tiles = [one.values.shape[:2] for one in grids]
    each = 0.62 if max(many for many, _ in tiles) <= 12 else 0.46
    each = 1.7 if tiles == [(1, 2)] else each
    across = sum(each * many for _, many in tiles)
    figure = canvas(
        max(6.4, across + 0.6 * len(tiles) + 1.2),
        each * max(many for many, _ in tiles) + 1.7,
        title="The weights of all heads: queries down, keys across in each",
        caption=whose + " Colours grow with the root of the weight.",
    )
    every = figure.subplots(1, len(grids), squeeze=False, width_ratios=[many for _, many in tiles])[0]
    for axes, one in zip(every, grids, strict=True):
        image = heat(axes, tiled(one.values), colours="share", norm=shares(0.5))
        image.set_cmap(image.cmap.with_extremes(bad="white"))
        labelled(axes, one)
    scale(figure, image, axes=list(every), label="weight", shrink=0.6, aspect=30)
    return figure


def tiled(values: Array) -> Array:
    """All matrices in one, with room between them that is no number."""
    layers, many, queries, keys = values.shape
    gap = max(1, round(max(queries, keys) * 0.08))
    made = np.full((layers * (queries + gap) - gap, many * (keys + gap) - gap), np.nan)
    for layer in range(layers):
        for head in range(many):
            down, across = layer * (queries + gap), head * (keys + gap)
            made[down : down + queries, across : across + keys] = values[layer, head]
    return made


def labelled(axes: Axes, one: Grid) -> None:
    """Numbers of layers and heads beside the tiles, which are as tall as they are wide."""
    layers, many, queries, keys = one.values.shape
    gap = max(1, round(max(queries, keys) * 0.08))
    named(axes)
    axes.set_yticks(
        [n * (queries + gap) + queries / 2 - 0.5 for n in range(layers)], [str(n) for n in one.layers]
    )
    axes.set_xticks([n * (keys + gap) + keys / 2 - 0.5 for n in range(many)], [str(n) for n in one.heads])
    axes.set(ylabel="layer", xlabel="head")
    if one.kind != "self":
        axes.set_title({"cross": "answer → text", "encoder": "text", "decoder": "answer"}[one.kind], pad=8)
    axes.set_aspect((keys + gap) / (queries + gap))
    for spine in axes.spines.values():
        spine.set_visible(False)


def head(given: Given) -> Figure:
    """One head's weights with the tokens beside them; of a translator one of its encoder's."""
    if given.example:
        given.one_layer(1), given.one_head(1)
        values, where = columns_of(example()).T, ""
        queries = keys = list(xs(3))
    else:
        found = given.weights("self")
        layer, number = chosen(given, found)
        values = found.values[found.layers.index(layer), found.heads.index(number)].double().numpy()
        queries, keys = ([token.text for token in side] for side in (found.queries, found.keys))
        where = f", layer {layer}, head {number}"
    return one_matrix(given, values, queries=queries, keys=keys, title="The weights of one head", where=where)


def chosen(given: Given, found: Weights) -> tuple[int, int]:
    """The layer and head that were asked for, or the first that were looked at."""
    made = []
    for name, number, every in (("layer", given.layer, found.layers), ("head", given.head, found.heads)):
        asked = every[0] if number is None else number + every[-1] + 1 if number < 0 else number
        if asked not in every:
            raise SettingError(f"{name}={number} was not looked at; {', '.join(map(str, every))} were")
        made.append(asked)
    return made[0], made[1]


def one_matrix(
    given: Given, values: Array, *, queries: Sequence[str], keys: Sequence[str], title: str, where: str
) -> Figure:
    """A matrix of weights, queries down, with all its tokens."""
    refuse_long(given, max(len(queries), len(keys)), most=READABLE)
    each = 0.175 if max(len(queries), len(keys)) > 12 else 0.4
    figure = canvas(
        max(4.6, each * len(keys) + 2.6),
        max(2.2, each * len(queries)) + 2.0,
        title=title,
        caption=given.whose(where)
        + " A row sums to 1."
        + ("" if each == 0.4 else " Colours grow with the root."),
    )
    axes = figure.subplots()
    power = 1 if each == 0.4 else 0.5
    image = heat(axes, values, colours="share", norm=shares(power), numbers=2 if len(keys) <= 8 else None)
    named(axes, rows=queries, columns=keys, size=8 if each == 0.4 else 7)
    axes.set(ylabel="from (query)", xlabel="to (key)")
    square(axes)
    scale(figure, image, axes=axes, label="weight", shrink=0.7)
    return figure


def cross(given: Given) -> Figure:
    """From each token of an answer to the text; the mean over layers and heads where none is chosen. It is
    where a translator looked, which is often but not always what it translates (Koehn & Knowles 2017)."""
    given.refuse_example("the reference example has no second text")
    found = given.weights("cross")
    if not found.layers:
        raise SettingError("the decoder has none of the layers that were chosen; choose others")
    layers, numbers = found.layers, found.heads
    if given.layer is not None or given.head is not None:
        layer, number = chosen(given, found)
        layers = (layer,) if given.layer is not None else layers
        numbers = (number,) if given.head is not None else numbers
    rows = [found.layers.index(one) for one in layers]
    picked = found.values[rows][:, [found.heads.index(one) for one in numbers]]
    values = picked.double().numpy().mean((0, 1))
    parts = [
        f"layer {layers[0]}" if len(layers) == 1 else f"the mean of {len(layers)} layers",
        f"head {numbers[0]}" if len(numbers) == 1 else f"of {len(numbers)} heads",
    ]
    queries, keys = ([token.text for token in side] for side in (found.queries, found.keys))
    title = "From each token of the answer to the text it was made of"
    where = f", {', '.join(parts)}"
    return one_matrix(given, values, queries=queries, keys=keys, title=title, where=where)


@own_modes()
def rollout(given: Given) -> Figure:
    """The product of the layers' mean weights, each mixed half and half with the stream that goes by (Abnar &
    Zuidema 2020, section 3), up to the last layer or the one that was chosen."""
    given.refuse_example("one layer has nothing to be followed through")
    if given.head is not None:
        raise SettingError(f"figure rollout is of the mean of all heads; leave head={given.head} out")
    with record(given.given_model) as seen:
        given.source.run()
    (one,) = seen.sources if given.given_model.translates else seen.records
    reached = rolled(one).double().numpy()
    layer = given.one_layer(len(reached), default=-1)
    return one_matrix(
        given,
        reached[layer],
        queries=given.tokens,
        keys=given.tokens,
        title="Attention followed through the layers: how much of each token reaches each place",
        where=f", behind layer {layer}",
    )
