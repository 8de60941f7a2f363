"""Self-attention as the book writes it: one vector at a time, as matrices in columns, and scaled."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from clearhead import reference
from clearhead.check.grading.exercise import (
    Arguments,
    Exercise,
    Law,
    Random,
    Wrong,
    draw,
)
from clearhead.check.grading.exercises.attention_mistakes import SCALED, SHARED, UNSCALED
from clearhead.check.grading.exercises.softmax import CARE, softened
from clearhead.check.grading.numbers import vectors

PARAMETERS = ("X", "omega_v", "omega_q", "omega_k", "beta_v", "beta_q", "beta_k")


def attended(arguments: Arguments, wrong: Wrong, *, scaled: bool) -> np.ndarray:
    """Self-attention of tokens in columns, with mistakes: [out, tokens]."""
    x, omega_v, omega_q, omega_k, beta_v, beta_q, beta_k = (np.asarray(one, dtype=float) for one in arguments)
    if "weights-transposed" in wrong:
        omega_v, omega_q, omega_k = omega_v.T, omega_q.T, omega_k.T
    if wrong & {"no-value-bias", "no-biases"}:
        beta_v = np.zeros_like(beta_v)
    if wrong & {"no-query-bias", "no-biases"}:
        beta_q = np.zeros_like(beta_q)
    if "no-biases" in wrong:
        beta_k = np.zeros_like(beta_k)
    values, queries, keys = beta_v + omega_v @ x, beta_q + omega_q @ x, beta_k + omega_k @ x
    if "values-not-projected" in wrong:
        values = x
    if "keys-as-values" in wrong:
        values = keys
    if "keys-as-queries" in wrong:
        queries = keys
    if "queries-as-keys" in wrong:
        keys = queries
    if "queries-and-keys-swapped" in wrong:
        queries, keys = keys, queries
    output = values @ weighted(keys.T @ queries, wrong, scale=scale_of(keys, wrong, scaled=scaled))
    return output + x if "input-added" in wrong else output


def scale_of(keys: np.ndarray, wrong: Wrong, *, scaled: bool) -> float:
    """What the dot products are divided by."""
    width, tokens = keys.shape
    if "divided-by-width" in wrong:
        return float(width)
    if "multiplied-by-root" in wrong:
        return 1.0 / math.sqrt(width)
    if "divided-by-root-of-tokens" in wrong:
        return math.sqrt(tokens)
    if wrong & {"not-scaled", "scaled-after-softmax"}:
        return 1.0
    return math.sqrt(width) if scaled or "scaled" in wrong else 1.0


def weighted(dot_products: np.ndarray, wrong: Wrong, *, scale: float) -> np.ndarray:
    """The attentions [keys, outputs]."""
    scores = dot_products / scale
    if "no-softmax" in wrong:
        attention = scores
    elif "over-outputs" in wrong:
        attention = softened(scores, frozenset(["over-rows"]))
    else:
        attention = softened(scores, wrong & {"over-everything"})
    return attention.T if "attention-transposed" in wrong else attention


def unscaled_twin(arguments: Arguments, wrong: Wrong) -> np.ndarray:
    return attended(arguments, wrong, scaled=False)


def scaled_twin(arguments: Arguments, wrong: Wrong) -> np.ndarray:
    output = attended(arguments, wrong, scaled=True)
    if "scaled-after-softmax" not in wrong:
        return output
    own = arguments[0] if "input-added" in wrong else 0.0
    return (output - own) / math.sqrt(len(arguments[1])) + own


def vector_twin(arguments: Arguments, wrong: Wrong) -> np.ndarray:
    return unscaled_twin((np.hstack(arguments[0]), *arguments[1:]), wrong).T


def inputs(random: Random, size: int) -> Arguments:
    width, tokens = [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (2, 2), (3, 2), (4, 3), (3, 5)][size]
    omegas = [draw(random, size, shape=(width, width)) for _ in range(3)]
    betas = [draw(random, size, shape=(width, 1)) for _ in range(3)]
    return (draw(random, size, shape=(width, tokens)), *omegas, *betas)


def vector_inputs(random: Random, size: int) -> Arguments:
    x, *weights = inputs(random, size)
    return ([x[:, [token]] for token in range(x.shape[1])], *weights)


def large() -> Arguments:
    """Two tokens whose dot products exp cannot take."""
    eye, none = np.eye(2), np.zeros((2, 1))
    return (40.0 * eye, eye, eye, eye, none, none, none)


def large_vectors() -> Arguments:
    x, *weights = large()
    return ([x[:, [0]], x[:, [1]]], *weights)


PERMUTED = "permuting the inputs permutes the outputs"
ROUTED = "with equal values every output is that value: the weights sum to one"


def equal_values(arguments: Arguments) -> Arguments:
    """The same with Ω_v = 0, so that every value is β_v."""
    x, omega_v, *rest = arguments
    return (x, np.zeros_like(omega_v), *rest)


LAWS = (
    Law(
        PERMUTED,
        lambda _, first, second: bool(np.allclose(first[:, ::-1], second, atol=1e-4)),
        other=lambda arguments: (arguments[0][:, ::-1], *arguments[1:]),
    ),
    Law(
        ROUTED,
        lambda arguments, _, second: bool(np.allclose(second, arguments[4], atol=1e-4)),
        other=equal_values,
    ),
)
VECTOR_LAWS = (
    Law(
        PERMUTED,
        lambda _, first, second: bool(np.allclose(first[::-1], second, atol=1e-4)),
        other=lambda arguments: (arguments[0][::-1], *arguments[1:]),
    ),
    Law(
        ROUTED,
        lambda arguments, _, second: bool(np.allclose(second, arguments[4].T, atol=1e-4)),
        other=equal_values,
    ),
)


def in_columns(name: str, right: Callable[..., Any], *, scaled: bool) -> Exercise:
    """The exercise of the matrix form."""
    scale = "    # 3. Scale the dot products\n" if scaled else ""
    return Exercise(
        name=name,
        accepts=(name,),
        parameters=PARAMETERS,
        contract=(
            "X [D, N] holds N inputs in its columns; every omega is [D, D], every beta [D, 1]. "
            "The result [D, N] holds the outputs in its columns."
        ),
        equation="Sa[X] = V · Softmax[KᵀQ / √D_q]" if scaled else "Sa[X] = V · Softmax[KᵀQ]",
        source=f"Prince, Understanding Deep Learning, equation{' 12.9' if scaled else 's 12.6 to 12.8'}",
        right=right,
        twin=scaled_twin if scaled else unscaled_twin,
        inputs=inputs,
        mistakes=(*(SCALED if scaled else UNSCALED), *SHARED, CARE),
        laws=LAWS,
        hard=(large(),),
        starter=f"""\
