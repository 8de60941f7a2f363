"""A conversation as ids: the model's own template lays it out, and what people wrote stays text.

The template runs in jinja2's sandbox. What it writes itself may be control tokens; what a message says never
is: `<|im_end|>` typed by a person gives the ids of its characters.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

from jinja2 import Environment, TemplateError
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

from clearhead.errors import DataError, FolderError
from clearhead.text.tokenizer import Tokenizer

ROLES = ("system", "user", "assistant", "tool")
Messages = Sequence[Mapping[str, str]]


class Refusal(Exception):
    """What a template says of messages that it does not take."""


class Generation(Extension):
    """{% generation %}: templates tell trainers with it what a model is to learn; here it is as it stands."""

    tags = {"generation"}  # noqa: RUF012 (the library declares it so)

    def parse(self, parser: Any) -> Any:
        """The statements between the tag and its end."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def environment() -> Environment:
    """A sandbox with what published templates are written for."""
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
    )
    made.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
    made.globals["raise_exception"] = refuse
    made.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return made


def refuse(message: str) -> None:
    """A template's way to say that messages do not suit it."""
    raise Refusal(message)


def rendered(tokenizer: Tokenizer, messages: Messages, *, reply: bool = True) -> str:
    """The conversation as the model's template writes it; with `reply`, up to where the answer begins.

    Raises `FolderError` where there is no template, or it is broken or asks for what the sandbox forbids;
    `DataError` where the template refuses the messages.
    """
    source = tokenizer.template
    if source is None:
        raise FolderError("the model has no chat template (tokenizer_config.json, chat_template.jinja)")
    roles = {f"{role}_token": "" for role in ("bos", "eos", "pad", "unk")}
    roles |= {role: tokenizer.name(id) for role, id in tokenizer.roles.items()}
    given = {"messages": [dict(message) for message in messages], "add_generation_prompt": reply}
    try:
        return environment().from_string(source).render(**roles, **given, tools=None, documents=None)
    except Refusal as error:
        raise DataError(f"the chat template refuses these messages: {error}") from error
    except SecurityError as error:
        raise FolderError(f"the chat template asks for what its sandbox forbids: {error}") from error
    except (TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        raise FolderError(f"the chat template cannot be used ({type(error).__name__}: {error})") from error
    except RecursionError as error:
        raise FolderError("the chat template calls itself without end") from error


def conversation(tokenizer: Tokenizer, messages: Messages, *, reply: bool = True) -> list[int]:
    """The ids of a conversation. Control tokens come from the template alone."""
    check_messages(messages)
    numbers = {tokenizer.name(id): id for id in tokenizer.control_ids}
    if not numbers:
        return tokenizer.plain([rendered(tokenizer, messages, reply=reply)])[0]
    controls = re.compile("|".join(map(re.escape, sorted(numbers, key=len, reverse=True))))
    written, mark = told_apart(tokenizer, messages, controls=controls, reply=reply)
    found = list(controls.finditer(written))
    borders = [0, *(place for control in found for place in control.span()), len(written)]
    pieces = [written[start:end].replace(mark, "") for start, end in pairwise(borders)][::2]
    ids = tokenizer.plain(pieces[:1])[0]
    for control, piece in zip(found, tokenizer.plain(pieces[1:], begins=False), strict=True):
        ids += [numbers[control.group()], *piece]
    return ids


def told_apart(
    tokenizer: Tokenizer, messages: Messages, *, controls: re.Pattern[str], reply: bool
) -> tuple[str, str]:
    """The conversation with a mark between the letters of each control token that a person wrote; the mark.

    A template may trim a message, or leave out a part of it (the thoughts of earlier answers). Where it
    rewrites words otherwise, they could become control tokens. So it must write the same ones for messages
    of the same lengths in which nobody says anything.
    """

    def again(change: Callable[[str], str]) -> str:
        changed = [{**message, "content": change(message["content"])} for message in messages]
        return rendered(tokenizer, changed, reply=reply)

    written = again(str)
    mark, letter = marks("".join(message["content"] for message in messages) + written)
    marked = again(lambda text: controls.sub(lambda found: mark.join(found[0]), text))
    without = again(lambda text: re.sub(r"\S", letter, text))
    if marked.replace(mark, "") != written or controls.findall(marked) != controls.findall(without):
        raise DataError(
            "the chat template rewrites messages, so that a person's words cannot be told from its own"
        )
    return marked, mark


def marks(text: str) -> tuple[str, str]:
    """Two characters for private use that a text does not hold."""
    free = (chr(code) for code in range(0xE000, 0xF900) if chr(code) not in text)
    return next(free), next(free)


def check_messages(messages: Messages) -> None:
    """Refuse what is no conversation, by number."""
    if not messages:
        raise DataError("the conversation has no message")
    for number, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("content"), str):
            raise DataError(f"message {number} has no content that is a string: {str(message)[:60]}")
        if message.get("role") not in ROLES:
            raise DataError(f"message {number} has role {message.get('role')!r}; roles: {', '.join(ROLES)}")
