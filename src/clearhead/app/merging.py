"""The command that makes a model of a base and its adapters."""

from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter

from clearhead.app.verbs import LOAD, Load
from clearhead.data.wording import argument
from clearhead.errors import SettingError
from clearhead.settings import a_path

Out = Annotated[str, Parameter(help="folder to make: a model like any other")]


def merge(model: str, *, out: Out, opening: Load = LOAD) -> int:
    """Add an adapter (LoRA) to the weights of its base: a model of its own, in a folder of its own."""
    from clearhead.app import show
    from clearhead.infer.model import load

    if opening.dtype != "float32":
        raise SettingError("--dtype is how a model is asked; weights are saved as float32: leave it out")
    if (place := a_path(out, "--out:")).is_dir() and any(place.iterdir()):
        raise SettingError(f"--out {out} is not empty; give a folder that is new or empty")
    loaded = load(model, **asdict(opening))
    if not loaded.loaded.adapters:
        raise SettingError(f"{model} has no adapter to merge; name one: --adapter FOLDER")
    loaded.save(out)
    show.say(f'{out} holds the model; try it: clearhead generate {argument(out)} "…"')
    return 0
