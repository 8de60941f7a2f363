"""A conversation as ids: the model's own template lays it out, and what people wrote stays text.

The template runs in jinja2's sandbox. What it writes itself may be control tokens; what a message says never
is: `<|im_end|>` typed by a person gives the ids of its characters.
"""

import json
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, pairwise
from typing import Any

from jinja2 import Environment, TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

from clearhead.errors import ClearheadError, DataError, FolderError
from clearhead.text.tokenizer import Tokenizer

LARGEST = 10**7  # of what a template multiplies
BROKEN = (
    TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RuntimeError,
    SyntaxError,
)  # fmt: skip
ROLES = ("system", "user", "assistant", "tool")
FIELD = re.compile(r"""\.(\w+)|['"](\w+)['"]""")  # where a template may name one
Messages = Sequence[Mapping[str, Any]]


class Refusal(Exception):
    """What a template says of messages that it does not take."""


class Generation(Extension):
    """{% generation %}: templates tell trainers with it what a model is to learn; here it is as it stands,
    with names of its own."""

    tags = {"generation"}  # noqa: RUF012 (the library declares it so)

    def parse(self, parser: Any) -> Any:
        """The statements between the tag and its end."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("as_it_stands"), [], [], body).set_lineno(line)

    def as_it_stands(self, caller: Callable[[], str]) -> str:
        """What the block writes."""
        return caller()


class Sandbox(ImmutableSandboxedEnvironment):
    """The library's sandbox, in which nothing grows beyond measure either."""

    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, *given: Any) -> Any:
        """A product of texts, or a power, that would fill the memory is refused; as the library calls it:
        context, operator, left, right."""
        _, operator, left, right = given
        sizes = [len(side) if isinstance(side, str | list | tuple) else side for side in (left, right)]
        if all(isinstance(size, int) for size in sizes):
            grown = abs(sizes[0] * sizes[1]) if operator == "*" else 2 ** min(99, abs(sizes[1]))
            if grown > LARGEST:
                raise SecurityError(f"{operator} makes something too large")
        return super().call_binop(*given)


def environment() -> Environment:
    """A sandbox with what published templates are written for."""
    made = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation])
    made.filters["tojson"] = lambda value, ensure_ascii=False, **options: json.dumps(
        value, ensure_ascii=ensure_ascii, **options
    )
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
    roles = {role: tokenizer.name(id) for role, id in tokenizer.roles.items()}
    given = {"messages": [dict(message) for message in messages], "add_generation_prompt": reply}
    try:
        return environment().from_string(source).render(**roles, **given, tools=None, documents=None)
    except Refusal as error:
        raise DataError(f"the chat template refuses these messages: {error}") from error
    except SecurityError as error:
        raise FolderError(f"the chat template asks for what its sandbox forbids: {error}") from error
    except RecursionError as error:
        raise FolderError("the chat template calls itself without end") from error
    except (MemoryError, OverflowError) as error:
        raise FolderError("the chat template makes something too large") from error
    except BROKEN as error:
        raise FolderError(f"the chat template cannot be used ({type(error).__name__}: {error})") from error


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
    for place, control in enumerate(found):
        left, right = tokenizer.swallows(numbers[control.group()])
        if left:
            pieces[place] = pieces[place].rstrip()
        if right:
            pieces[place + 1] = pieces[place + 1].lstrip()
    ids = tokenizer.plain(pieces[:1])[0]
    for control, piece in zip(found, tokenizer.plain(pieces[1:], begins=False), strict=True):
        ids += [numbers[control.group()], *piece]
    return ids


@dataclass(frozen=True)
class Lesson:
    """The ids of a conversation, and which of them are learned: its answers, each to the end of it."""

    ids: list[int]
    learned: list[bool]


def lessons(tokenizer: Tokenizer, messages: Messages, *, ends: Container[int]) -> list[Lesson]:
    """What is learned from a conversation: each answer after what the model is asked with, up to the first of
    the ids that end an answer, that id included.

    It is one lesson where each answer follows on all before; several where the template writes what is past
    in another way (some leave out the thoughts of earlier answers). Raises `DataError` for a conversation
    without an answer, or whose answers the template does not write where it asks for them.
    """
    check_messages(messages)
    found: list[Lesson] = []
    for place, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        if not place:
            raise DataError("message 0 is an answer to nothing; begin with what is asked")
        asked, whole = messages[:place], messages[: place + 1]
        if not rendered(tokenizer, whole, reply=False).startswith(rendered(tokenizer, asked)):
            raise DataError(f"the chat template does not write message {place} where it asks for an answer")
        before, ids = conversation(tokenizer, asked), conversation(tokenizer, whole, reply=False)
        start = next((n for n, pair in enumerate(zip(before, ids, strict=False)) if len(set(pair)) > 1), 0)
        start = start or len(before)  # a token may hold the last of the question and the first of the answer
        stop = next((n + 1 for n in range(start, len(ids)) if ids[n] in ends), len(ids))
        learned = [start <= n < stop for n in range(len(ids))]
        past = len(found[-1].ids) if found else 0
        while past and not found[-1].learned[past - 1]:
            past -= 1
        if past and past <= start and found[-1].ids[:past] == ids[:past]:
            learned[:past] = found.pop().learned[:past]
        found.append(Lesson(ids, learned))
    if not found:
        raise DataError("the conversation holds no answer (role assistant), so there is nothing to learn")
    return found


def told_apart(
    tokenizer: Tokenizer, messages: Messages, *, controls: re.Pattern[str], reply: bool
) -> tuple[str, str]:
    """The conversation with a mark between the letters of each control token that a person wrote, in any
    field of a message; the mark.

    A template may trim a message, or leave out a part of it (the thoughts of earlier answers). Where it
    rewrites words otherwise, they could become control tokens. So it must write the same ones for messages
    of the same lengths in which nobody says anything. There the names of fields stay that it looks for.
    """

    def again(change: Callable[[str], str], *, kept: Container[str] = ()) -> str:
        said = [reworded(message, change, kept=kept) | {"role": message["role"]} for message in messages]
        return rendered(tokenizer, said, reply=reply)

    written = again(str)
    mark, letter = marks(json.dumps(messages, ensure_ascii=False, default=str) + written)
    marked = again(lambda text: controls.sub(lambda found: mark.join(found[0]), text))
    names = {name for found in FIELD.findall(tokenizer.template or "") for name in found}
    try:
        without = again(lambda text: re.sub(r"\S", letter, text), kept=names)
    except ClearheadError:
        without = None  # it looks for certain words
    if (
        marked.replace(mark, "") != written
        or without is None
        or controls.findall(marked) != controls.findall(without)
    ):
        raise DataError(
            "the chat template rewrites messages, so that a person's words cannot be told from its own"
        )
    return marked, mark


def reworded(said: Any, change: Callable[[str], str], *, kept: Container[str]) -> Any:
    """What a message holds with all strings in it changed, names of fields too that are not to be kept."""
    if isinstance(said, str):
        return change(said)
    if isinstance(said, list | tuple):
        return [reworded(part, change, kept=kept) for part in said]
    if not isinstance(said, Mapping):
        return said
    found: dict[Any, Any] = {}
    for name, value in said.items():
        fixed = not isinstance(name, str) or name in kept or name in ("role", "content")
        new = name if fixed else change(name)
        while new in found:  # two names of one length
            new += new[-1]
        found[new] = reworded(value, change, kept=kept)
    return found


def marks(text: str) -> tuple[str, str]:
    """Two characters for private use that a text does not hold."""
    codes = chain(range(0xE000, 0xF900), range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))
    free = (chr(code) for code in codes if chr(code) not in text)
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
