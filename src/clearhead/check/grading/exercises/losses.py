"""What is learned from: cross-entropy, and the loss of the next token."""

from typing import Any

import numpy as np

from clearhead import reference
from clearhead.check.grading.exercise import Arguments, Exercise, Law, Random, Wrong, draw, table
from clearhead.check.grading.numbers import single
from clearhead.reference.decoding import log_softmax

IGNORED = -100


def entropy(logits: Any, labels: Any, *more: float) -> float:
    """The reference: the mean over labels that count."""
    labels = np.asarray(labels)
    counted = labels != IGNORED
    losses = reference.smoothed_cross_entropy(
        np.asarray(logits)[counted], labels[counted], smoothing=more[0] if more else 0.0
    )
    return float(losses.mean())


def entropy_twin(arguments: Arguments, wrong: Wrong) -> float:
    logits, labels = np.asarray(arguments[0], dtype=float), np.asarray(arguments[1])
    smoothing = arguments[2] if len(arguments) > 2 and "not-smoothed" not in wrong else 0.0
    said = log_softmax(logits)
    if "no-softmax" in wrong:
        said = logits
    if "probabilities" in wrong:
        said = np.exp(said)
    if "base-two" in wrong:
        said = said / np.log(2.0)
    vocab = logits.shape[1]
    counted = labels != IGNORED
    if "ignored-count-as-0" in wrong:
        counted = np.ones_like(counted)
        labels = np.maximum(labels, 0)
    right = said[np.arange(len(labels)), np.where(labels < 0, 0, labels)]
    alone = "smoothed-over-the-others" in wrong
    others = (said.sum(1) - right) / (vocab - 1) if alone else said.mean(1)
    losses = -np.where(counted, (1.0 - smoothing) * right + smoothing * others, 0.0)
    if "summed" in wrong:
        return float(losses.sum())
    if "sign" in wrong:
        losses = -losses
    return float(losses.sum() / (len(losses) if "divided-by-all" in wrong else counted.sum()))


def entropy_inputs(random: Random, size: int) -> Arguments:
    tokens, vocab = [(1, 2), (2, 2), (2, 2), (3, 3), (2, 4), (3, 4), (4, 3), (5, 4), (6, 7)][size]
    labels = random.integers(0, vocab, size=tokens)
    if tokens > 1 and size % 2 == 0:
        labels[random.integers(tokens)] = IGNORED
    given: Arguments = (draw(random, size, shape=(tokens, vocab)), labels)
    return given if random.integers(2) else (*given, 0.1)


CROSS_ENTROPY = Exercise(
    name="cross_entropy",
    accepts=("cross_entropy", "smoothed_cross_entropy"),
    parameters=("logits", "labels", "smoothing"),
    optional=1,
    contract=(
        "logits [tokens, vocab], labels [tokens], ids or −100 for a token that does not count; "
        "smoothing is 0 unless "
        "given. The result is one number: the mean over the labels that count, in nats."
    ),
    equation=(
        "mean over labels of −Σ_w q_w log softmax[logits]_w, q = (1 − ε) at the label + ε / vocab everywhere"
    ),
    source="Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4",
    right=entropy,
    twin=entropy_twin,
    inputs=entropy_inputs,
    mistakes=table(
        (
            "ignored-count-as-0",
            "ignored",
            "A label of −100 counts as the token 0.",
            "It counts as nothing, neither in the sum nor in the number.",
        ),
        (
            "divided-by-all",
            "mean",
            "The sum is divided by the number of all tokens.",
            "It is divided by how many labels count.",
        ),
        ("summed", "mean", "The sum is returned.", "The mean is."),
        ("no-softmax", "said", "The logits themselves are taken for logarithms.", "log softmax of them is."),
        ("probabilities", "said", "Minus the probability is taken.", "Minus its logarithm is."),
        ("base-two", "said", "The logarithm has base 2: bits.", "It has base e: nats."),
        ("sign", "mean", "The sign is missing.", "A loss is minus the logarithm: it is never negative."),
        (
            "not-smoothed",
            "smoothing",
            "The smoothing that is given is not used.",
            "q = (1 − ε) at the label + ε / vocab everywhere.",
        ),
        (
            "smoothed-over-the-others",
            "smoothing",
            "ε is shared among the wrong tokens alone.",
            "It is shared among all tokens, the right one too: ε / vocab each.",
        ),
    ),
    laws=(
        Law("it is not negative", lambda _, first, __: float(first) >= -1e-6),
        Law(
            "adding a number to all logits changes nothing",
            lambda _, first, second: abs(float(first) - float(second)) < 1e-3,
            other=lambda arguments: (arguments[0] + 1.0, *arguments[1:]),
        ),
    ),
    form=single,
    starter="""\
def cross_entropy(logits, labels, smoothing=0.0):
    # Replace this line
    return 0.0
""",
)


