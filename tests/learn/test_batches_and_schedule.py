import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import SettingError
from clearhead.learn.batches import epoch_batches
from clearhead.learn.schedule import Schedule

lengths = st.lists(st.integers(1, 60), min_size=1, max_size=200)


@given(lengths, st.integers(1, 200), st.integers(0, 3))
def test_an_epoch_holds_each_text_once_within_the_budget(lengths, budget, epoch):
    batches = epoch_batches(lengths, budget=budget, seed=0, epoch=epoch)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert batch and (sum(lengths[index] for index in batch) <= budget or len(batch) == 1)


@pytest.mark.parametrize("texts", [400, 3_000, 20_000])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_batches_are_alike_in_size(texts, seed):
    """One of few texts would move the weights as far as a full one."""
    lengths = [round(n) for n in np.random.default_rng(seed).lognormal(3.3, 0.4, texts).clip(4, 200)]
    batches = epoch_batches(lengths, budget=2048, seed=seed, epoch=0)
    sizes = [sum(lengths[index] for index in batch) for batch in batches]
    assert min(sizes) > 0.85 * max(sizes)
    assert len(batches) <= sum(lengths) / 2048 * 1.07 + 1


def test_the_order_follows_from_seed_and_epoch_alone():
    lengths = [1 + number % 17 for number in range(300)]

    def order(seed, epoch):
        return epoch_batches(lengths, budget=64, seed=seed, epoch=epoch)

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1)
    assert order(1, 0) != order(2, 0)


@pytest.mark.parametrize(
    ("steps", "warmup", "rates"),
    [
        (10, 4, [1 / 4, 2 / 4, 3 / 4, 1, 6 / 7, 5 / 7, 4 / 7, 3 / 7, 2 / 7, 1 / 7]),
        (4, 0, [1, 3 / 4, 2 / 4, 1 / 4]),
        (4, 4, [1 / 4, 2 / 4, 3 / 4, 1]),
        (10, 0.4, [1 / 4, 2 / 4, 3 / 4, 1, 6 / 7, 5 / 7, 4 / 7, 3 / 7, 2 / 7, 1 / 7]),
        (1, 0.1, [1]),
    ],
)
def test_the_documented_rate_holds_at_every_update(steps, warmup, rates):
    """Public report A25: the first rate is above zero, the peak is used once."""
    schedule = Schedule.of(1.0, steps, warmup=warmup)
    assert [schedule(step) for step in range(1, steps + 1)] == pytest.approx(rates)
    assert rates.count(1) == 1 and min(rates) > 0


def test_a_warmup_longer_than_the_run_is_refused():
    with pytest.raises(SettingError, match="--warmup 20 is more than the 10 steps of this run"):
        Schedule.of(1.0, 10, warmup=20)


@pytest.mark.parametrize(("decay", "shares"), [
    ("linear", [0.5, 1, 0.75, 0.5, 0.25]),
    ("cosine", [0.5, 1, (1 + 2**-0.5) / 2, 0.5, (1 - 2**-0.5) / 2]),
    ("inverse_sqrt", [0.5, 1, (2 / 3) ** 0.5, 0.5**0.5, 0.4**0.5]),
    ("constant", [0.5, 1, 1, 1, 1]),
])  # fmt: skip
def test_each_decay_is_its_formula(decay, shares):
    schedule = Schedule.of(3.0, 5, warmup=2, decay=decay)
    assert [schedule(step) / 3 for step in range(1, 6)] == pytest.approx(shares)


@pytest.mark.parametrize(("decay", "theirs"), [("linear", "linear"), ("cosine", "cosine")])
def test_the_published_decays_are_ours_one_step_earlier(decay, theirs):
    """`transformers` begins and ends at rate 0, ours never: S + 1 of its steps are S of ours."""
    import torch
    from transformers import get_scheduler

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = get_scheduler(theirs, optimizer, num_warmup_steps=4, num_training_steps=21)
    right = []
    for _ in range(21):
        right.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    ours = Schedule.of(1.0, 20, warmup=4, decay=decay)
    assert [ours(step) for step in range(1, 21)] == pytest.approx(right[1:])
