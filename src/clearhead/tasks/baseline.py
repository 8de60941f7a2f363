"""What a classifier has to beat: words counted, weighted by TF-IDF, and logistic regression."""

from collections.abc import Sequence

import numpy as np

from clearhead.data.rows import Row
from clearhead.errors import MissingExtra
from clearhead.tasks.scores import Metrics, measure

NAME = "TF-IDF of words and word pairs + logistic regression"


def baseline(training: Sequence[Row], held_out: Sequence[Row], *, labels: tuple[str, ...]) -> Metrics:
    """Metrics of the baseline (scikit-learn's defaults, word pairs added) on the held-out rows.

    Raises `MissingExtra` where scikit-learn is not installed.
    """
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
    except ImportError as error:
        raise MissingExtra("the TF-IDF baseline", "metrics") from error
    numbers = {label: number for number, label in enumerate(labels)}
    model = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(max_iter=1000))
    model.fit([joined(row) for row in training], [numbers[str(row.label)] for row in training])
    known = model.predict_log_proba([joined(row) for row in held_out])
    scores = np.full((len(held_out), len(labels)), -1e9)
    scores[:, model.classes_] = known
    return measure(scores, np.array([numbers[str(row.label)] for row in held_out]), labels=labels)


def joined(row: Row) -> str:
    """The text; of a pair both, one after the other."""
    return row.text if row.pair is None else f"{row.text} {row.pair}"
