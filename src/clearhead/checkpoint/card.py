"""The model card: README.md of a trained folder, for people and, in its first lines (YAML), for the hub."""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clearhead.checkpoint.files import moved_into_place
from clearhead.data.wording import argument, spoken

CARD = "README.md"
KINDS = {"eval_macro_f1": "f1", "eval_auroc": "roc_auc"}  # as the hub calls them
MARK = "<!-- written by clearhead train, which replaces it; remove this line to keep what you change -->"


@dataclass(frozen=True, kw_only=True)
class Card:
    """What a card says. `base` is the published model it began with, `start` what people call it."""

    name: str
    base: str | None
    start: str
    kind: str  # what it is, in a sentence without its end
    task: str  # as the hub calls it
    use: tuple[str, str]  # how it is asked: a command, and a line of Python after `import clearhead as ch`
    data: str
    validation: str | None
    held_out: str  # what it was chosen by, where no file was given
    training_texts: int
    validation_texts: int
    parameters: int
    step: int | None
    steps: int
    metrics: Mapping[str, Any]  # of the best model on the validation texts, by the names of the log
    settings: Mapping[str, Any]
    command: tuple[str, ...]


def write_card(folder: Path, card: Card) -> bool:
    """Write the card, unless a README.md that is not ours is there; returns whether it was written."""
    path = folder / CARD
    if path.is_file() and not is_ours(path):
        return False
    with moved_into_place(path) as place:
        place.write_text(spoken(page(card)), encoding="utf-8", errors="replace")
    return True


def is_ours(path: Path) -> bool:
    """Whether a file is a card that nobody has made theirs."""
    return path.is_file() and MARK in path.read_text(encoding="utf-8", errors="replace").splitlines()


def page(card: Card) -> str:
    """The card as Markdown with front matter."""
    numbers = {name: value for name, value in card.metrics.items() if isinstance(value, int | float)}
    rows = "".join(f"| {name.removeprefix('eval_')} | {value:.4f} |\n" for name, value in numbers.items())
    settings = "".join(f"| {name} | {cell(value)} |\n" for name, value in card.settings.items())
    held_out = card.validation or card.held_out
    return f"""---
{front_matter(card, numbers)}---
{MARK}

# {cell(card.name)}

{card.kind}: {card.parameters:,} parameters, trained from {cell(card.start)}
with clearhead.

## Data

| texts | from | rows |
| --- | --- | --- |
| training | {cell(card.data)} | {card.training_texts:,} |
| validation | {cell(held_out)} | {card.validation_texts:,} |

## Metrics

On the validation texts. The model was chosen by them (step {card.step} of {card.steps}), so they are a little
hopeful.

| metric | value |
| --- | --- |
{rows}
## Use

```sh
{card.use[0]}
```

```python
import clearhead as ch

{card.use[1]}
```

{code(f"clearhead verify {argument(card.name)}")} shows on your own machine that it keeps its promises.

## Training

```sh
{" ".join(shlex.quote(word) for word in card.command)}
```

| setting | value |
| --- | --- |
{settings}"""


def front_matter(card: Card, numbers: Mapping[str, float]) -> str:
    """The lines for the hub. JSON is YAML, so that a name with a colon or a quote stays one."""
    said: dict[str, Any] = {
        "library_name": "clearhead",
        "pipeline_tag": card.task,
        "tags": ["clearhead", card.task],
    }
    if card.base:
        said["base_model"] = card.base
    data = card.validation or card.data
    results = {
        "task": {"type": card.task},
        "dataset": {"name": data, "type": data},
        "metrics": [
            {"type": KINDS.get(name, name.removeprefix("eval_")), "name": name, "value": value}
            for name, value in numbers.items()
            if name != "eval_loss"
        ],
    }
    said["model-index"] = [{"name": card.name, "results": [results]}]
    return "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in said.items())


def cell(value: Any) -> str:
    """A value in a line of Markdown, without what would end the cell or begin something else."""
    words = " ".join(str(value).split())
    return "".join("\\" + letter if letter in "\\|`<>[]*_#" else letter for letter in words)


def code(value: Any) -> str:
    """A value as a span of code in a line of Markdown, where nothing is escaped: its fence is longer than any
    row of backticks in it."""
    words = " ".join(str(value).split())
    fence = "`" * (1 + max((len(row) for row in re.findall("`+", words)), default=0))
    room = " " if words.startswith("`") or words.endswith("`") else ""
    return f"{fence}{room}{words}{room}{fence}"
