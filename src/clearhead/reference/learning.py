"""What the first transformer learned with: smoothed labels, and a rate that rises and falls with the step."""

import numpy as np
from numpy.typing import ArrayLike

from clearhead.errors import DataError, SettingError
from clearhead.reference.decoding import log_softmax
from clearhead.reference.layers import Array


def smoothed_cross_entropy(logits: ArrayLike, targets: ArrayLike, *, smoothing: float = 0.0) -> Array:
    """The cross-entropy of each row, in nats, with the right token's probability smoothed over all: [tokens].

    What should have been said is (1 − ε) for the right token plus ε / vocab for every token, the right one
    among them; with ε = 0 it is minus the logarithm of the right token's probability. Some codes give the
    wrong tokens ε / (vocab − 1) instead.
    Shapes: logits [tokens, vocab], targets [tokens], ids. Raises SettingError unless 0 ≤ ε < 1, DataError for
    targets that do not fit.
    Source: Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4, with ε = 0.1.
    """
    if not 0.0 <= smoothing < 1.0:
        raise SettingError(f"label_smoothing={smoothing} must be at least 0 and below 1")
    said = log_softmax(logits)
    right = np.asarray(targets)
    tokens, vocab = said.shape
    if right.shape != (tokens,) or not np.issubdtype(right.dtype, np.integer):
        raise DataError(f"targets are {right.dtype} of shape {right.shape}; give one id for each of {tokens}")
    if tokens and not 0 <= right.min() <= right.max() < vocab:
        raise DataError(
            f"targets go from {right.min()} to {right.max()}; the vocabulary has 0 to {vocab - 1}"
        )
    wanted = np.full((tokens, vocab), smoothing / vocab)
    wanted[np.arange(tokens), right] += 1.0 - smoothing
    # What is not wanted at all may be impossible: 0 · −∞ is nothing here.
    return -(wanted * np.where(wanted > 0.0, said, 0.0)).sum(axis=1)


def inverse_root_rate(step: int, *, width: int, warm_up: int) -> float:
    """width^(−1/2) · min(step^(−1/2), step · warm_up^(−3/2)): the learning rate of a step, counted from 1.

    It rises evenly until the step `warm_up`, where both are equal and it is highest, and falls with the root
    of the step from there. Raises SettingError for a number below 1.
    Source: Vaswani et al. 2017, section 5.3, equation 3, with warm_up = 4000.
    """
    for name, number in (("step", step), ("width", width), ("warm_up", warm_up)):
        if number < 1:
            raise SettingError(f"{name}={number} must be at least 1")
    return float(width**-0.5 * min(step**-0.5, step * warm_up**-1.5))
