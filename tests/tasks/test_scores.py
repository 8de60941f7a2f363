"""Scores agree with scikit-learn, and have a stated value where a ratio has no cases."""

import json
import math
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

from clearhead.tasks.scores import margins, measure

LABELS = ("a", "b", "c")


def logits_for(guesses, count=2):
    return np.eye(count)[guesses] * 4.0


@given(st.integers(0, 10_000), st.integers(2, 40), st.integers(2, 3))
def test_scores_agree_with_scikit_learn(seed, texts, count):
    random = np.random.default_rng(seed)
    logits, targets = random.normal(size=(texts, count)), random.integers(0, count, texts)
    found = measure(logits, targets, labels=LABELS[:count])
    guesses = logits.argmax(-1)
    numbers = list(range(count))
    assert found.accuracy == pytest.approx(sk.accuracy_score(targets, guesses))
    precision, recall, f1, support = sk.precision_recall_fscore_support(
        targets, guesses, labels=numbers, zero_division=0
    )
    assert [score.precision for score in found.classes] == pytest.approx(precision)
    assert [score.recall for score in found.classes] == pytest.approx(recall)
    assert [score.f1 for score in found.classes] == pytest.approx(f1)
    assert [score.texts for score in found.classes] == list(support)
    assert found.macro_f1 == pytest.approx(f1.mean())
    assert found.matthews_correlation == pytest.approx(sk.matthews_corrcoef(targets, guesses))
    matrix = sk.confusion_matrix(targets, guesses, labels=numbers)
    assert np.array_equal(found.confusion, matrix)
    assert [score.given for score in found.classes] == list(matrix.sum(0))
    pairs = {
        (LABELS[r], LABELS[g]): matrix[r, g] for r in numbers for g in numbers if r != g and matrix[r, g]
    }
    assert {(one.label, one.taken_for): one.texts for one in found.confused} == pairs
    assert [one.texts for one in found.confused] == sorted(pairs.values(), reverse=True)
    probabilities = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    assert found.loss == pytest.approx(sk.log_loss(targets, probabilities, labels=numbers))
    if len(set(targets)) == count:
        areas = [sk.roc_auc_score(targets == number, probabilities[:, number]) for number in numbers]
        assert found.auroc == pytest.approx(np.mean(areas))
    else:
        assert found.auroc is None


@pytest.mark.parametrize("right", [True, False])
def test_one_class_only_is_scored_and_undefined_is_said(right):
    """Public report A32: four rows of label 1, all predicted right, then all wrong."""
    targets = np.ones(4, dtype=np.int64)
    found = measure(logits_for([1 if right else 0] * 4), targets, labels=("no", "yes"))
    assert found.confusion == (((0, 0), (0, 4)) if right else ((0, 0), (4, 0)))
    assert found.accuracy == (1.0 if right else 0.0)
    assert found.matthews_correlation == 0
    assert found.auroc is None
    assert "NaN" not in json.dumps(asdict(found))


def test_equal_scores_count_half():
    logits = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 2.0], [0.0, 0.0]])
    found = measure(logits, np.array([0, 1, 1, 0]), labels=("no", "yes"))
    assert found.auroc == 3.5 / 4


def test_a_loss_stays_finite_for_wide_logits():
    found = measure(np.array([[1e4, -1e4], [-1e4, 1e4]]), np.array([0, 0]), labels=("no", "yes"))
    assert math.isfinite(found.loss)


def test_scores_that_saturate_keep_their_order():
    logits = np.array([[60.0, -60.0], [50.0, -50.0], [45.0, -45.0], [-45.0, 45.0]])
    assert measure(logits, np.array([0, 0, 1, 1]), labels=("no", "yes")).auroc == 1.0


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(2, 6), st.sampled_from([0.1, 1.0, 30.0, 1e3]))
def test_log_odds_are_those_of_a_label_against_all_others(seed, texts, count, spread):
    random = np.random.default_rng(seed)
    logits = random.normal(size=(texts, count)) * spread
    logits[0] = logits[0, 0]  # all alike
    found = margins(logits)
    for number in range(count):
        others = np.delete(logits, number, axis=1)
        expected = logits[:, number] - np.logaddexp.reduce(others, axis=1)
        np.testing.assert_allclose(found[:, number], expected, rtol=1e-12, atol=1e-12)
    two = margins(logits[:, :2])
    assert np.array_equal(two[:, 0], logits[:, 0] - logits[:, 1]) and np.array_equal(two[:, 1], -two[:, 0])


def test_thousands_of_labels_take_a_pass_over_the_numbers_and_not_one_a_label(monkeypatch):
    random, calls = np.random.default_rng(0), []
    plain = np.exp
    monkeypatch.setattr(np, "exp", lambda x: calls.append(x.size) or plain(x))
    logits, targets = random.normal(size=(300, 2000)), random.integers(0, 2000, 300)
    found = measure(logits, targets, labels=tuple(map(str, range(2000))))
    assert len(found.classes) == 2000 and sum(calls) <= 5 * logits.size


def test_very_many_labels_cost_what_the_texts_do_and_not_their_square():
    labels = tuple(f"label {number}" for number in range(20_000))
    targets = np.array([5, 7, 7, 19_999, 3])
    guesses = np.array([5, 8, 8, 19_998, 3])
    logits = np.zeros((5, len(labels)))
    logits[range(5), guesses] = 9.0
    found = measure(logits, targets, labels=labels)
    assert found.confusion == () and found.accuracy == 0.4
    pairs = [(one.label, one.taken_for, one.texts) for one in found.confused]
    assert pairs == [("label 7", "label 8", 2), ("label 19999", "label 19998", 1)]
    assert found.matthews_correlation == pytest.approx(sk.matthews_corrcoef(targets, guesses))
    assert len(json.dumps(asdict(found))) < 3_000_000
