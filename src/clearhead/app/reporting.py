"""A run's report, from what the run, its log and its evaluation hold."""

from collections.abc import Sized
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from clearhead.app.machine import machine
from clearhead.app.show import percent, say, span
from clearhead.checkpoint.labels import Problem
from clearhead.data.wording import argument, counted
from clearhead.errors import ClearheadError
from clearhead.explain.mistakes import most_confident_mistakes
from clearhead.explain.report import Answer, Report, Sample, write_report
from clearhead.infer.evaluate import Evaluation
from clearhead.infer.generate import tokens
from clearhead.infer.model import Model
from clearhead.learn.answer import AnswerRun
from clearhead.learn.corpus import Chats, Texts
from clearhead.learn.course import Course
from clearhead.learn.embed import EmbedRun
from clearhead.learn.encoded import Encoded
from clearhead.learn.fill import FillRun
from clearhead.learn.language import LanguageRun
from clearhead.learn.place import REPORT, read_log
from clearhead.learn.run import Run, asked_as
from clearhead.learn.translate import TranslateRun
from clearhead.settings import Generating
from clearhead.tasks.baseline import baseline, baseline_name
from clearhead.tasks.embed import PairScores
from clearhead.tasks.fill import FillScores
from clearhead.tasks.language import LanguageScores
from clearhead.tasks.scores_answers import AnswerMetrics
from clearhead.tasks.task import Scores
from clearhead.tasks.translate import TranslationLoss
from clearhead.text.masks import MASK


@dataclass(frozen=True, kw_only=True)
class Extras:
    """What a demo adds to a report."""

    title: str
    subtitle: str
    metrics_of: str
    baseline: Scores | None = None
    baseline_name: str = ""
    answers: tuple[Answer, ...] = ()
    answers_source: str | None = None
    next_steps: tuple[tuple[str, str], ...] = ()


def report(run: Run, model: Model, *, evaluation: Evaluation, extras: Extras) -> Path:
    """Write the report into the run's folder; returns its place."""
    log = read_log(run.out)
    trained = sum(line["tokens"] for line in log)
    cut = sum(example.dropped > 0 for example in run.examples)
    network = model.loaded.network
    facts = {
        "Started from": run.settings.base,
        "Family": model.loaded.family.model_type,
        "Parameters": f"{sum(parameter.numel() for parameter in network.parameters()):,}",
        "Learned from": f"{len(run.training):,} texts; {trained:,} tokens seen in {len(log):,} steps",
        "Chosen by": f"{len(run.validation):,} validation texts, best at step {run.best_step}",
        "Texts cut": f"{cut:,} of {len(run.examples):,} in training, "
        f"{evaluation.truncated:,} of {evaluation.metrics.texts:,} in evaluation",
    }
    tokens = sum(example.tokens for example in evaluation.examples)
    timing = {
        "Training": f"{span(run.seconds)}, validation included",
        "Speed": f"{trained / max(run.seconds, 1e-9):,.0f} tokens a second",
        "Evaluation": f"{evaluation.seconds:.1f} s",
        "Evaluation speed": f"{tokens / max(evaluation.seconds, 1e-9):,.0f} tokens a second",
    }
    assert model.task
    results = model.task.results(evaluation.logits, evaluation.examples)
    path = run.out / REPORT
    write_report(
        path,
        Report(
            title=extras.title,
            subtitle=extras.subtitle,
            metrics=evaluation.metrics,
            metrics_of=extras.metrics_of,
            baseline=extras.baseline,
            baseline_name=extras.baseline_name,
            log=log,
            mistakes=most_confident_mistakes(evaluation.rows, results),
            answers=list(extras.answers),
            answers_source=extras.answers_source,
            facts=facts,
            timing=timing,
            machine={name: value for name, value in machine().items() if name != "cache"},
            settings=asdict(run.settings),
            notes=run.notes,
            next_steps=list(extras.next_steps),
        ),
    )
    return path


