"""The learning rate at each step."""

from dataclasses import dataclass
from math import cos, pi, sqrt

from clearhead.errors import SettingError
from clearhead.settings import Decay


@dataclass(frozen=True)
class Schedule:
    """Linear warm-up, then one of four decays.

    With S steps, W steps of warm-up (at least 1) and s = 1 … S, the rate used for update s is peak · s / W up
    to s = W. After, with x = (s − W) / (S + 1 − W), it is

    - `linear`: peak · (1 − x), which is peak · (S + 1 − s) / (S + 1 − W);
    - `cosine`: peak · (1 + cos πx) / 2 (Loshchilov & Hutter 2017, equation 5, one period);
    - `inverse_sqrt`: peak · √(W / s) (Vaswani et al. 2017, equation 3, by its peak);
    - `constant`: peak.

    The first rate is peak / W, not zero; the last is above zero.
    """

    peak: float
    steps: int
    warmup: int
    decay: Decay = "linear"

    @classmethod
    def of(cls, peak: float, steps: int, *, warmup: float, decay: Decay = "linear") -> "Schedule":
        """`warmup` is a share of the steps below 1, or a count of steps."""
        count = round(warmup * steps) if warmup < 1 else int(warmup)
        if count > steps:
            raise SettingError(
                f"--warmup {count} is more than the {steps} steps of this run; give a share such as 0.1"
            )
        return cls(peak, steps, max(1, count), decay)

    def __call__(self, step: int) -> float:
        """The rate of update `step`, counted from 1."""
        if step <= self.warmup:
            return self.peak * step / self.warmup
        over = self.steps + 1 - self.warmup
        match self.decay:
            case "linear":
                return self.peak * (self.steps + 1 - step) / over
            case "cosine":
                return self.peak * (1 + cos(pi * (step - self.warmup) / over)) / 2
            case "inverse_sqrt":
                return self.peak * sqrt(self.warmup / step)
            case "constant":
                return self.peak
