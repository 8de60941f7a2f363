"""The block of a decoder beside an encoder: attention to its own text, to the memory, and feed-forward."""

from collections.abc import Callable
from typing import Any

import numpy as np

from clearhead import reference
from clearhead.check.grading.exercise import Arguments, Exercise, Law, Random, Wrong, draw, table
from clearhead.check.grading.exercises.blocks import ATTENTION, attending, half, network, one_head, place_of

MISTAKES = table(
    (
        "not-causal",
        "sight",
        "A token sees those after it.",
        "In its own text it sees itself and those before it.",
    ),
    (
        "memory-causal",
        "recall sight",
        "Of the memory, too, only the first tokens are seen.",
        "The memory is seen whole.",
    ),
    (
        "no-memory",
        "recall",
        "The memory is not looked at.",
        "Between both halves of an encoder block stands attention to the memory.",
    ),
    (
        "memory-first",
        "order",
        "Attention to the memory comes before attention to the own text.",
        "The own text comes first.",
    ),
    (
        "keys-of-own-text",
        "recall",
        "Keys and values come from x: this is self-attention.",
        "They come from the memory.",
    ),
    ("memory-normalised", "memory", "The memory goes through a norm.", "It is used as the encoder left it."),
    (
        "no-residual-around-memory",
        "residual",
        "What comes from the memory takes the place of x.",
        "It is added to x.",
    ),
    (
        "no-norm-after-memory",
        "norm",
        "The norm after attention to the memory is missing.",
        "All three parts have a norm.",
    ),
    (
        "norm-before",
        "place",
        "Norms stand before, inside the residual.",
        "They stand after the sum: LN(x + …).",
    ),
    ("no-activation", "ffn", "ReLU is missing between both linear layers.", "FFN = Linear → ReLU → Linear."),
)


def twin(arguments: Arguments, wrong: Wrong) -> np.ndarray:
    x, memory, *weights = arguments
    place = place_of(wrong, "after")
    if "memory-normalised" in wrong:
        memory = reference.layer_norm(memory)

    def own(x: np.ndarray) -> np.ndarray:
        return attending(x, x, weights=weights[:3], causal="not-causal" not in wrong)

    def recall(x: np.ndarray) -> np.ndarray:
        source = x if "keys-of-own-text" in wrong else memory
        return attending(x, source, weights=weights[3:6], causal="memory-causal" in wrong)

    def ffn(x: np.ndarray) -> np.ndarray:
        return network(x, weights[6:], wrong=wrong)

    changes: list[Callable[[np.ndarray], np.ndarray]] = [own, recall, ffn]
    if "memory-first" in wrong:
        changes = [recall, own, ffn]
    if "no-memory" in wrong:
        changes = [own, ffn]
    for change in changes:
        about = change is recall
        residual = "none" if about and "no-residual-around-memory" in wrong else "x"
        norm = not (about and "no-norm-after-memory" in wrong)
        x = half(x, change, place=place, residual=residual, norm=norm)
    return x


def right(*given: Any) -> np.ndarray:
    """The reference's block of one head, with plain norms."""
    x, memory, *weights = (np.asarray(one, dtype=float) for one in given)
    width = x.shape[1]
    plain = reference.Affine(np.ones(width), np.zeros(width))

    expand, contract = reference.Affine(weights[6], None), reference.Affine(weights[7], None)
    own = reference.BlockWeights(
        one_head(weights[0], weights[1], value=weights[2]), plain, expand, contract, plain
    )
    return reference.decoder_block(
        x,
        reference.DecoderBlockWeights(own, one_head(weights[3], weights[4], value=weights[5]), plain),
        memory=memory,
        facts=reference.BlockFacts(heads=1),
        sight=reference.Sight(causal=True),
    )


def inputs(random: Random, size: int) -> Arguments:
    target, source, width = [
        (1, 1, 2),
        (1, 2, 2),
        (2, 1, 2),
        (2, 2, 2),
        (2, 3, 2),
        (2, 3, 3),
        (3, 4, 3),
        (3, 3, 4),
        (4, 5, 4),
    ][size]
    shapes = [(target, width), (source, width), *[(width, width)] * 6, (2 * width, width), (width, 2 * width)]
    return tuple(draw(random, size, shape=shape) for shape in shapes)


DECODER_BLOCK = Exercise(
    name="decoder_block",
    accepts=("decoder_block",),
    parameters=("x", "memory", *ATTENTION, "Uq", "Uk", "Uv", "W1", "W2"),
    contract=(
        "x [target, width], memory [source, width]; W of its own attention and U of attention to the "
        "memory are [width, "
        "width], W1 [hidden, width], W2 [width, hidden], all multiplied as x Wᵀ. One head, scaled by "
        "1/√width; LN has "
        "eps 1e-5 and no learned numbers. The result is as x."
    ),
    equation="x = LN(x + SA(x)), causal; x = LN(x + CA(x, memory)); x = LN(x + FFN(x))",
    source="Vaswani et al. 2017, sections 3.1 and 3.2.3",
    right=right,
    twin=twin,
    inputs=inputs,
    mistakes=MISTAKES,
    laws=(
        Law(
            "a later token changes no earlier output",
            lambda _, first, second: bool(np.allclose(first[:-1], second[:-1], atol=1e-3)),
            other=lambda given: (np.concatenate([given[0][:-1], given[0][-1:] ** 2 - 1.0]), *given[1:]),
        ),
        Law(
            "permuting the memory changes nothing",
            lambda _, first, second: bool(np.allclose(first, second, atol=1e-3)),
            other=lambda given: (given[0], given[1][::-1], *given[2:]),
        ),
    ),
    starter="""\
import numpy as np


def decoder_block(x, memory, Wq, Wk, Wv, Uq, Uk, Uv, W1, W2):
    # Replace this line
    return x
""",
)
EXERCISES = (DECODER_BLOCK,)
