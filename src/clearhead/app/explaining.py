"""The command that looks inside: one text in one model, as a page, a figure, JSON or a table, or live; or the
same text in two models, and where they part."""

import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from clearhead.app.asking import refuse_bytes
from clearhead.app.verbs import LOAD, Load
from clearhead.data.wording import listed, visible
from clearhead.errors import ClearheadError, SettingError
from clearhead.settings import Explaining

if TYPE_CHECKING:
    from clearhead.explain.look import Look, Weights
    from clearhead.infer.model import Model

Explain = Annotated[Explaining, Parameter(name="*")]
Texts = Annotated[
    str,
    Parameter(
        help="[MODEL] TEXT [TEXT]: the text, or two of a pair; before it a model to compare with",
        allow_leading_hyphen=True,
    ),
]
EXPLAIN = Explaining()
PAGES, PICTURES, OBJECTS = (".html", ".htm"), (".png", ".svg"), (".json",)
OF_A_LOOK = ("heads", "cross", "lens")  # figures of all layers and heads that are chosen
FIRST = "heads"  # the figure, unless another is asked for
NEAREST, LAST = 3, 3  # keys and layers that a table on a terminal shows
LEAST = 0.005  # of a weight, to be named there
FLAG = re.compile(r"--?[A-Za-z][A-Za-z_-]*($|=)")  # a text may begin with a hyphen, but not so
BY_TOKEN = ("next token", "masked token", "tag")  # what is answered at each token
HOLDS = ("config.json", "adapter_config.json")


def explain(model: str, *texts: Texts, settings: Explain = EXPLAIN, opening: Load = LOAD) -> int:
    """Look inside a model: attention, what each layer would answer, and the answer to a text, as a page, a
    figure or JSON (--out), or live. With two models: where the second parts from the first; exit status 1 if
    it does."""
    from clearhead.app.comparing import compared
    from clearhead.infer.model import load

    other, given = sorted_out(list(texts), settings)
    check(settings, compared=other is not None)
    if other is not None:
        models = load(model, **asdict(opening)), load(other, **asdict(opening))
        return compared(*models, text=the_text(given), settings=settings)
    if settings.live:
        from clearhead.app.live import serve

        return serve(load(model, **asdict(opening)), texts=given, settings=settings)
    text = the_text(given)
    loaded = load(model, **asdict(opening))
    looked_at(loaded, text, settings=settings)
    return 0


def sorted_out(given: list[str], settings: Explaining) -> tuple[str | None, list[str]]:
    """The second model, if one is given, and the texts. Refuses, by name, what could be either."""
    for word in given:
        if FLAG.match(word):
            raise SettingError(
                f"{word:.60} is no option of explain; if it is the text, write --text={word:.60}"
            )
    other = given.pop(0) if given and is_model(given[0]) else None
    if other is not None and not given and settings.text is None:
        raise SettingError(
            f"{other!r} is a model, so two are compared, and the text is missing; give it too, or, if "
            f"{other!r} is the text to look at, write --text {other}"
        )
    if settings.text is not None:
        if given:
            raise SettingError(f"both {given[0]!r:.60} and --text are given; give one of them")
        given = [settings.text]
    if settings.context is not None:
        if len(given) > 1:
            raise SettingError(f"both {given[1]!r:.60} and --context are given; give one of them")
        given = [*given, settings.context]
    if len(given) > 2:
        hint = "" if other else f"; {given[0]!r:.60} is no model: no folder with config.json, nothing fetched"
        raise SettingError(
            f"{len(given)} texts are given ({listed(given)}), and at most two are looked at: MODEL [MODEL] "
            f"TEXT [TEXT]{hint}"
        )
    return other, given


def is_model(word: str) -> bool:
    """Whether a word is a folder that holds a model, or the name of one that has been fetched."""
    from clearhead.checkpoint.catalog import CATALOG, locate

    if word in CATALOG or (word.endswith(".gguf") and Path(word).is_file()):
        return True  # whoever opens it says what is missing
    try:
        place = locate(word)
        return any((place / name).is_file() for name in HOLDS)
    except (ClearheadError, OSError, ValueError):
        return False


def check(settings: Explaining, *, compared: bool) -> None:
    """Refuse options that are for something else, and files of another kind, before a model is opened."""
    out = settings.out
    if compared:
        for name in ("out", "figure", "layers", "heads", "live"):
            if getattr(settings, name) not in (None, "-", False):
                raise SettingError(f"--{name} is for one model, and two are given; leave it out")
        return
    if settings.tolerance != EXPLAIN.tolerance:
        raise SettingError("--tolerance is for two models, of which one is given; leave it out")
    ending = Path(out or "").suffix.lower()
    if out not in (None, "-") and ending not in (*PAGES, *PICTURES, *OBJECTS):
        raise SettingError(
            f"--out {out}: the ending says what is made: .html (a page), .png or .svg (a figure), .json; - "
            "prints JSON"
        )
    if settings.figure is not None and ending not in PICTURES:
        raise SettingError("--figure is for --out with .png or .svg; give such a name, or leave it out")


