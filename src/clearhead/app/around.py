"""The commands around models: fetch one, its sizes, this machine, a demonstration."""

from typing import Annotated

from cyclopts import Parameter

from clearhead.app.verbs import OPEN, Json, Open
from clearhead.settings import a_path


def get(
    name: Annotated[
        str | None, Parameter(help="a name of the list, org/name from the hub, or a GGUF file")
    ] = None,
) -> int:
    """Fetch a model or data by name, or list the names; the only command that uses the network (and demo)."""
    from clearhead.app import show
    from clearhead.checkpoint import catalog

    if name is None:
        show.catalog()
        return 0
    print(catalog.get(name, say=show.say))
    return 0


def info(model: str, *, opening: Open = OPEN, json: Json = False) -> int:
    """Sizes of a model folder or of an architecture by name (bert-base, gpt3-175b, …)."""
    from clearhead.app import facts

    facts.info(model, opening, as_json=json)
    return 0


def env(*, json: Json = False) -> int:
    """Versions and machine, for bug reports."""
    from clearhead.app import show
    from clearhead.app.machine import machine

    show.pairs(machine(), as_json=json)
    return 0


def demo(
    *,
    out: Annotated[str, Parameter(help="folder of the run")] = "runs/demo",
    offline: Annotated[
        bool, Parameter(negative="", help="no network: a small file of reviews, a model from nothing")
    ] = False,
) -> int:
    """Train, evaluate and report on real film reviews in a few minutes (fetches about 100 MB once)."""
    from clearhead.app.demo import run_demo

    run_demo(str(a_path(out, "--out:")), offline=offline)
    return 0
