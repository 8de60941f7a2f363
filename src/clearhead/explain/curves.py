"""From the log of a run to figures: what is drawn and where, in percent of a figure's field. No markup."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, isnan, log10, nan
from statistics import fmean
from typing import Any

from clearhead.explain.wording import decimal, percent

Point = tuple[float, float]  # step and value; a value that is no number is NaN
MOST_BINS, MOST_DOTS = 300, 60


@dataclass(frozen=True)
class Axis:
    """A range of numbers with round ticks: pairs of number and label."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]

    @classmethod
    def over(cls, low: float, high: float, *, most: int, unit: str = "") -> "Axis":
        """Over `low` to `high` and on to the next ticks, at most about `most` of them apart."""
        step = round_step((high - low) / most)
        first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
        ticks = tuple((n * step, label(n * step, step) + unit) for n in range(first, last + 1))
        return cls(first * step, last * step, ticks)

    @classmethod
    def of_steps(cls, log: Sequence[dict[str, Any]]) -> "Axis":
        """From 0 to the last step, with ticks at whole steps."""
        last = max(1, *(line["step"] for line in log), 1)
        step = max(1, round(round_step(last / 5)))
        return cls(0, last, tuple((n, label(n, step)) for n in range(0, last + 1, step)))

    def percent(self, value: float) -> float:
        """Where a number lies between the ends; one outside lies on an end."""
        return round(100 * min(1.0, max(0.0, (value - self.low) / (self.high - self.low))), 2)


@dataclass(frozen=True)
class Line:
    """A line of a figure: what it shows, how it looks (faint, strong or accent), its path and dots."""

    name: str
    kind: str
    path: str
    dots: tuple[Point, ...]


@dataclass(frozen=True)
class Field:
    """What a figure draws on, 100 wide and 100 high, from the top left."""

    across: Axis
    up: Axis

    def line(self, points: Sequence[Point], kind: str, *, name: str = "", most_dots: int = 1) -> Line:
        """A line through points, with a dot at each unless there are too many; NaN makes a gap."""
        dots = [self.place(point) for point in known(points)]
        return Line(name, kind, self.path(points), tuple(dots) if len(dots) <= most_dots else ())

    def path(self, points: Iterable[Point]) -> str:
        """An SVG path; a point between two gaps is a line of no length, whose round ends make it a dot."""
        parts, gap = [], True
        for point in points:
            if not isnan(point[1]):
                place = "{:g} {:g}".format(*self.place(point))
                parts.append(f"M{place}h0" if gap else f"L{place}")
            gap = isnan(point[1])
        return "".join(parts)

    def place(self, point: Point) -> Point:
        return self.across.percent(point[0]), round(100 - self.up.percent(point[1]), 2)


@dataclass(frozen=True)
class Figure:
    """A figure over the steps of a run. `said` is the whole figure in words, `remark` what it cannot show."""

    name: str
    heading: str
    said: str
    field: Field
    lines: tuple[Line, ...]
    remark: str = ""


def figures(log: Sequence[dict[str, Any]], *, loss: str = "Loss, nats per text") -> list[Figure]:
    """Loss, validation accuracy (where evaluated more than once) and learning rate, as far as logged."""
    drawn = [loss_figure(log, heading=loss), accuracy_figure(log), rate_figure(log)]
    return [figure for figure in drawn if figure]


