"""Rows of a file of prompts → how a language model goes on with each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from clearhead.data.rows import Row
from clearhead.errors import SettingError
from clearhead.infer.beams import beam_search
from clearhead.infer.generate import End, beginning, tokens
from clearhead.infer.given import refuse_unread
from clearhead.infer.model import Model
from clearhead.settings import Asking, Generating
from clearhead.tasks.examples import encode_rows, refuse_stride
from clearhead.text.stream import text_of

ASK = Asking()
# What an encoder–decoder reads of how it is asked about rows of a file.
READ = ("text_column", "label_separator", "format", "empty", "long")


@dataclass(frozen=True)
class Continued:
    """An answer: its text without the prompt, why it ended, its tokens (an end token included), the sum of
    their log-probabilities in nats, and how many tokens of the prompt were cut. An empty prompt has none."""

    answer: str | None
    end: End | None
    tokens: int
    log_probability: float | None
    dropped: int


def continued(
    model: Model,
    rows: Sequence[Row],
    *,
    settings: Generating,
    asking: Asking = ASK,
    prefix: str = "",
    context: int | None = None,
) -> list[tuple[Row, Continued]]:
    """One answer a row, in order, `prefix` put before each text; a prompt that leaves no room is cut to leave
    `max_new_tokens`, at the side that the tokenizer says, or refused (`asking.long`). Where a `context`
    is given, no more tokens than that are read, though the model takes more.

    Raises `SettingError` for several answers a prompt, for options that an encoder–decoder does not read, or
    where the positions hold no answer of that length.
    """
    if model.translates:
        refuse_unread(asking, read=READ, by=f"{model.name}, which turns a text into another")
    refuse_stride(asking)
    if settings.samples > 1:
        raise SettingError("--samples gives several answers to a prompt; here each row has one: leave it out")
    answer = 0 if model.config.translates else settings.most  # of its own positions, or of the prompt's
    room = None if model.limit is None else model.limit - answer
    if room is not None and room < 1:
        raise SettingError(
            f"--max-new-tokens {settings.most} leaves no room for a prompt: {model.name} has "
            f"{model.limit} positions"
        )
    room = min((size for size in (room, context) if size is not None), default=None)
    asked = [index for index, row in enumerate(rows) if not row.blank]
    prompted = [replace(rows[index], text=prefix + rows[index].text) for index in asked]
    encodings = encode_rows(prompted, model.tokenizer, limit=room, long=asking.long)
    prompts = [list(encoding.ids) for encoding in encodings]
    found = [Continued(None, None, 0, None, 0)] * len(rows)
    for place, index in enumerate(asked):
        found[index] = Continued("", None, 0, 0.0, encodings[place].dropped)
    if settings.beams > 1:
        searched = beam_search(model, prompts, settings=settings)
        for place, (index, (best, *_)) in enumerate(zip(asked, searched, strict=True)):
            end: End = "end" if best.ended else "length"
            begun = beginning(model, prompts[place])
            text = text_of(model.loaded.writer, best.ids, before=begun)
            dropped = found[index].dropped
            found[index] = Continued(text, end, len(best.ids), best.log_probability, dropped)
        return list(zip(rows, found, strict=True))
    for token in tokens(model, prompts, settings=settings):
        index = asked[token.text]
        before = found[index]
        found[index] = Continued(
            (before.answer or "") + token.piece,
            token.end,
            before.tokens + 1,
            (before.log_probability or 0.0) + token.log_probability,
            before.dropped,
        )
    return list(zip(rows, found, strict=True))
