"""Multi-head attention with two heads, in the signature of the book's companion notebook."""

from typing import Any

import numpy as np

from clearhead import reference
from clearhead.check.grading.exercise import Arguments, Exercise, Law, Random, Wrong, draw, table
from clearhead.check.grading.exercises.attention import scaled_twin
from clearhead.check.grading.exercises.attention_mistakes import SCALED, SHARED
from clearhead.check.grading.exercises.softmax import CARE

ONE = ("omega_v", "omega_q", "omega_k", "beta_v", "beta_q", "beta_k")
PARAMETERS = ("X", *(f"{name}{head}" for head in (1, 2) for name in ONE), "omega_c")
SPLIT = "heads-interleaved"
HEADS = table(
    (
        "heads-in-other-order",
        "order",
        "The second head stands above the first.",
        "The first head's outputs come first: Ω_c was learned for that order.",
    ),
    (
        SPLIT,
        "order",
        "The rows of the heads alternate.",
        "All rows of the first head come first, then all of the second.",
    ),
    (
        "first-head-twice",
        "which",
        "The first head's outputs are taken for both.",
        "Every head has weights of its own.",
    ),
    (
        "second-head-twice",
        "which",
        "The second head's outputs are taken for both.",
        "Every head has weights of its own.",
    ),
    (
        "values-of-the-other-head",
        "which",
        "Each head's attentions weigh the values of the other.",
        "Queries, keys and values of one head belong together.",
    ),
    (
        "no-mixing",
        "mixing",
        "The heads' outputs are returned one below the other, without Ω_c.",
        "Ω_c mixes them: Ω_c [Sa_1; Sa_2].",
    ),
    (
        "mixing-transposed",
        "mixing",
        "They are multiplied by the transposed Ω_c.",
        "It is Ω_c [Sa_1; Sa_2].",
    ),
    (
        "divided-by-root-of-full-width",
        "scale",
        "The dot products are divided by √D, the root of the width of X.",
        "They are divided by the root of the head's own width, √(D / H).",
    ),
)
TAKEN = {"weights-transposed", "values-not-projected", "input-added", "divided-by-root-of-tokens"}
INNER = tuple(mistake for mistake in (*SCALED, *SHARED) if mistake.name not in TAKEN)


def two_heads(*given: Any) -> np.ndarray:
    """The reference in the notebook's order of arguments."""
    first, second = reference.ColumnHead(*given[1:7]), reference.ColumnHead(*given[7:13])
    return reference.multi_head_columns(given[0], [first, second], omega_c=given[13])


def twin(arguments: Arguments, wrong: Wrong) -> np.ndarray:
    x, first, second = arguments[0], list(arguments[1:7]), list(arguments[7:13])
    omega_c = np.asarray(arguments[13], dtype=float)
    if "first-head-twice" in wrong:
        second = first
    if "second-head-twice" in wrong:
        first = second
    if "values-of-the-other-head" in wrong:
        first[0], second[0], first[3], second[3] = second[0], first[0], second[3], first[3]
    if "divided-by-root-of-full-width" in wrong:
        # Twice as wide, so every query shrinks by √2.
        for head in (first, second) if first is not second else (first,):
            head[1], head[4] = head[1] / np.sqrt(2.0), head[4] / np.sqrt(2.0)
    outputs = [scaled_twin((x, *head), wrong - {"input-added"}) for head in (first, second)]
    if "heads-in-other-order" in wrong:
        outputs.reverse()
    stacked = np.concatenate(outputs, axis=0)
    if SPLIT in wrong:
        stacked = np.stack(outputs, axis=1).reshape(stacked.shape)
    if "no-mixing" in wrong:
        return stacked
    return (omega_c.T if "mixing-transposed" in wrong else omega_c) @ stacked


def inputs(random: Random, size: int) -> Arguments:
    head_width, tokens = [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3), (2, 4), (3, 3), (4, 6)][size]
    width = 2 * head_width
    x = draw(random, size, shape=(width, tokens))
    shapes = [(head_width, width)] * 3 + [(head_width, 1)] * 3
    return (
        x,
        *(draw(random, size, shape=shape) for shape in shapes * 2),
        draw(random, size, shape=(width, width)),
    )


def large() -> Arguments:
    eye = np.eye(2)
    row, none = np.ones((1, 2)), np.zeros((1, 1))
    head = (row, row, row, none, none, none)
    return (40.0 * eye, *head, *head, eye)


MULTI_HEAD = Exercise(
    name="multihead_scaled_self_attention",
    accepts=("multihead_scaled_self_attention", "multihead_self_attention"),
    parameters=PARAMETERS,
    contract=(
        "X [D, N] holds N inputs in its columns. Each of two heads has omegas [D/2, D] and betas [D/2, 1]; "
        "omega_c is [D, D]. The result is [D, N]."
    ),
    equation="MhSa[X] = Ω_c [Sa_1[X]; Sa_2[X]], each scaled by 1/√(D/2)",
    source="Prince, Understanding Deep Learning, section 12.3.3, equations 12.11 and 12.12",
    right=two_heads,
    twin=twin,
    inputs=inputs,
    mistakes=(*HEADS, *INNER, CARE),
    laws=(
        Law(
            "permuting the inputs permutes the outputs",
            lambda _, first, second: bool(np.allclose(first[:, ::-1], second, atol=1e-4)),
            other=lambda arguments: (arguments[0][:, ::-1], *arguments[1:]),
        ),
        Law(
            "twice Ω_c gives twice the output",
            lambda _, first, second: bool(np.allclose(2.0 * first, second, atol=1e-3)),
            other=lambda arguments: (*arguments[:-1], 2.0 * arguments[-1]),
        ),
    ),
    hard=(large(),),
    starter="""\
import numpy as np


def multihead_scaled_self_attention(
    X, omega_v1, omega_q1, omega_k1, beta_v1, beta_q1, beta_k1,
    omega_v2, omega_q2, omega_k2, beta_v2, beta_q2, beta_k2, omega_c,
):
    # 1. Scaled self-attention of each head
    # 2. One below the other
    # 3. Multiply by omega_c
    # Replace this line
    X_prime = np.zeros_like(X)
    return X_prime
""",
)
EXERCISES = (MULTI_HEAD,)
