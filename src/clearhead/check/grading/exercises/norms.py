"""Layer norm, without learned numbers."""

from typing import Any

import numpy as np

from clearhead import reference
from clearhead.check.grading.exercise import Arguments, Exercise, Law, Random, Wrong, draw, table

MISTAKES = table(
    (
        "unbiased-variance",
        "variance",
        "The variance is divided by the width less one.",
        "It is divided by the width: the mean of the squared distances from the mean.",
    ),
    (
        "absolute-deviation",
        "variance",
        "The mean distance from the mean takes the place of the standard deviation.",
        "It is the root of the mean of the squared distances.",
    ),
    (
        "mean-square",
        "variance",
        "The mean of x² takes the place of the variance.",
        "The variance is the mean of (x − mean)².",
    ),
    (
        "eps-outside-root",
        "eps",
        "eps is added to the standard deviation, outside the root.",
        "It is added to the variance, under the root: √(variance + eps).",
    ),
    (
        "no-eps",
        "eps",
        "eps is left out, so equal numbers divide zero by zero.",
        "It is added to the variance under the root.",
    ),
    (
        "eps-squared",
        "eps",
        "eps² is added under the root.",
        "eps itself is: √(variance + eps).",
    ),
    (
        "eps-fixed",
        "eps",
        "The eps that is given is not used, only the usual 1e-5.",
        "The eps that is given is added.",
    ),
    (
        "divided-by-variance",
        "root",
        "It is divided by the variance.",
        "It is divided by the root of the variance.",
    ),
    (
        "multiplied",
        "root",
        "It is multiplied by the standard deviation.",
        "It is divided by it, so that the variance becomes one.",
    ),
    (
        "mean-kept",
        "mean",
        "The mean is not taken away.",
        "The mean of each vector is subtracted: (x − mean) / √(variance + eps).",
    ),
    (
        "not-divided",
        "root",
        "The mean is taken away, and that is all.",
        "The result is divided by √(variance + eps).",
    ),
    (
        "over-tokens",
        "axis",
        "Mean and variance run over the tokens, as in a batch norm.",
        "They run over the numbers of one token's vector, the last axis.",
    ),
    (
        "over-everything",
        "axis",
        "One mean and one variance are taken of all numbers.",
        "Every token's vector has its own.",
    ),
)


def twin(arguments: Arguments, wrong: Wrong) -> Any:
    x = np.asarray(arguments[0], dtype=np.float64)
    eps = arguments[1] if len(arguments) > 1 and "eps-fixed" not in wrong else 1e-5
    axis: int | None = 0 if "over-tokens" in wrong else None if "over-everything" in wrong else -1
    mean = x.mean(axis=axis, keepdims=True)
    if "absolute-deviation" in wrong:
        variance = np.abs(x - mean).mean(axis=axis, keepdims=True) ** 2
    elif "mean-square" in wrong:
        variance = (x**2).mean(axis=axis, keepdims=True)
    else:
        variance = x.var(axis=axis, keepdims=True, ddof=int("unbiased-variance" in wrong))
    if "eps-outside-root" in wrong:
        deviation = np.sqrt(variance) + eps
    else:
        inside = 0.0 if "no-eps" in wrong else eps**2 if "eps-squared" in wrong else eps
        deviation = np.sqrt(variance + inside)
    centred = x if "mean-kept" in wrong else x - mean
    if "divided-by-variance" in wrong:
        return centred / deviation**2
    if "multiplied" in wrong:
        return centred * deviation
    return centred if "not-divided" in wrong else centred / deviation


def inputs(random: Random, size: int) -> Arguments:
    shape = [(2,), (1, 2), (2, 2), (3, 2), (2, 4), (3, 4), (2, 3), (4, 5), (3, 6)][size]
    # Numbers close together show where eps stands; an eps of its own shows whether it is used.
    x = draw(random, size, shape=shape) * (1e-2 if random.integers(3) == 2 else 1.0)
    return (x,) if random.integers(2) else (x, 0.25)


LAYER_NORM = Exercise(
    name="layer_norm",
    accepts=("layer_norm", "layernorm"),
    parameters=("x", "eps"),
    optional=1,
    contract=(
        "x [..., width], one vector or several, each a row; eps is 1e-5 unless given. Every vector "
        "by itself gets "
        "mean 0 and variance 1, without learned scale and shift. The result is as x."
    ),
    equation="(x − mean) / √(variance + eps), both over the last axis, the variance divided by the width",
    source="Ba et al. 2016, section 3",
    right=reference.layer_norm,
    twin=twin,
    inputs=inputs,
    mistakes=MISTAKES,
    laws=(
        Law(
            "the mean of every vector is 0",
            lambda _, first, __: bool(np.allclose(first.mean(-1), 0, atol=1e-4)),
        ),
        Law("no vector's variance is above 1", lambda _, first, __: bool((first.var(-1) < 1.0 + 1e-4).all())),
        Law(
            "adding a number to all of a vector changes nothing",
            lambda _, first, second: bool(np.allclose(first, second, atol=1e-3)),
            other=lambda arguments: (arguments[0] + 1.0, *arguments[1:]),
        ),
    ),
    starter="""\
import numpy as np


def layer_norm(x, eps=1e-5):
    # 1. Mean and variance of every vector
    # 2. Subtract the one, divide by the root of the other
    # Replace this line
    return x
""",
)
EXERCISES = (LAYER_NORM,)