def the_text(given: list[str]) -> Any:
    """The text or the pair; else standard input."""
    if not given:
        if sys.stdin.isatty():
            raise SettingError("no text: give one after the model, pipe it in, or look --live")
        given = [sys.stdin.read().removesuffix("\n")]
    for text in given:
        refuse_bytes(text, "the text")
    return given[0] if len(given) == 1 else (given[0], given[1])


def looked_at(model: "Model", text: Any, *, settings: Explaining) -> None:
    """One text in one model, to where the settings say."""
    from clearhead.app import show
    from clearhead.app.writing import check_out, written
    from clearhead.explain.look import look
    from clearhead.explain.page import page
    from clearhead.explain.told import told

    out = settings.out
    if out not in (None, "-"):
        check_out(out, model=model.loaded.folder)
    if out and Path(out).suffix.lower() in PICTURES:
        drawn(model, text, settings=settings, out=out)
        return
    found = look(
        model,
        text,
        answer=settings.answer,
        layers=settings.layers,
        heads=settings.heads,
        candidates=settings.candidates,
    )
    if out == "-" or (out is None and show.plain(settings.json)):
        show.emit(told(found))
    elif out is None:
        table_of(found)
    else:
        line = Path(out).suffix.lower() in OBJECTS
        with written(out) as file:
            file.write(show.as_line(told(found)) if line else page(found))
    if out not in (None, "-"):
        show.say(f"{out} is there; open it")


def drawn(model: "Model", text: Any, *, settings: Explaining, out: str) -> None:
    """The figure that is asked for, or all heads: of what was chosen, or of one layer and head."""
    from clearhead.app import show
    from clearhead.app.writing import placed
    from clearhead.explain.figures import FIGURES, draw, write
    from clearhead.explain.look import look

    name = settings.figure or FIRST
    if name not in FIGURES:
        raise SettingError(f"--figure {name!r} is not known; there are {', '.join(FIGURES)}")
    if name in OF_A_LOOK:
        which = {part: getattr(settings, part) for part in ("answer", "layers", "heads", "candidates")}
        picture = draw(name, look=look(model, text, **which), model=model)
    else:
        if settings.answer is not None:
            raise SettingError(f"--answer is for the figures {', '.join(OF_A_LOOK)}; {name} does not read it")
        for part in ("layers", "heads"):
            if len(getattr(settings, part) or ()) > 1:
                raise SettingError(f"--{part}: the figure {name} is of one of them at most; give one")
        layer, head = ((getattr(settings, part) or [None])[0] for part in ("layers", "heads"))
        picture = draw(name, model=model, text=text, layer=layer, head=head)
    with placed(out) as place:
        write(picture, place, kind=Path(out).suffix.lower().removeprefix("."))
    show.say(f"{out} is there; open it")


def table_of(look: "Look") -> None:
    """A look for a terminal: for each token what it looks at in one layer, and what the last layers would
    answer; then the answer."""
    from rich.table import Table

    from clearhead.app import show

    show.out.print(show.shown(f"{look.model}: {look.parts}"))
    weights = next(one for one in look.weights if one.layers)
    which = f"head {weights.heads[0]}" if len(weights.heads) == 1 else f"mean of {len(weights.heads)} heads"
    by_token = look.lens.kind in BY_TOKEN and weights.kind != "encoder"
    depth = len(look.lens.layers)
    layers = range(max(0, depth - LAST), depth) if by_token else ()
    table = Table(
        "token", f"looks at (layer {weights.layers[-1]}, {which})", *(f"layer {n} says" for n in layers)
    )
    for place, token in enumerate(weights.queries):
        guesses = [look.lens.layers[layer][place][0] for layer in layers]
        said = [f"{guess.text.strip()} {show.percent(guess.probability)}" for guess in guesses]
        table.add_row(*map(show.shown, (token.text, looks_at(weights, place), *said)))
    show.out.print(table)
    if not by_token:
        lens_table(look)
    answer_table(look)
    show.say("all of it as a page: the same command with --out look.html")


def looks_at(weights: "Weights", query: int) -> str:
    """The keys that a token looks at most, in the last of the layers."""
    from clearhead.app import show

    shares = weights.values[-1, :, query].float().mean(0)
    best = shares.topk(min(NEAREST, len(weights.keys)))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return ", ".join(
        f"{weights.keys[key].text} {show.percent(share)}" for key, share in pairs if share >= LEAST
    )


def lens_table(look: "Look") -> None:
    """What each layer would answer, of a model that answers once for a text."""
    from rich.table import Table

    from clearhead.app import show

    numbers = look.lens.unit != "probability"
    table = Table("after layer", *(visible(name) for name in look.lens.tokens))
    for layer, rows in enumerate(look.lens.layers):
        best = [row[0] for row in rows]
        said = [
            f"{one.probability:.3f}" if numbers else f"{one.text} {show.percent(one.probability)}"
            for one in best
        ]
        table.add_row(f"{layer}", *map(show.shown, said))
    show.out.print(table)


def answer_table(look: "Look") -> None:
    """What the model answers."""
    from clearhead.app import show

    for heading, shares in look.answers:
        said = (
            one.name if look.answer is not None
            else f"{one.name} {one.share:.4g}" if look.numbers
            else f"{one.name.strip()} {show.percent(one.share)}"
            for one in shares
        )  # fmt: skip
        show.out.print(show.shown(f"{heading}: {', '.join(said)}"))
