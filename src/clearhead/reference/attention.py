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

from clearhead.reference.layers import Affine, Array, float64, linear, rms_norm, softmax
from clearhead.reference.relative import Relative
from clearhead.reference.rotary import Rotary, turned

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
    """The four linear layers of multi-head attention in row form, and the norms of queries and keys.

    Head h owns rows h · head_width to (h + 1) · head_width of query, and those columns of output. Key and
    value may have fewer heads: then each of theirs answers a group of neighbouring heads. Shapes:
    query.weight [heads · head_width, width], key.weight and value.weight [kv_heads · head_width, width],
    output.weight [width, heads · head_width]. query_norm and key_norm are the scales [head_width] of an RMS
    norm of every head, or None.
    """

    query: Affine
    key: Affine
    value: Affine
    output: Affine
    query_norm: Array | None = None
    key_norm: Array | None = None


class Sight(NamedTuple):
    """What attentions of one model may differ in: which tokens a token sees, and how it knows their places.

    window: tokens to either side, None for the whole text. causal: none to the right. rotary: None where
    queries and keys are not turned. relative: None where dot products get no bias. scaled: whether dot
    products are divided by √head_width.
    """

    window: int | None = None
    causal: bool = False
    rotary: Rotary | None = None
    relative: Relative | None = None
    scaled: bool = True


EVERYTHING = Sight()


def attention_rows(
    queries: ArrayLike,
    keys: ArrayLike,
    *,
    window: int | None = None,
    causal: bool = False,
    bias: ArrayLike | None = None,
    scaled: bool = True,
) -> Array:
    """The attention matrix, outputs down and keys across; every row sums to one.

    With a `window`, output i sees key j only where |i − j| ≤ window; a `causal` one only where j ≤ i. Both
    count from the same first token. `scaled` divides the dot products by √key_width; a `bias` is added to
    them after that. Shapes: queries [n, key_width], keys [m, key_width], bias [n, m]; the result is [n, m].
    Source: Vaswani et al. 2017, section 3.2.1, the softmax of equation 1, and section 3.2.3, Prince, section
    12.7.2, for causal; Beltagy et al. 2020, section 3.1, for the window; Raffel et al. 2020, section 2.1, for
    the bias.
    """
    dot_products = float64(queries) @ float64(keys).T
    if scaled:
        dot_products = dot_products / math.sqrt(np.shape(keys)[1])
    if bias is not None:
        dot_products = dot_products + float64(bias)
    outputs, inputs = dot_products.shape
    ahead = np.arange(inputs) - np.arange(outputs)[:, None]
    if window is not None:
        dot_products = np.where(np.abs(ahead) <= window, dot_products, -np.inf)
    if causal:
        dot_products = np.where(ahead <= 0, dot_products, -np.inf)
    return softmax(dot_products, axis=1)


def attend(
    queries: ArrayLike,
    keys: ArrayLike,
    *,
    values: ArrayLike,
    window: int | None = None,
    causal: bool = False,
    bias: ArrayLike | None = None,
    scaled: bool = True,
) -> Array:
    """softmax(QKᵀ / √key_width) V: attention of one head, tokens in rows.

    Shapes: queries [n, key_width], keys [m, key_width], values [m, value_width]; the result [n, value_width].
    The rest is as in `attention_rows`.
    Source: Vaswani et al. 2017, section 3.2.1, equation 1; Prince, equation 12.9, transposed.
    """
    attention = attention_rows(queries, keys, window=window, causal=causal, bias=bias, scaled=scaled)
    return attention @ float64(values)


def multi_head_rows(
    x: ArrayLike,
    weights: AttentionWeights,
    *,
    heads: int,
    sight: Sight = EVERYTHING,
    memory: ArrayLike | None = None,
    epsilon: float = 1e-6,
) -> Array:
    """Multi-head attention, tokens in rows: of one text to itself, or to the `memory` of another.

    Queries come from x. Keys and values come from x too, or from the memory, the vectors in which an encoder
    left another text (cross-attention). `epsilon` is that of norms of queries and keys, which come before
    the turn.
    Shapes: x [tokens, width], memory [source, width]; the result is as x.
    Source: Vaswani et al. 2017, section 3.2.2, and section 3.2.3 for the memory; Ainslie et al. 2023, section
    2.2, for fewer heads of keys and values; Dehghani et al. 2023, section 2, for norms of queries and keys.
    """
    source = x if memory is None else memory
    queries = linear(x, *weights.query)
    keys = linear(source, *weights.key)
    values = linear(source, *weights.value)
    head_width = queries.shape[1] // heads
    group = heads // (keys.shape[1] // head_width)
    biases: Sequence[Array | None] = [None] * heads
    if sight.relative is not None:
        biases = list(sight.relative.bias(len(queries), len(keys), causal=sight.causal))

    def prepared(x: Array, norm: Array | None) -> Array:
        if norm is not None:
            x = rms_norm(x, epsilon, scale=norm)
        return x if sight.rotary is None else turned(x, **sight.rotary._asdict())

    outputs = []
    for head in range(heads):
        one = slice(head * head_width, (head + 1) * head_width)
        shared = slice(head // group * head_width, (head // group + 1) * head_width)
        outputs.append(
            attend(
                prepared(queries[:, one], weights.query_norm),
                prepared(keys[:, shared], weights.key_norm),
                values=values[:, shared],
                window=sight.window,
                causal=sight.causal,
                bias=biases[head],
                scaled=sight.scaled,
            )
        )
    return linear(np.concatenate(outputs, axis=1), *weights.output)
