"""What a language model learns from: texts, of which all is learned, or conversations, of which the answers
are."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from clearhead.checkpoint.folder import Loaded
from clearhead.data.conversations import Conversation
from clearhead.errors import DataError, FolderError, SettingError
from clearhead.tasks.pieces import Pieces, ids_of
from clearhead.text.chat import Lesson, conversation, lessons

TENTH = 10  # documents from which on a tenth of them is kept to choose by; of fewer texts, the end of each
BEGINNING = 40  # characters of a text to go on with
SOME = TypeVar("SOME")


class Texts:
    """Documents of plain text."""

    noun, opened = "text", "Beginnings of texts kept aside (bold), and how it goes on, at temperature 0.8."
    ask = 'generate {} "…"'

    def __init__(self, texts: Sequence[str]):
        self.texts, self.bytes = list(texts), sum(len(text.encode()) for text in texts)
        self.notes: list[str] = []

    def __len__(self) -> int:
        return len(self.texts)

    def digest(self) -> str:
        """SHA-256 of the texts in order."""
        return digest_of(self.texts)

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
    ask = "chat {}"

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


def digest_of(texts: Iterable[str]) -> str:
    """SHA-256 of texts in order, and of where each ends."""
    digest = hashlib.sha256()
    for text in texts:
        add_to(digest, text)
    return digest.hexdigest()


def add_to(digest: Any, text: str) -> int:
    """Count a text into a digest of texts; returns its bytes."""
    raw = text.encode()
    digest.update(f"{len(raw)} ".encode() + raw)
    return len(raw)


def lessons_of(chat: Conversation, loaded: Loaded) -> list[Lesson]:
    """What is learned from a conversation; DataError, with its place, where nothing can be, FolderError where
    the template fails on it."""
    try:
        return lessons(loaded.tokenizer, chat.messages, ends=loaded.ends)
    except (DataError, FolderError) as error:
        if loaded.tokenizer.template is None:
            raise
        raise type(error)(f"{chat.where}: {error}") from error


def kept_aside(documents: Sequence[SOME], *, seed: int) -> tuple[list[SOME], list[SOME]]:
    """Documents to learn from, and a tenth of them, at least one, to choose by, both in order."""

    def rank(place: int) -> Any:
        return hashlib.sha256(f"{seed} {place}".encode()).digest()

    count = max(1, len(documents) // TENTH)
    aside = set(sorted(range(len(documents)), key=rank)[:count])
    learned = [document for place, document in enumerate(documents) if place not in aside]
    return learned, [document for place, document in enumerate(documents) if place in aside]


def tenth_aside(rows: Sequence[SOME], *, seed: int, what: str, data: str) -> tuple[list[SOME], list[SOME]]:
    """The same of what must be enough for it; DataError, with `what` there is of it in `data`, else."""
    if len(rows) < TENTH:
        raise DataError(
            f"{data}: {what} are too few to learn from and choose by; give at least {TENTH}, or --validation "
            "too"
        )
    return kept_aside(rows, seed=seed)
