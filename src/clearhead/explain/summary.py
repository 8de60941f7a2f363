"""What a report says first: the score that counts, the other scores, and how they stand to a baseline."""

from dataclasses import dataclass
from math import nan

from clearhead.explain.wording import against, decimal, interval, percent, signed
from clearhead.tasks.embed import PairScores, RetrievalScores, SimilarityScores
from clearhead.tasks.fill import FillScores
from clearhead.tasks.language import LanguageScores
from clearhead.tasks.scores import Metrics
from clearhead.tasks.scores_answers import AnswerMetrics
from clearhead.tasks.scores_numbers import NumberMetrics
from clearhead.tasks.scores_several import SeveralMetrics
from clearhead.tasks.scores_tags import TagMetrics
from clearhead.tasks.task import Scores
from clearhead.tasks.translate import TranslationLoss

NATS, NATS_OF_LABEL, SQUARES = "Loss, nats per text", "Loss, nats per label", "Mean squared error"
NATS_OF_WORD = "Loss, nats per word"
NATS_OF_TOKEN, NATS_OF_HIDDEN = "Loss, nats per token", "Loss, nats per hidden token"
NATS_OF_WINDOW = "Loss, nats per window"

ENTITIES = ("Mistakes", "Sentences with wrong entities; first those whose wrong one the model was surest of.")
NATS_OF_PAIR, SQUARES_OF_PAIR = "Loss, nats per pair", "Mean squared error of cosines"

Told = Scores | LanguageScores | FillScores | TranslationLoss | AnswerMetrics | TagMetrics | PairScores


@dataclass(frozen=True)
class Said:
    """The first lines of a report: a number, what it is, its interval where it has one; more scores."""

    number: str
    what: str
    interval: str | None
    strip: tuple[tuple[str, str], ...]
    loss: str
    mistakes: str
    mistakes_intro: str


def said(metrics: Told) -> Said:
    """The first lines for these scores."""
    texts = ("Texts scored", f"{metrics.texts:,}")
    strip: tuple[tuple[str, str], ...]
    surest = ("Most confident mistakes", "The wrong answers the model was surest of.")
    match metrics:
        case LanguageScores():
            strip = (
                ("Perplexity", f"{metrics.perplexity:,.2f}"),
                texts,
                ("Tokens scored", f"{metrics.tokens:,}"),
                (NATS_OF_TOKEN, decimal(metrics.loss)),
            )
            bits = decimal(metrics.bits_per_byte)
            return Said(bits, "bits per byte", None, strip, NATS_OF_TOKEN, "", "")
        case TranslationLoss():
            strip = (
                ("chrF", "–" if metrics.chrf is None else f"{metrics.chrf:.1f}"),
                ("Perplexity of a token", f"{metrics.perplexity:,.2f}"),
                ("Pairs scored", f"{metrics.texts:,}"),
                (NATS_OF_TOKEN, decimal(metrics.loss)),
            )
            bleu = "–" if metrics.bleu is None else f"{metrics.bleu:.1f}"
            return Said(bleu, "BLEU", None, strip, NATS_OF_TOKEN, "", "")
        case AnswerMetrics():
            without = "–" if metrics.no_answer_exact is None else f"{metrics.no_answer_exact:.1f}"
            strip = (
                ("Exact match", f"{metrics.exact_match:.1f}"),
                ("Questions scored", f"{metrics.texts:,}"),
                ("Without an answer, right", without),
                (NATS_OF_WINDOW, decimal(metrics.loss)),
            )
            return Said(f"{metrics.f1:.1f}", "F1 over words", None, strip, NATS_OF_WINDOW, "", "")
        case TagMetrics():
            strip = (
                ("Precision", percent(metrics.precision)),
                ("Recall", percent(metrics.recall)),
                ("Macro F1 over types", percent(metrics.macro_f1)),
                ("Words right", percent(metrics.accuracy)),
                ("Entities there", f"{metrics.entities:,}"),
                (NATS_OF_WORD, decimal(metrics.loss)),
            )
            what = "F1 of entities (type, first and last word right)"
            return Said(percent(metrics.f1), what, None, strip, NATS_OF_WORD, *ENTITIES)
        case RetrievalScores():
            strip = (
                ("Recall@1", percent(metrics.recall_at_1)),
                ("Recall@10", percent(metrics.recall_at_10)),
                ("nDCG@10", decimal(metrics.ndcg_at_10)),
                ("Candidates", f"{metrics.candidates:,}"),
                (NATS_OF_PAIR, decimal(metrics.loss)),
            )
            return Said(decimal(metrics.mrr_at_10), "MRR@10", None, strip, NATS_OF_PAIR, "", "")
        case SimilarityScores():
            strip = (
                ("Pearson correlation", decimal(metrics.pearson)),
                ("Pairs scored", f"{metrics.texts:,}"),
                (SQUARES_OF_PAIR, decimal(metrics.loss)),
            )
            said = decimal(metrics.spearman)
            return Said(said, "Spearman correlation", None, strip, SQUARES_OF_PAIR, "", "")
        case FillScores():
            strip = (
                ("Perplexity", f"{metrics.perplexity:,.2f}"),
                texts,
                ("Hidden tokens", f"{metrics.masked:,}"),
                (NATS_OF_HIDDEN, decimal(metrics.loss)),
            )
            right, reach = percent(metrics.accuracy), interval(metrics.accuracy, metrics.masked)
            return Said(right, "hidden tokens right", reach, strip, NATS_OF_HIDDEN, "", "")
        case Metrics():
            strip = (
                ("Macro F1", percent(metrics.macro_f1)),
                texts,
                ("Matthews correlation", decimal(metrics.matthews_correlation)),
                ("AUROC", decimal(metrics.auroc)),
                (NATS, decimal(metrics.loss)),
            )
            reach = interval(metrics.accuracy, metrics.texts)
            return Said(percent(metrics.accuracy), "accuracy", reach, strip, NATS, *surest)
        case SeveralMetrics():
            strip = (
                ("Micro F1", percent(metrics.micro_f1)),
                ("Macro F1", percent(metrics.macro_f1)),
                texts,
                ("AUROC", decimal(metrics.auroc)),
                (NATS_OF_LABEL, decimal(metrics.loss)),
            )
            reach = interval(metrics.accuracy, metrics.texts)
            what = "accuracy (all labels of a text right)"
            return Said(percent(metrics.accuracy), what, reach, strip, NATS_OF_LABEL, *surest)
        case NumberMetrics():
            strip = (
                (SQUARES, decimal(metrics.mse)),
                texts,
                ("Pearson correlation", decimal(metrics.pearson)),
                ("Spearman correlation", decimal(metrics.spearman)),
                ("R²", decimal(metrics.r2)),
            )
            furthest = ("Largest errors", "The texts whose number the model missed by most.")
            return Said(decimal(metrics.mae), "mean absolute error", None, strip, SQUARES, *furthest)


