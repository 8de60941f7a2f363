"""How a model is looked into: explain."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from clearhead.errors import SettingError
from clearhead.settings.options import at_least, check_values, flag, option

TOLERANCE = 1e-4
COMPARED, LIVE = "Two models", "Live"  # headings of their flags
Numbers = Annotated[list[int] | None, Parameter(consume_multiple=True, negative="")]
Words = Annotated[str | None, Parameter(allow_leading_hyphen=True)]


@dataclass(frozen=True, kw_only=True)
class Explaining:
    """What is looked at, and where it goes."""

    text: Words = option(None, "the text, where it could be taken for a model or a flag")
    context: Words = option(None, "the second text of a pair: that in which a question is answered")
    answer: Words = option(None, "the answer that is looked at, of models that turn a text into another")
    layers: Numbers = option(None, "layers to look at, from 0, negative from the last; else all")
    heads: Numbers = option(None, "heads to look at, from 0, negative from the last; else all")
    candidates: int = option(5, "answers that are shown at each place, the most likely first")
    out: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = option(
        None, "new file: .html (a page), .png or .svg (a figure), .json; - prints JSON", path=True
    )
    figure: str | None = option(None, "which figure a .png or .svg shows")
    json: Annotated[bool, Parameter(negative="")] = option(False, "print JSON also on a terminal")
    live: Annotated[bool, Parameter(negative="", group=LIVE)] = option(
        False, "serve a page on this machine alone, to type texts and switch heads off"
    )
    port: Annotated[int | None, Parameter(group=LIVE)] = option(None, "port of that page; else a free one")
    tolerance: Annotated[float, Parameter(group=COMPARED)] = option(
        TOLERANCE, "largest difference, as a share of the largest number, that counts as none"
    )

    def __post_init__(self) -> None:
        check_values(self)
        at_least("candidates", self.candidates, least=1)
        at_least("tolerance", self.tolerance, least=0)
        if self.port is not None and not 0 <= self.port < 2**16:
            raise SettingError(f"--port {self.port} must be from 0 (a free one) to 65535")
        if self.port is not None and not self.live:
            raise SettingError("--port is for --live, which is not given; leave it out")
        if self.live:
            for name in ("out", "figure", "answer"):
                if getattr(self, name) is not None:
                    raise SettingError(f"{flag(name)} and --live are two things; give one of them")
