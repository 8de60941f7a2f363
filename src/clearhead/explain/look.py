"""One text and one model, looked at: tokens, weights, what each layer would answer, and the answer. What the
page, the figures and the JSON show."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.engine.modes import own_modes
from clearhead.errors import NotFinite, SettingError
from clearhead.explain.asked import Some, layers_of, numbers
from clearhead.explain.lens import Lens, lens
from clearhead.explain.objective import Reading, has_mask
from clearhead.explain.record import Record, record
from clearhead.infer.model import Model
from clearhead.tasks.tag import TagResult
from clearhead.text.encoding import Text
from clearhead.text.stream import text_of

WORD = "▁"  # SentencePiece's mark that a word begins
MOST = 4_000_000  # weights that are shown at most: 128 tokens, 12 layers and 12 heads are 2.4 million


@dataclass(frozen=True)
class Token:
    """A token as people read it; `special` where the tokenizer has put it there, `source` which text of a
    pair it is of (−1: none)."""

    text: str
    id: int
    special: bool
    source: int = 0


@dataclass(frozen=True, eq=False)
class Weights:
    """Attention of one kind: "self" of a single stack, or a translator's "encoder", "decoder" and "cross"
    (from the answer to the text). Rows are `queries`, columns `keys`; `layers` and `heads` say which."""

    kind: str
    queries: tuple[Token, ...]
    keys: tuple[Token, ...]
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    values: Float[Tensor, "layers heads queries keys"]


@dataclass(frozen=True)
class Share:
    """Something the model says, and its probability (of a number: the number); of what stands in the text,
    in a context the characters `start` to `end`."""

    name: str
    share: float
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, eq=False)
class Look:
    """Everything that is shown. `answers` are the model's, each with a heading: the labels of a text, the
    best answers to a question, what stands at each mask, each word's tags, what comes next."""

    model: str
    text: Text
    weights: tuple[Weights, ...]
    lens: Lens
    answers: tuple[tuple[str, tuple[Share, ...]], ...]
    answer: str | None = None  # a translator's
    parts: str = ""  # how large the model is, in words

    @property
    def kind(self) -> str:
        """What the model's head answers."""
        return self.lens.kind

    @property
    def numbers(self) -> bool:
        """Whether answers are numbers, not probabilities."""
        return self.lens.unit == "number"


@own_modes()
def look(
    model: Model,
    text: Text,
    *,
    answer: str | None = None,
    layers: Some = None,
    heads: Some = None,
    candidates: int = 5,
) -> Look:
    """Look at one text, or a pair (a question and its context, two texts). Raises `DataError` for a blank or
    too long one, `SettingError` for layers or heads that are not there or more weights than can be shown."""
    reading = Reading.of(model, text, answer=answer)
    config = model.config
    kept = layers_of(layers, config)
    some = numbers(heads, "heads", count=config.heads)
    refuse_too_much(reading, layers=kept, heads=len(some))
    with record(model, layers=layers, heads=some) as seen:
        reading.run()
    (one,) = seen.records
    layer_by_layer = lens(reading, candidates=candidates)
    return Look(
        model.name,
        text,
        weights_of(reading, one, heads=some),
        layer_by_layer,
        answers_of(reading, layer_by_layer, candidates=candidates),
        reading.answer if model.translates else None,
        size_of(model),
    )


def size_of(model: Model) -> str:
    """How large a model is, in words."""
    config = model.config
    layers = f"{config.layers}" + (f" + {config.decoder_layers}" if config.decoder_layers else "")
    return f"{layers} layers, {config.heads} heads, width {config.width}"


