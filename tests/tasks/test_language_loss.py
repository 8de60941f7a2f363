"""The chunked loss is the published one, with its gradients, and never holds all logits."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from clearhead.tasks import language
from clearhead.tasks.language import IGNORED, LanguageScores, next_token_loss


@settings(deadline=None, max_examples=40)
@given(
    rows=st.integers(1, 30),
    vocab=st.integers(2, 20),
    chunk=st.integers(1, 80),
    seed=st.integers(0, 99),
    biased=st.booleans(),
)
def test_loss_and_gradients_are_those_of_all_logits_at_once(rows, vocab, chunk, seed, biased):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 6, generator=generator, dtype=torch.float64)
    weight = torch.randn(vocab, 6, generator=generator, dtype=torch.float64)
    offset = torch.randn(vocab, generator=generator, dtype=torch.float64) if biased else None
    targets = torch.randint(-1, vocab, (rows,), generator=generator)
    targets[targets < 0] = IGNORED
    found = []
    for whole in (True, False):
        mine, matrix = x.clone().requires_grad_(), weight.clone().requires_grad_()
        bias = offset.clone().requires_grad_() if biased else None
        if whole:
            logits = functional.linear(mine, matrix, bias)
            loss = functional.cross_entropy(logits, targets, ignore_index=IGNORED, reduction="sum")
        else:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(language, "CHUNK", chunk)
                patch.setattr(language, "FEWEST", 1)
                loss = next_token_loss(mine, matrix, targets=targets, bias=bias)
                with torch.no_grad():
                    again = next_token_loss(x, weight, targets=targets, bias=offset)
                assert again.item() == pytest.approx(loss.item())
        (3 * loss).backward()
        found.append((loss.detach(), mine.grad, matrix.grad, *([bias.grad] if biased else [])))
    for right, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, right, atol=1e-10, rtol=1e-10)


def test_large_logits_stay_finite():
    x, weight = torch.full((2, 1), 1e4, requires_grad=True), torch.tensor([[1.0], [-1.0]])
    loss = next_token_loss(x, weight, targets=torch.tensor([0, 1]))
    loss.backward()
    assert float(loss) == pytest.approx(2e4) and x.grad.isfinite().all()


def test_scores_say_the_same_in_three_ways():
    scores = LanguageScores.of(300.0, texts=1, tokens=100, bytes=400)
    assert scores.loss == 3.0
    assert scores.perplexity == pytest.approx(20.0855, abs=1e-3)
    assert scores.bits_per_byte == pytest.approx(300 / 0.6931472 / 400)
    assert scores.summary().keys() == {"eval_loss", "eval_perplexity", "eval_bits_per_byte"}
