"""The numbers of one head on one text: those of the source texts, computed in NumPy, or a model's."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from clearhead.engine.modes import own_modes
from clearhead.explain.figures.given import Given
from clearhead.explain.record import Record, record
from clearhead.model.config import Relative
from clearhead.reference import ColumnHead, attention_columns, project, softmax

Array = NDArray[np.float64]


class Drawn(NamedTuple):
    """Random numbers of the source texts: tokens in the columns of x `[width, tokens]`, heads, and what mixes
    them."""

    x: Array
    heads: tuple[ColumnHead, ...]


def example() -> Drawn:
    """Three tokens of four numbers and one head (Prince, notebook 12.1): `np.random.seed` 3, then 0."""
    chance = np.random.RandomState(3)
    x = np.concatenate([chance.normal(size=(4, 1)) for _ in range(3)], axis=1)
    chance = np.random.RandomState(0)
    q, k, v = (chance.normal(size=(4, 4)) for _ in range(3))
    biases = [chance.normal(size=(4, 1)) for _ in range(3)]
    return Drawn(x, (ColumnHead(v, q, k, beta_v=biases[2], beta_q=biases[0], beta_k=biases[1]),))


def example_of_heads() -> Drawn:
    """Six tokens of eight numbers and two heads of four (Prince, notebook 12.2)."""
    x = np.random.RandomState(3).normal(size=(8, 6))
    chance = np.random.RandomState(0)
    heads = []
    for _ in range(2):
        q, k, v = (chance.normal(size=(4, 8)) for _ in range(3))
        biases = [chance.normal(size=(4, 1)) for _ in range(3)]
        heads.append(ColumnHead(v, q, k, beta_v=biases[2], beta_q=biases[0], beta_k=biases[1]))
    return Drawn(x, tuple(heads))


def columns_of(drawn: Drawn, head: int = 0, *, scaled: bool = True) -> Array:
    """The weights of a drawn head, `[keys, outputs]`: every column sums to one."""
    one = drawn.heads[head]
    queries = project(drawn.x, one.omega_q, beta=one.beta_q)
    return attention_columns(queries, project(drawn.x, one.omega_k, beta=one.beta_k), scaled=scaled)


def xs(count: int) -> tuple[str, ...]:
    """The names of tokens that are no words: x₁, x₂, …"""
    small = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
    return tuple(f"x{str(number).translate(small)}" for number in range(1, count + 1))


@dataclass(frozen=True, eq=False)
class OneHead:
    """Tokens in rows: queries, keys and values `[tokens, head_width]`, weights `[tokens, tokens]`, outputs as
    values. `scale` is what products are multiplied by, `matrix` `[head_width, width]` makes values of x.
    `columns` says that its source writes tokens in columns."""

    tokens: tuple[str, ...]
    queries: Array
    keys: Array
    values: Array
    weights: Array
    outputs: Array
    scale: float
    matrix: Array
    whose: str
    columns: bool = False
    biased: bool = False

    @property
    def products(self) -> Array:
        """Scaled products of queries and keys, no number where a key is not seen."""
        found: Array = self.queries @ self.keys.T * self.scale
        return np.where(self.weights > 0, found, np.nan)

    def with_scale(self, scale: float) -> Array:
        """The weights, or what they were, had the products been multiplied by this; what is added to them (a
        bias, a mask) as it is: the logarithms of the weights tell it but for a constant a row, which a
        softmax does not see."""
        if scale == self.scale:
            return self.weights
        with np.errstate(divide="ignore"):
            added = np.log(self.weights) - self.queries @ self.keys.T * self.scale
        return softmax(self.queries @ self.keys.T * scale + added)


def one_head(given: Given) -> OneHead:
    """Of the reference example, or of the layer and head that were asked for (the first, where none was)."""
    return of_example(given) if given.example else of_model(given)


def of_example(given: Given) -> OneHead:
    """The only head of the source texts' example, scaled (Prince, equation 12.9)."""
    given.one_layer(1), given.one_head(1)
    drawn = example()
    (head,) = drawn.heads
    weights, values = columns_of(drawn).T, project(drawn.x, head.omega_v, beta=head.beta_v).T
    return OneHead(
        tokens=xs(3),
        queries=project(drawn.x, head.omega_q, beta=head.beta_q).T,
        keys=project(drawn.x, head.omega_k, beta=head.beta_k).T,
        values=values,
        weights=weights,
        outputs=weights @ values,
        scale=4**-0.5,
        matrix=head.omega_v,
        whose=given.whose(),
        columns=True,
    )


def of_model(given: Given) -> OneHead:
    """One head of an encoder, or of a single stack."""
    model = given.given_model
    config, network = model.config, model.loaded.network
    layer, number = given.one_layer(config.layers), given.one_head(config.heads)
    seen = seen_of(given, layer, head=number)
    found = {name: seen[name][layer].double().numpy() for name in ("q", "k", "v", "z", "pattern")}
    attention: Any = network.encoder.blocks[layer].attention
    assert network.embedding.tokens
    unit = torch.eye(config.width, dtype=network.embedding.tokens.weight.dtype)
    with own_modes():  # by what the layer does, however it keeps its weights
        made = attention.qkv(unit) - attention.qkv(torch.zeros_like(unit[:1]))
    shared = made.split(attention.qkv.parts, dim=-1)[2].unflatten(-1, (config.each_kv, -1))
    return OneHead(
        tokens=given.tokens,
        queries=found["q"][:, 0],
        keys=found["k"][:, 0],
        values=found["v"][:, 0],
        weights=found["pattern"][0],
        outputs=found["z"][:, 0],
        scale=attention.sight.scale,
        matrix=shared[:, number * config.each_kv // config.heads].T.double().numpy(),
        whose=given.whose(f", layer {layer}, head {number}"),
        biased=isinstance(config.positions, Relative),
    )


@own_modes()
def seen_of(given: Given, layer: int, *, head: int) -> Record:
    """Everything of one head of an encoder, or of a single stack."""
    with record(given.given_model, layers=layer, heads=head, what=["q", "k", "v", "z", "pattern"]) as seen:
        given.source.run()
    (one,) = seen.sources if given.given_model.translates else seen.records
    return one
