"""What may be asked of a grade."""

from dataclasses import dataclass

from clearhead.errors import SettingError
from clearhead.settings.options import option


@dataclass(frozen=True, kw_only=True)
class Grading:
    """Which exercise is meant, and what the graded code may take. It is trusted: limits are for accidents."""

    exercise: str | None = option(None, "the exercise: only this one, or that of FILE:function")
    time: float = option(
        10.0, "seconds that one call may take; the code is trusted, limits are for accidents"
    )
    memory: float = option(4.0, "gigabytes of memory that the code may take")

    def __post_init__(self) -> None:
        if not 0.0 < self.time <= 86_400.0:
            raise SettingError(f"--time {self.time:g} must be above 0 and at most 86400 seconds")
        if not 0.25 <= self.memory <= 1_000_000.0:
            raise SettingError(f"--memory {self.memory:g} must be from 0.25 to 1000000 gigabytes")