def report_of_run(run: Run) -> Path:
    """The report of an ordinary run: the best model on the validation texts."""
    from clearhead.infer.evaluate import evaluate_rows
    from clearhead.infer.model import load
    from clearhead.settings import Asking

    model = load(run.out)
    asking = Asking(long=run.settings.long, stride=run.settings.stride)
    evaluation = evaluate_rows(model, run.validation, settings=asking)
    chosen = (
        "the texts the best model was chosen by, so a little hopeful; give a test file to clearhead evaluate"
    )
    named = argument(run.shown)
    how = asked_as(run.settings, "text_column", "pair_column", "label_column", "long", "stride")
    steps = (
        ("Ask it", f"clearhead {run.ask.format(named)}"),
        ("Evaluate it on texts it has never met", f"clearhead evaluate {named} --data test.csv{how}"),
        ("Check its promises on this machine", f"clearhead verify {named}"),
    )
    other = None
    if run.settings.baseline:
        try:
            other = baseline(run.training, run.validation, task=run.task)
        except (ClearheadError, MemoryError) as error:
            why = str(error) or "there is not enough memory for it (--no-baseline leaves it out)"
            run.notes.append(f"no baseline: {why}")
            say(f"note: no baseline: {why}")
    numbers = run.task.problem is Problem.REGRESSION
    kind = "a number for each text" if numbers else f"{len(run.labels)} labels"
    extras = Extras(
        title=f"{run.out.name}: text classification",
        subtitle=f"{run.settings.data}, {kind}",
        metrics_of=f"{len(run.validation):,} validation texts ({chosen})",
        baseline=other,
        baseline_name=baseline_name(run.task),
        next_steps=steps,
    )
    return report(run, model, evaluation=evaluation, extras=extras)


SAMPLES = 3  # how many texts that were kept aside are gone on with
WORDS = 12  # of a text that was kept aside, one of them hidden


@dataclass(frozen=True, kw_only=True)
class Told:
    """What differs between the reports of models that learn from texts alone."""

    kind: str
    scored: str  # what the metrics are of, in words
    samples: list[Sample]
    samples_source: str
    ask: tuple[str, str]


def report_of_language(run: LanguageRun) -> Path:
    """The report of a language model: how well the best one knows the texts kept aside, and how it writes."""
    from clearhead.infer.model import load

    model = load(run.out)
    scores = LanguageScores(
        texts=len(run.chosen_by),
        tokens=run.validation.counted,
        bytes=run.chosen_by.bytes,
        **best_of(run, "loss", "perplexity", "bits_per_byte"),
    )
    told = Told(
        kind="a language model",
        scored=f"{scores.tokens:,} tokens",
        samples=samples(model, run.chosen_by),
        samples_source=run.chosen_by.opened,
        ask=("Talk with it", f"clearhead chat {argument(run.shown)}")
        if isinstance(run.texts, Chats)
        else ("Let it write", f'clearhead generate {argument(run.shown)} "…" --temperature 0.8'),
    )
    return report_of_texts(run, model, scores=scores, told=told)


def report_of_fill(run: FillRun) -> Path:
    """The report of a model that fills masks: how well the best one knows hidden tokens, and what it says."""
    from clearhead.infer.model import load

    model = load(run.out)
    scores = FillScores(
        texts=len(run.chosen_by),
        tokens=sum(run.validation.lengths),
        masked=int(run.validation.size(range(len(run.validation.spans)))),
        **best_of(run, "loss", "perplexity", "accuracy"),
    )
    told = Told(
        kind="a model that fills masks",
        scored=f"{scores.masked:,} hidden tokens",
        samples=gaps(model, run.chosen_by) if isinstance(run.chosen_by, Texts) else [],
        samples_source="Beginnings of texts kept aside, a word hidden (bold), and what it says was there.",
        ask=("Ask it", f'clearhead predict {argument(run.shown)} --text "… {MASK} …"'),
    )
    return report_of_texts(run, model, scores=scores, told=told)


def best_of(run: Course, *names: str) -> dict[str, float]:
    """These scores of the best model, as the log tells them."""
    best = next(line for line in read_log(run.out) if line["step"] == run.best_step)
    return {name: best[f"eval_{name}"] for name in names}


