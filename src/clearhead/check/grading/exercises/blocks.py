"""Blocks: attention and feed-forward with residual connections and norms, of an encoder and of a decoder.

One head, no biases in attention and no learned numbers in norms: what is graded is how the parts are joined.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from clearhead import reference
from clearhead.check.grading.exercise import Arguments, Exercise, Law, Random, Wrong, draw, table

Layer = Callable[[np.ndarray], np.ndarray]
ATTENTION = ("Wq", "Wk", "Wv")
JOINED = table(
    (
        "no-residual-around-attention",
        "attention residual",
        "Attention's output takes the place of x.",
        "It is added: x + SA(x).",
    ),
    (
        "no-residual-around-ffn",
        "ffn residual",
        "The feed-forward network's output takes the place of x.",
        "It is added: x + FFN(x).",
    ),
    (
        "residual-from-the-input",
        "ffn residual",
        "The block's input is added to the feed-forward network's output.",
        "What came out of the first half is.",
    ),
    ("residual-subtracted", "attention residual", "Attention's output is subtracted.", "It is added."),
    ("one-norm-only", "second norm", "The second norm is missing.", "Both halves have a norm."),
    ("no-first-norm", "first norm", "The first norm is missing.", "Both halves have a norm."),
    ("ffn-before-attention", "order", "The feed-forward network comes first.", "Attention does."),
    ("no-activation", "ffn", "ReLU is missing between both linear layers.", "FFN = Linear → ReLU → Linear."),
)
PLACES = table(
    (
        "norm-before",
        "place",
        "The norm stands before attention and network, inside the residual.",
        "It stands after the sum: LN(x + SA(x)).",
    ),
    ("norm-inside", "place", "What is added is normalised: x + LN(SA(x)).", "The sum is: LN(x + SA(x))."),
)
BEFORE = table(
    (
        "norm-after",
        "place",
        "The norm stands after the sum: LN(x + SA(x)).",
        "It stands before, inside the residual: x + SA(LN(x)).",
    ),
    (
        "norm-inside",
        "place",
        "What is added is normalised: x + LN(SA(x)).",
        "What goes into attention is: x + SA(LN(x)).",
    ),
    (
        "residual-from-the-norm",
        "place",
        "The normalised x is added: LN(x) + SA(LN(x)).",
        "x itself is: x + SA(LN(x)).",
    ),
)


def half(x: np.ndarray, change: Layer, *, place: str, residual: str = "x", norm: bool = True) -> np.ndarray:
    """One half of a block: a change, its residual, and its norm at a place."""
    normed: Layer = reference.layer_norm if norm else (lambda y: y)
    inner = normed(x) if place in ("before", "from-the-norm") else x
    changed = normed(change(inner)) if place == "inside" else change(inner)
    if residual == "none":
        whole = changed
    else:
        kept = normed(x) if place == "from-the-norm" else x
        whole = kept - changed if residual == "minus" else kept + changed
    return normed(whole) if place == "after" else whole


def attending(x: np.ndarray, memory: np.ndarray, *, weights: Any, causal: bool = False) -> np.ndarray:
    """Attention of x to a memory by one head."""
    query, key, value = weights
    return reference.attend(x @ query.T, memory @ key.T, values=memory @ value.T, causal=causal)


def network(x: np.ndarray, weights: Any, *, wrong: Wrong) -> np.ndarray:
    """Linear, ReLU, linear."""
    first, second = weights
    hidden = x @ first.T
    return (hidden if "no-activation" in wrong else np.maximum(hidden, 0.0)) @ second.T


def place_of(wrong: Wrong, usual: str) -> str:
    """Where the norm stands."""
    named = {
        "norm-before": "before",
        "norm-after": "after",
        "norm-inside": "inside",
        "residual-from-the-norm": "from-the-norm",
    }
    return next((place for name, place in named.items() if name in wrong), usual)


def encoder_twin(arguments: Arguments, wrong: Wrong, *, usual: str) -> np.ndarray:
    x, *weights = arguments
    place = place_of(wrong, usual)

    def attend(x: np.ndarray) -> np.ndarray:
        return attending(x, x, weights=weights[:3])

    def ffn(x: np.ndarray) -> np.ndarray:
        change = network(x, weights[3:], wrong=wrong)
        return (
            change + arguments[0] - x if "residual-from-the-input" in wrong and place == "after" else change
        )

    def first(x: np.ndarray) -> np.ndarray:
        residual = "none" if "no-residual-around-attention" in wrong else "x"
        residual = "minus" if "residual-subtracted" in wrong else residual
        return half(x, attend, place=place, residual=residual, norm="no-first-norm" not in wrong)

    def second(x: np.ndarray) -> np.ndarray:
        residual = "none" if "no-residual-around-ffn" in wrong else "x"
        whole = half(x, ffn, place=place, residual=residual, norm="one-norm-only" not in wrong)
        return whole - x + arguments[0] if "residual-from-the-input" in wrong and place != "after" else whole

    return first(second(x)) if "ffn-before-attention" in wrong else second(first(x))


def block_inputs(random: Random, size: int) -> Arguments:
    tokens, width = [(1, 2), (1, 2), (2, 2), (2, 2), (2, 3), (2, 3), (3, 4), (3, 4), (5, 4)][size]
    shapes = [(tokens, width), *[(width, width)] * 3, (2 * width, width), (width, 2 * width)]
    return tuple(draw(random, size, shape=shape) for shape in shapes)


def right_encoder(*given: Any) -> np.ndarray:
    """The reference, norm after."""
    return joined(given, norm_first=False)


def one_head(query: Any, key: Any, *, value: Any) -> reference.AttentionWeights:
    """Attention of one head whose outputs stay as they are."""
    return reference.AttentionWeights(
        reference.Affine(query, None),
        reference.Affine(key, None),
        reference.Affine(value, None),
        reference.Affine(np.eye(len(query)), None),
    )


def joined(given: Any, *, norm_first: bool) -> np.ndarray:
    """The reference's block of one head, with plain norms."""
    x, query, key, value, first, second = (np.asarray(one, dtype=float) for one in given)
    width = x.shape[1]
    plain = reference.Affine(np.ones(width), np.zeros(width))
    weights = reference.BlockWeights(
        one_head(query, key, value=value),
        plain,
        reference.Affine(first, None),
        reference.Affine(second, None),
        plain,
    )
    facts = reference.BlockFacts(heads=1, norm_first=norm_first)
    return reference.encoder_block(x, weights, facts=facts)


