"""What a run says of itself when it is done: its model card."""

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.checkpoint.card import Card, code, write_card
from clearhead.checkpoint.catalog import published_name
from clearhead.checkpoint.labels import Problem
from clearhead.data.wording import argument
from clearhead.learn.place import chosen, read_log
from clearhead.settings import flag

if TYPE_CHECKING:
    from clearhead.learn.answer import AnswerRun
    from clearhead.learn.course import Course
    from clearhead.learn.embed import EmbedRun
    from clearhead.learn.fill import FillRun
    from clearhead.learn.language import LanguageRun
    from clearhead.learn.run import Run
    from clearhead.learn.tag import TagRun
    from clearhead.learn.translate import TranslateRun

PLACES = ("base", "tokenizer")
FILES = ("data", "validation", "out")  # named without their folders, which are nobody's business


def write_run_card(run: "Run") -> bool:
    """Write the card of a finished classifier; False where a README.md that is not ours is in its place."""
    name = run.out.resolve().name
    labels = ", ".join(code(label) for label in run.labels)
    kinds = {
        Problem.SINGLE: f"A text classifier with the labels {labels}",
        Problem.MULTI: f"A text classifier that gives any number of the labels {labels}",
        Problem.REGRESSION: "A model that gives each text a number",
    }
    settings = run.settings
    asked = [("…", "…")] if settings.pair_column else ["…"]
    how = {one: getattr(settings, one) for one in ("long", "stride") if getattr(settings, one) is not None}
    more = "".join(f", {one}={value!r}" for one, value in how.items())
    use = (
        f"clearhead {run.ask.format(argument(name))}",
        f"print(ch.load({name!r}).predict({asked}{more}))",
    )
    counts = len(run.training), len(run.validation)
    said = (kinds[run.task.problem], "text-classification", use)
    return write_card(run.out, card_of(run, said, counts=counts, kept="a tenth of {}, chosen by seed"))


def write_language_card(run: "LanguageRun") -> bool:
    """Write the card of a language model; False as above."""
    name = run.out.resolve().name
    said = f'print("".join(piece for _, piece in ch.generate(ch.load({name!r}), ["…"])))'
    return write_texts_card(run, "A language model", task="text-generation", python=said)


def write_fill_card(run: "FillRun") -> bool:
    """Write the card of a model that fills masks; False as above."""
    name = run.out.resolve().name
    said = f'print(ch.load({name!r}).fill(["… [MASK] …"]))'
    kind = "A model that says what stands behind a mask"
    return write_texts_card(run, kind, task="fill-mask", python=said)


def write_tag_card(run: "TagRun") -> bool:
    """Write the card of a model that tags words; False as above."""
    name = run.out.resolve().name
    types = ", ".join(code(kind) for kind in run.task.types)
    use = (
        f'clearhead predict {argument(name)} --text "…"',
        f'print(ch.load({name!r}).predict(["…"])[0].entities)',
    )
    said = f"A tagger of words that finds entities of the types {types}", "token-classification", use
    counts = len(run.training), len(run.validation)
    return write_card(run.out, card_of(run, said, counts=counts, kept="a tenth of {}, chosen by seed"))


def write_translation_card(run: "TranslateRun") -> bool:
    """Write the card of a model that turns texts into others; False as above."""
    name = run.out.resolve().name
    prefix = run.settings.prefix or ""
    python = f'print("".join(piece for _, piece in ch.generate(ch.load({name!r}), [{prefix + "…"!r}])))'
    use = f"clearhead predict {argument(name)} --text {argument(prefix + '…')}", python
    said = "A model that turns a text into another", "translation", use
    counts = len(run.pairs), len(run.chosen_by)
    return write_card(run.out, card_of(run, said, counts=counts, kept="a tenth of {}, chosen by seed"))


def write_answer_card(run: "AnswerRun") -> bool:
    """Write the card of a model that finds answers in texts; False as above."""
    name = run.out.resolve().name
    python = f'print(ch.load({name!r}).answer([("…?", "…")]))'
    use = f'clearhead predict {argument(name)} --text "…?" --pair "…"', python
    said = "A model that finds the answer to a question in a text", "question-answering", use
    counts = len(run.questions), len(run.chosen_by)
    kept = "the questions about a tenth of the contexts of {}, chosen by seed"
    return write_card(run.out, card_of(run, said, counts=counts, kept=kept))


def write_embedding_card(run: "EmbedRun") -> bool:
    """Write the card of a model that gives vectors; False as above."""
    name = run.out.resolve().name
    use = (
        f'clearhead predict {argument(name)} --text "…"',
        f'print(ch.load({name!r}).embed(["…"]).shape)',
    )
    said = "A model that gives texts vectors, which tell what belongs together", "sentence-similarity", use
    counts = len(run.pairs), len(run.chosen_by)
    return write_card(run.out, card_of(run, said, counts=counts, kept="a tenth of {}, chosen by seed"))


def write_texts_card(run: "LanguageRun | FillRun", kind: str, *, task: str, python: str) -> bool:
    """The card of a model that learned from texts without labels."""
    use = f"clearhead {run.ask.format(argument(run.out.resolve().name))}", python
    said = kind, task, use
    counts = len(run.texts), len(run.chosen_by)
    kept = "the last tenth of each text of {}" if run.few else "a tenth of {}, chosen by seed"
    return write_card(run.out, card_of(run, said, counts=counts, kept=kept))


def card_of(
    run: "Course", said: tuple[str, str, tuple[str, str]], *, counts: tuple[int, int], kept: str
) -> Card:
    """What every run's card says; `kept` is what it was chosen by where no file was given."""
    settings = run.settings
    data = str(shown("data", settings.data))
    log = {line["step"]: line for line in read_log(run.out)}
    best = log.get(run.best_step or 0, {})
    base = published_name(settings.base)
    return Card(
        name=run.out.resolve().name,
        base=base,
        start="nothing" if settings.base == "new" else base or Path(settings.base).name,
        kind=said[0],
        task=said[1],
        use=said[2],
        data=data,
        held_out=kept.format(data),
        validation=str(shown("validation", settings.validation)) if settings.validation else None,
        training_texts=counts[0],
        validation_texts=counts[1],
        parameters=sum(parameter.numel() for parameter in run.trainer.network.parameters()),
        step=run.best_step,
        steps=len(run.trainer.steps),
        metrics={name: value for name, value in best.items() if name.startswith("eval_")},
        settings={name: shown(name, value) for name, value in chosen(settings).items() if value is not None}
        | {"learning_rate": run.learning_rate, "epochs": run.epochs},
        command=command_of(run),
    )


def shown(name: str, value: Any) -> Any:
    """A setting as the card shows it."""
    if isinstance(value, list | tuple):
        return ", ".join(str(shown(name, one)) for one in value)
    if name in FILES or (name in PLACES and Path(value).exists()):
        return Path(value).name or value
    return value


def command_of(run: "Course") -> tuple[str, ...]:
    """The command of a run, as far as it is not the usual."""
    settings = run.settings
    words = ["clearhead", "train", run.task_name]
    for item in fields(settings):
        value = getattr(settings, item.name)
        if value == item.default or item.name in ("resume", "overwrite"):
            continue
        if isinstance(value, bool):
            words.append(flag(item.name) if value else flag(f"no_{item.name}"))
            continue
        each = [str(shown(item.name, one)) for one in (value if isinstance(value, list) else [value])]
        if any(one.startswith("-") for one in each):  # a word that begins like a flag would be taken for one
            words += [f"{flag(item.name)}={one}" for one in each]
        else:
            words += [flag(item.name), *each]
    return tuple(words)
