"""Where a token stands: sinusoids, and rotations."""

import numpy as np

from clearhead import reference
from clearhead.check.grading.exercise import Arguments, Exercise, Law, Random, Wrong, draw, table
from clearhead.reference.rotary import turned

SINES = table(
    (
        "halves",
        "columns",
        "All sines come first and all cosines after them.",
        "Sines stand in even columns, cosines in odd ones.",
    ),
    ("cosine-first", "columns", "Cosines stand in even columns.", "Sines do: column 0 of position 0 is 0."),
    (
        "sines-only",
        "columns",
        "Every column is a sine.",
        "Odd columns are cosines of the angle of the column before.",
    ),
    (
        "every-column-its-speed",
        "speed",
        "Every column has a speed of its own, 10000^(−j / width).",
        "Columns 2i and 2i + 1 share 10000^(−2i / width).",
    ),
    (
        "speed-upside-down",
        "speed",
        "The angle is multiplied by 10000^(2i / width).",
        "It is divided by it: later columns turn more slowly.",
    ),
    ("half-the-exponent", "speed", "The exponent is −i / width.", "It is −2i / width."),
    ("base-1000", "base", "The base is 1000.", "It is 10000."),
    ("counted-from-one", "start", "The first position is 1.", "It is 0: sines 0 and cosines 1."),
    ("degrees", "unit", "Angles are taken for degrees.", "They are radians."),
)


def sine_twin(arguments: Arguments, wrong: Wrong) -> np.ndarray:
    count, width = arguments
    column = np.arange(width)
    exponent = column / width if "every-column-its-speed" in wrong else (column - column % 2) / width
    if "half-the-exponent" in wrong:
        exponent = exponent / 2.0
    if "speed-upside-down" in wrong:
        exponent = -exponent
    speed = (1000.0 if "base-1000" in wrong else 10000.0) ** -exponent
    angle = (np.arange(count)[:, None] + int("counted-from-one" in wrong)) * speed
    if "degrees" in wrong:
        angle = np.deg2rad(angle)
    sines, cosines = np.sin(angle), np.cos(angle)
    if "sines-only" in wrong:
        return sines
    even = (column % 2 == 0) != ("cosine-first" in wrong)
    both = np.where(even, sines, cosines)
    return np.concatenate([both[:, 0::2], both[:, 1::2]], axis=1) if "halves" in wrong else both


SINUSOIDAL = Exercise(
    name="sinusoidal_positions",
    accepts=("sinusoidal_positions", "positional_encoding", "sinusoidal_encoding"),
    parameters=("count", "width"),
    contract="count positions and an even width → [count, width], a row for each position, from 0.",
    equation="PE(p, 2i) = sin(p / 10000^(2i/width)), PE(p, 2i+1) = cos(p / 10000^(2i/width))",
    source="Vaswani et al. 2017, section 3.5",
    right=reference.sinusoidal_positions,
    twin=sine_twin,
    inputs=lambda random, size: (int(random.integers(1, size + 3)), 2 * int(random.integers(1, size + 3))),
    mistakes=SINES,
    laws=(
        Law(
            "position 0 is 0, 1, 0, 1, …",
            lambda _, first, __: bool(np.allclose(first[0], np.arange(first.shape[1]) % 2)),
        ),
        Law(
            "a longer table begins with the shorter one",
            lambda _, first, second: bool(np.allclose(second[: len(first)], first, atol=1e-4)),
            other=lambda arguments: (arguments[0] + 2, arguments[1]),
        ),
    ),
    starter="""\
import numpy as np


def sinusoidal_positions(count, width):
    # Replace this line
    return np.zeros((count, width))
""",
)


# ---- rotary ------------------------------------------------------------------------------------------------

