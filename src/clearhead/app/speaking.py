"""The commands that go on with a text: generate and chat."""

import re
import sys
from collections import defaultdict
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from clearhead.app.asking import refuse_bytes
from clearhead.app.verbs import LOAD, Json, Load
from clearhead.data.wording import spoken
from clearhead.errors import ClearheadError, SettingError
from clearhead.settings import Generating

if TYPE_CHECKING:
    from clearhead.infer.beams import Beam
    from clearhead.infer.generate import Token
    from clearhead.infer.model import Model

Ways = Annotated[Generating, Parameter(name="*")]
Prompt = Annotated[
    str | None, Parameter(help="the text to go on with; else standard input", allow_leading_hyphen=True)
]
System = Annotated[str | None, Parameter(help="what the model is told before everything else")]
WAYS = Generating()


def generate(
    model: str, prompt: Prompt = None, *, settings: Ways = WAYS, opening: Load = LOAD, json: Json = False
) -> int:
    """Go on with a text, token by token; greedy unless --temperature is above 0."""
    from clearhead.app import show
    from clearhead.infer.beams import beam_search
    from clearhead.infer.generate import beginning, tokens
    from clearhead.infer.model import load
    from clearhead.text.stream import text_of

    if prompt is None:
        if sys.stdin.isatty():
            raise SettingError("no prompt: give the text to go on with, or pipe it in")
        prompt = sys.stdin.read().removesuffix("\n")  # which ends the line, as in `echo TEXT | …`
    refuse_bytes(prompt, "the prompt")
    loaded = load(model, **asdict(opening))
    ids = [list(encoding.ids) for encoding in loaded.tokenizer.encode([prompt])]
    if settings.beams > 1:
        for beams in beam_search(loaded, ids, settings=settings):
            for number, beam in enumerate(beams):
                text = text_of(loaded.loaded.writer, beam.ids, before=beginning(loaded, ids[0]))
                show.emit(told_beam(beam, prompt=prompt, text=text) | {"sample": number})
        return 0
    found = tokens(loaded, ids, settings=settings)
    if show.plain(json) or settings.samples > 1:
        for answer in gathered(found, prompts=[prompt]):
            show.emit(answer)
        return 0
    if not loaded.config.translates:  # what was asked is no part of an answer to it
        print(spoken(prompt), end="", flush=True)
    for token in found:
        print(spoken(token.piece), end="", flush=True)
    print()
    return 0


def told_beam(beam: "Beam", *, prompt: str, text: str) -> dict[str, Any]:
    """One answer of a beam search."""
    return {
        "prompt": prompt,
        "text": text,
        "end": "end" if beam.ended else "length",
        "tokens": len(beam.ids),
        "log_probability": beam.log_probability,
        "score": beam.score,
    }


def chat(model: str, *, system: System = None, settings: Ways = WAYS, opening: Load = LOAD) -> int:
    """Talk with a language model, in the words of its own chat template. /reset begins anew, /exit ends."""
    from clearhead.infer.generate import tokens
    from clearhead.infer.model import load
    from clearhead.text.chat import conversation

    for name in ("beams", "samples"):
        if getattr(settings, name) > 1:
            raise SettingError(f"--{name} gives more than one answer; a conversation has one: leave it out")
    loaded = load(model, **asdict(opening))
    beginning = [{"role": "system", "content": system}] if system else []
    conversation(loaded.tokenizer, [*beginning, {"role": "user", "content": "…"}])  # says what is missing
    told = sys.stdin.isatty()
    if told:
        with suppress(ImportError):
            import readline  # noqa: F401 - from then on, input() can be edited and remembers
        say(f"{model}: /reset begins anew, /exit or Ctrl-D ends")
    history = list(beginning)
    while (line := asked(told)) is not None:
        if line == "/reset":
            history = list(beginning)
            say("(a new conversation)")
            continue
        history.append({"role": "user", "content": line})
        answer = ""
        try:
            refuse_bytes(line, "the message")
            ids = within(loaded, history, room=settings.most)
            for token in tokens(loaded, [ids], settings=settings):
                piece = token.piece if answer else token.piece.lstrip(" ")
                answer += piece
                print(spoken(piece), end="", flush=True)
        except KeyboardInterrupt:
            say(" (stopped)")
        except ClearheadError as error:
            say(f"({error})")
        print(flush=True)
        if answer:
            history.append({"role": "assistant", "content": answer})
        else:  # stopped before a word: as if it had not been asked
            history.pop()
    return 0


def within(model: "Model", history: list[dict[str, str]], *, room: int) -> list[int]:
    """The ids of a conversation with room for an answer; the oldest question and its answer go where the
    model's positions do not hold all."""
    from clearhead.text.chat import conversation

    ids = conversation(model.tokenizer, history)
    while model.limit is not None and len(ids) + room > model.limit:
        oldest = next(place for place, message in enumerate(history) if message["role"] != "system")
        if len(history) - oldest < 3:
            break  # one question alone is too long, which is said where it is asked
        del history[oldest : oldest + 2]
        say("(the oldest question is forgotten: the conversation is longer than the model takes)")
        ids = conversation(model.tokenizer, history)
    return ids


def asked(told: bool) -> str | None:
    """The next line that says something; None at the end."""
    while True:
        try:
            line = input("> " if told else "").strip()
        except EOFError:
            return None
        except KeyboardInterrupt:
            say("")
            return None
        if line in ("/exit", "/quit"):
            return None
        if line != "/reset" and re.fullmatch(r"/[a-z]+", line):
            say(f"({line} is not known: /reset begins anew, /exit ends)")
        elif line:
            return line


def gathered(found: Any, *, prompts: list[str]) -> Any:
    """Whole answers, each as soon as it is complete."""
    parts: dict[tuple[int, int], list[Token]] = defaultdict(list)
    for token in found:
        key = (token.text, token.sample)
        parts[key].append(token)
        if token.end:
            told = parts.pop(key)
            yield {
                "prompt": prompts[token.text],
                "sample": token.sample,
                "text": "".join(one.piece for one in told),
                "end": token.end,
                "tokens": len(told),
                "log_probability": sum(one.log_probability for one in told),
            }


def say(line: str) -> None:
    """A note that is no part of an answer."""
    print(spoken(line), file=sys.stderr, flush=True)