def refuse_too_much(reading: Reading, *, layers: tuple[frozenset[int], frozenset[int]], heads: int) -> None:
    """Refuse more weights than can be shown."""
    read, said = len(reading.encoding.ids), len(reading.fed) if reading.model.translates else 0
    (own, deciding), tokens = map(len, layers), read + said
    count = heads * (own * read**2 + deciding * (said**2 + said * read))
    if count > MOST:
        pairs = max(1, MOST * (own + deciding) * heads // count)
        raise SettingError(
            f"{own + deciding} layers with {heads} heads over {tokens} tokens are {count:,} weights, and at "
            f"most {MOST:,} are shown; choose fewer (--layers 0 5 --heads 3: at most {pairs} layers times "
            "heads), or give a shorter text"
        )


def weights_of(reading: Reading, one: Record, *, heads: tuple[int, ...]) -> tuple[Weights, ...]:
    """The weights of each kind of attention."""
    read = tokens_of(reading)
    if not reading.model.translates:
        return (stacked("self", read, keys=read, weights=one.attention, heads=heads),)
    said = said_tokens(reading)
    assert one.source
    return (
        stacked("cross", said, keys=read, weights=one.cross, heads=heads),
        stacked("encoder", read, keys=read, weights=one.source.attention, heads=heads),
        stacked("decoder", said, keys=said, weights=one.attention, heads=heads),
    )


def stacked(
    kind: str,
    queries: tuple[Token, ...],
    *,
    keys: tuple[Token, ...],
    weights: dict[int, Tensor],
    heads: tuple[int, ...],
) -> Weights:
    """Layers one upon another; none, where this stack has none of the layers that were chosen."""
    layers = tuple(sorted(weights))
    if not layers:
        return Weights(kind, queries, keys, (), heads, torch.empty(0, len(heads), len(queries), len(keys)))
    values = torch.stack([weights[layer] for layer in layers])
    if not values.isfinite().all():
        raise NotFinite("the model computes numbers that are not finite, so there is nothing to look at")
    return Weights(kind, queries, keys, layers, heads, values)


def tokens_of(reading: Reading) -> tuple[Token, ...]:
    """The tokens that a model reads, as they stand in the text."""
    encoding, name = reading.encoding, reading.model.tokenizer.name
    texts = [reading.text] if isinstance(reading.text, str) else list(reading.text)
    found = []
    for id, (start, end), source in zip(encoding.ids, encoding.offsets, encoding.sources, strict=True):
        special = source < 0
        # A mark that a word begins shares its character with the next piece.
        shown = "" if special or name(id) == WORD else texts[source][start:end]
        found.append(Token(shown.strip() or shown or name(id), id, special, source))
    return tuple(found)


def said_tokens(reading: Reading) -> tuple[Token, ...]:
    """The tokens of a translator's answer that go through its decoder."""
    writer, tokenizer = reading.model.loaded.writer, reading.model.tokenizer
    name, control = tokenizer.name, tokenizer.control_ids
    found = []
    for place, id in enumerate(reading.fed):
        shown = text_of(writer, [id], before=list(reading.fed[:place])).strip()
        special = id in control or not place
        found.append(Token(name(id) if special else shown or name(id), id, special))
    return tuple(found)


def answers_of(
    reading: Reading, found: Lens, *, candidates: int
) -> tuple[tuple[str, tuple[Share, ...]], ...]:
    """What the model answers, as its own door says it."""
    model, text = reading.model, reading.text
    if model.answers:
        assert isinstance(text, tuple)
        (best,) = model.answer([text])
        rows = [Share(one.answer, one.score, one.start, one.end) for one in best.candidates[:candidates]]
        none = [] if best.no_answer_score is None else [Share("no answer", best.no_answer_score)]
        return (("answer", tuple(sorted(rows + none, key=lambda row: -row.share))),)
    if model.tags:
        (tagged,) = model.predict([text])
        assert isinstance(tagged, TagResult)
        return tuple(
            (word.text, (Share(word.tag, word.score or 0.0, word.start, word.end),)) for word in tagged.words
        )
    last = found.layers[-1]
    if model.translates:
        return (("answer", (Share(reading.answer, 1.0),)),)
    if model.speaks:
        return (("next token", tuple(Share(guess.text, guess.probability) for guess in last[-1])),)
    if model.fills:
        if not (isinstance(text, str) and has_mask(model, text)):
            return ()
        (filled,) = model.fill([text], candidates=candidates)
        masks = enumerate(filled.masks, 1)
        return tuple(
            (f"mask {n}", tuple(Share(one.token_str, one.score) for one in best)) for n, best in masks
        )
    if not model.loaded.labels:
        return ()
    return tuple(("label", tuple(Share(guess.text, guess.probability) for guess in row)) for row in last)
