"""Scores of vectors: against plain definitions, and SciPy's."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr

from clearhead.data.couples import Couple
from clearhead.tasks.embed import Belonging, contrastive, cosine_errors, retrieval, similarity


def couples_of(*pairs, scores=None):
    return [
        Couple(*(pair if len(pair) == 3 else (*pair, None)), scores[n] if scores else None, "file", n + 1)
        for n, pair in enumerate(pairs)
    ]


def drawn(couples, *, seed=0, width=5):
    chance = np.random.default_rng(seed)
    texts = dict.fromkeys(text for couple in couples for text in (couple.anchor, couple.positive))
    return {text: chance.normal(size=width) for text in texts}


PAIRS = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.sampled_from("defghijklmnop")), min_size=1, max_size=30
)


@given(PAIRS, st.integers(0, 5))
def test_retrieval_is_what_its_definitions_say(pairs, seed):
    couples = couples_of(*pairs)
    vectors = drawn(couples, seed=seed)
    found = retrieval(couples, vectors, candidates=vectors, scale=20.0)
    candidates = list(dict.fromkeys(other for _, other in pairs))
    right = {one: {other for first, other in pairs if first == one} for one, _ in pairs}
    told = []
    losses = []
    for one, wanted in right.items():
        v = vectors[one]
        cosines = {c: vectors[c] @ v / np.linalg.norm(vectors[c]) / np.linalg.norm(v) for c in candidates}
        if one not in wanted:
            cosines.pop(one, None)
        order = sorted(cosines, key=lambda c: -cosines[c])[:10]
        hits = [c in wanted for c in order]
        gain = sum(hit / np.log2(place + 2) for place, hit in enumerate(hits))
        best = sum(1 / np.log2(place + 2) for place in range(min(10, len(wanted))))
        first = hits.index(True) + 1 if any(hits) else np.inf
        told.append([1 / first, *(sum(hits[:k]) / len(wanted) for k in (1, 5, 10)), gain / best])
        for each in wanted:
            others = [cosines[c] for c in cosines if c not in wanted]
            losses.append(np.log(sum(np.exp(20 * np.array([cosines[each], *others])))) - 20 * cosines[each])
    names = ("mrr_at_10", "recall_at_1", "recall_at_5", "recall_at_10", "ndcg_at_10")
    assert [getattr(found, name) for name in names] == pytest.approx(np.mean(told, axis=0).tolist())
    assert found.loss == pytest.approx(np.mean(losses), abs=1e-9)
    assert (found.texts, found.candidates) == (len(right), len(candidates))


def test_similarity_is_scipys():
    chance = np.random.default_rng(0)
    scores = [float(chance.integers(0, 6)) for _ in range(40)]
    couples = couples_of(*((f"a{n}", f"b{n}") for n in range(40)), scores=scores)
    vectors = drawn(couples)
    found = similarity(couples, vectors, largest=5.0)
    cosines = [
        vectors[c.anchor] @ vectors[c.positive]
        / np.linalg.norm(vectors[c.anchor]) / np.linalg.norm(vectors[c.positive])
        for c in couples
    ]  # fmt: skip
    assert found.pearson == pytest.approx(pearsonr(cosines, scores).statistic)
    assert found.spearman == pytest.approx(spearmanr(cosines, scores).statistic)
    assert found.loss == pytest.approx(np.mean((np.array(cosines) - np.array(scores) / 5) ** 2))


def test_constant_scores_have_no_correlation():
    couples = couples_of(("a", "b"), ("c", "d"), scores=[1.0, 1.0])
    assert similarity(couples, drawn(couples), largest=1.0).spearman is None


@given(PAIRS)
def test_texts_that_belong_together_are_no_negatives(pairs):
    """Public report 3189 of sentence-transformers: duplicates in a batch are false negatives."""
    belonging = Belonging(couples_of(*pairs))
    hidden = belonging.hidden(belonging.anchors, belonging.positives, right=belonging.right)
    for row, (one, own) in enumerate(pairs):
        for column, (other, candidate) in enumerate(pairs):
            related = candidate in (own, one) or one == other or (one, candidate) in pairs
            assert bool(hidden[row, column]) == (related and row != column)
    back = belonging.hidden(belonging.positives, belonging.anchors, right=belonging.asking)
    for row, (own, one) in enumerate(pairs):
        for column, (candidate, other) in enumerate(pairs):
            related = candidate in (own, one) or one == other or (candidate, one) in pairs
            assert bool(back[row, column]) == (related and row != column)


def test_a_duplicate_changes_no_loss_of_the_others():
    chance = torch.Generator().manual_seed(0)
    ones, others = torch.randn(3, 4, generator=chance), torch.randn(3, 4, generator=chance)
    belonging = Belonging(couples_of(("a", "x"), ("b", "y"), ("c", "z")))
    alone = contrastive(ones[:2], others[:2], hidden=torch.zeros(2, 2, dtype=torch.bool), scale=20.0)
    again = Belonging(couples_of(("a", "x"), ("b", "y"), ("a", "x")))
    hidden = again.hidden(again.anchors, again.positives, right=again.right)
    twice = contrastive(ones[[0, 1, 0]], others[[0, 1, 0]], hidden=hidden, scale=20.0)
    first = contrastive(ones[:1], others[:2], hidden=torch.zeros(1, 2, dtype=torch.bool), scale=20.0)
    assert hidden.sum() == 2  # the first is no negative of the third, nor the third of the first
    assert float(twice) > float(alone) and float(first) < float(alone)
    assert not belonging.hidden(belonging.anchors, belonging.positives, right=belonging.right).any()


def test_the_loss_of_cosines_is_their_squared_error():
    ones, others = torch.tensor([[1.0, 0.0], [1.0, 1.0]]), torch.tensor([[0.0, 2.0], [3.0, 3.0]])
    assert float(cosine_errors(ones, others, scores=torch.tensor([0.5, 1.0]))) == pytest.approx(0.25)
