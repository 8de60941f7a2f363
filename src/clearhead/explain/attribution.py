"""How much each token speaks for an answer: integrated gradients (Sundararajan et al. 2017)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.engine.modes import own_modes
from clearhead.engine.watching import Point
from clearhead.errors import SettingError
from clearhead.explain.asked import whole_numbers
from clearhead.explain.edit import Edit, edit, patch
from clearhead.explain.objective import ROOM, Objective, Reading, objective
from clearhead.explain.record import record

CLOSE = 0.02  # of the way from the baseline's score to the text's


@dataclass(frozen=True, eq=False)
class Attribution:
    """How much each token speaks for the answer: `values` sum to `score` − `baseline`, but for `gap`, the
    error of the numeric integral. Of a translator, of what its encoder reads."""

    objective: Objective
    values: Float[Tensor, " tokens"]
    score: float
    baseline: float
    points: int  # on the line at which the gradient was taken

    @property
    def gap(self) -> float:
        """By how much the values miss their sum."""
        return float(self.values.sum()) - (self.score - self.baseline)


@dataclass(frozen=True, eq=False)
class Stretch:
    """A part of the line: its ends as shares of the way, the scores there and in the middle, and how much
    each token gains over it by the gradient in the middle."""

    ends: tuple[float, float]
    scores: tuple[float, float]
    middle: float
    gains: Tensor

    @property
    def error(self) -> float:
        """By how much the gains miss what the score has gained."""
        return abs(float(self.gains.sum()) - (self.scores[1] - self.scores[0]))

    @property
    def halves(self) -> list[tuple[tuple[float, float], tuple[float, float]]]:
        """The ends of both halves and the scores there."""
        (a, b), (one, other) = self.ends, self.scores
        middle = (a + b) / 2
        return [((a, middle), (one, self.middle)), ((middle, b), (self.middle, other))]


def attribution(reading: Reading, *, steps: int = 16, most: int = 256) -> Attribution:
    """Integrated gradients (equation 3) of the objective along the straight line from the mean of all tokens'
    vectors to the text's own. (From zeros, a norm without a mean, which makes the same of a vector and its
    multiples, would see the whole way in its first step.)

    The line is cut into `steps` stretches, and those on which the gradient in the middle misses what the
    score gains are halved, until all together miss 2 % or the gradient was taken at `most` points: scores of
    large models leap on their way. Points go through the model as copies of the text, many at a time.
    """
    if not 1 <= min(whole_numbers(steps, "steps")) <= min(whole_numbers(most, "most")):
        raise SettingError(f"steps={steps} and most={most}: give 1 step or more, and no fewer points")
    found = objective(reading)
    line = Line.of(found)
    grid = [step / steps for step in range(steps + 1)]
    scores = line.scores(grid)
    far = abs(scores[-1] - scores[0])
    left = line.stretches(list(zip(pairwise(grid), pairwise(scores), strict=True)))
    done, points = list[Stretch](), len(left)
    while left:
        wanting = [one for one in left if one.error > CLOSE * max(far, 0.1) / (2 * steps)]
        room = (most - points) // 2
        worst = sorted(wanting, key=lambda one: -one.error)[:room]
        if not worst or sum(one.error for one in [*done, *left]) <= CLOSE * far:
            break
        split = {id(one) for one in worst}
        done += [one for one in left if id(one) not in split]
        left = line.stretches([half for one in worst for half in one.halves])
        points += len(left)
    values = torch.stack([one.gains for one in [*done, *left]]).sum(0)
    return Attribution(found, values, scores[-1], scores[0], points)


@dataclass(frozen=True, eq=False)
class Line:
    """The way from the baseline's vectors to a text's, and the objective along it."""

    objective: Objective
    start: Float[Tensor, "tokens width"]
    way: Float[Tensor, "tokens width"]

    @classmethod
    @own_modes()
    def of(cls, found: Objective) -> "Line":
        """From the mean of all tokens' vectors to the text's own."""
        network = found.reading.model.loaded.network
        with record(network, what=Point.EMBED) as seen:
            found()
        one = seen[0].source if network.config.translates else seen[0]
        assert one
        assert network.embedding.tokens
        vectors = one["embed"][0]
        mean = network.embedding.tokens.weight.mean(0) * network.embedding.scale
        return cls(found, mean.expand_as(vectors), vectors - mean)

    def put(self, points: Sequence[Tensor]) -> list[Edit]:
        """These vectors in place of those of as many copies of the text."""
        encoder = self.objective.reading.model.translates
        places = enumerate(points)
        return [patch(Point.EMBED, 0, value=point, text=text, encoder=encoder) for text, point in places]

    @property
    def room(self) -> int:
        """Copies of the text that go through the model at a time."""
        reading = self.objective.reading
        return max(1, ROOM // (len(reading.encoding.ids) + len(reading.said)))

    @own_modes()
    def scores(self, shares: Sequence[float]) -> list[float]:
        """The objective at these shares of the way."""
        found = list[float]()
        for first in range(0, len(shares), self.room):
            some = [self.start + self.way * share for share in shares[first : first + self.room]]
            with edit(self.objective.reading.model, *self.put(some)):
                found += self.objective(len(some)).tolist()
        return found

    def stretches(self, ends: Sequence[tuple[tuple[float, float], tuple[float, float]]]) -> list[Stretch]:
        """The stretches with these ends and scores at them."""
        made = []
        for first in range(0, len(ends), self.room):
            some = ends[first : first + self.room]
            with own_modes(learning=True):
                middles = [(self.start + self.way * ((a + b) / 2)).requires_grad_() for (a, b), _ in some]
                with edit(self.objective.reading.model, *self.put(middles)):
                    said = self.objective(len(middles))
                gradients = torch.autograd.grad(said.sum(), middles)
            for (own, scores), middle, gradient in zip(some, said.tolist(), gradients, strict=True):
                gains = (gradient * self.way).sum(-1) * (own[1] - own[0])
                made.append(Stretch(own, scores, middle, gains))
        return made
