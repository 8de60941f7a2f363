"""Numbers and texts as a reader meets them: short, and never better than they are."""

from math import isfinite, sqrt

UNDEFINED = "undefined"
MOST_CHARACTERS = 400


def percent(share: float | None) -> str:
    """A share with one decimal; only what is 1 reads as 100.0 %, only what is 0 as 0.0 %."""
    if share is None or not isfinite(share):
        return UNDEFINED
    if 0.9995 <= share < 1:
        return ">\N{NO-BREAK SPACE}99.9\N{NO-BREAK SPACE}%"
    if 0 < share < 0.0005:
        return "<\N{NO-BREAK SPACE}0.1\N{NO-BREAK SPACE}%"
    return f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


def probability(score: float) -> str:
    """As `percent`, but a softmax is never certain: its 1 is a number float64 cannot tell from 1."""
    return percent(min(score, 1 - 2**-53))


def decimal(value: float | None) -> str:
    """A number with three decimals."""
    if value is None or not isfinite(value):
        return UNDEFINED
    return f"{value:.3f}".replace("-", "−") if abs(value) < 1e6 else f"{value:.3g}"


def signed(difference: float, *, points: bool) -> str:
    """A difference with its sign: of shares in points, of other numbers with three decimals."""
    if not isfinite(difference):
        return UNDEFINED
    shown = f"{100 * difference:+.1f}" if points else f"{difference:+.3f}"
    return shown.replace("-", "−") + (" points" if points else "")


def against(difference: float) -> str:
    """How a share stands to another: `12.4 points above`."""
    size = 100 * abs(difference)
    if size == 0:
        return "level with"
    amount = f"{size:.1f} points" if size >= 0.05 else "less than 0.1 points"
    return f"{amount} {'above' if difference > 0 else 'below'}"


def interval(share: float, texts: int) -> str:
    """The 95 % interval of a share that was counted on so many texts (Wilson 1927)."""
    z = 1.96
    centre = (share + z * z / (2 * texts)) / (1 + z * z / texts)
    reach = z / (1 + z * z / texts) * sqrt(share * (1 - share) / texts + z * z / (4 * texts * texts))
    low, high = max(0.0, centre - reach), min(1.0, centre + reach)
    return f"{100 * low:.1f} to {100 * high:.1f}\N{NO-BREAK SPACE}%"


def shortened(text: str) -> str:
    """The beginning of a long text, up to a space if there is one near, with … where it was cut."""
    if len(text) <= MOST_CHARACTERS:
        return text
    head = text[:MOST_CHARACTERS]
    space = head.rfind(" ")
    return f"{head[:space]} …" if space > MOST_CHARACTERS - 40 else f"{head}…"


def setting(value: object) -> str:
    """The value of a setting, in words a person would use."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}".replace("e-0", "e-")
    if isinstance(value, list | tuple):
        return ", ".join(setting(item) for item in value) or "none"
    return str(value)