def versus(metrics: Told, baseline: Scores) -> tuple[str, str]:
    """How the first score stands to the baseline's, and what that is."""
    if isinstance(metrics, NumberMetrics) or isinstance(baseline, NumberMetrics):
        ours, theirs = getattr(metrics, "mae", nan), getattr(baseline, "mae", nan)
        size = decimal(abs(ours - theirs))
        return f"{size} {'worse' if ours > theirs else 'better'} than", decimal(theirs)  # an error
    # Of the others there is no baseline.
    others = LanguageScores | FillScores | TranslationLoss | AnswerMetrics | TagMetrics | PairScores
    assert not isinstance(metrics, others)
    return against(metrics.accuracy - baseline.accuracy), percent(baseline.accuracy)


SHARES = (("Accuracy", "accuracy"), ("Micro F1", "micro_f1"), ("Macro F1", "macro_f1"))
NUMBERS = (
    ("Matthews correlation", "matthews_correlation"),
    ("AUROC", "auroc"),
    ("Mean absolute error (lower is better)", "mae"),
    ("Pearson correlation", "pearson"),
    ("Spearman correlation", "spearman"),
    ("R²", "r2"),
    ("Loss (lower is better)", "loss"),
)


def compared(metrics: Told, baseline: Scores) -> list[tuple[str, str, str, str]]:
    """Name, the model's number, the baseline's, and the difference; of each score that they have."""
    found = []
    for names, shown, points in ((SHARES, percent, True), (NUMBERS, decimal, False)):
        for name, field in names:
            if hasattr(metrics, field):
                ours, theirs = getattr(metrics, field), getattr(baseline, field)
                row = (shown(ours), shown(theirs), signed(difference(ours, theirs), points=points))
                found.append((name, *row))
    return found


def difference(ours: float | None, theirs: float | None) -> float:
    """NaN where one of the two is undefined."""
    return nan if ours is None or theirs is None else ours - theirs
