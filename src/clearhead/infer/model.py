"""A model that is loaded and can be asked."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.checkpoint.adapter import bare, merged
from clearhead.checkpoint.adapter_files import open_model
from clearhead.checkpoint.catalog import locate
from clearhead.checkpoint.embedding import FILES
from clearhead.checkpoint.folder import GENERATION, OLD, Loaded, write_folder
from clearhead.checkpoint.labels import PROBLEMS, Problem
from clearhead.data.wording import argument
from clearhead.engine.modes import own_modes
from clearhead.errors import DataError, SettingError
from clearhead.infer.batches import batches_of, check_encodings, finite
from clearhead.infer.embed import embedded
from clearhead.infer.given import as_list, check_replaced, check_texts
from clearhead.infer.masked import masked
from clearhead.infer.tag import tag_texts
from clearhead.model.config import Config, Pooling
from clearhead.settings import Answering, Asking, Embedded, Loading, Long, Reading, a_path, made
from clearhead.tasks.answer import AnswerResult
from clearhead.tasks.examples import Example, in_windows, joined, refuse_stride
from clearhead.tasks.fill import Filled
from clearhead.tasks.task import Answer, Task, held_back, task_of
from clearhead.text.encoding import Text
from clearhead.text.tokenizer import Encoding, Tokenizer


def load(model: str | Path, **options: Any) -> "Model":
    """Load a model from a folder, or by a name that `clearhead get` has fetched.

    Options: `allow_bin`, `fingerprint`, `dtype` and `adapter`, as in `clearhead predict --help`. What is
    promised, is promised of float32.
    """
    if isinstance(options.get("adapter"), str | Path):
        options["adapter"] = [options["adapter"]]
    loading: Loading = made(Loading, options)
    loaded = open_model(locate(model), loading)
    loaded.network.to(getattr(torch, loading.dtype))
    return Model(loaded)


@dataclass(frozen=True, eq=False)
class Model:
    """A network with its tokenizer and labels. All methods take texts and answer N for N, in order."""

    loaded: Loaded

    @property
    def config(self) -> Config:
        """The facts of the architecture."""
        return self.loaded.network.config

    @property
    def tokenizer(self) -> Tokenizer:
        """Strings ↔ ids."""
        return self.loaded.tokenizer

    @property
    def task(self) -> Task | None:
        """What a model that gives whole texts labels was trained for; None for any other."""
        labels, source = self.loaded.labels, self.loaded.folder
        over_texts = labels and self.loaded.problem in PROBLEMS
        return task_of(self.loaded.problem, labels, source=source) if over_texts else None

    @property
    def tags(self) -> bool:
        """Whether it gives each token a label."""
        return self.loaded.problem is Problem.TAGS

    @property
    def answers(self) -> bool:
        """Whether it finds the answer to a question in a text."""
        return self.loaded.problem is Problem.SPANS

    @property
    def speaks(self) -> bool:
        """Whether it is a language model, which goes on with texts."""
        return self.task is None and self.config.language_head and not self.translates

    @property
    def translates(self) -> bool:
        """Whether it reads a text and answers with another."""
        return self.config.translates

    @property
    def fills(self) -> bool:
        """Whether it says what stands behind masks."""
        return self.task is None and self.config.fill is not None

    @property
    def embeds(self) -> bool:
        """Whether vectors of texts are its answers: its folder says so, or it has nothing else to say."""
        if self.loaded.embedding is not None:
            return not self.loaded.labels
        other = self.loaded.labels or self.speaks or self.fills or self.translates
        return not other

    @property
    def name(self) -> str:
        """The folder it was read from, to speak of it."""
        return str(self.loaded.folder or "the model")

    @property
    def limit(self) -> int | None:
        """Most tokens of a text, special ones included; None where there is no such number."""
        limits = [limit for limit in (self.config.limit, self.tokenizer.limit) if limit is not None]
        return min(limits, default=None)

    def encode(self, texts: Sequence[Text], *, long: Long = "truncate") -> list[Encoding]:
        """Ids of each text, or pair of texts, within the model's limit."""
        made(Reading, {"long": long})
        if long == "window":
            raise SettingError("long='window' gives a text several rows of ids: see Model.examples")
        return self.tokenizer.encode(check_texts(texts), limit=self.limit, long=long)

    def examples(
        self, texts: Sequence[Text], *, long: Long = "truncate", stride: int | None = None
    ) -> list[Example]:
        """The same, each in one window or, with long="window", in as many as it needs."""
        reading: Reading = made(Reading, {"long": long, "stride": stride})
        if long != "window":
            refuse_stride(reading)
            return [Example((encoding,)) for encoding in self.encode(texts, long=long)]
        ready = check_texts(texts)
        names = [f"text {number}" for number in range(len(ready))]
        return in_windows(ready, self.tokenizer, names=names, limit=self.limit, stride=stride)

    @own_modes()
    def predict(
        self,
        texts: Sequence[Text | list[str]],
        *,
        long: Long = "truncate",
        stride: int | None = None,
        batch_tokens: int = 2048,
        abstain_below: float | None = None,
    ) -> list[Answer]:
        """The label of each text, or pair of texts, with its probabilities; of a model for several labels or
        for a number, those; of one that tags, the entities and words of each text, or list of words. A text's
        answer does not depend on the others. A result whose probability is below `abstain_below` has no
        label, and a `reason`."""
        how = {"abstain_below": abstain_below, "batch_tokens": batch_tokens, "long": long, "stride": stride}
        asking: Asking = made(Asking, how)
        if self.tags:
            return list(tag_texts(self, as_list(texts), settings=asking))
        if not self.task:
            raise self.unlabelled()
        examples = self.examples(check_texts(texts), long=long, stride=stride)
        names = [f"text {index}" for index, one in enumerate(examples) for _ in one.windows]
        flat = [window for example in examples for window in example.windows]
        logits = self.logits(flat, batch_tokens=batch_tokens, where=names.__getitem__)
        return held_back(self.task.results(joined(logits, examples), examples), abstain_below)

    @own_modes()
    def logits(
        self,
        encodings: Sequence[Encoding],
        *,
        batch_tokens: int = 2048,
        where: Callable[[int], str] = "text {}".format,
    ) -> Float[Tensor, "texts labels"]:
        """Logits of encoded texts, in order. Raises `NotFinite`, saying `where`, at the first text whose
        logits are no numbers."""
        if not self.task:
            raise self.unlabelled()
        made(Asking, {"batch_tokens": batch_tokens})
        network = self.loaded.network
        check_encodings(encodings, self.config)
        found = torch.zeros(len(encodings), len(self.task.labels), dtype=torch.float32)
        for members, batch in batches_of(encodings, batch_tokens):
            found[members] = network.classify(batch).float()
        return finite(found, where)

    def fill(
        self,
        texts: Sequence[str],
        *,
        candidates: int = 5,
        batch_tokens: int = 2048,
        long: Long = "error",
        stride: int | None = None,
    ) -> list[Filled]:
        """What stands at each `[MASK]` of each text: the most likely tokens with their probabilities. A
        text's answer does not depend on the others. Raises `DataError` for a text without a mask or too long,
        and `SettingError` for a model without a head for masked tokens."""
        ready = check_texts(texts)
        names = [f"text {number}" for number in range(len(ready))]
        asking = made(Asking, {"batch_tokens": batch_tokens, "long": long, "stride": stride})
        return self.filled(ready, names, candidates=candidates, asking=asking)

    @own_modes()
    def filled(
        self, texts: Sequence[Text], names: Sequence[str], *, candidates: int, asking: Asking
    ) -> list[Filled]:
        """The same of texts that have names in messages."""
        if not self.fills:
            how = "clearhead train fill --data FILE --out FOLDER"
            raise SettingError(f"{self.name} has no head for masked tokens; train a model that has: {how}")
        made(Answering, {"candidates": candidates})
        for text, name in zip(texts, names, strict=True):
            if not isinstance(text, str):
                raise DataError(f"{name} is a pair of texts; give one text with its masks")
        return masked(self, texts, names=names, candidates=candidates, asking=asking)

    @own_modes()
    def answer(self, questions: Iterable[tuple[str, str]], **options: Any) -> list[AnswerResult]:
        """The answer to each pair of a question and its context: the place where it stands, or none; a blank
        one has none, and no numbers. Options: `long`, `stride`, `batch_tokens`, `max_answer_tokens`,
        `no_answer_above`, and `empty="error"`, which refuses blank ones."""
        from clearhead.infer.answer import answer

        return answer(self, check_texts(questions), **options)

    def unlabelled(self) -> SettingError:
        """The error for asking a body without labels for labels."""
        if self.fills:
            return SettingError(f"{self.name} fills masks and gives no labels; ask it with Model.fill")
        if self.translates:
            return SettingError(f"{self.name} turns texts into others, without labels; ask it with generate")
        if self.tags:
            return SettingError(f"{self.name} tags words, and texts get no label; ask it with Model.predict")
        if self.answers:
            return SettingError(f"{self.name} finds answers and gives no labels; ask it with Model.answer")
        if self.translates:
            return SettingError(f"{self.name} turns texts into others and gives no labels; let it generate")
        base = self.loaded.folder or "MODEL"
        how = f"clearhead train classify --from {argument(base)} --data FILE --out FOLDER"
        return SettingError(f"{base} has no labels yet; train it: {how}")

    def embed(self, texts: Sequence[Text], **options: Any) -> Float[Tensor, "texts width"]:
        """One vector a text, in order, as the model's folder says or, without a word of it, the mean of the
        last block's. Options: `pooling`, `normalise`, `dimensions`, `prompt`, `prefix`, `long`, `stride`,
        `batch_tokens`, as in `clearhead predict --help`. NotFinite, as above, where one is none."""
        return self.vectors(texts, **options)[0]

    def vectors(
        self, texts: Sequence[Text], **options: Any
    ) -> tuple[Float[Tensor, "texts width"], list[Example]]:
        """The same, with what was read of each text: its `tokens`, those `dropped`, its `windows`."""
        ready, pooling = check_texts(texts), options.get("pooling")
        if pooling is not None and (not isinstance(pooling, str) or pooling not in list(Pooling)):
            raise SettingError(f"pooling={pooling!r} is not one of {', '.join(Pooling)}")
        names = [f"text {number}" for number in range(len(ready))]
        return embedded(self, ready, names=names, settings=made(Embedded, options))

    def merged(self) -> "Model":
        """The same model with its adapters' changes added to the weights: one like any other. This one and
        its base stay as they are."""
        return Model(merged(self.loaded))

    def without_adapters(self) -> "Model":
        """The base alone, to the bit what it was."""
        return Model(bare(self.loaded))

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the model folder, adapters merged: a new or an empty one or, with `overwrite`, one that holds
        a model, whose files are replaced as one. Raises `SettingError` where something would be lost."""
        place = a_path(folder, "the folder to save to:")
        if not isinstance(overwrite, bool):
            raise SettingError(f"overwrite={overwrite!r} is not True or False")
        try:
            replaced = check_replaced(place, overwrite=overwrite)
            write_folder(place, merged(self.loaded), instead=(*OLD, *FILES, GENERATION) if replaced else ())
        except OSError as error:
            raise SettingError(
                f"{place} cannot be written ({error.strerror or error}); give a folder that can be"
            ) from error


def asked(model: Any) -> "Model":
    """A model that was loaded; SettingError for its name, or anything else."""
    if isinstance(model, Model):
        return model
    how = f"load it first: clearhead.load({model!r})" if isinstance(model, str | Path) else "load one first"
    raise SettingError(f"{type(model).__name__} was given where a loaded model is needed; {how}")
