"""Where a token stands: what tells positions apart, and what tokens in another order come to."""

from dataclasses import replace

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from clearhead.engine.modes import own_modes
from clearhead.errors import SettingError
from clearhead.explain.figures.canvas import (
    GREY,
    INK,
    canvas,
    heat,
    named,
    plain,
    scale,
    usual,
)
from clearhead.explain.figures.given import EXAMPLE, Given, refuse_long
from clearhead.explain.figures.numbers import Array, example, xs
from clearhead.infer.model import Model
from clearhead.model.config import Config, Learned, Relative, Rotary, Sinusoidal
from clearhead.model.layout import Batch, pack
from clearhead.model.positions import sinusoids, turns
from clearhead.reference import scaled_dot_product_self_attention, sinusoidal_positions

TRAINED, NUMBERS = 64, 64  # positions and numbers of the example
MOST = 24  # numbers of a vector that are drawn


def positions(given: Given) -> Figure:
    """Sinusoids (Vaswani et al. 2017, section 3.5), which go on for ever, and a table that was learned, which
    does not; of a model its own positions, beside sinusoids of the same size."""
    given.no_layer()
    if given.example:
        shape, own = (TRAINED, NUMBERS), np.random.RandomState(0).normal(size=(TRAINED, NUMBERS)) * 0.7
        parts = [
            ("sinusoids: any position can be computed", sinusoidal_positions(2 * TRAINED, NUMBERS)),
            ("learned: a row for each position, here drawn at random", ended(own)),
        ]
        caption = (
            f"{TRAINED} positions of {NUMBERS} numbers, and as many again; not of {EXAMPLE}, which has none."
        )
    else:
        config = given.given_model.config
        if isinstance(config.positions, Relative):
            return biases(given, config)
        trained = config.positions.count or TRAINED
        width = config.embedding_width or config.width
        shape = trained, min(width, 64)
        parts = [
            own_positions(given.given_model, trained),
            ("for comparison: sinusoids of the same width", sines(2 * trained, width)),
        ]
        caption = given.whose() + (
            f" {shape[1]} of {width} numbers, as far apart." if shape[1] < width else ""
        )
    figure = canvas(
        8.6,
        4.2,
        title="What tells positions apart, up to the longest text of training and beyond",
        caption=caption + " Below the line: positions that no text of training had; grey: there is none.",
    )
    for axes, (head, table) in zip(figure.subplots(1, 2), parts, strict=True):
        table = table[
            :, np.linspace(0, table.shape[1] - 1, min(shape[1], table.shape[1])).round().astype(int)
        ]
        image = heat(axes, table, colours="signed", norm=usual(table))
        axes.axhline(shape[0] - 0.5, color=INK, linewidth=1.4, linestyle="--")
        axes.set(ylabel="position", xlabel="number of the vector")
        axes.set_title(head)
        scale(figure, image, axes=axes, label="", shrink=0.8, extend="both")
    return figure


def ended(table: Array) -> Array:
    """A table that has no more rows, with as many that are no numbers below."""
    return np.concatenate([table, np.full_like(table, np.nan)])


