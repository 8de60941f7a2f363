"""The command that trains a model to find answers in texts, and its report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from clearhead.data.wording import argument
from clearhead.settings import Answerer

if TYPE_CHECKING:
    from clearhead.learn.answer import AnswerRun

Settings = Annotated[Answerer, Parameter(name="*")]
SHOWN = 6  # questions whose answers the report shows


def train_answer(settings: Settings) -> int:
    """Train a model to find the answer to a question in a text, from another model, and write a report."""
    from clearhead.app import watch
    from clearhead.learn.answer import AnswerRun

    run = AnswerRun(settings)
    watch.training(run)
    watch.trained(run, report_of(run))
    return 0


def report_of(run: "AnswerRun") -> Path:
    """The report of such a model: how its answers agree with those that are there."""
    from dataclasses import replace

    from clearhead.app.reporting import Told, best_of, report_of_texts
    from clearhead.explain.report import Sample
    from clearhead.infer.answer import evaluate_questions
    from clearhead.infer.model import load
    from clearhead.settings import Finding

    model, settings = load(run.out), run.settings
    finding = Finding(max_answer_tokens=settings.max_answer_tokens)
    found = evaluate_questions(model, run.chosen_by, asking=run.asking(), finding=finding)
    scores = replace(found.metrics, loss=best_of(run, "loss")["loss"])
    samples = []
    for question, result in zip(run.chosen_by[:SHOWN], found.results, strict=False):
        right = " | ".join(question.right) or "none"
        sure = "" if result.score is None else f", {result.score:.0%} sure"
        said = f" → {result.answer or 'none'} (right: {right}{sure})"
        samples.append(Sample(prompt=question.text, text=said))
    told = Told(
        kind="a model that finds answers in texts",
        scored=f"{scores.texts:,} answers",
        samples=samples,
        samples_source="Questions kept aside (bold), its answers, and the right ones.",
        ask=("Ask it", f'clearhead predict {argument(run.shown)} --text "…?" --pair "…"'),
    )
    return report_of_texts(run, model, scores=scores, told=told)
