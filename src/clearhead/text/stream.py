"""Ids to text while they come: no half character is ever shown, and nothing of a stop string."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tokenizers import decoders

from clearhead.text.tokenizer import Tokenizer

HALF = "\ufffd"  # what a decoder gives for bytes that are no whole character (yet)
SPACE = "Ġ"  # how a vocabulary of bytes spells a space
MOST, LONGEST = 8, 4  # ids whose text may still be waiting; bytes of a character


@dataclass(eq=False)
class Stream:
    """The text of one answer. Pieces put together are what the answer's ids add to the text of the prompt,
    whose last ids are `before`, up to the first stop; bytes that are no characters may come out as other
    numbers of � than all ids together give.

    `stopped` is the stop string that ended it.
    """

    tokenizer: Tokenizer
    stops: Sequence[str] = ()
    before: Sequence[int] = ()
    stopped: str | None = None
    ids: list[int] = field(init=False)
    shown: int = field(init=False)  # ids whose text has been decoded for good
    held: str = ""  # decoded, but perhaps the beginning of a stop string

    def __post_init__(self) -> None:
        self.ids = list(self.before[-MOST - LONGEST :])
        self.shown = len(self.ids)

    def push(self, id: int) -> str:
        """The text that is certain once this id has come."""
        self.ids.append(id)
        return self._release(self._decoded(final=False), final=False)

    def close(self) -> str:
        """What was still held back, once no id comes any more."""
        return self._release(self._decoded(final=True), final=True)

    def _decoded(self, *, final: bool) -> str:
        """New whole characters. Decoders look at what stands before, so a few ids go along each time."""
        start, before = self._context()
        after = self.tokenizer.decode(self.ids[start:])
        new = after[len(before) :]
        if not final and new.endswith(HALF) and len(self.ids) - self.shown < MOST:
            return ""
        self.shown = len(self.ids)
        return new

    def _context(self) -> tuple[int, str]:
        """Where the ids begin that go along, and their text. A decoder of bytes gives nothing but � for a run
        of characters of whose first it has not all bytes, so they begin with a whole one."""
        latest = max(0, self.shown - MOST)
        for start in range(latest, max(0, latest - LONGEST + 1) - 1, -1):
            text = self.tokenizer.decode(self.ids[start : self.shown])
            if not text.startswith(HALF):
                return start, text
        return latest, self.tokenizer.decode(self.ids[latest : self.shown])

    def _release(self, new: str, *, final: bool) -> str:
        if self.stopped is not None:
            return ""
        text = self.held + new
        found = [(place, stop) for stop in self.stops if (place := text.find(stop)) >= 0]
        if found:
            place, self.stopped = min(found)
            self.held = ""
            return text[:place]
        keep = 0 if final else max((begun(text, stop) for stop in self.stops), default=0)
        self.held = text[len(text) - keep :]
        return text[: len(text) - keep]


def text_of(tokenizer: Tokenizer, ids: Sequence[int], *, before: Sequence[int]) -> str:
    """The text of an answer that is whole."""
    stream = Stream(tokenizer, before=before)
    return "".join(stream.push(id) for id in ids) + stream.close()


def namer(tokenizer: Tokenizer) -> Callable[[int], str]:
    """What tokens are called by people: of a vocabulary of bytes (Radford et al. 2019) the characters that
    each spells, where they are whole; else as the vocabulary has it."""
    space = tokenizer.vocabulary().get(SPACE)
    if space is None or tokenizer.decode([space]) != " ":
        return tokenizer.name
    bytewise = decoders.ByteLevel()

    def name(id: int) -> str:
        spelled = tokenizer.name(id)
        said = bytewise.decode([spelled])
        return spelled if HALF in said else said

    return name


def begun(text: str, stop: str) -> int:
    """How many characters at the end of a text are the beginning of a stop string."""
    most = min(len(text), len(stop) - 1)
    return next((count for count in range(most, 0, -1) if text.endswith(stop[:count])), 0)
