"""Self-attention: one vector at a time, as matrices with tokens in columns, and with tokens in rows.

The book stores one token per column and multiplies weights from the left; published models store one token
per row and multiply transposed weights from the right. The numbers are the same, transposed. "Prince" is
*Understanding Deep Learning*, chapter 12; its letters (Ω, β) name the column form, our words (weight, bias)
the row form.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from clearhead.reference.layers import Affine, Array, float64, linear, softmax

# ---- one vector at a time ----------------------------------------------------------------------------------


def project(x: ArrayLike, omega: ArrayLike, *, beta: ArrayLike) -> Array:
    """β + Ωx: the value, query or key of one token, or of all tokens at once.

    Shapes: x [width, n], omega [out, width], beta [out, 1]; the result is [out, n].
    Source: Prince, equations 12.2 (values) and 12.4 (queries, keys) for n = 1; equation 12.6 for all tokens.
    """
    return float64(beta) + float64(omega) @ float64(x)


def attention_to(keys: Sequence[ArrayLike], query: ArrayLike) -> Array:
    """How much of each token's value one query takes: softmax over the dot products with all keys.

    Shapes: keys, a list of [key_width, 1]; query [key_width, 1]; the result is [tokens], summing to one.
    Source: Prince, equation 12.5.
    """
    return softmax([(float64(key).T @ float64(query)).item() for key in keys])


def route(values: Sequence[ArrayLike], attention: ArrayLike) -> Array:
    """The sum of the values, each weighted by its attention.

    Shapes: values, a list of [value_width, 1]; attention [tokens]; the result is [value_width, 1].
    Source: Prince, equation 12.3.
    """
    weighted = [share * float64(value) for share, value in zip(float64(attention), values, strict=True)]
    return np.sum(weighted, axis=0)


def self_attention_by_vector(
    all_x: Sequence[ArrayLike],
    omega_v: ArrayLike,
    omega_q: ArrayLike,
    omega_k: ArrayLike,
    beta_v: ArrayLike,
    beta_q: ArrayLike,
    beta_k: ArrayLike,
) -> list[Array]:
    """Unscaled self-attention, one token after another, each a column vector.

    Shapes: all_x, a list of [width, 1]; omega_* [out, width]; beta_* [out, 1]; the result, a list of [out,
    1].
    Source: Prince, equations 12.2 to 12.5.
    """
    values = [project(x, omega_v, beta=beta_v) for x in all_x]
    queries = [project(x, omega_q, beta=beta_q) for x in all_x]
    keys = [project(x, omega_k, beta=beta_k) for x in all_x]
    return [route(values, attention_to(keys, query)) for query in queries]


# ---- all tokens at once, in columns ------------------------------------------------------------------------


def attention_columns(queries: ArrayLike, keys: ArrayLike, *, scaled: bool) -> Array:
    """The attention matrix, keys down and outputs across; every column sums to one.

    Shapes: queries [key_width, n], keys [key_width, m]; the result is [m, n]. `scaled` divides the dot
    products by √key_width first. Source: Prince, equations 12.8 (unscaled) and 12.9 (scaled), the Softmax
    of each.
    """
    dot_products = float64(keys).T @ float64(queries)
    if scaled:
        dot_products = dot_products / math.sqrt(np.shape(keys)[0])
    return softmax(dot_products, axis=0)


def self_attention(
    x: ArrayLike,
    omega_v: ArrayLike,
    omega_q: ArrayLike,
    omega_k: ArrayLike,
    beta_v: ArrayLike,
    beta_q: ArrayLike,
    beta_k: ArrayLike,
) -> Array:
    """V · Softmax[KᵀQ], unscaled self-attention of tokens stored in columns.

    Shapes: x [width, tokens]; omega_* [out, width]; beta_* [out, 1]; the result is [out, tokens].
    Source: Prince, equations 12.6 to 12.8.
    """
    values = project(x, omega_v, beta=beta_v)
    queries = project(x, omega_q, beta=beta_q)
    keys = project(x, omega_k, beta=beta_k)
    return values @ attention_columns(queries, keys, scaled=False)


def scaled_dot_product_self_attention(
    x: ArrayLike,
    omega_v: ArrayLike,
    omega_q: ArrayLike,
    omega_k: ArrayLike,
    beta_v: ArrayLike,
    beta_q: ArrayLike,
    beta_k: ArrayLike,
) -> Array:
    """V · Softmax[KᵀQ / √key_width], scaled self-attention of tokens stored in columns.

    Shapes: x [width, tokens]; omega_* [out, width]; beta_* [out, 1]; the result is [out, tokens].
    Source: Prince, equation 12.9; Vaswani et al. 2017, section 3.2.1.
    """
    values = project(x, omega_v, beta=beta_v)
    queries = project(x, omega_q, beta=beta_q)
    keys = project(x, omega_k, beta=beta_k)
    return values @ attention_columns(queries, keys, scaled=True)


class ColumnHead(NamedTuple):
    """One head of the column form: omega_* [head_width, width], beta_* [head_width, 1]."""

    omega_v: Array
    omega_q: Array
    omega_k: Array
    beta_v: Array
    beta_q: Array
    beta_k: Array


def multi_head_columns(x: ArrayLike, heads: Sequence[ColumnHead], *, omega_c: ArrayLike) -> Array:
    """Scaled self-attention by every head, the results one below the other, mixed by Ωc.

    Shapes: x [width, tokens]; omega_c [width, heads · head_width]; the result is [width, tokens].
    Source: Prince, section 12.3.3; Vaswani et al. 2017, section 3.2.2.
    """
    outputs = [scaled_dot_product_self_attention(x, *head) for head in heads]
    return float64(omega_c) @ np.concatenate(outputs, axis=0)


# ---- all tokens at once, in rows ---------------------------------------------------------------------------


class AttentionWeights(NamedTuple):
    """The four linear layers of multi-head attention in row form, each weight [width, width], bias [width].

    Head h owns rows h · head_width to (h + 1) · head_width of query, key and value, and those columns of
    output.
    """

    query: Affine
    key: Affine
    value: Affine
    output: Affine


def turned(x: ArrayLike, *, base: float) -> Array:
    """Rotary positions: queries or keys of one head, each turned by angles that grow with its position.

    Columns j and j + head_width / 2 are read as the real and imaginary part of one number, which turns by
    base^(−2j / head_width) radians from one position to the next. A dot product of a query and a key turned
    so depends on their distance alone. Positions count from 0 and have no end.
    Shapes: x [tokens, head_width], head_width even; the result is as x.
    Source: Su et al. 2021, section 3.2.2, as complex numbers like its equation 12; the paper pairs columns 2j
    and 2j + 1, published models j and j + head_width / 2: the same up to the order of columns.
    """
    real, imaginary = np.split(float64(x), 2, axis=1)
    tokens, pairs = real.shape
    speed = base ** (-np.arange(pairs) / pairs)
    angle = np.arange(tokens)[:, None] * speed
    product = (real + 1j * imaginary) * np.exp(1j * angle)
    return np.concatenate([product.real, product.imag], axis=1)


def attention_rows(queries: ArrayLike, keys: ArrayLike, *, window: int | None = None) -> Array:
    """The scaled attention matrix, outputs down and keys across; every row sums to one.

    With a `window`, output i sees key j only where |i − j| ≤ window. Shapes: queries [n, key_width], keys
    [m, key_width]; the result is [n, m].
    Source: Vaswani et al. 2017, section 3.2.1, the softmax of equation 1; Beltagy et al. 2020, section 3.1,
    for the window.
    """
    dot_products = float64(queries) @ float64(keys).T
    if window is not None:
        outputs, inputs = dot_products.shape
        distance = np.abs(np.arange(outputs)[:, None] - np.arange(inputs))
        dot_products = np.where(distance <= window, dot_products, -np.inf)
    return softmax(dot_products / math.sqrt(np.shape(keys)[1]), axis=1)


def attend(queries: ArrayLike, keys: ArrayLike, *, values: ArrayLike, window: int | None = None) -> Array:
    """softmax(QKᵀ / √key_width) V: scaled attention of one head, tokens in rows.

    Shapes: queries [n, key_width], keys [m, key_width], values [m, value_width]; the result [n, value_width].
    Source: Vaswani et al. 2017, section 3.2.1, equation 1; Prince, equation 12.9, transposed.
    """
    return attention_rows(queries, keys, window=window) @ float64(values)


def multi_head_rows(
    x: ArrayLike,
    weights: AttentionWeights,
    *,
    heads: int,
    window: int | None = None,
    base: float | None = None,
) -> Array:
    """Multi-head self-attention of one text, tokens in rows.

    `window` is how far a token sees to either side, None for the whole text; `base` is that of rotary
    positions, None where queries and keys are not turned.
    Shapes: x [tokens, width]; heads divides width; the result is [tokens, width].
    Source: Vaswani et al. 2017, section 3.2.2.
    """
    queries = linear(x, *weights.query)
    keys = linear(x, *weights.key)
    values = linear(x, *weights.value)
    head_width = queries.shape[1] // heads
    outputs = []
    for start in range(0, heads * head_width, head_width):
        head = slice(start, start + head_width)
        asked, offered = queries[:, head], keys[:, head]
        if base is not None:
            asked, offered = turned(asked, base=base), turned(offered, base=base)
        outputs.append(attend(asked, offered, values=values[:, head], window=window))
    return linear(np.concatenate(outputs, axis=1), *weights.output)
