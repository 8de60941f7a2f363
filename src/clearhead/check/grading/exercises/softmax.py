"""Softmax: of a list of numbers, and of every column of a matrix."""

from typing import Any

import numpy as np

from clearhead import reference
from clearhead.check.grading.exercise import (
    Arguments,
    Exercise,
    Law,
    Mistake,
    Random,
    Wrong,
    draw,
    table,
)
from clearhead.check.grading.numbers import flat

EQUATION = "softmax_m[z] = exp[z_m] / Σ_m' exp[z_m']"
CARE = Mistake(
    "no-max-subtraction",
    "The numbers go into exp as they are: above about 709 it overflows, and infinity / infinity is "
    "no number.",
    "The quotient stays the same if the largest number is subtracted from all of them first.",
    care=True,
)
KINDS = table(
    (
        "no-exp",
        "power",
        "The numbers are divided by their sum.",
        "Every number goes through exp first, which makes all of them positive.",
    ),
    (
        "negative-exponent",
        "power",
        "exp(−z) is taken, so the largest number gets the smallest share.",
        "It is exp(z): the larger the number, the larger its share.",
    ),
    (
        "base-two",
        "power",
        "2 is raised to the numbers.",
        "It is e = 2.718… that is raised to them; with 2 the shares are more even.",
    ),
    (
        "absolute-values",
        "power",
        "exp(|z|) is taken.",
        "The sign counts: exp of a negative number is below 1.",
    ),
    (
        "not-normalised",
        "total",
        "The powers are returned as they are.",
        "Each is divided by the sum of all of them, so that they sum to one.",
    ),
    (
        "divided-by-largest",
        "total",
        "The powers are divided by the largest of them.",
        "They are divided by their sum.",
    ),
    (
        "divided-by-length",
        "total",
        "The powers are divided by the root of the sum of their squares.",
        "They are divided by their sum: it is the sum that becomes one, not the length.",
    ),
    (
        "divided-by-count",
        "total",
        "The powers are divided by how many there are.",
        "They are divided by their sum.",
    ),
    (
        "logarithm",
        "result",
        "The logarithms of the shares are returned.",
        "Softmax is the shares themselves; their logarithms are log-softmax.",
    ),
)
AXES = table(
    (
        "over-rows",
        "axis",
        "Each row sums to one.",
        "Each column sums to one: the sum goes down a column, along axis 0.",
    ),
    (
        "over-everything",
        "axis",
        "The whole matrix sums to one.",
        "Each column sums to one by itself.",
    ),
)


def softened(x: Any, wrong: Wrong, *, axis: int | None = 0) -> np.ndarray:
    """Softmax along an axis, or over everything, with mistakes."""
    x = np.asarray(x, dtype=np.float64)
    if "over-rows" in wrong:
        axis = 1
    if "over-everything" in wrong:
        axis = None
    if "no-exp" in wrong:
        powers = x
    elif "negative-exponent" in wrong:
        powers = np.exp(-x)
    elif "base-two" in wrong:
        powers = 2.0**x
    elif "absolute-values" in wrong:
        powers = np.exp(np.abs(x))
    elif wrong & {"not-normalised", "divided-by-largest", "divided-by-length", "divided-by-count"}:
        powers = np.exp(x)
    else:
        powers = np.exp(x - x.max(axis=axis, keepdims=True))
    if "not-normalised" in wrong:
        shares = powers
    elif "divided-by-largest" in wrong:
        shares = powers / powers.max(axis=axis, keepdims=True)
    elif "divided-by-length" in wrong:
        shares = powers / np.sqrt((powers**2).sum(axis=axis, keepdims=True))
    elif "divided-by-count" in wrong:
        shares = powers / (powers.size if axis is None else powers.shape[axis])
    else:
        shares = powers / powers.sum(axis=axis, keepdims=True)
    return np.log(shares) if "logarithm" in wrong else shares


def list_twin(arguments: Arguments, wrong: Wrong) -> np.ndarray:
    return softened(flat(arguments[0]), wrong)


def list_inputs(random: Random, size: int) -> Arguments:
    return (draw(random, size, shape=(size + 1,)).tolist(),)


def matrix_inputs(random: Random, size: int) -> Arguments:
    rows, columns = [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 2), (3, 4), (4, 3), (5, 5)][size]
    return (draw(random, size, shape=(rows, columns)),)


SOFTMAX = Exercise(
    name="softmax",
    accepts=("softmax",),
    parameters=("items_in",),
    contract=(
        "A list of numbers, or of arrays that hold one number each, becomes as many numbers, none negative, "
        "which sum to one."
    ),
    equation=EQUATION,
    source="Prince, Understanding Deep Learning, equation 12.5",
    right=lambda items: reference.softmax(flat(items)),
    twin=list_twin,
    inputs=list_inputs,
    mistakes=(*KINDS, CARE),
    laws=(
        Law("the results sum to one", lambda _, first, __: bool(abs(first.sum() - 1.0) < 1e-4)),
        Law("no result is negative", lambda _, first, __: bool((first >= 0.0).all())),
        Law(
            "adding a number to all of them changes nothing",
            lambda _, first, second: bool(np.allclose(first, second, atol=1e-4)),
            other=lambda arguments: ([item + 1.0 for item in arguments[0]],),
        ),
    ),
    hard=(([1000.0, 1000.0],), ([-1000.0, -1001.0],), ([0.0, 2000.0, 1.0],)),
    form=flat,
    starter="""\
def softmax(items_in):
    # Compute the elements of items_out
    # Replace this line
    items_out = items_in.copy()
    return items_out
""",
)

SOFTMAX_COLS = Exercise(
    name="softmax_cols",
    accepts=("softmax_cols",),
    parameters=("data_in",),
    contract="Every column of a matrix, by itself, becomes numbers that are not negative and sum to one.",
    equation=EQUATION + ", for every column",
    source="Prince, Understanding Deep Learning, equation 12.5, and the Softmax of equation 12.8",
    right=lambda data: reference.softmax(data, axis=0),
    twin=lambda arguments, wrong: softened(arguments[0], wrong),
    inputs=matrix_inputs,
    mistakes=(*AXES, *KINDS, CARE),
    laws=(
        Law(
            "every column sums to one",
            lambda _, first, __: bool(np.allclose(first.sum(axis=0), 1, atol=1e-4)),
        ),
        Law("no result is negative", lambda _, first, __: bool((first >= 0.0).all())),
        Law(
            "permuting the columns permutes the results",
            lambda _, first, second: bool(np.allclose(first[:, ::-1], second, atol=1e-4)),
            other=lambda arguments: (arguments[0][:, ::-1],),
        ),
    ),
    hard=((np.array([[1000.0, -1000.0], [1000.0, -1001.0]]),), (np.array([[0.0, 1.0], [2000.0, 3.0]]),)),
    starter="""\
import numpy as np


def softmax_cols(data_in):
    # 1. Exponentiate all of the values
    # 2. Sum each column
    # 3. Divide
    # Replace this line
    softmax = np.ones_like(data_in)
    return softmax
""",
)

EXERCISES = (SOFTMAX, SOFTMAX_COLS)
