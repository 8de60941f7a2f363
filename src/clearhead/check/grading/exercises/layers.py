"""Feed-forward networks, GELU in both forms, and positions: sinusoids and rotations."""

import math
from typing import Any

import numpy as np

from clearhead import reference
from clearhead.check.grading.exercise import Arguments, Exercise, Law, Random, Wrong, draw, table

GELUS = table(
    (
        "relu",
        "kind",
        "It is ReLU: negative numbers become zero.",
        "GELU lets small negative numbers through: x Φ(x).",
    ),
    ("sigmoid", "kind", "It is x σ(x), SiLU.", "Φ is the normal distribution's cumulative function."),
    (
        "quick",
        "kind",
        "It is x σ(1.702 x), a rougher approximation.",
        "Φ is written with erf, or approximated with tanh, as the exercise asks.",
    ),
    (
        "no-root",
        "inside",
        "x is not divided by √2 inside erf, or √(2/π) is left out.",
        "Φ(x) = (1 + erf(x / √2)) / 2.",
    ),
    ("no-half", "factor", "The factor ½ is left out.", "Φ(x) = (1 + erf(x / √2)) / 2 lies between 0 and 1."),
    ("no-x", "result", "Φ(x) itself is returned.", "It is x Φ(x)."),
)
_erf = np.vectorize(math.erf, otypes=[np.float64])


def gelu_twin(arguments: Arguments, wrong: Wrong, *, exact: bool) -> np.ndarray:
    x = np.asarray(arguments[0], dtype=float)
    exact = exact != ("other-form" in wrong)
    if "relu" in wrong:
        return np.maximum(x, 0.0)
    if "sigmoid" in wrong or "quick" in wrong:
        return x / (1.0 + np.exp(-x * (1.702 if "quick" in wrong else 1.0)))
    root = 1.0 if "no-root" in wrong else math.sqrt(0.5) if exact else math.sqrt(2.0 / math.pi)
    cubic = 0.0 if "no-cube" in wrong else 0.44715 if "wrong-constant" in wrong else 0.044715
    inner = _erf(x * root) if exact else np.tanh(root * (x + cubic * x**3))
    phi = (1.0 + inner) * (1.0 if "no-half" in wrong else 0.5)
    return phi if "no-x" in wrong else x * phi


def gelu_exercise(name: str, *, exact: bool) -> Exercise:
    """One of both forms."""
    other = table(
        (
            "other-form",
            "form",
            "It is the approximation with tanh." if exact else "It is the exact form with erf.",
            "The exact form is asked for; they differ by up to 5e-4."
            if exact
            else "The approximation with tanh is asked for; they differ by up to 5e-4.",
        ),
    )
    cubes = table(
        ("no-cube", "cube", "The cube is left out.", "It is x + 0.044715 x³ inside tanh."),
        ("wrong-constant", "cube", "The constant is 0.44715.", "It is 0.044715."),
    )
    return Exercise(
        name=name,
        accepts=(name, "gelu_exact" if exact else "gelu_new"),
        parameters=("x",),
        contract="Every number by itself; x has any shape.",
        equation="x (1 + erf(x / √2)) / 2" if exact else "x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2",
        source="Hendrycks & Gimpel 2016, section 2",
        right=reference.gelu if exact else reference.gelu_tanh,
        twin=lambda arguments, wrong: gelu_twin(arguments, wrong, exact=exact),
        inputs=lambda random, size: (draw(random, size, shape=(size + 1,)) * (1.0 if size < 7 else 2.0),),
        mistakes=(*other, *GELUS, *(() if exact else cubes)),
        laws=(
            Law(
                "the results for x and −x differ by x",
                lambda arguments, first, second: bool(np.allclose(first - second, arguments[0], atol=1e-3)),
                other=lambda arguments: (-arguments[0],),
            ),
        ),
        starter=f"def {name}(x):\n    # Replace this line\n    return x\n",
    )


def ffn(x: Any, weight1: Any, *more: Any) -> np.ndarray:
    """The reference in the plain order of arguments."""
    bias1, weight2, bias2 = more
    return reference.feed_forward(
        x, reference.Affine(weight1, bias1), contract=reference.Affine(weight2, bias2)
    )


def ffn_twin(arguments: Arguments, wrong: Wrong) -> np.ndarray:
    x, weight1, bias1, weight2, bias2 = arguments
    hidden = x @ weight1.T + (0.0 if "no-first-bias" in wrong else bias1)
    if "gelu" in wrong:
        hidden = reference.gelu(hidden)
    elif "no-activation" not in wrong:
        hidden = np.maximum(hidden, 0.0)
    output = hidden @ weight2.T + (0.0 if "no-second-bias" in wrong else bias2)
    if "activation-at-the-end" in wrong:
        output = np.maximum(output, 0.0)
    return output + x if "input-added" in wrong else output


def ffn_inputs(random: Random, size: int) -> Arguments:
    tokens, width = [(1, 1), (1, 2), (2, 1), (2, 2), (3, 2), (2, 3), (3, 3), (4, 3), (5, 4)][size]
    shapes = [(tokens, width), (2 * width, width), (2 * width,), (width, 2 * width), (width,)]
    return tuple(draw(random, size, shape=shape) for shape in shapes)


FEED_FORWARD = Exercise(
    name="feed_forward",
    accepts=("feed_forward", "ffn", "mlp"),
    parameters=("x", "W1", "b1", "W2", "b2"),
    contract=(
        "x [tokens, width], W1 [hidden, width], b1 [hidden], W2 [width, hidden], b2 [width] → "
        "[tokens, width]."
    ),
    equation="max(0, x W1ᵀ + b1) W2ᵀ + b2",
    source="Vaswani et al. 2017, equation 2",
    right=ffn,
    twin=ffn_twin,
    inputs=ffn_inputs,
    mistakes=table(
        (
            "no-activation",
            "activation",
            "Nothing stands between both layers.",
            "ReLU does; without it two layers are one.",
        ),
        ("gelu", "activation", "GELU stands between both layers.", "ReLU does in this equation."),
        (
            "activation-at-the-end",
            "end",
            "ReLU comes after the second layer, too.",
            "The second layer has none: outputs may be negative.",
        ),
        ("no-first-bias", "first", "b1 is left out.", "x W1ᵀ + b1 goes into ReLU."),
        ("no-second-bias", "second", "b2 is left out.", "b2 is added at the end."),
        (
            "input-added",
            "sum",
            "The input is added.",
            "That is the residual connection around it, no part of it.",
        ),
    ),
    laws=(
        Law(
            "permuting the tokens permutes the outputs",
            lambda _, first, second: bool(np.allclose(first[::-1], second, atol=1e-4)),
            other=lambda arguments: (arguments[0][::-1], *arguments[1:]),
        ),
        Law(
            "with zero weights it is b2",
            lambda arguments, _, second: bool(np.allclose(second, arguments[4], atol=1e-4)),
            other=lambda arguments: (
                arguments[0],
                arguments[1],
                arguments[2],
                0.0 * arguments[3],
                arguments[4],
            ),
        ),
    ),
    starter="""\
import numpy as np


def feed_forward(x, W1, b1, W2, b2):
    # Replace this line
    return np.zeros_like(x)
""",
)
EXERCISES = (FEED_FORWARD, gelu_exercise("gelu", exact=True), gelu_exercise("gelu_tanh", exact=False))
