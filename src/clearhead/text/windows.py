"""Texts that are longer than a model takes, in windows: each token of a text is in one or more of them."""

from collections.abc import Sequence
from dataclasses import replace

from clearhead.errors import DataError
from clearhead.text.encoding import Content, Encoding, Template, Text, check_limit
from clearhead.text.tokenizer import Tokenizer


def windows(
    tokenizer: Tokenizer,
    texts: Sequence[Text],
    *,
    names: Sequence[str],
    limit: int | None,
    stride: int | None = None,
) -> list[list[Encoding]]:
    """Texts, or pairs of texts, to ids, each in as many windows as it needs (`in_windows`); `names` are those
    of the texts in messages."""
    rows = tokenizer.taken_apart(texts)
    check_limit(limit, "truncate", needed=max((one.special_count for _, one in rows), default=0))
    return [
        in_windows(contents, template, limit=limit, stride=stride, name=name)
        for (contents, template), name in zip(rows, names, strict=True)
    ]


def in_windows(
    contents: Sequence[Content], template: Template, *, limit: int | None, stride: int | None, name: str
) -> list[Encoding]:
    """A text, or a pair, in as many windows of at most `limit` tokens as hold each of its tokens in one or
    more; of a pair the first text stands whole in each, the second goes on (`spread`). `dropped` is 0.

    Raises `DataError`, by `name`, where the first text leaves no room or a stride skips tokens.
    """
    last = contents[-1]
    room = room_for(contents, template, limit=limit, name=name)
    parts = spread(len(last.ids), room=room, stride=stride, name=name)
    return [around(contents, template, part=slice(part.start, part.stop)) for part in parts]


def spread(length: int, *, room: int, stride: int | None, name: str) -> list[range]:
    """Places among so many tokens, `room` at a time: each range begins `stride` after the one before (without
    one, half of the room) and the last ends with them. DataError, by `name`, for a stride that skips some."""
    step = stride or -(-room // 2)
    if step > room and length > room:
        raise DataError(
            f"{name}: --stride {step} skips tokens, for a window has room for {room} of them beside the "
            f"others; make it at most {room}"
        )
    count = 1 if length <= room else 1 + -(-(length - room) // step)
    return [range(at * step, min(at * step + room, length)) for at in range(count)]


def room_for(contents: Sequence[Content], template: Template, *, limit: int | None, name: str) -> int:
    """How many tokens of the last text have room in a window, at least 1; DataError, by `name`, where there
    is none for a text that has some."""
    *before, last = contents
    taken = sum(len(one.ids) for one in before) + template.special_count
    room = max(1, len(last.ids)) if limit is None else limit - taken
    if room < 1 and len(last.ids):
        what = "the first text and the special tokens are" if before else "the special tokens are"
        fix = "shorten the first" if before else "a window needs room for one more"
        raise DataError(
            f"{name}: {what} {taken} tokens, which leaves no room for others in a window of {limit}; {fix}"
        )
    return max(1, room)


def around(contents: Sequence[Content], template: Template, *, part: slice) -> Encoding:
    """A part of the last text behind the others; `dropped` is 0."""
    *before, last = contents
    return template.around([*before, Content(last.ids[part], last.offsets[part])], 0)


def kept(length: int, *, room: int, side: str) -> slice:
    """Which of so many tokens stay where fewer have room: the first or, where the tokenizer's files say that
    texts are cut at their beginning (`truncation_side: left`), the last."""
    return slice(max(0, length - room), None) if side == "left" else slice(room)


def cut_to_one(
    tokenizer: Tokenizer, texts: Sequence[Text], *, names: Sequence[str], limit: int | None
) -> list[Encoding]:
    """Texts, or pairs, each cut to one window: of a pair the second text loses what the tokenizer cuts.
    `dropped` says how many tokens it lost."""
    found = []
    for (contents, template), name in zip(tokenizer.taken_apart(texts), names, strict=True):
        room, length = room_for(contents, template, limit=limit, name=name), len(contents[-1].ids)
        part = kept(length, room=room, side=tokenizer.truncation_side)
        found.append(replace(around(contents, template, part=part), dropped=max(0, length - room)))
    return found
