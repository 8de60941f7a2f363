"""An architecture as frozen facts. Something new becomes a fact with a test, or is refused by name; no fact
holds a family's name."""

from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf

from clearhead.errors import SettingError
from clearhead.settings.numbers import finite_number, share, whole_number


class Activation(StrEnum):
    """What stands between the two layers of the feed-forward network, or of a head."""

    RELU = "relu"
    GELU = "gelu"  # exact, with erf (Hendrycks & Gimpel 2016)
    GELU_TANH = "gelu_tanh"  # the same paper's approximation with tanh
    TANH = "tanh"
    SILU = "silu"  # x · sigmoid(x) (Hendrycks & Gimpel 2016; Ramachandran et al. 2017)


class Pooling(StrEnum):
    """How the vectors of a text become one vector."""

    CLS = "cls"  # the first token's
    MEAN = "mean"
    MAX = "max"
    LAST = "last"  # the last token's


class Norm(StrEnum):
    """Layer norm has a scale and a shift (Ba et al. 2016), RMS norm only a scale (Zhang & Sennrich 2019)."""

    LAYER = "layer"
    RMS = "rms"


@dataclass(frozen=True)
class Sinusoidal:
    """Fixed sines and cosines (Vaswani et al. 2017, section 3.5), in turns or in `halves`: all sines first.
    Without a `count` there is no longest text."""

    halves: bool = False
    count: int | None = None


@dataclass(frozen=True)
class Learned:
    """A learned vector for each of `count` positions: no text may be longer. The table has `offset` rows
    more, before the first position's (RoBERTa's: pad id + 1, never used here)."""

    count: int
    offset: int = 0


@dataclass(frozen=True)
class LinearScaling:
    """Every angle is divided by `factor` (Chen et al. 2023, equation 4)."""

    factor: float


@dataclass(frozen=True)
class Llama3Scaling:
    """Slow turns are divided by `factor`, quick ones stay, those between are blended (Llama 3.1, 2024).

    A turn is slow where it takes more than `original / low` positions, quick below `original / high`;
    `original` is the longest text before the model was made to see more.
    """

    factor: float
    low: float
    high: float
    original: int


Scaling = LinearScaling | Llama3Scaling


@dataclass(frozen=True)
class Rotary:
    """Queries and keys are turned by angles that grow with the position (Su et al. 2021, equation 34).

    `base` sets the slowest turn, `local_base` that of blocks which see only a window; `count` is the longest
    text the model was made for. Of each head the first `share` turns, the rest stays as it is.
    """

    count: int
    base: float
    local_base: float | None = None
    share: float = 1.0
    scaling: Scaling | None = None

    def turned(self, head_width: int) -> int:
        """How many numbers of a head turn."""
        return int(head_width * self.share)


@dataclass(frozen=True)
class Relative:
    """A learned bias per head for each bucket of distances, shared by all blocks of a stack (Raffel et al.
    2020, section 2.1): half of the buckets are single distances, the others grow up to `distance`."""

    buckets: int = 32
    distance: int = 128


Positions = Sinusoidal | Learned | Rotary | Relative


class Over(StrEnum):
    """What a head gives a row of numbers for."""

    TEXTS = "texts"  # each text, whose vectors are pooled: labels, or a number
    TOKENS = "tokens"  # each token: labels
    SPANS = "spans"  # each token: that an answer begins here, that it ends here


def refuse_scaling(scaling: Scaling | None) -> None:
    """Refuse a scaling of rotary angles that divides by nothing or has no band to blend."""
    if scaling and not 0 < scaling.factor < inf:
        raise SettingError(f"scaling.factor={scaling.factor!r} must be a number above 0")
    if isinstance(scaling, Llama3Scaling):
        whole_number("scaling.original", scaling.original, least=1)
        if not 0 < scaling.low < scaling.high < inf:
            raise SettingError(f"scaling.low={scaling.low!r} must be above 0 and below high={scaling.high!r}")