def report_of_texts(
    run: LanguageRun | FillRun | TranslateRun | AnswerRun | EmbedRun,
    model: Model,
    *,
    scores: LanguageScores | FillScores | TranslationLoss | AnswerMetrics | PairScores,
    told: Told,
) -> Path:
    """The report of a model that learned from texts alone."""
    log = read_log(run.out)
    trained = sum(line["tokens"] for line in log)
    config, noun = model.config, run.noun
    learned: Sized = run.learned
    blocks = f"{config.layers} + {config.decoder_layers}" if config.translates else f"{config.layers}"
    facts = {
        "Started from": run.settings.base,
        "Family": model.loaded.family.model_type,
        "Parameters": f"{sum(parameter.numel() for parameter in model.loaded.network.parameters()):,}",
        "Blocks, width, heads": f"{blocks}, {config.width}, {config.heads}",
        "Vocabulary": f"{config.vocab:,}",
        "Learned from": f"{counted(len(learned), noun)}; {trained:,} tokens seen in {len(log):,} steps",
        "Chosen by": f"{counted(len(run.chosen_by), noun)} kept aside, best at step {run.best_step}",
    }
    timing = {
        "Training": f"{span(run.seconds)}, validation included",
        "Speed": f"{trained / max(run.seconds, 1e-9):,.0f} tokens a second",
    }
    path, named = run.out / REPORT, argument(run.shown)
    write_report(
        path,
        Report(
            title=f"{run.out.name}: {told.kind}",
            subtitle=files_of(run.settings.data),
            metrics=scores,
            metrics_of=f"{told.scored} of {noun}s kept aside (the best model was chosen by them)",
            log=log,
            samples=told.samples,
            samples_source=told.samples_source,
            facts=facts,
            timing=timing,
            machine={name: value for name, value in machine().items() if name != "cache"},
            settings=asdict(run.settings),
            notes=run.notes,
            next_steps=[told.ask, ("Check its promises on this machine", f"clearhead verify {named}")],
        ),
    )
    return path


def files_of(data: str | list[str]) -> str:
    """The files of a run."""
    return data if isinstance(data, str) else ", ".join(data)


def samples(model: Model, aside: Texts | Chats | Encoded) -> list[Sample]:
    """How the model goes on with the beginnings of a few texts, or answers a few questions."""
    limit = model.limit or 1024
    read = limit - max(1, limit // 2)  # most tokens that are read, so that there is room for an answer
    opened = aside.openings(model.loaded, most=SAMPLES)
    if isinstance(aside, Chats):  # of a question nothing can be left out
        opened = [(said, ids) for said, ids in opened if len(ids) <= read]
    else:
        opened = [
            (said, ids) if len(ids) <= read else (model.tokenizer.decode(ids[:read]), ids[:read])
            for said, ids in opened
        ]
    if not opened:
        return []
    most = min(200, limit - max(len(ids) for _, ids in opened))
    ways = Generating(max_new_tokens=most, temperature=0.0 if isinstance(aside, Chats) else 0.8)
    written = [""] * len(opened)
    for token in tokens(model, [ids for _, ids in opened], settings=ways):
        written[token.text] += token.piece
    return [Sample(prompt=prompt, text=text) for (prompt, _), text in zip(opened, written, strict=True)]


def gaps(model: Model, aside: Texts) -> list[Sample]:
    """What the model says of the middle word of the beginnings of a few texts, as far as they fit it."""
    found = []
    for text in aside.texts[:SAMPLES]:
        words = text.split()[:WORDS]
        middle = len(words) // 2
        sentence = " ".join([*words[:middle], MASK, *words[middle + 1 :]])
        with suppress(ClearheadError):  # a sentence longer than the model takes
            (filled,) = model.fill([sentence], candidates=3)
            said = ", ".join(f"{one.token_str.strip()} {percent(one.score)}" for one in filled.masks[0])
            found.append(Sample(prompt=sentence, text=f" – {said}; it was: {words[middle]}"))
    return found
