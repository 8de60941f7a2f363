"""A report of an invented run: plausible numbers, nothing random."""

from dataclasses import replace
from math import exp, sin

import numpy as np
import pytest

from clearhead.explain.mistakes import Mistake
from clearhead.explain.report import Answer, Report
from clearhead.tasks.scores import measure

SENTIMENT = ("negative", "positive")
TEXTS = (
    "Well, that was certainly a film. I have rarely been so glad to see the lights come on again.",
    "Not bad at all, though I could not say that I was sorry when it ended after ninety minutes.",
    "The staff apologised for the cold soup, the loud music and the wrong bill, and were lovely about it.",
)


def metrics_of(confusion, labels, *, sure=3.0):
    """Metrics of answers that fill this confusion matrix."""
    cells = [(right, guess, texts) for right, row in enumerate(confusion) for guess, texts in enumerate(row)]
    targets = np.repeat([cell[0] for cell in cells], [cell[2] for cell in cells])
    guesses = np.repeat([cell[1] for cell in cells], [cell[2] for cell in cells])
    logits = np.zeros((len(targets), len(labels)))
    logits[np.arange(len(targets)), guesses] = sure
    logits += 0.3 * np.sin(np.arange(logits.size)).reshape(logits.shape)
    return measure(logits, targets, labels=labels)


def run_log(steps=240, epochs=3, peak=1e-4):
    """Lines as a run of `learn.run` writes them."""
    lines = []
    for step in range(1, steps + 1):
        noise = sin(step * 12.9898) * 43758.5453 % 1 - 0.5
        loss = 0.12 + 0.58 * exp(-3 * step / steps) + 0.22 * noise * (0.3 + exp(-2 * step / steps))
        rate = peak * min(10 * step / steps, (steps - step) / (0.9 * steps))
        line = {"step": step, "epoch": 1 + (step - 1) * epochs // steps, "loss": loss, "learning_rate": rate}
        line |= {"grad_norm": 1.2, "tokens": 1016, "texts": 31, "seconds": 0.4 * step}
        if step % max(1, steps // epochs) == 0:
            part = step / steps
            line |= {
                "eval_loss": 0.42 - 0.3 * part + 0.18 * part**2,
                "eval_accuracy": 0.81 + 0.103 * part**0.5,
            }
            line |= {"eval_macro_f1": 0.8, "eval_matthews_correlation": 0.6, "eval_auroc": None}
        lines.append(line)
    return lines


@pytest.fixture
def report():
    """Makes a report; what is given takes the place of what is invented."""
    plain = Report(
        title="reviews",
        subtitle="Text classification, trained on reviews.csv",
        metrics=metrics_of([[452, 38], [49, 461]], SENTIMENT),
        metrics_of="1,000 held-out reviews",
        baseline=metrics_of([[401, 89], [94, 416]], SENTIMENT, sure=1.2),
        baseline_name="TF-IDF + logistic regression",
        log=run_log(),
        mistakes=[
            Mistake(
                text=TEXTS[number % 3],
                right=SENTIMENT[number % 2],
                guessed=SENTIMENT[1 - number % 2],
                score=0.99991 - 0.012 * number,
                file="data/reviews.csv",
                row=17 + 211 * number,
            )
            for number in range(6)
        ],
        answers=[
            Answer(text="Great bread, and a view of the harbour.", label="positive", score=0.987),
            Answer(
                text="The lift was broken again, on the hottest day of the year.",
                label="negative",
                score=0.931,
            ),
            Answer(text="It is a film about trains.", label="positive", score=0.542),
        ],
        answers_source="Three invented sentences that are in no file.",
        facts={
            "Model": "MiniLM, 6 layers, width 384",
            "Parameters": "22.7 million",
            "Training texts": "9,000 (297,432 tokens)",
            "Validation texts": "1,000 (33,018 tokens)",
        },
        timing={"Training": "1 min 36 s", "Tokens per second": "2,540", "Evaluation": "4.1 s"},
        machine={
            "Processor": "Intel Core i5-1135G7, 4 threads",
            "Memory": "16 GB",
            "PyTorch": "2.8.0, CPU, float32",
        },
        settings={
            "data": "data/reviews.csv",
            "epochs": 3,
            "learning_rate": 1e-4,
            "max_steps": None,
            "resume": False,
        },
        notes=["14 texts stand there twice, 2 of them with another label; the first of each is used"],
        next_steps=[
            ("Ask the model about texts of your own", "clearhead predict runs/reviews --text 'great bread'"),
            ("See what it looks at", "clearhead explain runs/reviews 'great bread' --out bread.html"),
        ],
    )
    return lambda **changes: replace(plain, **changes)


@pytest.fixture
def metrics():
    """Makes metrics from a confusion matrix and labels."""
    return metrics_of


@pytest.fixture
def log():
    """Makes the log of a run."""
    return run_log
