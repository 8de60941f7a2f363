"""What a run learns from, how, and a tokenizer learned from texts."""

from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from clearhead.errors import SettingError
from clearhead.settings.asking import ERRORS, Errors, Format, Opening, Reading
from clearhead.settings.options import at_least, check_values, check_written, flag, option, required

Kind = Literal["bpe", "wordpiece", "characters"]
Measures = Literal["accuracy", "macro_f1", "micro_f1", "pearson", "spearman", "loss"]
Problems = Literal["single", "multi", "regression"]

Decay = Literal["linear", "cosine", "inverse_sqrt", "constant"]
BALANCED = "balanced"
NO_FILE = "--data names no file; give at least one (--data=- is standard input)"
MOST_EPOCHS = 100_000
LIGHTEST, HEAVIEST = 1e-9, 1e9  # weights of labels, which are held in float32


@dataclass(frozen=True, kw_only=True)
class Making:
    """The architecture of a model made from nothing (`--from new`)."""

    layers: int = option(2, "new model: blocks")
    width: int = option(128, "new model: numbers that stand for one token")
    heads: int = option(4, "new model: attention heads of each block")
    hidden: int = option(512, "new model: width of the feed-forward network")
    vocab: int = option(4000, "new model: most tokens of its tokenizer")
    lowercase: bool = option(True, "new model: whether its tokenizer lower-cases texts")


@dataclass(frozen=True, kw_only=True)
class Learning:
    """What a run learns from, where it goes, and how it learns."""

    data: Any = required("what is learned from", path=True)
    base: Annotated[str, Parameter(name="--from")] = option(
        "minilm", "model to start from: a name from `clearhead get`, a folder, or new", path=True
    )
    out: str = required("folder to make: the model, its metrics, its settings, a report", path=True)
    validation: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = option(
        None, "file to choose the best model by; else a tenth of the data, by seed", path=True
    )
    epochs: int | None = option(3, "times each text is seen")
    max_steps: int | None = option(None, "stop after this many steps")
    batch_tokens: int = option(1024, "tokens in a batch; there are no padding tokens")
    accumulate: int = option(1, "batches in a step; the loss is that of one large batch")
    learning_rate: float | None = option(
        None, "peak learning rate; else by what is trained: new or head alone 1e-3, small 1e-4, large 3e-5"
    )
    warmup: float = option(0.1, "steps until the peak: a share below 1, or a count")
    schedule: Decay = option("linear", "how the rate falls from its peak; the formulas: docs/classify.md")
    weight_decay: float = option(0.01, "decay of matrices (not of biases and norms)")
    max_grad_norm: float = option(1.0, "longest gradient; longer ones are scaled to it")
    dropout: float | None = option(
        None, "share of numbers dropped in training; else as the model's config says"
    )
    checkpointing: Annotated[bool, Parameter(negative="")] = option(
        False, "keep less in memory and compute it again for the gradient: the same bits, a third more time"
    )
    autocast: Literal["bfloat16"] | None = option(
        None, "compute the blocks' products in bfloat16 (weights stay float32): quicker where the CPU has it"
    )
    ema: float | None = option(
        None,
        "evaluate and save a moving average of the weights, such as 0.999 (see docs/language.md)",
    )
    eval_steps: int | None = option(None, "evaluate every so many steps; else after each epoch")
    save_steps: int = option(500, "save the state every so many steps, to go on with --resume")
    seed: int = option(0, "the same seed gives the same run")
    resume: Annotated[bool, Parameter(negative="")] = option(
        False, "go on with a run that was stopped: the same command plus --resume"
    )
    overwrite: Annotated[bool, Parameter(negative="")] = option(False, "replace a run that is in the folder")

    def __post_init__(self) -> None:
        check_values(self)
        check_written(self)
        for name in ("batch_tokens", "accumulate", "save_steps"):
            at_least(name, getattr(self, name), least=1)
        if self.epochs is not None and self.epochs > MOST_EPOCHS:
            raise SettingError(
                f"--epochs {self.epochs} must be at most {MOST_EPOCHS:,}; see also --max-steps"
            )
        for name in ("epochs", "max_steps", "eval_steps"):
            if getattr(self, name) is not None:
                at_least(name, getattr(self, name), least=1)
        for name in ("warmup", "weight_decay", "seed"):
            at_least(name, getattr(self, name), least=0)
        if not 0 < self.max_grad_norm < 2**63:
            raise SettingError(f"--max-grad-norm {self.max_grad_norm} must be a number above 0")
        if self.learning_rate is not None and not 0 < self.learning_rate < 1:
            raise SettingError(f"--learning-rate {self.learning_rate} must be above 0 and below 1")
        if self.dropout is not None and not 0 <= self.dropout < 1:
            raise SettingError(f"--dropout {self.dropout} must be at least 0 and below 1")
        if self.ema is not None and not 0 <= self.ema < 1:
            raise SettingError(f"--ema {self.ema} must be at least 0 and below 1")
        if self.validation == "-" and "-" in ([self.data] if isinstance(self.data, str) else self.data):
            raise SettingError(
                "--data and --validation are both standard input, which is read once; give a file"
            )
        if self.resume and self.overwrite:
            raise SettingError("--resume goes on with a run, --overwrite replaces it; give one of them")


