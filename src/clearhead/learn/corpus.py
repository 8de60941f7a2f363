"""What a language model learns from: texts, of which all is learned, or conversations, of which the answers
are."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, TypeVar

from clearhead.checkpoint.folder import Loaded
from clearhead.data.conversations import Conversation, are_conversations, conversations
from clearhead.data.documents import documents
from clearhead.errors import DataError, SettingError
from clearhead.infer.model import Model
from clearhead.learn.course import Course
from clearhead.settings import Corpus
from clearhead.tasks.pieces import Pieces, ids_of
from clearhead.text.chat import Lesson, conversation, lessons

TENTH = 10  # documents from which on a tenth of them is kept to choose by; of fewer texts, the end of each
BEGINNING = 40  # characters of a text to go on with
SOME = TypeVar("SOME")


class Texts:
    """Documents of plain text."""

    noun, opened = "text", "Beginnings of texts kept aside (bold), and how it goes on, at temperature 0.8."

    def __init__(self, texts: Sequence[str]):
        self.texts, self.bytes = list(texts), sum(len(text.encode()) for text in texts)
        self.notes: list[str] = []

    def __len__(self) -> int:
        return len(self.texts)

    def digest(self) -> str:
        """SHA-256 of the texts in order."""
        digest = hashlib.sha256()
        for text in self.texts:
            raw = text.encode()
            digest.update(f"{len(raw)} ".encode() + raw)
        return digest.hexdigest()

    def parts(self, seed: int) -> tuple["Texts", "Texts"]:
        """Documents to learn from and to choose by: a tenth by seed or, of few, the last tenth of each."""
        if len(self) >= TENTH:
            kept, aside = kept_aside(self.texts, seed=seed)
            return Texts(kept), Texts(aside)
        ends = [len(text) - len(text) // TENTH for text in self.texts]
        pairs = list(zip(self.texts, ends, strict=True))
        late = [text[end:] for text, end in pairs]
        return Texts([text[:end] for text, end in pairs]), Texts([text for text in late if text.strip()])

    def pieces(self, loaded: Loaded, *, context: int, blocks: bool) -> Pieces:
        """What is learned, as ids."""
        return Pieces.of(ids_of(loaded.tokenizer, self.texts), context=context, blocks=blocks)

    def openings(self, loaded: Loaded, *, most: int) -> list[tuple[str, list[int]]]:
        """The beginnings of a few, as people read them and as ids."""
        shown = [text.lstrip()[:BEGINNING] for text in self.texts[:most]]
        found = loaded.tokenizer.encode(shown)
        return [(text, list(encoding.ids)) for text, encoding in zip(shown, found, strict=True)]


class Chats:
    """Conversations, in the words of the model's own template."""

    noun, opened = "conversation", "Questions of conversations kept aside (bold), and its answers, greedy."

    def __init__(self, chats: Sequence[Conversation]):
        self.chats, self.bytes, self.notes = list(chats), 0, list[str]()

    def __len__(self) -> int:
        return len(self.chats)

    def digest(self) -> str:
        """SHA-256 of the messages in order."""
        said = json.dumps([chat.messages for chat in self.chats], sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()

    def parts(self, seed: int) -> tuple["Chats", "Chats"]:
        """Conversations to learn from and to choose by: a tenth by seed, at least one."""
        if len(self) < 2:
            raise DataError("one conversation cannot be learned from and chosen by; give --validation too")
        kept, aside = kept_aside(self.chats, seed=seed)
        return Chats(kept), Chats(aside)

    def pieces(self, loaded: Loaded, *, context: int, blocks: bool) -> Pieces:
        """What is learned, as ids; of what is too long, the beginning."""
        if blocks:
            raise SettingError("--blocks cuts texts anywhere, and these are conversations: leave it out")
        found = [lesson for chat in self.chats for lesson in lessons_of(chat, loaded)]
        pieces = Pieces.of_lessons(found, context=context)
        if cut := sum(len(lesson.ids) > context + 1 for lesson in found):
            lost = f", {len(found) - len(pieces.spans)} of them before any answer"
            lost = lost if len(pieces.spans) < len(found) else ""
            self.notes.append(f"{cut} of {len(found)} conversations are cut to {context} tokens{lost}")
        endless = not any(
            lesson.ids[place] in loaded.ends for lesson in found for place in range(len(lesson.ids))
            if lesson.learned[place]
        )  # fmt: skip
        if found and endless:
            self.notes.append("the chat template ends answers with no end token, so no end of one is learned")
        assert pieces.learned is not None
        self.bytes = len(loaded.tokenizer.decode(pieces.ids[pieces.learned].tolist()).encode())
        return pieces

    def openings(self, loaded: Loaded, *, most: int) -> list[tuple[str, list[int]]]:
        """The first questions of a few, as people read them and as ids."""
        found = []
        for chat in self.chats[:most]:
            place = [message["role"] for message in chat.messages].index("assistant")
            asked = chat.messages[:place]
            found.append((str(asked[-1]["content"]), conversation(loaded.tokenizer, asked)))
        return found


def read_corpus(paths: Sequence[str], settings: Corpus, *, chats: bool) -> Texts | Chats:
    """The documents of files or, with `chats`, the conversations, where the first row holds one."""
    how: dict[str, Any] = {"format": settings.format, "errors": settings.errors}
    if chats and settings.text_column is None and are_conversations(paths, **how):
        return Chats(list(conversations(paths, **how)))
    whole = settings.documents == "file"
    return Texts(list(documents(paths, whole=whole, text_column=settings.text_column, **how)))


class CorpusRun(Course):
    """A course that learns from texts alone, or from conversations."""

    settings: Corpus
    metric = "loss"
    validation: Any  # what is scored, as the objective is
    context: int  # most tokens of a piece

    def read(self, *, chats: bool = False) -> None:
        """Read what is learned from and what is chosen by.

        Raises `DataError` where one of them holds nothing, `SettingError` where they are of two kinds.
        """
        settings = self.settings
        texts = read_corpus(settings.data, settings, chats=chats)
        self.few = isinstance(texts, Texts) and len(texts) < TENTH
        if settings.validation:
            aside = read_corpus([settings.validation], settings, chats=chats)
            if type(aside) is not type(texts):
                raise SettingError(
                    f"--data holds {texts.noun}s and --validation {aside.noun}s; give two of a kind"
                )
        else:
            texts, aside = texts.parts(settings.seed)
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

    def data(self) -> str:
        """SHA-256 of all documents."""
        return self.digest

    def value_of(self, metrics: Any) -> float:
        """The lower the loss, the better."""
        return -float(metrics.loss)

    def evaluating(self, seconds: float) -> float:
        """Forward is a third of a step."""
        share = sum(self.validation.lengths) / sum(self.trainer.objective.lengths)
        return seconds / self.epochs * share * self.evaluations / 3

    def usual_rate(self) -> float:
        """A new model learns at 1e-3; one that knows much, at a twentieth."""
        if self.settings.learning_rate is not None:
            return self.settings.learning_rate
        return 1e-3 if self.settings.base == "new" else 5e-5


def lessons_of(chat: Conversation, loaded: Loaded) -> list[Lesson]:
    """What is learned from a conversation; DataError, with its place, where nothing can be."""
    try:
        return lessons(loaded.tokenizer, chat.messages, ends=loaded.ends)
    except DataError as error:
        raise DataError(f"{chat.where}: {error}") from error


def kept_aside(documents: Sequence[SOME], *, seed: int) -> tuple[list[SOME], list[SOME]]:
    """Documents to learn from, and a tenth of them, at least one, to choose by, both in order."""

    def rank(place: int) -> Any:
        return hashlib.sha256(f"{seed} {place}".encode()).digest()

    count = max(1, len(documents) // TENTH)
    aside = set(sorted(range(len(documents)), key=rank)[:count])
    learned = [document for place, document in enumerate(documents) if place not in aside]
    return learned, [document for place, document in enumerate(documents) if place in aside]
