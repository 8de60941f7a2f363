"""The head alone: the body keeps its bits and gives the vectors it always gave; a run can be resumed."""

import pytest
import torch
from safetensors.torch import load_file

import clearhead as ch
from clearhead.errors import Interrupted, SettingError
from clearhead.learn.run import Run
from clearhead.learn.state import tensors_of
from clearhead.settings import Training


def frozen(data, base, out, **changes):
    options = {"epochs": 3, "batch_tokens": 64, "freeze": True}
    return Run(Training(data=str(data), base=str(base), out=str(out), **(options | changes)))


def test_the_body_keeps_its_bits_and_the_head_learns(body_folder, reviews, tmp_path):
    before = load_file(body_folder / "model.safetensors")
    run = frozen(reviews, body_folder, tmp_path / "run", epochs=10)
    assert run.learning_rate == 1e-3
    assert not any("encoder" in name or "embedding" in name for name in tensors_of(run.trainer))
    losses = [progress.step.loss for progress in run]
    assert sum(losses[-5:]) < sum(losses[:5])
    after = load_file(tmp_path / "run" / "model.safetensors")
    for name, tensor in before.items():
        kept = torch.equal(after[f"bert.{name}"], tensor)
        assert kept != name.startswith("pooler.")  # BERT's pooler lies behind the vectors, in the head
    assert ch.load(tmp_path / "run").predict(["fine"])


@pytest.mark.parametrize("accumulate", [1, 3])
def test_without_dropout_the_losses_are_those_of_the_whole_model(body_folder, reviews, tmp_path, accumulate):
    """The same to the bit: a text's vector does not depend on its neighbours."""
    options = {"dropout": 0.0, "accumulate": accumulate}
    run = frozen(reviews, body_folder, tmp_path / "one", **options)
    whole = frozen(reviews, body_folder, tmp_path / "two", **options)
    whole.objective.freeze = False  # its body stays, but is asked at each step
    ours, theirs = ([step.loss for step in one.trainer.run()] for one in (run, whole))
    assert ours == theirs


@pytest.mark.parametrize("stop", [1, 5])
def test_a_frozen_run_that_was_stopped_ends_with_the_same_bits(body_folder, reviews, tmp_path, stop):
    whole = frozen(reviews, body_folder, tmp_path / "whole", dropout=0.3)
    list(whole)
    part = frozen(reviews, body_folder, tmp_path / "part", dropout=0.3)
    with pytest.raises(Interrupted):  # noqa: PT012
        for progress in part:
            if progress.step.number == stop:
                part.stop()
    resumed = frozen(reviews, body_folder, tmp_path / "part", dropout=0.3, resume=True)
    list(resumed)
    one, two = tensors_of(whole.trainer), tensors_of(resumed.trainer)
    assert one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)
    names = ("whole", "part")
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in names)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_new_body_is_not_frozen(reviews, tmp_path):
    with pytest.raises(SettingError, match="--freeze keeps the body, and a new one knows nothing"):
        frozen(reviews, "new", tmp_path / "run")