def shaped(settings: Learning, shape: type, *, but: str = "") -> list[str]:
    """The options of a new model's shape that are given; SettingError where the model is not new, and where
    the body of a new one is to stay as it is."""
    given = [item.name for item in fields(shape) if getattr(settings, item.name) != item.default]
    given = [name for name in given if name != but]
    if given and settings.base != "new":
        raise SettingError(
            f"{flag(given[0])} shapes a new model, but --from is {settings.base}; use --from new"
        )
    if getattr(settings, "freeze", False) and settings.base == "new":
        raise SettingError("--freeze keeps the body, and a new one knows nothing; give another --from")
    return given


@dataclass(frozen=True, kw_only=True)
class Classifying(Learning):
    """What a classifier learns besides."""

    data: Annotated[str, Parameter(allow_leading_hyphen=True)] = required(
        "file of labelled texts: .csv, .tsv or .jsonl, also .gz; - for standard input", path=True
    )

    problem: Problems | None = option(
        None, "one label a text, several, or a number (regression); else several where labels are JSON lists"
    )
    pooling: Literal["cls", "mean", "max"] | None = option(
        None, "how a text becomes one vector; else as the family is published"
    )
    freeze: Annotated[bool, Parameter(negative="")] = option(
        False, "train the head alone; the body's vectors are computed once, without dropout"
    )
    class_weights: str | None = option(
        None, "how much texts of a label count: balanced, or label=weight,… (others 1); one label a text only"
    )
    label_smoothing: float = option(0.0, "share of a text's label that is spread over all labels")
    metric: Measures | None = option(
        None, "what the best model is chosen by; else accuracy, micro_f1 (several labels), loss (regression)"
    )
    baseline: bool = option(True, "whether the report compares with TF-IDF and a linear model (scikit-learn)")


@dataclass(frozen=True, kw_only=True)
class Training(Opening, Making, Reading, Classifying):
    """A run that trains a classifier from a file of labelled texts."""

    def __post_init__(self) -> None:
        Classifying.__post_init__(self)
        Reading.__post_init__(self)
        shaped(self, Making)
        at_least("vocab", self.vocab, least=1)
        if not 0 <= self.label_smoothing < 1:
            raise SettingError(f"--label-smoothing {self.label_smoothing} must be at least 0 and below 1")
        if self.class_weights is not None and self.class_weights != BALANCED:
            named_weights(self.class_weights)


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """A tokenizer learned from files of texts."""

    data: Annotated[list[str], Parameter(consume_multiple=True, negative="")] = required(
        "files of texts: .txt (one a line), .csv, .tsv or .jsonl, also .gz; --data=- is standard input",
        path=True,
    )
    out: str = required("folder to make: tokenizer.json and tokenizer_config.json", path=True)
    kind: Kind = option(
        "bpe", "byte-level BPE, which can write any text; WordPiece, which BERT has; or single characters"
    )
    vocab: int = option(8000, "most tokens of the vocabulary; few texts give fewer")
    lowercase: bool = option(False, "whether it lower-cases texts (and strips accents, with wordpiece)")
    closed: bool = option(
        True, "whether a text gets an end token, as a classifier reads it; not where it is to be gone on with"
    )
    text_column: str | None = option(None, "column of the texts; else text, sentence or review")
    format: Format | None = option(None, "format of the files, where their names do not tell")
    errors: Errors = option("strict", ERRORS)
    overwrite: Annotated[bool, Parameter(negative="")] = option(
        False, "replace a tokenizer that is in the folder"
    )

    def __post_init__(self) -> None:
        check_values(self)
        at_least("vocab", self.vocab, least=1)
        if not self.data:
            raise SettingError(NO_FILE)


def named_weights(text: str) -> dict[str, float]:
    """The weights of `label=weight,…`; SettingError for what is no such list, or names a label twice."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = (word.strip() for word in part.rpartition("="))
        if not name:
            raise SettingError(
                f"--class-weights {part!r} names no label; write balanced or label=weight,… "
                "(a label with a comma cannot be named)"
            )
        try:
            weight = float(number.replace("_", "?"))  # Python would read 1_0 as 10
        except ValueError:
            weight = 0.0
        if not LIGHTEST <= weight <= HEAVIEST:
            raise SettingError(
                f"--class-weights {part!r}: the weight must be a number above 0, "
                f"from {LIGHTEST:g} to {HEAVIEST:g}"
            )
        if name in found:
            raise SettingError(f"--class-weights names {name!r} twice; give it one weight")
        found[name] = weight
    return found