def loss_figure(log: Sequence[dict[str, Any]], *, heading: str = "Loss, nats per text") -> Figure | None:
    """Training loss of each step and its moving mean; validation loss."""
    every, checked = series(log, "loss"), known(series(log, "eval_loss"))
    training = known(every)
    if not training:
        return None
    values = [value for _, value in training]
    # One step gone wild must not press all others flat: what is far above the start lies on the edge.
    usual = 2 * max(values[0], sorted(values)[len(values) * 9 // 10])
    top = max([min(max(values), usual), *(value for _, value in checked)])
    up = Axis.over(min(0, *values, top), top if top > 0 else 1, most=5)
    field = Field(Axis.of_steps(log), up)
    over = [point for point in training if point[1] > up.high]
    window = len(every) // 15 | 1
    if window < 5:
        lines = [field.line(thinned(every), "strong", name="training, each step")]
    else:
        mean = smoothed(every, window, most=up.high)
        name = f"mean of {window:,} steps" + (f", each at most {up.high:g}" if over else "")
        lines = [
            field.line(thinned(every), "faint", name="training, each step"),
            field.line(mean, "strong", name=name),
        ]
    said = f"Training loss: {decimal(values[0])} at the first step, {decimal(values[-1])} at the last"
    if checked:
        lines.append(field.line(thinned(checked), "accent", name="validation", most_dots=MOST_DOTS))
        said += f". Validation loss: {listed(checked, decimal)}"
    remark = missing(every)
    if over:
        step, most = max(over, key=lambda point: point[1])
        many = f"{len(over):,} of {len(every):,} steps"
        remark += f" Above the figure: the loss of {many}, at most {label(most, 0.1)} at step {step:,}."
    return Figure("loss", heading, said, field, tuple(lines), remark)


def accuracy_figure(log: Sequence[dict[str, Any]]) -> Figure | None:
    """Validation accuracy, where there is more than one point; the axis does not begin at 0."""
    points = known(series(log, "eval_accuracy"))
    if len(points) < 2:
        return None
    shares = [(step, 100 * value) for step, value in points]
    values = [value for _, value in shares]
    low, high = max(0, min(values) - 0.5), min(100, max(values) + 0.5)
    field = Field(Axis.of_steps(log), Axis.over(low, high, most=4, unit="\N{NO-BREAK SPACE}%"))
    line = field.line(thinned(shares), "accent", most_dots=MOST_DOTS)
    step, best = max(points, key=lambda point: point[1])
    said = f"Validation accuracy: {listed(points, percent)}"
    remark = f"Best: {percent(best)} after step {step:,}."
    return Figure("accuracy", "Validation accuracy", said, field, (line,), remark)


def rate_figure(log: Sequence[dict[str, Any]]) -> Figure | None:
    """The learning rate of each step."""
    points = known(series(log, "learning_rate"))
    step, top = max(points, key=lambda point: point[1], default=(0, 0))
    if top <= 0:
        return None
    field = Field(Axis.of_steps(log), Axis.over(0, top, most=4))
    said = f"Learning rate: at most {top:g}, at step {step:,}; {points[-1][1]:g} at the last step"
    return Figure("rate", "Learning rate", said, field, (field.line(thinned(points), "strong"),))


def round_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, 20 … (or 0.5, 0.2 …) that is not below `least`."""
    power = 10.0 ** floor(log10(least))
    return power * next(size for size in (1, 2, 5, 10) if size * power >= least * (1 - 1e-9))


def label(value: float, step: float) -> str:
    """A tick's number, with the decimals that its axis needs."""
    if value == 0:
        return "0"
    if step < 1e-3 or abs(value) >= 1e6:
        figures, power = f"{value:.1e}".split("e")
        return f"{figures.removesuffix('.0')}e{int(power)}"
    return f"{value:,.{max(0, -floor(log10(step)))}f}"


def series(log: Iterable[dict[str, Any]], key: str) -> list[Point]:
    """The steps that logged this key, with what they logged; NaN for what cannot be drawn."""
    return [(line["step"], number(line[key])) for line in log if key in line]


def number(value: object) -> float:
    """A number that can be drawn, or NaN: for NaN, the infinities, null, and what overflows an axis."""
    return float(value) if isinstance(value, int | float) and abs(value) < 1e300 else nan


def known(points: Iterable[Point]) -> list[Point]:
    return [point for point in points if not isnan(point[1])]


def thinned(points: Sequence[Point]) -> Sequence[Point]:
    """Few enough points to draw: of each stretch of steps the lowest, the highest, and a NaN if any."""
    if len(points) <= 2 * MOST_BINS:
        return points
    size = ceil(len(points) / MOST_BINS)
    kept: list[Point] = []
    for start in range(0, len(points), size):
        stretch = points[start : start + size]
        numbers = known(stretch)
        if numbers:
            ends = {pick(numbers, key=lambda point: point[1]) for pick in (min, max)}
            kept += sorted(ends)
        if len(numbers) < len(stretch):
            kept.append((stretch[-1][0], nan))
    return kept


def smoothed(points: Sequence[Point], window: int, *, most: float) -> list[Point]:
    """The mean of a window around some of the steps, in which no value weighs more than `most`.

    NaN stays NaN and has no part in others; at the ends the window is cut.
    """
    reach, found = window // 2, []
    for centre in range(0, len(points), ceil(len(points) / MOST_BINS)):
        step, value = points[centre]
        near = known(points[max(0, centre - reach) : centre + reach + 1])
        found.append((step, nan if isnan(value) else fmean(min(value, most) for _, value in near)))
    return found


def missing(points: Sequence[Point]) -> str:
    """Say where the loss is no number."""
    steps = [step for step, value in points if isnan(value)]
    if not steps:
        return ""
    many = f"{len(steps):,} of {len(points):,} steps"
    return f"The loss is no finite number at {many}, first at step {steps[0]:,}."


def listed(points: Sequence[Point], shown: Any) -> str:
    """Points in words, the last eight of them."""
    return ", ".join(f"{shown(value)} at step {step:,}" for step, value in points[-8:])
