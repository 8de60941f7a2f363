"""What a model has to beat: words counted, weighted by TF-IDF, and a linear model."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, from_numpy

from clearhead.checkpoint.labels import Problem
from clearhead.data.rows import Row
from clearhead.errors import DataError, MissingExtra
from clearhead.tasks.task import Scores, Task

NAME = "TF-IDF of words and word pairs + logistic regression"
NAME_OF_NUMBERS = "TF-IDF of words and word pairs + ridge regression"
MOST = 2**25  # weights, of words times labels: learning them takes some twenty copies, here 5 GB
CERTAIN = 20.0  # the log-odds of a label that all texts of the training have, or none


def baseline_name(task: Task) -> str:
    """What the baseline is."""
    return NAME_OF_NUMBERS if task.problem is Problem.REGRESSION else NAME


def baseline(training: Sequence[Row], held_out: Sequence[Row], *, task: Task) -> Scores:
    """Metrics of the baseline (scikit-learn's defaults, word pairs added) on the held-out rows.

    One logistic regression, of several labels one for each, of numbers a ridge regression. Raises
    `MissingExtra` where scikit-learn is not installed, `DataError` where the texts hold no words to count, or
    words and labels are too many.
    """
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
    except ImportError as error:
        raise MissingExtra("the TF-IDF baseline", "metrics") from error
    words = TfidfVectorizer(ngram_range=(1, 2))
    try:
        seen = words.fit_transform([joined(row) for row in training])
    except ValueError as error:
        raise DataError("the texts hold no words of two letters for the TF-IDF baseline to count") from error
    count, labels = seen.shape[1], len(task.labels)
    if task.problem is Problem.SINGLE and count * labels > MOST:
        raise DataError(
            f"{count:,} words and pairs for each of {labels:,} labels are too many for the TF-IDF baseline"
        )
    asked = words.transform([joined(row) for row in held_out])
    answers = from_numpy(outputs(seen, asked, targets=task.targets(training), task=task))
    scores: Scores = task.metrics(answers, task.targets(held_out))
    return scores


def outputs(seen: Any, asked: Any, *, targets: Tensor, task: Task) -> NDArray[np.float64]:
    """What a model of ours would put out for the texts asked about, from counts of words."""
    from sklearn.linear_model import LogisticRegression, Ridge

    right = targets.numpy()
    found = np.full((asked.shape[0], len(task.labels)), -1e9)
    match task.problem:
        case Problem.SINGLE:
            model = LogisticRegression(max_iter=1000).fit(seen, right)
            found[:, model.classes_] = model.predict_log_proba(asked)
        case Problem.MULTI:
            for number, column in enumerate(right.T):
                found[:, number] = CERTAIN if column[0] else -CERTAIN
                if column.any() and not column.all():
                    model = LogisticRegression(max_iter=1000).fit(seen, column)
                    found[:, number] = model.decision_function(asked)
        case Problem.REGRESSION:
            found[:, 0] = Ridge().fit(seen, right[:, 0]).predict(asked)
    return found


def joined(row: Row) -> str:
    """The text; of a pair both, one after the other."""
    return row.text if row.pair is None else f"{row.text} {row.pair}"
