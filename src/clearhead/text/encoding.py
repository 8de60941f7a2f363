"""One text as ids, and how it is put together: content, cut to a length, inside the tokenizer's template."""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from tokenizers import Encoding as CoreEncoding
from tokenizers import Tokenizer as Core

from clearhead.errors import DataError, FolderError, SettingError

Span = tuple[int, int]
Text = str | tuple[str, str]

INPUTS, SEGMENTS = "model_input_names", "token_type_ids"  # published: what a model is given, and one of it
PLAIN_INPUTS = ["input_ids", "attention_mask"]
PROBE = 2**32 - 1  # an id no vocabulary has


@dataclass(frozen=True, slots=True)
class Encoding:
    """One text, or one pair of texts, as ids; all tuples have one entry per token."""

    ids: tuple[int, ...]
    segments: tuple[int, ...]
    """0, or 1 where the tokenizer's template says so (BERT: the second text of a pair and its `[SEP]`) and
    its `model_input_names` have `token_type_ids`."""
    offsets: tuple[Span, ...]
    """Characters [start, end) of the original string (of its own one in a pair); (0, 0) if special."""
    sources: tuple[int, ...]
    """Which text of a pair the token is of, 0 or 1 (0 in a text alone); −1 for the tokens the template puts
    around texts."""
    dropped: int
    """How many content tokens the limit cut off."""

    @property
    def special(self) -> tuple[bool, ...]:
        """True for the tokens the template puts around the text."""
        return tuple(source < 0 for source in self.sources)


class Content(NamedTuple):
    """The tokens of one string, before anything is put around them."""

    ids: Sequence[int]
    offsets: Sequence[Span]

    def cut(self, count: int, *, side: str) -> "Content":
        """`count` of the tokens; the others are cut off at this side."""
        kept = slice(count) if side == "right" else slice(len(self.ids) - count, None)
        return Content(self.ids[kept], self.offsets[kept])


class Part(NamedTuple):
    """One entry of a template: the special token `id`, or the place of text number `text`."""

    id: int
    segment: int
    text: int | None


@dataclass(frozen=True, slots=True)
class Template:
    """What stands around one text or around a pair, and in which segments."""

    parts: tuple[Part, ...]

    @classmethod
    def of(cls, core: Core, *, pair: bool) -> "Template":
        """The library's own template, found by letting it work on texts of one marked token."""
        first, second = CoreEncoding(), CoreEncoding()
        first.pad(1, pad_id=PROBE)
        second.pad(1, pad_id=PROBE, pad_type_id=1)  # where nothing is put around them, as the library has it
        found = core.post_process(first, second if pair else None)
        entries = list(zip(found.ids, found.type_ids, found.sequence_ids, strict=True))
        if [text for id, _, text in entries if id == PROBE] != ([0, 1] if pair else [0]):
            raise FolderError(
                "tokenizer.json: post_processor must place each text once and in order; change it"
            )
        return cls(tuple(Part(id, segment, text) for id, segment, text in entries))

    @property
    def unsegmented(self) -> "Template":
        """The same, all in segment 0."""
        return Template(tuple(part._replace(segment=0) for part in self.parts))

    @property
    def special_count(self) -> int:
        return sum(part.text is None for part in self.parts)

    def around(self, contents: Sequence[Content], dropped: int) -> Encoding:
        """The texts of `contents` in their places, with the special tokens."""
        ids: list[int] = []
        segments: list[int] = []
        offsets: list[Span] = []
        sources: list[int] = []
        for part in self.parts:
            new = Content([part.id], [(0, 0)]) if part.text is None else contents[part.text]
            ids += new.ids
            segments += [part.segment] * len(new.ids)
            offsets += new.offsets
            sources += [-1 if part.text is None else part.text] * len(new.ids)
        return Encoding(tuple(ids), tuple(segments), tuple(offsets), tuple(sources), dropped)


def templates_of(core: Core, config: Mapping[str, Any]) -> dict[int, Template]:
    """What stands around one text and around a pair. As the published reader (transformers 5) has it, a model
    is given segments only where the configuration, or the class it names, says so; else all is segment 0."""
    found = {1: Template.of(core, pair=False), 2: Template.of(core, pair=True)}
    if SEGMENTS in config.get(INPUTS, PLAIN_INPUTS):
        return found
    return {texts: template.unsegmented for texts, template in found.items()}


def longest_first(lengths: list[int], room: int) -> list[int]:
    """How many tokens of each text stay if `room` may: the published rule, which cuts the longer text first.

    If both must be cut, each gets half of the room, and the longer one (the second, if equal) an odd token.
    """
    if sum(lengths) <= room:
        return lengths
    if len(lengths) == 1:
        return [room]
    first, second = lengths
    if first <= second:
        first = min(first, room // 2)
        return [first, room - first]
    second = min(second, room // 2)
    return [room - second, second]


def with_marks(text: str, offsets: Sequence[Span]) -> list[Span]:
    """Offsets in which an accent that the normaliser took away still belongs to the letter before it."""
    result = []
    for (start, end), (border, _) in pairwise([*offsets, (len(text), len(text))]):
        while start < end < border and unicodedata.category(text[end]) == "Mn":
            end += 1
        result.append((start, end))
    return result


def rows_of(texts: Sequence[Text]) -> list[tuple[str, ...]]:
    """Every item as a tuple of one or two strings."""
    if isinstance(texts, str):
        raise DataError("encode takes a list of texts and was given one string; put it into a list")
    rows: list[tuple[str, ...]] = [(item,) if isinstance(item, str) else tuple(item) for item in texts]
    for index, row in enumerate(rows):
        if len(row) not in (1, 2) or not all(isinstance(text, str) for text in row):
            raise DataError(f"text {index} must be a string or a pair of strings; found {texts[index]!r:.80}")
    return rows


def check_limit(limit: int | None, long: str, *, needed: int) -> None:
    if long not in ("truncate", "error"):
        raise SettingError(f"long={long!r} is not known; use 'truncate' or 'error'")
    if limit is not None and limit < needed:
        raise SettingError(
            f"limit={limit} has no room for the {needed} special tokens; make it at least {needed} "
            "(of a model: its positions in config.json, and model_max_length in tokenizer_config.json)"
        )