TURNS = table(
    (
        "neighbouring-pairs",
        "pairs",
        "Columns 2j and 2j + 1 turn together, as in the paper.",
        "This exercise pairs j and j + n/2, as published models do.",
    ),
    (
        "other-direction",
        "direction",
        "It turns the other way: the sign of the sine is exchanged.",
        "(a, b) becomes (a cos − b sin, b cos + a sin).",
    ),
    (
        "one-sign-wrong",
        "direction",
        "Both parts add: a cos + b sin, b cos + a sin.",
        "(a, b) becomes (a cos − b sin, b cos + a sin); the length stays.",
    ),
    ("counted-from-one", "start", "The first position is 1.", "It is 0, which does not turn."),
    (
        "same-speed",
        "speed",
        "All pairs turn by the position itself.",
        "Pair j turns base^(−2j/n) a position.",
    ),
    ("half-the-exponent", "speed", "The exponent is −j/n.", "It is −2j/n: there are n/2 pairs."),
    ("base-not-used", "base", "The base is 10000 whatever is given.", "It is the one that is given."),
    (
        "only-cosine",
        "direction",
        "Only the cosine is multiplied.",
        "Each half also gets the other one times the sine.",
    ),
)


def turn_twin(arguments: Arguments, wrong: Wrong) -> np.ndarray:
    x = np.asarray(arguments[0], dtype=float)
    base = 10000.0 if len(arguments) < 2 or "base-not-used" in wrong else arguments[1]
    tokens, width = x.shape
    exponent = np.arange(width // 2) / (width if "half-the-exponent" in wrong else width / 2)
    speed = np.ones(width // 2) if "same-speed" in wrong else base**-exponent
    angle = (np.arange(tokens)[:, None] + int("counted-from-one" in wrong)) * speed
    cosine, sine = np.cos(angle), np.sin(angle)
    if "only-cosine" in wrong:
        sine = 0.0 * sine
    if "other-direction" in wrong:
        sine = -sine
    apart = "neighbouring-pairs" in wrong
    a, b = (x[:, 0::2], x[:, 1::2]) if apart else np.split(x, 2, axis=1)
    first = a * cosine + b * sine if "one-sign-wrong" in wrong else a * cosine - b * sine
    second = b * cosine + a * sine
    return (
        np.stack([first, second], axis=2).reshape(x.shape)
        if apart
        else np.concatenate([first, second], axis=1)
    )


def turn_inputs(random: Random, size: int) -> Arguments:
    tokens, width = [(1, 2), (2, 2), (2, 4), (3, 2), (2, 4), (3, 4), (4, 4), (4, 6), (6, 8)][size]
    x = draw(random, size, shape=(tokens, width))
    return (x,) if random.integers(2) else (x, 100.0)


ROTARY = Exercise(
    name="rotary",
    accepts=("rotary", "rope", "apply_rotary"),
    parameters=("x", "base"),
    optional=1,
    contract=(
        "x [tokens, n] holds the queries or keys of one head, n even; base is 10000 unless given. "
        "Columns j and j + n/2 "
        "turn by position · base^(−2j/n) radians, positions from 0. The result is as x."
    ),
    equation="(a, b) → (a cos θ − b sin θ, b cos θ + a sin θ), θ = position · base^(−2j/n)",
    source="Su et al. 2021, section 3.2.2, with the pairs of published models",
    right=lambda x, base=10000.0: turned(x, base=base),
    twin=turn_twin,
    inputs=turn_inputs,
    mistakes=TURNS,
    laws=(
        Law(
            "no vector changes its length",
            lambda arguments, first, _: bool(
                np.allclose((first**2).sum(1), (arguments[0] ** 2).sum(1), atol=1e-3)
            ),
        ),
        Law(
            "position 0 stays as it is",
            lambda arguments, first, _: bool(np.allclose(first[0], arguments[0][0], atol=1e-4)),
        ),
    ),
    starter="""\
import numpy as np


def rotary(x, base=10000.0):
    # Replace this line
    return x
""",
)


EXERCISES = (SINUSOIDAL, ROTARY)
