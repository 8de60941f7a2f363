"""What a figure is drawn of: the reference example, what was looked at, or a model and a text."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath

from clearhead.engine.modes import own_modes
from clearhead.errors import SettingError
from clearhead.explain.asked import layers_of, numbers
from clearhead.explain.figures.canvas import shown
from clearhead.explain.look import Look, Weights, refuse_too_much, tokens_of, weights_of
from clearhead.explain.objective import Reading
from clearhead.explain.record import record
from clearhead.infer.model import Model
from clearhead.text.encoding import Text

EXAMPLE = "the example of the source texts"


@dataclass(frozen=True, eq=False)
class Given:
    """`name` is the figure's. Nothing of a model is computed before it is asked for."""

    name: str
    seen: Look | None
    model: Model | None
    text: Text | None
    layer: int | None
    head: int | None

    @property
    def example(self) -> bool:
        """Whether it is to be drawn of the reference example."""
        if self.model is None and self.seen is None:
            if self.text is not None:
                raise SettingError(f"figure {self.name}: a text was given without a model to read it")
            return True
        return False

    def refuse_example(self, why: str) -> None:
        """For figures of what only a model has."""
        if self.example:
            raise SettingError(f"figure {self.name} needs a model: {why}; give one, and a text")

    @property
    def said(self) -> Text | None:
        """The text, given or looked at."""
        return self.seen.text if self.text is None and self.seen else self.text

    @cached_property
    def reading(self) -> Reading:
        """The text as the model reads it; a translator's answer is the one that was looked at."""
        answer = self.seen.answer if self.seen and self.given_model.translates else None
        return Reading.of(self.given_model, self.needed, answer=answer)

    @cached_property
    def source(self) -> Reading:
        """The same without a translator's answer, for figures of what its encoder reads."""
        return Reading.of(self.given_model, self.needed, most=1)

    @property
    def needed(self) -> Text:
        """The text; refused where there is none."""
        if self.said is None:
            raise SettingError(f"figure {self.name} of a model needs a text that it reads; give one")
        return self.said

    @property
    def given_model(self) -> Model:
        """The model itself, not only what was seen of it."""
        if self.model is None:
            raise SettingError(
                f"figure {self.name} asks the model more than was looked at; give the model beside the look"
            )
        return self.model

    @cached_property
    def every(self) -> tuple[Weights, ...]:
        """The weights that were looked at, or all of a model's."""
        if self.seen:
            return self.seen.weights
        config, reading = self.given_model.config, self.reading
        refuse_too_much(reading, layers=layers_of(None, config), heads=config.heads)
        with own_modes(), record(self.given_model) as seen:
            reading.run()
        return weights_of(reading, seen[0], heads=tuple(range(config.heads)))

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """What the model reads, token by token."""
        return tuple(token.text for token in tokens_of(self.source))

    def weights(self, kind: str) -> Weights:
        """The weights of a kind of attention: "self" is also a translator's encoder."""
        kinds = {one.kind: one for one in self.every}
        found = kinds.get(kind) or kinds.get("encoder" if kind == "self" else kind)
        if found is None:
            raise SettingError(
                f"figure {self.name} is of a model that reads a text and answers with another; this one has "
                f"attention of the kind {', '.join(kinds)}"
            )
        return found

    def one_layer(self, count: int, default: int = 0) -> int:
        """The layer that was asked for, of so many."""
        return numbers(default if self.layer is None else self.layer, "layer", count=count)[0]

    def one_head(self, count: int) -> int:
        """The head that was asked for, of so many."""
        return numbers(self.head or 0, "head", count=count)[0]

    def no_layer(self, *, head: bool = True) -> None:
        """Refuse a choice that would change nothing."""
        for name, given in (("layer", self.layer), ("head", self.head)):
            if given is not None and (head or name == "layer"):
                raise SettingError(f"figure {self.name} is of all layers and heads; leave {name}={given} out")

    @property
    def model_name(self) -> str:
        """The model's name, without where its folder lies."""
        return shown(PurePath(self.seen.model if self.seen else self.given_model.name).name, 60)

    def whose(self, more: str = "") -> str:
        """What a figure is of, in one line."""
        if self.example:
            return f"Of {EXAMPLE}{more}."
        text = self.said
        said = "" if text is None else text if isinstance(text, str) else " / ".join(text)
        return self.model_name + more + (f": “{shown(said, 90)}”" if said else "")


def refuse_long(given: Given, tokens: int, *, most: int) -> None:
    """Refuse a text whose tokens nobody could read."""
    if tokens > most:
        raise SettingError(
            f"figure {given.name}: {tokens} tokens cannot be told apart in it, {most} can; shorten the text"
        )
