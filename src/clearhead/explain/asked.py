"""What is to be recorded: layers, heads, rows and points of a network, checked by name."""

from collections.abc import Iterable
from dataclasses import dataclass

from clearhead.engine.watching import Point
from clearhead.errors import SettingError
from clearhead.infer.model import Model
from clearhead.model.config import Config
from clearhead.model.transformer import Transformer

PATTERN, CROSS_PATTERN = "pattern", "cross_pattern"
MADE_AT = {PATTERN: Point.Z, CROSS_PATTERN: Point.CROSS_Z}  # what is computed where heads have gathered
CROSS = (Point.CROSS_Q, Point.CROSS_Z, Point.CROSS_ATTN_OUT, Point.RESID_MID_CROSS, CROSS_PATTERN)
WHAT = (*Point, PATTERN, CROSS_PATTERN)

Some = int | Iterable[int] | None
What = str | Iterable[str] | None


@dataclass(frozen=True)
class Asked:
    """What of a network's calls is kept. `rows` are positions of tokens, None for all of them; `layers` those
    of the only stack or the encoder, `decoder_layers` those of a translator's decoder."""

    what: tuple[str, ...]
    layers: frozenset[int]
    decoder_layers: frozenset[int]
    heads: tuple[int, ...] | None
    rows: tuple[int, ...] | slice | None

    @classmethod
    def of(
        cls,
        network: Transformer,
        *,
        layers: Some,
        heads: Some,
        queries: Some | slice,
        what: What,
    ) -> "Asked":
        """Of this network; `SettingError` for what it does not have."""
        config = network.config
        default = (PATTERN, CROSS_PATTERN) if config.translates else (PATTERN,)
        points = default if what is None else names_of(what, config)
        kept = layers_of(layers, config)
        some = None if heads is None else numbers(heads, "heads", count=config.heads)
        if some == ():
            raise SettingError("heads=[] asks for nothing; give some, or leave it out")
        rows: tuple[int, ...] | slice | None
        if queries is None or isinstance(queries, slice):
            rows = queries
        else:
            rows = tuple(whole_numbers(queries, "queries"))
        return cls(points, *kept, some, rows)

    def points(self, point: Point) -> list[str]:
        """What is kept where these numbers are seen."""
        return [name for name in self.what if MADE_AT.get(name, name) == point]

    def places(self, length: int) -> list[int]:
        """The positions whose rows are kept of a text of this length, in order; those it does not have are
        left out."""
        if self.rows is None:
            return list(range(length))
        if isinstance(self.rows, slice):
            return list(range(length))[self.rows]
        return sorted({row + length if row < 0 else row for row in self.rows} & set(range(length)))

    @property
    def counted_from_the_end(self) -> bool:
        """Whether the rows depend on how long a text will be."""
        if isinstance(self.rows, slice):
            ends = (self.rows.start, self.rows.stop, self.rows.step)
            return any(end is not None and end < 0 for end in ends)
        return self.rows is not None and any(row < 0 for row in self.rows)


def layers_of(given: Some, config: Config) -> tuple[frozenset[int], frozenset[int]]:
    """The layers of an encoder, or of the only stack, and of a translator's decoder: those of the given
    numbers that each has, negative ones from its own last."""
    depths = config.layers, config.decoder_layers or 0
    if given is None:
        return frozenset(range(depths[0])), frozenset(range(depths[1]))
    found = list(given) if isinstance(given, Iterable) else given
    numbers(found, "layers", count=max(depths))
    every = whole_numbers(found, "layers")
    first, second = ({at + depth if at < 0 else at for at in every} & set(range(depth)) for depth in depths)
    return frozenset(first), frozenset(second)


def network_of(model: object) -> Transformer:
    """The network of a model; SettingError for anything else."""
    if isinstance(model, Model):
        return model.loaded.network
    if isinstance(model, Transformer):
        return model
    raise SettingError(
        f"{type(model).__name__} was given where a loaded model is needed: clearhead.load(MODEL)"
    )


def names_of(what: str | Iterable[str], config: Config) -> tuple[str, ...]:
    """The names of what can be seen, each once, in order."""
    given = [what] if isinstance(what, str) or not isinstance(what, Iterable) else list(what)
    if wrong := [name for name in given if not isinstance(name, str)]:
        raise SettingError(f"what={wrong[0]!r} is not one of {', '.join(WHAT)}")
    names = tuple(dict.fromkeys(given))
    for name in names:
        if name not in WHAT:
            raise SettingError(f"what={name!r} is not one of {', '.join(WHAT)}")
        if name in CROSS and not config.translates:
            raise SettingError(f"what={name!r} is of a decoder that reads another text; this model has none")
        if name == Point.RESID_MID and config.parallel:
            raise SettingError(
                "what='resid_mid' is between attention and feed-forward, which this model adds at once; ask "
                "for resid_pre or resid_post"
            )
    if not names:
        raise SettingError(f"what=() asks for nothing; give some of {', '.join(WHAT)}")
    return tuple(str(name) for name in names)


def whole_numbers(given: int | Iterable[int], name: str) -> list[int]:
    """One number or several."""
    found = [given] if isinstance(given, int) else list(given) if isinstance(given, Iterable) else [given]
    for number in found:
        if isinstance(number, bool) or not isinstance(number, int):
            raise SettingError(f"{name}={number!r} is not a whole number")
    return found


def numbers(given: Some, name: str, *, count: int) -> tuple[int, ...]:
    """Layers or heads, each once and in order, negative ones from the end; all where none is given."""
    if given is None:
        return tuple(range(count))
    found = whole_numbers(given, name)
    for number in found:
        if not -count <= number < count:
            raise SettingError(f"{name}={number}: the model has {count}, 0 to {count - 1}")
    return tuple(sorted({number % count for number in found}))
