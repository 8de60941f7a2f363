"""The exercises, in the order in which they are learned: each file holds what belongs together."""

from clearhead.check.grading.exercise import Exercise
from clearhead.check.grading.exercises import (
    attention,
    beams,
    blocks,
    bpe,
    caching,
    choosing,
    decoders,
    distances,
    filtering,
    heads,
    layers,
    losses,
    norms,
    positions,
    rows,
    sharing,
    softmax,
    training,
)

FILES = (
    softmax, attention, heads, norms, bpe, choosing, filtering, beams, rows, sharing, caching, layers, blocks,
    decoders, positions, distances, losses, training,
)  # fmt: skip
EXERCISES: dict[str, Exercise] = {exercise.name: exercise for file in FILES for exercise in file.EXERCISES}
BY_FUNCTION = {name: exercise for exercise in EXERCISES.values() for name in exercise.accepts}
