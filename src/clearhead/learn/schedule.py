"""The learning rate at each step."""

from dataclasses import dataclass

from clearhead.errors import SettingError


@dataclass(frozen=True)
class Schedule:
    """Linear warm-up, then linear decay.

    With S steps, W steps of warm-up (at least 1) and s = 1 … S, the rate used for update s is peak · s / W up
    to s = W, and peak · (S + 1 − s) / (S + 1 − W) after. The first rate is peak / W, not zero; the peak is
    used once, at s = W; the last rate is above zero.
    """

    peak: float
    steps: int
    warmup: int

    @classmethod
    def of(cls, peak: float, steps: int, *, warmup: float) -> "Schedule":
        """`warmup` is a share of the steps below 1, or a count of steps."""
        count = round(warmup * steps) if warmup < 1 else int(warmup)
        if count > steps:
            raise SettingError(
                f"--warmup {count} is more than the {steps} steps of this run; give a share such as 0.1"
            )
        return cls(peak, steps, max(1, count))

    def __call__(self, step: int) -> float:
        """The rate of update `step`, counted from 1."""
        if step <= self.warmup:
            return self.peak * step / self.warmup
        return self.peak * (self.steps + 1 - step) / (self.steps + 1 - self.warmup)
