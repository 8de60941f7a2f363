"""The command that trains a model to turn texts into others, and its report."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from clearhead.data.wording import argument
from clearhead.errors import MissingExtra
from clearhead.settings import Asking, Generating, Translating

if TYPE_CHECKING:
    from clearhead.learn.translate import TranslateRun

Settings = Annotated[Translating, Parameter(name="*")]
COMPARED = 200  # pairs that were kept aside whose texts the model answers for the report


def train_translate(settings: Settings) -> int:
    """Train a model to turn texts into others (translate, summarise, rewrite) from pairs of them, from
    nothing or from another one, and write a report."""
    from clearhead.app import watch
    from clearhead.learn.translate import TranslateRun

    run = TranslateRun(settings)
    watch.training(run)
    watch.trained(run, report_of(run))
    return 0


def report_of(run: "TranslateRun") -> Path:
    """The report of a model that turns texts into others: how close its answers are to what is there."""
    from clearhead.app.reporting import SAMPLES, Told, best_of, report_of_texts
    from clearhead.explain.report import Sample
    from clearhead.infer.model import load
    from clearhead.infer.translate import scores as compare
    from clearhead.infer.translate import translated
    from clearhead.tasks.translate import TranslationLoss

    model, some = load(run.out), run.chosen_by[:COMPARED]
    prefix = run.settings.prefix or ""
    tokens = int(run.validation.size(range(len(run.chosen_by))))
    scores = TranslationLoss(len(run.chosen_by), tokens, **best_of(run, "loss", "perplexity"))
    found = translated(model, some, asking=Asking(), ways=Generating(), prefix=prefix, context=run.context)
    answers = [answer.answer or "" for answer in found]
    with suppress(MissingExtra):
        compared = compare(answers, [pair.target for pair in some])
        scores = replace(scores, bleu=compared["bleu"], chrf=compared["chrf"])
        run.notes.append(f"BLEU and chrF: greedy answers to {len(some)} pairs; {compared['bleu_signature']}")
    shown = zip(some[:SAMPLES], answers, strict=False)
    told = Told(
        kind="a model that turns texts into others",
        scored=f"{len(some):,} pairs (BLEU, chrF) and {scores.tokens:,} tokens (loss)",
        samples=[
            Sample(prompt=pair.source, text=f" → {said} (there: {pair.target})") for pair, said in shown
        ],
        samples_source="Texts kept aside (bold), its greedy answers, and what is there.",
        ask=("Ask it", f'clearhead predict {argument(run.shown)} --text "{prefix}…"'),
    )
    return report_of_texts(run, model, scores=scores, told=told)
