"""The command line. Building it and printing help imports neither torch nor numpy."""

import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, get_args

from cyclopts import App, CycloptsError, Parameter, convert

from clearhead import __version__
from clearhead.app import (
    answering,
    around,
    embedding,
    explaining,
    filling,
    grading,
    merging,
    speaking,
    tagging,
    tokenizing,
    translating,
    verbs,
)
from clearhead.data.wording import visible
from clearhead.errors import (
    FULL,
    ClearheadError,
    Interrupted,
    SettingError,
    readable,
    refused_by_system,
)

NUMBERS = {
    int: (r"[+-]?[0-9]+", "a whole number"),
    float: (r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?(inf|nan)", "a number"),
}


def exactly(kind: Any, tokens: Sequence[Any]) -> Any:
    """What the words after a flag say: a number as people write it, with nothing rounded or read into it."""

    def one(kind: Any, word: Any) -> Any:
        word = getattr(word, "value", word)
        if kind in NUMBERS:
            pattern, what = NUMBERS[kind]
            if not re.fullmatch(pattern, word, re.IGNORECASE):
                raise SettingError(f"{tokens[0].keyword} {word!r} is not {what}")
        return convert(kind, [word])

    parts = get_args(kind)
    if type(None) in parts and len(parts) == 2:
        (kind,) = (part for part in parts if part is not type(None))
    return convert(kind, tokens, converter=one)


app = App(
    name="clearhead",
    help="Same text, same answer. Train, check and look inside transformers on your own machine.",
    version=__version__,
    version_flags=["--version"],
    help_epilogue=(
        "Exit status: 0 done; 1 ran, and the answer is no (a promise broken, a wrong solution); "
        "2 could not run; 130 stopped."
    ),
    exit_on_error=False,
    print_error=False,
    suppress_keyboard_interrupt=False,
    result_action="return_value",
    default_parameter=Parameter(converter=exactly),
)
train = App(name="train", help="Train a model from a file of texts.")
train.command(verbs.train_classify, name=["classify", "text-classification"])
train.command(verbs.train_language, name=["language", "text-generation"])
train.command(filling.train_fill, name=["fill", "fill-mask"])
train.command(answering.train_answer, name=["answer", "question-answering"])
train.command(tagging.train_tag, name=["tag", "token-classification"])
train.command(embedding.train_embed, name=["embed", "sentence-similarity", "feature-extraction"])
NAMES = ["translate", "translation", "summarization", "text2text-generation"]
train.command(translating.train_translate, name=NAMES)
app.command(train)
tokenizer = App(name="tokenizer", help="Learn a vocabulary from files of texts, or encode texts with one.")
tokenizer.command(tokenizing.tokenizer_train, name="train")
tokenizer.command(tokenizing.tokenizer_encode, name="encode")
app.command(tokenizer)
VERBS: tuple[Callable[..., int], ...] = (
    verbs.evaluate, verbs.predict, speaking.generate, speaking.chat, explaining.explain, verbs.verify,
    grading.grade,
    merging.merge, around.get, around.info, around.env, around.demo,
)  # fmt: skip
for verb in VERBS:
    app.command(verb)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit with its status; Ctrl-C is the business of whoever calls."""
    warnings.showwarning = show_warning
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by whoever called; nothing is read there, nobody reads
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    try:
        status = app(arguments)
        sys.stdout.flush()  # which fails now, or at exit with nobody to say it
    except CycloptsError as error:
        status = complain(" ".join(str(error).split()), help=True)
    except Interrupted as error:
        print(visible(f"clearhead: {error}"), file=sys.stderr)
        status = 130
    except ClearheadError as error:
        status = complain(str(error))
    except BrokenPipeError as error:
        # The reader has had enough. Of results, as in `clearhead predict … | head`, that is fine; a run whose
        # progress nobody reads has been stopped.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
        status = 130 if error.args == (True,) else 0
    except OSError as error:
        if error.filename is None and error.errno in FULL:  # whoever writes a file names it
            error.filename = "standard output"
        status = complain(refused_by_system(error))
    except UnicodeError as error:
        status = complain(
            f"a text cannot be written or read in this terminal's encoding ({error}); use UTF-8"
        )
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "allocate memory" not in str(error):
            raise
        status = complain("there is not enough memory for this; try a smaller model, batch or text")
    sys.exit(status or 0)


def complain(message: str, *, help: bool = False) -> int:
    """Say on one line what is wrong; returns the exit status."""
    hint = " (clearhead --help shows what there is)" if help and "--help" not in message else ""
    print(visible(f"clearhead: {readable(message)}{hint}"), file=sys.stderr)
    return 2


def show_warning(message: Warning | str, *place: object, **more: object) -> None:
    """Warnings on one line, without a place in the source."""
    print(visible(f"note: {' '.join(str(message).split())}"), file=sys.stderr)
