"""Learning in steps: a loss that comes in parts, and the rate of a step."""

import numpy as np

from clearhead import reference
from clearhead.check.grading.exercise import Arguments, Exercise, Law, Wrong, draw, table
from clearhead.check.grading.numbers import single


def parts_twin(arguments: Arguments, wrong: Wrong) -> float:
    parts = [np.asarray(part, dtype=float) for part in arguments[0]]
    if "mean-of-means" in wrong:
        return float(np.mean([part.mean() for part in parts]))
    if "sum-of-means" in wrong:
        return float(np.sum([part.mean() for part in parts]))
    if "last-part" in wrong:
        return float(parts[-1].mean())
    total = float(sum(part.sum() for part in parts))
    if "summed" in wrong:
        return total
    if "divided-by-parts" in wrong:
        return total / len(parts)
    longest = max(map(len, parts))
    return total / (longest * len(parts) if "padded" in wrong else sum(map(len, parts)))


ACCUMULATED = Exercise(
    name="accumulated_loss",
    accepts=("accumulated_loss",),
    parameters=("parts",),
    contract=(
        "parts is a list: for every part of a batch, the losses of its tokens. Parts differ in "
        "length. The result is "
        "the loss of the whole batch, as if it had not been taken apart."
    ),
    equation="Σ over all tokens of all parts / their number",
    source="the mean of a union; gradients accumulated over parts must add up to those of the whole batch",
    right=lambda parts: float(np.concatenate([np.asarray(part, dtype=float) for part in parts]).mean()),
    twin=parts_twin,
    inputs=lambda random, size: (
        [np.abs(draw(random, size, shape=(int(random.integers(1, 3 + size)),))) for _ in range(1 + size)],
    ),
    mistakes=table(
        (
            "mean-of-means",
            "mean",
            "The means of the parts are averaged.",
            "A token of a short part must count as much as one of a long part.",
        ),
        (
            "sum-of-means",
            "mean",
            "The means of the parts are summed.",
            "All losses are summed, and divided once.",
        ),
        ("summed", "mean", "The sum is returned.", "It is divided by the number of tokens."),
        (
            "divided-by-parts",
            "mean",
            "The sum is divided by the number of parts.",
            "It is divided by the number of tokens.",
        ),
        (
            "padded",
            "mean",
            "It is divided as if every part were as long as the longest.",
            "Only tokens that are there count.",
        ),
        ("last-part", "mean", "Only the last part counts.", "All of them do."),
    ),
    laws=(
        Law(
            "how the batch is taken apart changes nothing",
            lambda _, first, second: abs(float(first) - float(second)) < 1e-4,
            other=lambda given: ([np.concatenate(given[0])],),
        ),
    ),
    form=single,
    starter="""\
def accumulated_loss(parts):
    # Replace this line
    return 0.0
""",
)


def rate(step: int, width: int, *more: int) -> float:
    """The reference in the plain order of arguments."""
    return reference.inverse_root_rate(step, width=width, warm_up=more[0])


def rate_twin(arguments: Arguments, wrong: Wrong) -> float:
    step, width, warm_up = arguments
    step -= int("counted-from-zero" in wrong)
    rising = step * warm_up ** (-1.0 if "warm-up-power" in wrong else -1.5)
    falling = warm_up**-0.5 if "no-fall" in wrong else max(step, 0) ** -0.5
    if "no-warm-up" in wrong:
        rising = falling
    both = max(rising, falling) if "largest" in wrong else min(rising, falling)
    return float(
        both * (1.0 if "no-width" in wrong else width**0.5 if "width-sign" in wrong else width**-0.5)
    )


RATE = Exercise(
    name="inverse_root_rate",
    accepts=("inverse_root_rate", "noam_rate", "noam"),
    parameters=("step", "width", "warm_up"),
    contract=(
        "A step, counted from 1, the width of the model and the steps of warm-up → the learning "
        "rate of that step."
    ),
    equation="width^(−1/2) · min(step^(−1/2), step · warm_up^(−3/2))",
    source="Vaswani et al. 2017, equation 3",
    right=rate,
    twin=rate_twin,
    inputs=lambda random, size: (
        int(random.integers(1, 4 + 6 * size)),
        4 * int(random.integers(1, 3 + size)),
        int(random.integers(2, 5 + 3 * size)),
    ),
    mistakes=table(
        ("largest", "choice", "The larger of both is taken.", "The smaller is: it rises first, then falls."),
        ("no-warm-up", "rise", "It falls from the first step on.", "It rises for warm_up steps."),
        ("no-fall", "fall", "It stays as it is after the warm-up.", "It falls with the root of the step."),
        (
            "warm-up-power",
            "rise",
            "The rise is step · warm_up^(−1).",
            "It is step · warm_up^(−3/2), so that both meet at warm_up.",
        ),
        ("no-width", "width", "The width is left out.", "It is divided by √width."),
        ("width-sign", "width", "It is multiplied by √width.", "It is divided by √width."),
        (
            "counted-from-zero",
            "step",
            "The first step is taken for step 0, which learns nothing.",
            "Steps count from 1.",
        ),
    ),
    laws=(
        Law(
            "it is highest at the end of the warm-up",
            lambda _, first, second: float(first) <= float(second) + 1e-9,
            other=lambda given: (given[2], *given[1:]),
        ),
    ),
    form=single,
    starter="""\
def inverse_root_rate(step, width, warm_up):
    # Replace this line
    return 0.0
""",
)
EXERCISES = (ACCUMULATED, RATE)