LAWS = (
    Law(
        "permuting the tokens permutes the outputs",
        lambda _, first, second: bool(np.allclose(first[::-1], second, atol=1e-3)),
        other=lambda given: (given[0][::-1], *given[1:]),
    ),
)
SUMS = Law(
    "with zero weights every row is the normalised input",
    lambda given, _, second: bool(
        np.allclose(second, reference.layer_norm(reference.layer_norm(given[0])), atol=1e-3)
    ),
    other=lambda given: (given[0], *(0.0 * one for one in given[1:])),
)
KEPT = Law(
    "with zero weights the input stays as it is",
    lambda given, _, second: bool(np.allclose(second, given[0], atol=1e-4)),
    other=lambda given: (given[0], *(0.0 * one for one in given[1:])),
)
CONTRACT = (
    "x [tokens, width]; Wq, Wk and Wv are [width, width], W1 [hidden, width], W2 [width, hidden], "
    "all multiplied as "
    "x Wᵀ. One head, scaled by 1/√width; FFN is Linear → ReLU → Linear without biases; LN has eps "
    "1e-5 and no learned "
    "numbers. The result is as x."
)
PARAMETERS = ("x", *ATTENTION, "W1", "W2")
AFTER = Exercise(
    name="encoder_block",
    accepts=("encoder_block", "encoder_block_norm_after", "post_norm_block"),
    parameters=PARAMETERS,
    contract=CONTRACT,
    equation="x = LN(x + SA(x)), then x = LN(x + FFN(x))",
    source="Vaswani et al. 2017, section 3.1",
    right=right_encoder,
    twin=lambda arguments, wrong: encoder_twin(arguments, wrong, usual="after"),
    inputs=block_inputs,
    mistakes=(*JOINED, *PLACES),
    laws=(*LAWS, SUMS),
    starter=(
        "import numpy as np\n\n\ndef encoder_block(x, Wq, Wk, Wv, W1, W2):\n    # Replace this "
        "line\n    return x\n"
    ),
)
FIRST = Exercise(
    name="encoder_block_norm_before",
    accepts=("encoder_block_norm_before", "pre_norm_block", "encoder_block_pre_norm"),
    parameters=PARAMETERS,
    contract=CONTRACT,
    equation="x = x + SA(LN(x)), then x = x + FFN(LN(x))",
    source="Xiong et al. 2020, table 1",
    right=lambda *given: joined(given, norm_first=True),
    twin=lambda arguments, wrong: encoder_twin(arguments, wrong, usual="before"),
    inputs=block_inputs,
    mistakes=(*JOINED, *BEFORE),
    laws=(*LAWS, KEPT),
    starter=(
        "import numpy as np\n\n\ndef encoder_block_norm_before(x, Wq, Wk, Wv, W1, W2):\n"
        "    # Replace this line\n    return x\n"
    ),
)
EXERCISES = (AFTER, FIRST)