@dataclass(frozen=True)
class Fill:
    """What says which token stands behind a mask: the norm of an activation of a layer, then a number for
    each word of the vocabulary (Devlin et al. 2018, section 3.1)."""

    activation: Activation = Activation.GELU
    bias: bool = True  # of the layer
    output_bias: bool = True  # one number a word
    tied: bool = True  # its matrix is the embedding's


OPEN = ("embedding_dropout", "attended_dropout")
DROPOUTS = ("dropout", "attention_dropout", *OPEN, "hidden_dropout", "final_dropout")


@dataclass(frozen=True)
class Config:
    """The facts of one architecture.

    Dropout happens after the embedding, on attention weights, after attention, inside the feed-forward
    network, after it, and at the end: `embedding_`, `attention_`, `attended_`, `hidden_`, no name, `final_`.
    `layers` counts the blocks of the only stack, or of the encoder where `decoder_layers` is not 0: then a
    decoder with the same facts follows, whose blocks also attend to the encoder's stream.
    Raises `SettingError` where the facts do not fit together.
    """

    vocab: int
    width: int
    layers: int
    heads: int
    hidden: int  # width of the feed-forward network
    positions: Positions
    activation: Activation = Activation.GELU
    norm: Norm = Norm.LAYER
    norm_first: bool = False  # the norm stands before each change of the stream, or after
    epsilon: float = 1e-5
    segments: int = 0  # kinds of segment (BERT's token types); 0: none
    embedding_norm: bool = False
    scale_embedding: bool = False  # token vectors times √width (Vaswani et al. 2017, section 3.4)
    embedding_width: int | None = None  # token vectors narrower than the stream, then a layer (ELECTRA)
    dropout: float = 0.1
    attention_dropout: float = 0.1
    embedding_dropout: float | None = None  # None: as dropout
    attended_dropout: float | None = None  # None: as dropout
    hidden_dropout: float = 0.0
    initial_std: float | None = None  # of new weights; None: Glorot uniform
    causal: bool = False
    decoder_layers: int = 0
    target_vocab: int | None = None  # of the decoder's own tokens; None: both sides have one table
    head_width: int | None = None  # None: width / heads
    gated: bool = False  # activation(first half) * second half (Shazeer 2020)
    kv_heads: int | None = None  # of keys and values, shared by groups (Ainslie et al. 2023); None: heads
    qk_norm: bool = False  # RMS norm of each query and key before they turn (Qwen3)
    parallel: bool = False  # attention and feed-forward see the same stream (Wang & Komatsuzaki 2021)
    bias: bool = True  # of the blocks' linear layers
    qkv_bias: bool | None = None  # None: as bias
    output_bias: bool | None = None  # of attention's last layer; None: as bias
    norm_bias: bool = True
    first_norm: bool = True  # with norm_first: whether the first block's attention has a norm of its own
    window: int | None = None  # tokens to either side (causal: before) that a block sees; None: all
    global_every: int | None = None  # with a window: each so-many-th block, from the first, sees all
    language_head: bool = False
    tied: bool = True  # the language head's matrix is the embedding's
    language_bias: bool = False  # of the language head
    scale_output: bool = False  # the stream times width^-0.5 before the language head (T5)
    scale_scores: bool = True  # queries times keys, times head_width^-0.5 (Vaswani et al. 2017, equation 1)
    final_dropout: float = 0.0
    fill: Fill | None = None

    def __post_init__(self) -> None:
        if self.fill and (self.causal or self.language_head):
            raise SettingError("fill is a head of encoders, which see both sides of a mask; causal=False")
        for name in ("vocab", "width", "layers", "heads", "hidden"):
            whole_number(name, getattr(self, name), least=1)
        for name in ("segments", "decoder_layers"):
            whole_number(name, getattr(self, name), least=0)
        for name in ("embedding_width", "window", "global_every", "kv_heads", "head_width", "target_vocab"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), least=1)
        if isinstance(self.positions, Learned | Rotary | Sinusoidal) and self.positions.count is not None:
            whole_number("positions", self.positions.count, least=1)
        if isinstance(self.positions, Relative):
            whole_number("positions.buckets", self.positions.buckets, least=4)
            whole_number("positions.distance", self.positions.distance, least=self.positions.buckets)
        if isinstance(self.positions, Learned):
            whole_number("positions.offset", self.positions.offset, least=0)
        if isinstance(self.positions, Rotary):
            for base in (self.positions.base, self.positions.local_base or self.positions.base):
                finite_number("positions.base", base)
            share("positions.share", 1 - self.positions.share)
            turned = self.positions.turned(self.each_head)
            if turned % 2 or not turned:
                raise SettingError(f"{turned} numbers of a head cannot be turned in pairs; make it even")
            refuse_scaling(self.positions.scaling)
        for name in ("epsilon", *(["initial_std"] if self.initial_std is not None else [])):
            finite_number(name, getattr(self, name))
        if self.head_width is None and self.width % self.heads:
            cannot = f"width={self.width} cannot be shared by heads={self.heads} evenly"
            raise SettingError(f"{cannot}; make width a multiple of heads")
        if self.heads % self.each_kv:
            cannot = f"heads={self.heads} cannot share kv_heads={self.each_kv} evenly"
            raise SettingError(f"{cannot}; make heads a multiple of kv_heads")
        for name in DROPOUTS:
            if getattr(self, name) is not None or name not in OPEN:
                share(name, getattr(self, name))

    @property
    def each_head(self) -> int:
        """Width of one head."""
        return self.head_width or self.width // self.heads

    @property
    def each_kv(self) -> int:
        """How many heads of keys and values there are."""
        return self.kv_heads or self.heads

    @property
    def projected(self) -> tuple[int, int, int]:
        """Widths of all queries, keys and values of a token."""
        shared = self.each_kv * self.each_head
        return self.heads * self.each_head, shared, shared

    @property
    def biases(self) -> tuple[bool, bool]:
        """Whether the projections and attention's last layer have a bias."""
        qkv, output = self.qkv_bias, self.output_bias
        return self.bias if qkv is None else qkv, self.bias if output is None else output

    @property
    def limit(self) -> int | None:
        """Most tokens a text may have; None where positions go on for ever."""
        return None if isinstance(self.positions, Relative) else self.positions.count

    @property
    def translates(self) -> bool:
        """Whether a decoder answers what an encoder has read."""
        return self.decoder_layers > 0

    @property
    def decoder(self) -> "Config":
        """The facts of the decoder that follows the encoder, as of one that stands alone."""
        own = {"vocab": self.target_vocab or self.vocab, "layers": self.decoder_layers, "causal": True}
        return replace(self, **own, decoder_layers=0, target_vocab=None)  # type: ignore[arg-type]

    def window_of(self, layer: int) -> int | None:
        """Tokens to either side (causal: before) that a block, counted from 0, sees; None: the whole text."""
        return None if self.global_every and layer % self.global_every == 0 else self.window


@dataclass(frozen=True)
class Head:
    """Pooling (over texts alone), then (where `dense`) an activation of a layer, then one number a label.

    With 0 labels it ends at the vector: what BERT publishes as its pooler.
    """

    labels: int
    pooling: Pooling = Pooling.CLS
    dense: bool = True
    activation: Activation = Activation.TANH
    bias: bool = True  # of the dense layer
    dense_norm: bool = False  # layer norm after the activation (ModernBERT)
    drop_first: bool = False  # dropout also before the dense layer (RoBERTa)
    dropout: float | None = None  # None: as the body's
    over: Over = Over.TEXTS

    def __post_init__(self) -> None:
        whole_number("labels", self.labels, least=0)
        if self.dense_norm and not self.dense:
            raise SettingError("dense_norm of a head is the norm of its dense layer; dense=True")
        if self.dropout is not None:
            share("dropout of the head", self.dropout)
