"""A course that learns from texts alone, from conversations, or from a folder of ids."""

import hashlib
from collections.abc import Sequence, Sized
from typing import Any

from clearhead.checkpoint.folder import Loaded
from clearhead.data.conversations import are_conversations, conversations
from clearhead.data.documents import documents
from clearhead.errors import DataError, SettingError
from clearhead.infer.model import Model
from clearhead.learn.by_loss import ByLoss
from clearhead.learn.corpus import TENTH, Chats, Texts
from clearhead.learn.encoded import Encoded, is_encoded
from clearhead.settings import Corpus, flag


def read_corpus(paths: Sequence[str], settings: Corpus, *, speaking: bool) -> Texts | Chats | Encoded:
    """The documents of files or, where they are to be spoken, the conversations if the first row holds one,
    or a folder of ids."""
    if folders := [path for path in paths if is_encoded(path)]:
        if not speaking:
            raise SettingError(f"{folders[0]} holds ids for a language model; give the files of its texts")
        if len(paths) > 1:
            raise SettingError(f"{folders[0]} holds ids, and stands alone: encode all texts into one folder")
        return Encoded.read(folders[0])
    how: dict[str, Any] = {"format": settings.format, "errors": settings.errors}
    if speaking and settings.text_column is None and are_conversations(paths, **how):
        return Chats(list(conversations(paths, **how)))
    whole = settings.documents == "file"
    return Texts(list(documents(paths, whole=whole, text_column=settings.text_column, **how)))


class CorpusRun(ByLoss):
    """A course that learns from texts alone, or from conversations."""

    settings: Corpus
    context: int  # most tokens of a piece

    @property
    def learned(self) -> Sized:
        """What it learns from."""
        return self.texts

    def read(self, *, speaking: bool = False) -> None:
        """Read what is learned from and what is chosen by.

        Raises `DataError` where one of them holds nothing, `SettingError` where they are of two kinds.
        """
        settings = self.settings
        texts = read_corpus(settings.data, settings, speaking=speaking)
        self.few = not isinstance(texts, Chats) and len(texts) < TENTH
        if settings.validation:
            aside = read_corpus([settings.validation], settings, speaking=speaking)
            if aside.noun != texts.noun:
                raise SettingError(
                    f"--data holds {texts.noun}s and --validation {aside.noun}s; give two of a kind"
                )
        else:
            texts, aside = texts.parts(settings.seed)
        if isinstance(texts, Encoded) and isinstance(aside, Encoded):
            for name in ("documents", "text_column", "format", "errors"):
                if getattr(settings, name) != getattr(Corpus, name):
                    raise SettingError(f"{flag(name)} is for files of texts, and these are ids: leave it out")
        if not len(texts) or not len(aside):
            empty = settings.data if not len(texts) else [settings.validation or "the tenth kept aside"]
            raise DataError(f"{', '.join(empty)}: there is no text to learn from; give files that hold some")
        self.texts, self.chosen_by, self.noun = texts, aside, texts.noun
        self.digest = hashlib.sha256(f"{texts.digest()} {aside.digest()}".encode()).hexdigest()

    def context_of(self, loaded: Loaded, *, asked: int, usual: int) -> int:
        """Most tokens of a piece; SettingError where more than the usual are asked for, and the model takes
        less."""
        base = self.settings.base
        limit = Model(loaded).limit or asked
        if limit < asked != usual:
            raise SettingError(f"--context {asked} is more than {base} takes: {limit} tokens")
        return min(asked, limit)

    def made(self) -> str:
        """How large the model is, and how far it sees."""
        weights = sum(parameter.numel() for parameter in self.trainer.network.parameters())
        vocab = self.model.config.vocab
        return f"{weights:,} parameters, a vocabulary of {vocab:,}, {self.context:,} tokens at a time"

    def usual_rate(self) -> float:
        """A new model learns at 1e-3; one that knows much, at a twentieth."""
        if self.settings.learning_rate is not None:
            return self.settings.learning_rate
        return 1e-3 if self.settings.base == "new" else 5e-5