def sines(count: int, width: int) -> Array:
    """Sinusoids of the first positions, as models here compute them."""
    chunks = [sinusoids(chunk, width) for chunk in range(-(-count // 512))]
    found: Array = torch.cat(chunks)[:count].numpy()
    return found


def own_positions(model: Model, trained: int) -> tuple[str, Array]:
    """What a model adds to its tokens, or turns its queries and keys by, twice as far as it was made for."""
    config = model.config
    match config.positions:
        case Learned(offset=offset):
            table = model.loaded.network.embedding.positions
            assert isinstance(table, torch.nn.Embedding)
            rows = table.weight.detach()[offset : offset + trained].double().numpy()
            return f"learned: {trained} rows, and no more", ended(rows)
        case Sinusoidal():
            found = sines(2 * trained, config.embedding_width or config.width)
            return "its sinusoids: any position can be computed", found
        case Rotary() as facts:
            turned = facts.turned(config.each_head)
            chunks = range(-(-2 * trained // 512))
            cosines = [turns(n, facts, turned=turned, base=facts.base)[0, :, : turned // 2] for n in chunks]
            return "rotary: cosines of the angles of each pair", torch.cat(cosines)[: 2 * trained].numpy()
    raise AssertionError(config.positions)


def biases(given: Given, config: Config) -> Figure:
    """What is added to products for each distance (Raffel et al. 2020, section 2.1), beyond the farthest one
    that has a bucket of its own or shares one."""
    facts = config.positions
    assert isinstance(facts, Relative)
    reach = 2 * facts.distance
    batch = pack([[0] * (reach + 1)])
    with torch.no_grad():
        module = given.given_model.loaded.network.encoder.relative
        assert module
        table = module(batch.layout).table.double().numpy()
    apart = np.arange(-reach, reach + 1)
    figure = canvas(
        7,
        3.6,
        title="Positions as a bias for each distance, the same for all distances that are far",
        caption=given.whose()
        + f" A line a head; dashed: {facts.distance} tokens, beyond which nothing changes.",
    )
    axes = figure.subplots()
    for head in table:
        axes.plot(apart, head, linewidth=1, alpha=0.8, drawstyle="steps-mid")
    for side in (-facts.distance, facts.distance):
        axes.axvline(side, color=GREY, linestyle="--", linewidth=0.8)
    axes.set(xlabel="position of the key − position of the query", ylabel="added to the product")
    plain(axes)
    return figure


def permutation(given: Given) -> Figure:
    """Outputs of tokens in another order, put back: the same without positions, and not with them (Prince,
    section 12.2.4)."""
    given.no_layer()
    without, with_them, order, names, caption = of_example() if given.example else of_model(given)
    count = len(names)
    figure = canvas(
        8.8,
        2 * max(1.2, 0.17 * count) + 1.7,
        title="Tokens in another order: without positions the outputs only change places",
        caption=f"{caption} Order: {' '.join(map(str, order))}. A row has one scale of colours.",
    )
    every = figure.subplots(2, 3)
    heads = "outputs", "outputs of the other order, put back", "difference"
    for row, (label, (plainly, back)) in enumerate(
        (("without positions", without), ("with positions", with_them))
    ):
        norm = usual(plainly[:, :MOST], back[:, :MOST])
        for column, values in enumerate((plainly, back, back - plainly)):
            axes: Axes = every[row, column]
            image = heat(axes, values[:, :MOST], colours="signed", norm=norm)
            named(axes, rows=names if not column else (), size=7.5)
            if not row:
                axes.set_title(heads[column], pad=6)
            if not column:
                axes.set_ylabel(label, fontweight="bold")
        worst = float(np.abs(back - plainly).max())
        every[row, 2].set_xlabel(
            f"at most {worst:.1e}".replace("-", "−") if worst < 0.01 else f"at most {worst:.2f}"
        )
        every[row, 2].xaxis.set_label_position("bottom")
        scale(figure, image, axes=list(every[row]), label="output", shrink=0.9, extend="both")
    return figure


Both = tuple[Array, Array]
Permuted = tuple[Both, Both, list[int], tuple[str, ...], str]


def of_example() -> Permuted:
    """Scaled attention of the source texts' three tokens, and with sinusoids added to them."""
    x, (head,) = example()
    order = [2, 0, 1]
    found = []
    for added in (np.zeros_like(x), sinusoidal_positions(3, 4).T):
        plainly = scaled_dot_product_self_attention(x + added, *head)
        other = scaled_dot_product_self_attention(x[:, order] + added, *head)
        back = np.empty_like(other)
        back[:, order] = other
        found.append((plainly.T, back.T))
    return found[0], found[1], order, xs(3), f"Of {EXAMPLE}."


@own_modes()
def of_model(given: Given) -> Permuted:
    """The stream after the last block of a model's own tokens: all at position 0, or each where it stands."""
    model = given.given_model
    config, ids = model.config, list(given.source.encoding.ids)
    refuse_ordered(given, config, tokens=len(ids))
    order = [int(place) for place in np.random.RandomState(1).permutation(len(ids))]
    found = []
    for placed in (False, True):
        plainly, other = (
            model.loaded.network(standing(row, placed=placed))[: len(ids)].double().numpy()
            for row in (ids, [ids[place] for place in order])
        )
        back = np.empty_like(other)
        back[order] = other
        found.append((plainly, back))
    some = f" The first {MOST} of {config.width} numbers." if config.width > MOST else ""
    return found[0], found[1], order, given.tokens, given.whose() + some


def standing(ids: list[int], *, placed: bool) -> Batch:
    """One text, its tokens where they stand, or all of them at the first position."""
    batch = pack([ids])
    if placed:
        return batch
    return replace(batch, layout=replace(batch.layout, positions=torch.zeros_like(batch.layout.positions)))


def refuse_ordered(given: Given, config: Config, *, tokens: int) -> None:
    """Refuse models that know the order by more than the position of a token."""
    refuse_long(given, tokens, most=40)
    if config.causal:
        raise SettingError(
            f"figure {given.name} is of models that see both sides; a causal one is told the order by whom "
            "each token sees, also without positions"
        )
    if isinstance(config.positions, Relative):
        raise SettingError(
            f"figure {given.name}: this model's positions are biases of distances inside every head, which "
            "cannot be left out for a call; try it with a model that adds vectors"
        )
    windows = [config.window_of(layer) for layer in range(config.layers)]
    if any(window is not None and window < tokens - 1 for window in windows):
        raise SettingError(
            f"figure {given.name}: some layers of this model see only {min(filter(None, windows))} tokens to "
            "either side, which tells the order; give a text that fits"
        )
