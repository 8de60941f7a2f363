"""What lets many blocks stand upon one another: norms of each token by itself, and residual connections."""

from dataclasses import replace

import numpy as np
import torch
from matplotlib.figure import Figure

from clearhead.checkpoint.architectures import GPT2
from clearhead.checkpoint.fresh import new_transformer
from clearhead.engine.modes import own_modes
from clearhead.explain.figures.canvas import BLUE, GREY, RED, canvas, plain, powers
from clearhead.explain.figures.given import EXAMPLE, Given
from clearhead.explain.figures.numbers import Array
from clearhead.explain.flow import GradientFlow, gradient_flow
from clearhead.explain.record import record
from clearhead.model.config import Learned
from clearhead.model.layout import pack
from clearhead.model.transformer import Transformer
from clearhead.reference import batch_norm, layer_norm

MOST = 12  # numbers of a vector that are drawn
ROWS = np.array([[1.0, 2, 3, 4], [10, 10, 20, 20], [-1, 0, 0, 1]])  # of the source text's exercise
COMPANY = (("It was good.",), ("The food was cold, and nobody said a word about it.", "No."))
DEEP = replace(GPT2, vocab=64, width=128, heads=4, hidden=512, layers=24, positions=Learned(32))
TEXTS = ((2, 7, 8, 3, 11, 40, 33, 21), (2, 9, 3, 60, 17))


def norms(given: Given) -> Figure:
    """One vector in two batches after layer norm (Ba et al. 2016) and batch norm (Ioffe & Szegedy 2015)."""
    if given.example:
        batches = [ROWS[[0, 1]], ROWS[[0, 2]]]
        at, whose = 0, f"The row [1 2 3 4] of {EXAMPLE}, beside [10 10 20 20] and beside [−1 0 0 1]."
    else:
        batches, at, whose = of_model(given)
    figure = canvas(
        7.6,
        3.3,
        title="Layer norm makes the same of a token in every batch, batch norm does not",
        caption=whose,
    )
    both = figure.subplots(1, 2, sharey=True)
    for axes, (name, norm) in zip(
        both, (("layer norm", layer_norm), ("batch norm", batch_norm)), strict=True
    ):
        one, other = (norm(batch)[at] for batch in batches)
        places = np.arange(1, min(MOST, len(one)) + 1)
        axes.vlines(places, one[:MOST], other[:MOST], color=GREY, linewidth=1)
        axes.plot(places, one[:MOST], "s", color=RED, markersize=8, fillstyle="none", label="in one batch")
        axes.plot(places, other[:MOST], "o", color=BLUE, markersize=4, label="in another")
        apart = float(np.abs(one - other).max())
        axes.set_title(f"{name}: " + ("no difference" if apart == 0 else f"differs by up to {apart:.2g}"))
        axes.set(xlabel="number of the vector", xticks=places)
        axes.axhline(0, color=GREY, linewidth=0.5, zorder=0)
        plain(axes)
    both[0].set_ylabel("after the norm")
    both[0].legend(frameon=False, fontsize=8)
    return figure


@own_modes()
def of_model(given: Given) -> tuple[list[Array], int, str]:
    """The stream into a layer of a text's middle token, in two batches: with one other text, and with two."""
    model = given.given_model
    layer = given.one_layer(model.config.layers)
    ids = list(given.source.encoding.ids)
    batches, at = [], len(ids) // 2
    for others in COMPANY:
        rows = [list(one.ids) for one in model.tokenizer.encode(list(others), limit=model.limit)]
        with record(model, layers=layer, what="resid_pre") as seen:
            model.loaded.network(pack([ids, *rows]))
        found = seen.sources if model.translates else seen.records
        batches.append(torch.cat([one["resid_pre"][layer] for one in found]).double().numpy())
    token = given.tokens[at]
    more = f", the stream into layer {layer}, token {at} (“{token}”), beside one other text and beside two"
    return batches, at, given.whose(more)


def residual(given: Given) -> Figure:
    """The gradient by the stream into each block with and without residual connections (He et al. 2016); new
    models without norms and with them, for a norm before each part keeps a gradient's size, too."""
    given.no_layer()
    if given.example:
        panels = {
            "new, without norms": gradient_flow(new(norms=False), TEXTS),
            "new, layer norm before each part": gradient_flow(new(norms=True), TEXTS),
        }
        whose = (
            f"New models with blocks as GPT-2's, weights drawn with seed 0: {DEEP.layers} blocks, width "
            f"{DEEP.width}, float64."
        )
    else:
        found = gradient_flow(given.given_model.loaded.network, [list(given.reading.encoding.ids)])
        panels, whose = {given.model_name: found}, given.whose()
    figure = canvas(
        9 if len(panels) > 1 else 6.4,
        3.6,
        title="How much of the gradient arrives at each block",
        caption=whose + " As shares of the gradient at the last block; what is 0 is left out.",
    )
    for axes, (name, found) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
    ):
        for values, colour, mark, label in lines(found):
            kept = np.where(np.isfinite(values) & (values > 0), values, np.nan)
            axes.plot(
                range(len(kept)), kept, f"{mark}-", color=colour, markersize=3.5, linewidth=1.3, label=label
            )
        axes.set(xlabel="block", ylabel="gradient / that at the last block", title=name)
        powers(axes)
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, 0.05), max(high, 20))  # a factor of 2 shall not look like a fall
        axes.axhline(1, color=GREY, linewidth=0.6, zorder=0)
        axes.legend(frameon=False, fontsize=8, loc="best" if len(panels) == 1 else "lower right")
        plain(axes)
    return figure


def new(*, norms: bool) -> Transformer:
    """A deep model from nothing, its blocks with norms or without."""
    network = new_transformer(DEEP, None, seed=0, scaled=True).double()
    for block in network.encoder.blocks if not norms else ():
        block.attention_norm = block.feed_forward_norm = torch.nn.Identity()
    return network


def lines(found: GradientFlow) -> list[tuple[Array, str, str, str]]:
    """What is drawn of each, and how: the first block's share is said in words."""
    made = []
    for values, colour, mark, name in (
        (found.with_residual, BLUE, "o", "with"),
        (found.without_residual, RED, "s", "without"),
    ):
        first = float(values[0])
        said = f"{first:.2f}" if 0.01 <= first < 1000 else f"{first:.1e}".replace("-", "−")
        made.append(
            (values.double().numpy(), colour, mark, f"{name} residual connections: {said} at the first")
        )
    return made