# ---- the next token ----------------------------------------------------------------------------------------


def next_twin(arguments: Arguments, wrong: Wrong) -> float:
    logits, ids = np.asarray(arguments[0], dtype=float), np.asarray(arguments[1])
    if "not-shifted" in wrong:
        said, right = logits, ids
    elif "shifted-back" in wrong:
        said, right = logits[1:], ids[:-1]
    elif "shifted-twice" in wrong:
        said, right = logits[:-2], ids[2:]
    elif "wrapped-around" in wrong:
        said, right = logits, np.roll(ids, -1)
    else:
        said, right = logits[:-1], ids[1:]
    if not len(right):
        return float("nan")
    loss = float(reference.smoothed_cross_entropy(said, right).mean())
    if "perplexity" in wrong:
        return float(np.exp(loss))
    return (
        loss
        * len(right)
        / (len(ids) if "divided-by-all" in wrong else 1 if "summed" in wrong else len(right))
    )


def next_inputs(random: Random, size: int) -> Arguments:
    tokens, vocab = [(2, 2), (3, 2), (3, 3), (3, 4), (4, 3), (4, 4), (5, 3), (6, 5), (7, 4)][size]
    return draw(random, size, shape=(tokens, vocab)), random.integers(0, vocab, size=tokens)


NEXT_TOKEN = Exercise(
    name="next_token_loss",
    accepts=("next_token_loss", "language_model_loss"),
    parameters=("logits", "ids"),
    contract=(
        "logits [tokens, vocab], where row t says what follows token t; ids [tokens]. The result is the mean "
        "cross-entropy of the tokens that follow: ids 1 to the last."
    ),
    equation="mean over t of −log softmax[logits_t] at ids_{t+1}",
    source="Prince, Understanding Deep Learning, equation 12.15; Radford et al. 2018, equation 1",
    right=lambda logits, ids: float(
        reference.smoothed_cross_entropy(np.asarray(logits)[:-1], np.asarray(ids)[1:]).mean()
    ),
    twin=next_twin,
    inputs=next_inputs,
    mistakes=table(
        (
            "not-shifted",
            "shift",
            "Row t is held against token t, which it has seen.",
            "It is held against token t + 1.",
        ),
        ("shifted-back", "shift", "Row t is held against token t − 1.", "It is held against token t + 1."),
        ("shifted-twice", "shift", "Row t is held against token t + 2.", "It is held against token t + 1."),
        (
            "wrapped-around",
            "shift",
            "The last row is held against the first token.",
            "Nothing follows the last token: its row does not count.",
        ),
        (
            "divided-by-all",
            "mean",
            "The sum is divided by the number of all tokens.",
            "There is one token less to say than there are.",
        ),
        ("summed", "mean", "The sum is returned.", "The mean is."),
        ("perplexity", "mean", "The perplexity is returned, exp of the loss.", "The loss itself is."),
    ),
    laws=(
        Law(
            "the last row changes nothing",
            lambda _, first, second: abs(float(first) - float(second)) < 1e-4,
            other=lambda given: (
                np.concatenate([given[0][:-1], -2.0 * given[0][-1:] + np.arange(given[0].shape[1])]),
                given[1],
            ),
        ),
    ),
    form=single,
    starter="""\
def next_token_loss(logits, ids):
    # Replace this line
    return 0.0
""",
)


EXERCISES = (CROSS_ENTROPY, NEXT_TOKEN)
