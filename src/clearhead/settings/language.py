"""What a language model learns from, and what a new one is."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from clearhead.errors import SettingError
from clearhead.settings.asking import ERRORS, Errors, Format, Opening
from clearhead.settings.learning import NO_FILE, Learning, shaped
from clearhead.settings.options import at_least, check_values, check_written, flag, option, required

Architectures = Literal["gpt2", "llama", "qwen3", "gpt_neox"]
Documents = Literal["file", "line"]
Pieces = Literal["bpe", "characters"]
WORDS = ("vocab", "pieces", "lowercase")  # what a tokenizer is that is learned from the texts


@dataclass(frozen=True, kw_only=True)
class Speaker:
    """A new language model and its tokenizer (`--from new`)."""

    architecture: Architectures = option("llama", "new model: the published family it is built as")
    layers: int = option(4, "new model: blocks")
    width: int = option(256, "new model: numbers that stand for one token")
    heads: int = option(4, "new model: attention heads of each block")
    hidden: int | None = option(
        None, "new model: width of the feed-forward network; else 4 times the width, gated 8/3 times"
    )
    context: int = option(256, "new model: most tokens of a text")
    tokenizer: str | None = option(
        None,
        "new model: folder or name of a model or tokenizer to take; else one is learned from the texts",
        path=True,
    )
    pieces: Pieces = option("bpe", "new model: byte-level BPE, or single characters")
    vocab: int = option(4000, "new model: most tokens of the tokenizer that is learned")


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """How a language model is scored on texts."""

    documents: Documents = option(
        "file", "what a document is in a file of plain text: the whole file, or each line"
    )
    context: int | None = option(None, "most tokens that are read at a time; else all the model takes")
    errors: Errors = option("strict", ERRORS)

    def __post_init__(self) -> None:
        check_values(self)
        if self.context is not None:
            at_least("context", self.context, least=2)


@dataclass(frozen=True, kw_only=True)
class Adapting:
    """Learning a small part: an adapter of low rank (LoRA), the model itself as it is."""

    lora: int | None = option(None, "learn an adapter of this rank alone, such as 8")
    lora_alpha: float | None = option(
        None, "adapter: its changes are multiplied by this over the rank; else it is twice the rank"
    )
    lora_dropout: float = option(0.0, "adapter: share of its inputs that is dropped in training")
    lora_targets: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = option(
        None,
        "adapter: published names of the layers that get one, such as q_proj v_proj; else all of a block",
    )

    def check_adapting(self, base: str) -> None:
        """Refuse what cannot be an adapter."""
        if self.lora is None:
            for name in ("lora_alpha", "lora_dropout", "lora_targets"):
                if getattr(self, name):
                    raise SettingError(f"{flag(name)} is of an adapter; give its rank too: --lora 8")
            return
        at_least("lora", self.lora, least=1)
        if base == "new":
            raise SettingError("--lora keeps the model, and a new one knows nothing; give another --from")
        if self.lora_alpha is not None and not 0 < self.lora_alpha < 2**31:
            raise SettingError(f"--lora-alpha {self.lora_alpha} must be a number above 0")
        if not 0 <= self.lora_dropout < 1:
            raise SettingError(f"--lora-dropout {self.lora_dropout} must be at least 0 and below 1")


@dataclass(frozen=True, kw_only=True)
class Corpus(Learning):
    """A run that learns from texts without labels."""

    data: Annotated[list[str], Parameter(consume_multiple=True, negative="")] = required(
        "files of texts, or folders of them: .txt, .md, .csv, .tsv or .jsonl, also .gz; --data=- is "
        "standard input",
        path=True,
    )
    base: Annotated[str, Parameter(name="--from")] = option(
        "new", "model to start from: a name from `clearhead get`, a folder, or new", path=True
    )
    documents: Documents = option(
        "file", "what a document is in a file of plain text: the whole file, or each line"
    )
    text_column: str | None = option(None, "column of the texts; else text, sentence or review")
    format: Format | None = option(None, "format of the files, where their names do not tell")
    errors: Errors = option("strict", ERRORS)
    learning_rate: float | None = option(
        None,
        "peak learning rate; else by what is trained: new 1e-3 (a small language model 2e-3), an adapter "
        "5e-4, another model 5e-5",
    )
    batch_tokens: int = option(4096, "tokens in a batch; there are no padding tokens")

    def check_corpus(self, shape: type) -> None:
        """Refuse an empty list of files, sizes below 1, and sizes for a model that has its own."""
        for name in ("layers", "width", "heads", "vocab", "context", "hidden"):
            if getattr(self, name) is not None:
                at_least(name, getattr(self, name), least=1)
        made = shaped(self, shape, but="context")  # which a model that is there has too
        for name in WORDS:
            if getattr(self, "tokenizer", None) is not None and name in made:
                raise SettingError(
                    f"{flag(name)} is of a tokenizer that is learned, and --tokenizer names one that is "
                    "there; give one of them"
                )
        if not self.data:
            raise SettingError(NO_FILE)


@dataclass(frozen=True, kw_only=True)
class Encode:
    """Texts as ids in a folder, encoded once and learned from by many runs."""

    data: Annotated[list[str], Parameter(consume_multiple=True, negative="")] = required(
        "files of texts, or folders of them: .txt, .md, .csv, .tsv or .jsonl, also .gz; --data=- is "
        "standard input",
        path=True,
    )
    tokenizer: str = required("folder or name of the model or tokenizer that encodes them", path=True)
    out: str = required("folder to make, which train language takes as --data", path=True)
    documents: Documents = option(
        "file", "what a document is in a file of plain text: the whole file, or each line"
    )
    text_column: str | None = option(None, "column of the texts; else text, sentence or review")
    format: Format | None = option(None, "format of the files, where their names do not tell")
    errors: Errors = option("strict", ERRORS)
    resume: Annotated[bool, Parameter(negative="")] = option(
        False, "go on where it was stopped: the same command plus --resume"
    )
    overwrite: Annotated[bool, Parameter(negative="")] = option(
        False, "replace a corpus that is in the folder"
    )

    def __post_init__(self) -> None:
        check_values(self)
        check_written(self, but=("tokenizer", "out"))
        if not self.data:
            raise SettingError(NO_FILE)
        if self.resume and self.overwrite:
            raise SettingError("--resume goes on, --overwrite replaces what is there; give one of them")


@dataclass(frozen=True, kw_only=True)
class Language(Opening, Speaker, Adapting, Corpus):
    """A run that trains a language model from texts."""

    data: Annotated[list[str], Parameter(consume_multiple=True, negative="")] = required(
        "files of texts, or folders of them: .txt, .md, .csv, .tsv or .jsonl, also .gz; --data=- is standard "
        "input; or of conversations: .jsonl whose rows hold messages; or a folder of ids from clearhead "
        "tokenizer encode",
        path=True,
    )
    blocks: Annotated[bool, Parameter(negative="")] = option(
        False, "cut the documents, one after another, into blocks of the whole context, across their borders"
    )
    epochs: int | None = option(
        None, "times each text is seen; else 3, of a new model as many as make 600 steps, from 1 to 10"
    )
    batch_tokens: int = option(2048, "tokens in a batch; there are no padding tokens")

    def __post_init__(self) -> None:
        Corpus.__post_init__(self)
        at_least("context", self.context, least=2)
        self.check_corpus(Speaker)
        self.check_adapting(self.base)
