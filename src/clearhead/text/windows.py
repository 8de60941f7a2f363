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
    check_limit(limit, "truncate", needed=1 + max((one.special_count for _, one in rows), default=0))
    return [
        in_windows(contents, template, limit=limit, stride=stride, name=name)
        for (contents, template), name in zip(rows, names, strict=True)
    ]


def in_windows(
    contents: Sequence[Content], template: Template, *, limit: int | None, stride: int | None, name: str
) -> list[Encoding]:
    """A text, or a pair, in as many windows of at most `limit` tokens as hold each of its tokens in one or
    more; of a pair the first text stands whole in each, the second goes on. A window begins `stride` tokens
    after the one before: usually half of what has room in it. `dropped` is 0 in each.

    Raises `DataError`, by `name`, where the first text leaves no room or a stride skips tokens.
    """
    *before, last = contents
    length, taken = len(last.ids), sum(len(one.ids) for one in before) + template.special_count
    room = max(1, length) if limit is None else limit - taken
    if room < 1:
        raise DataError(
            f"{name}: the first text and the special tokens are {taken} tokens, which leaves no room for the "
            f"second in a window of {limit}; shorten the first"
        )
    step = stride or -(-room // 2)
    if step > room and length > room:
        raise DataError(
            f"{name}: --stride {step} skips tokens, for a window has room for {room} of them beside the "
            f"others; make it at most {room}"
        )
    count = 1 if length <= room else 1 + -(-(length - room) // step)
    parts = (slice(place * step, place * step + room) for place in range(count))
    return [template.around([*before, Content(last.ids[p], last.offsets[p])], 0) for p in parts]


def beginnings(
    tokenizer: Tokenizer, texts: Sequence[Text], *, names: Sequence[str], limit: int | None
) -> list[Encoding]:
    """Texts, or pairs, each cut to its first window: of a pair the second text loses its end. `dropped` says
    how many tokens it lost."""
    rows = tokenizer.taken_apart(texts)
    found = []
    for (contents, template), name in zip(rows, names, strict=True):
        first = in_windows(contents, template, limit=limit, stride=1, name=name)[0]
        lost = sum(len(one.ids) for one in contents) + template.special_count - len(first.ids)
        found.append(replace(first, dropped=lost))
    return found
