"""What a run says of itself when it is done: its model card."""

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.checkpoint.card import Card, write_card
from clearhead.checkpoint.catalog import published_name
from clearhead.learn.place import chosen, read_log
from clearhead.settings import Training, flag

if TYPE_CHECKING:
    from clearhead.learn.run import Run

FILES = ("data", "validation", "out")  # named without their folders, which are nobody's business


def write_run_card(run: "Run") -> bool:
    """Write the card of a finished run; False where a README.md that is not ours is in its place."""
    settings = run.settings
    log = {line["step"]: line for line in read_log(run.out)}
    best = log.get(run.best_step or 0, {})
    base = published_name(settings.base)
    return write_card(
        run.out,
        Card(
            name=run.out.resolve().name,
            base=base,
            start="nothing" if settings.base == "new" else base or Path(settings.base).name,
            labels=run.labels,
            problem=run.task.problem,
            data=str(shown("data", settings.data)),
            validation=Path(settings.validation).name if settings.validation else None,
            training_texts=len(run.training),
            validation_texts=len(run.validation),
            parameters=sum(parameter.numel() for parameter in run.trainer.network.parameters()),
            step=run.best_step,
            steps=len(run.trainer.steps),
            metrics={name: value for name, value in best.items() if name.startswith("eval_")},
            settings={
                name: shown(name, value) for name, value in chosen(settings).items() if value is not None
            }
            | {"learning_rate": run.learning_rate},
            command=command_of(settings),
        ),
    )


def shown(name: str, value: Any) -> Any:
    """A setting as the card shows it."""
    if name in FILES or (name == "base" and Path(value).exists()):
        return Path(value).name or value
    return value


def command_of(settings: Training) -> tuple[str, ...]:
    """The command of a run, as far as it is not the usual."""
    words = ["clearhead", "train", "classify"]
    for item in fields(settings):
        value = getattr(settings, item.name)
        if value == item.default or item.name in ("resume", "overwrite"):
            continue
        name = "from" if item.name == "base" else item.name
        if isinstance(value, bool):
            words.append(flag(name) if value else flag(f"no_{name}"))
        else:
            words += [flag(name), str(shown(item.name, value))]
    return tuple(words)
