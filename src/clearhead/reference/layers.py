"""The layers of a transformer, one function each, in NumPy float64.

Every function takes whatever NumPy can read as numbers and answers in float64. The last axis is the width,
unless a function says otherwise.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Activation = Callable[[ArrayLike], Array]


class Affine(NamedTuple):
    """Learned numbers that come in twos.

    Of a linear layer: weight [out, in] and bias [out]. Of a norm: weight is the scale [width], bias the
    shift. Some models have learned no bias: None.
    """

    weight: Array
    bias: Array | None


def float64(x: ArrayLike) -> Array:
    """The same numbers, same shape, in float64."""
    return np.asarray(x, dtype=np.float64)


def relu(x: ArrayLike) -> Array:
    """Negative numbers become zero. Any shape. Source: Prince, equation 12.1."""
    return np.maximum(float64(x), 0.0)


_erf: Any = np.vectorize(math.erf, otypes=[np.float64])


def gelu(x: ArrayLike) -> Array:
    """x·Φ(x), where Φ is the normal distribution's cumulative function, written with erf. Any shape.

    Source: Hendrycks & Gimpel 2016, section 2; this exact form is what BERT's published code calls `gelu`.
    """
    x = float64(x)
    return x * 0.5 * (1.0 + _erf(x / math.sqrt(2.0)))


def gelu_tanh(x: ArrayLike) -> Array:
    """The tanh approximation of `gelu`; it differs from it by up to 5e-4. Any shape.

    Source: Hendrycks & Gimpel 2016, section 2; published code calls it `gelu_new` or `gelu_pytorch_tanh`.
    """
    x = float64(x)
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def silu(x: ArrayLike) -> Array:
    """x·σ(x), where σ is the logistic function 1 / (1 + exp(−x)). Any shape.

    Written with tanh, σ(x) = (1 + tanh(x / 2)) / 2, which cannot overflow.
    Source: Hendrycks & Gimpel 2016, section 2; Ramachandran et al. 2017 call it Swish.
    """
    x = float64(x)
    return x * 0.5 * (1.0 + np.tanh(0.5 * x))


def tanh(x: ArrayLike) -> Array:
    """The hyperbolic tangent, between −1 and 1. Any shape."""
    return np.tanh(float64(x))


def plain_layer(x: ArrayLike, *, omega: ArrayLike, beta: ArrayLike) -> Array:
    """ReLU[β + Ωx], the fully connected layer that cannot share its weights over tokens.

    Shapes: x [inputs, n] in columns, omega [outputs, inputs], beta [outputs, 1]; the result is [outputs, n].
    Source: Prince, equation 12.1.
    """
    return relu(float64(beta) + float64(omega) @ float64(x))


def linear(x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None) -> Array:
    """x Wᵀ + b, for every row by itself.

    Shapes: x [..., in], weight [out, in], bias [out]; the result is [..., out].
    Source: Prince, equation 12.2, transposed: each row is one input.
    """
    product = float64(x) @ float64(weight).T
    return product if bias is None else product + float64(bias)


def feed_forward(x: ArrayLike, expand: Affine, *, contract: Affine, activation: Activation = relu) -> Array:
    """Linear, activation, linear, for every token by itself.

    Shapes: x [tokens, width], expand.weight [hidden, width], contract.weight [width, hidden]; the result is
    [tokens, width]. Source: Vaswani et al. 2017, section 3.3, equation 2 (there with ReLU).
    """
    return linear(activation(linear(x, *expand)), *contract)


def gated_feed_forward(
    x: ArrayLike, expand: Affine, *, contract: Affine, activation: Activation = relu
) -> Array:
    """Two linear layers side by side, the first's activation times the second, and a linear layer.

    (activation(xW) ⊙ xV) W₂, where `expand` holds W above V. Shapes: x [tokens, width], expand.weight
    [2 · hidden, width], contract.weight [width, hidden]; the result is [tokens, width].
    Source: Shazeer 2020, equation 6 (there without biases); Warner et al. 2024, section 2.1.1, with GELU.
    """
    inside, gate = np.split(linear(x, *expand), 2, axis=-1)
    return linear(activation(inside) * gate, *contract)


def softmax(x: ArrayLike, axis: int = -1) -> Array:
    """exp(x) divided by its sum along one axis: non-negative numbers that sum to one.

    The largest number is subtracted first, which leaves the quotient as it is and keeps exp from overflowing.
    −inf marks what must not be seen and gets exactly 0; where everything is −inf the result is all zeros.
    Shape: as x; entries are finite or −inf. Source: Prince, equation 12.5.
    """
    x = float64(x)
    largest = x.max(axis=axis, keepdims=True)
    powers = np.exp(x - np.where(np.isneginf(largest), 0.0, largest))
    total = powers.sum(axis=axis, keepdims=True)
    return powers / np.where(total == 0.0, 1.0, total)


def layer_norm(
    x: ArrayLike, eps: float = 1e-5, *, scale: ArrayLike | None = None, shift: ArrayLike | None = None
) -> Array:
    """Give every vector, by itself, mean 0 and variance 1; then apply the learned scale and shift.

    The variance is the biased one (divided by width). `eps` is added to it under the root.
    Shapes: x [..., width], scale and shift [width]; the result is as x. Source: Ba et al. 2016, section 3.
    """
    return _scaled(_normalised(float64(x), eps, axes=(-1,)), scale, shift=shift)


def rms_norm(x: ArrayLike, eps: float = 1e-6, *, scale: ArrayLike | None = None) -> Array:
    """Divide every vector, by itself, by its root mean square; then apply the learned scale.

    `eps` is added to the mean square under the root. No mean is taken away and nothing is added.
    Shapes: x [..., width], scale [width]; the result is as x. Source: Zhang & Sennrich 2019, equation 4.
    """
    x = float64(x)
    square = (x**2).mean(axis=-1, keepdims=True)
    return _scaled(x / np.sqrt(square + eps), scale, shift=None)


def batch_norm(
    x: ArrayLike, eps: float = 1e-5, *, scale: ArrayLike | None = None, shift: ArrayLike | None = None
) -> Array:
    """Give every feature mean 0 and variance 1 over the batch: a vector's result depends on its neighbours.

    For contrast with `layer_norm`; no encoder here uses it. Statistics are the batch's own, as in training.
    Shapes: x [..., width], all axes but the last are the batch; scale and shift [width]; the result is as x.
    Source: Ioffe & Szegedy 2015, algorithm 1.
    """
    x = float64(x)
    return _scaled(_normalised(x, eps, axes=tuple(range(x.ndim - 1))), scale, shift=shift)


def sinusoidal_positions(count: int, width: int, *, halves: bool = False) -> Array:
    """One fixed vector per position, as [count, width]: sines in even columns, cosines in odd ones.

    With `halves` all sines come first and all cosines after them, each in the order they had.

    Columns 2i and 2i + 1 turn by 10000^(−2i / width) radians from one position to the next. With an odd width
    the last column is a sine without its cosine. Row p does not depend on count: the table extends to any
    length.
    Source: Vaswani et al. 2017, section 3.5; Junczys-Dowmunt et al. 2018, the published code, for halves.
    """
    column = np.arange(width)
    speed = 10000.0 ** (-(column - column % 2) / width)
    angle = np.arange(count)[:, None] * speed
    table = np.where(column % 2 == 0, np.sin(angle), np.cos(angle))
    return np.concatenate([table[:, 0::2], table[:, 1::2]], axis=1) if halves else table


def _normalised(x: Array, eps: float, *, axes: tuple[int, ...]) -> Array:
    mean = x.mean(axis=axes, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + eps)


def _scaled(x: Array, scale: ArrayLike | None, *, shift: ArrayLike | None) -> Array:
    if scale is not None:
        x = x * float64(scale)
    if shift is not None:
        x = x + float64(shift)
    return x
