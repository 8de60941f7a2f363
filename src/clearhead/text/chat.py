"""A conversation as ids: the model's own template lays it out, and what people wrote stays text.

The template runs in jinja2's sandbox. What it writes itself may be control tokens; what a message says never
is: `<|im_end|>` typed by a person gives the ids of its characters.
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise

from jinja2 import Environment, TemplateError
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from clearhead.errors import DataError, FolderError
from clearhead.text.tokenizer import Tokenizer

ROLES = ("system", "user", "assistant", "tool")
Messages = Sequence[Mapping[str, str]]


class Refusal(Exception):
    """What a template says of messages that it does not take."""


def environment() -> Environment:
    """A sandbox with what published templates are written for."""
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
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
    written = rendered(tokenizer, messages, reply=reply)
    spoken = spans(tokenizer, messages, written=written, reply=reply)
    names = sorted((tokenizer.name(id) for id in tokenizer.control_ids), key=len, reverse=True)
    if not names:
        return tokenizer.plain([written])[0]
    numbers = {tokenizer.name(id): id for id in tokenizer.control_ids}
    controls = [
        found
        for found in re.finditer("|".join(map(re.escape, names)), written)
        if not any(start < found.end() and found.start() < end for start, end in spoken)
    ]
    borders = [0, *(place for found in controls for place in found.span()), len(written)]
    pieces = tokenizer.plain([written[start:end] for start, end in pairwise(borders)][::2])
    ids = list(pieces[0])
    for found, piece in zip(controls, pieces[1:], strict=True):
        ids += [numbers[found.group()], *piece]
    return ids


def spans(tokenizer: Tokenizer, messages: Messages, *, written: str, reply: bool) -> list[tuple[int, int]]:
    """Where in the written conversation each message's own words stand.

    Found by writing it again with a mark at both ends of each message; as they are, or without the white
    space at their ends where the template takes that away.
    """
    first, last = marks("".join(message["content"] for message in messages) + written)
    for strip in (str, str.strip):
        marked = [{**message, "content": f"{first}{strip(message['content'])}{last}"} for message in messages]
        again = rendered(tokenizer, marked, reply=reply)
        if again.replace(first, "").replace(last, "") == written:
            break
    else:
        raise DataError(
            "the chat template rewrites messages, so that a person's words cannot be told from its own"
        )
    found, opened, place = list[tuple[int, int]](), 0, 0
    for letter in again:
        if letter == first:
            opened = place
        elif letter == last:
            found.append((opened, place))
        else:
            place += 1
    return found


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
