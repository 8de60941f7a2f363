"""The exercises, in the order in which they are learned: each file holds what belongs together."""

from clearhead.check.grading.exercise import Exercise
from clearhead.check.grading.exercises import (
    attention,
    beams,
    bpe,
    choosing,
    filtering,
    heads,
    norms,
    softmax,
)

EXERCISES: dict[str, Exercise] = {
    exercise.name: exercise
    for file in (softmax, attention, heads, norms, bpe, choosing, filtering, beams)
    for exercise in file.EXERCISES
}
BY_FUNCTION = {name: exercise for exercise in EXERCISES.values() for name in exercise.accepts}