import numpy as np


def {name}(X, omega_v, omega_q, omega_k, beta_v, beta_q, beta_k):
    # 1. Compute queries, keys, and values
    # 2. Compute dot products
{scale}    # {4 if scaled else 3}. Apply softmax to calculate attentions
    # {5 if scaled else 4}. Weight values by attentions
    # Replace this line
    X_prime = np.zeros_like(X)
    return X_prime
""",
    )


BY_VECTOR = Exercise(
    name="self_attention_by_vector",
    accepts=("self_attention_by_vector", "self_attention_list", "self_attention_vectors"),
    parameters=("all_x", *PARAMETERS[1:]),
    contract=(
        "all_x is a list of N inputs, each a column [D, 1]; every omega is [D, D], every beta [D, 1]. "
        "The result is a list of N outputs, each a column [D, 1]."
    ),
    equation="sa_n = Σ_m softmax_m[k_•ᵀ q_n] v_m, with v, q, k = β + Ωx",
    source="Prince, Understanding Deep Learning, equations 12.2 to 12.5",
    right=reference.self_attention_by_vector,
    twin=vector_twin,
    inputs=vector_inputs,
    mistakes=(*UNSCALED, *SHARED, CARE),
    laws=VECTOR_LAWS,
    hard=(large_vectors(),),
    form=vectors,
    starter="""\
import numpy as np


def self_attention_by_vector(all_x, omega_v, omega_q, omega_k, beta_v, beta_q, beta_k):
    all_x_prime = []
    for x in all_x:
        # 1. Compute the query of x, and the keys and values of all inputs
        # 2. Compute the dot product of the query with every key, and their softmax
        # 3. Sum the values, each weighted by its attention
        # Replace this line
        x_prime = np.zeros_like(x)
        all_x_prime.append(x_prime)
    return all_x_prime
""",
)
SELF_ATTENTION = in_columns("self_attention", reference.self_attention, scaled=False)
SCALED_ATTENTION = in_columns(
    "scaled_dot_product_self_attention", reference.scaled_dot_product_self_attention, scaled=True
)
EXERCISES = (BY_VECTOR, SELF_ATTENTION, SCALED_ATTENTION)
