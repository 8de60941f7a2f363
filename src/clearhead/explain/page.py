"""A look at a text as a page: one HTML file that holds all it shows and loads nothing, with attention, what
each layer would answer, and the answer. Served live, it also asks its own server."""

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from clearhead.checkpoint.files import moved_into_place
from clearhead.data.wording import visible
from clearhead.explain.look import Look, size_of
from clearhead.explain.told import name_of, shown
from clearhead.infer.model import Model

TEMPLATE = "page.html.jinja"
STYLES = ("report.css", "page.css", "page_views.css", "page_answers.css", "page_media.css")
SCRIPTS = ("page.js", "page_controls.js", "page_lines.js", "page_matrix.js", "page_tables.js")
LIVE = "page_live.js"
# What could end a script, or a line of one: as JSON spells any character.
ESCAPES = str.maketrans({sign: f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"})


def write_page(path: str | Path, look: Look) -> None:
    """Write the page as one HTML file; a reader never meets half of it."""
    with moved_into_place(Path(path)) as place:
        place.write_text(page(look), encoding="utf-8")


def page(look: Look) -> str:
    """A look as HTML that works without a network."""
    return made(shown(look), title=f"{name_of(look.model)}: {said(look)}")


def live_page(model: Model, texts: Sequence[str] = ()) -> str:
    """The page that asks the server it came from; it begins with these texts."""
    data = {
        "model": name_of(model.name),
        "size": size_of(model),
        "pairs": len(texts) > 1 or not (model.speaks or model.translates or model.tags or model.fills),
        "texts": list(texts),
        "parts": [],
        "live": True,
    }
    return made(data, title=f"{name_of(model.name)}, live")


def made(data: dict[str, Any], *, title: str) -> str:
    """The page. Its rules let the browser run this script alone and load nothing; live, ask its server."""
    live = bool(data.get("live"))
    style = "\n".join(source(name) for name in STYLES)
    script = "\n".join(source(name) for name in (*SCRIPTS, *([LIVE] if live else [])))
    environment = Environment(
        loader=PackageLoader("clearhead.explain", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    rules = ["default-src 'none'", f"style-src '{digest(style)}'", f"script-src '{digest(script)}'"]
    html = environment.get_template(TEMPLATE).render(
        title=visible(title),
        live=live,
        rules="; ".join([*rules, *(["connect-src 'self'"] if live else [])]),
        style=Markup(style),
        script=Markup(script),
        data=Markup(escaped(data)),
    )
    # Half a character (a folder's name can hold one) has no UTF-8; as a reference a browser shows it as �.
    return html.encode("utf-8", "xmlcharrefreplace").decode("utf-8")


def escaped(data: Any) -> str:
    """JSON that can stand in a script: nothing in it ends one, begins a comment or breaks a line."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).translate(ESCAPES)


def source(name: str) -> str:
    """A style or a script of the package."""
    return files("clearhead.explain").joinpath(name).read_text(encoding="utf-8")


def digest(text: str) -> str:
    """What a browser compares an inline style or script with before it takes it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def said(look: Look) -> str:
    """The beginning of a text, for a title."""
    text = " ".join((look.text if isinstance(look.text, str) else look.text[0]).split())
    return text if len(text) <= 60 else f"{text[:60]}…"
