"""Checkpointing keeps every bit and less memory; averages are their formula; bfloat16 is in products only."""

import json

import pytest
import torch
from safetensors.torch import load_file

import clearhead as ch
from clearhead.engine.dropout import Dropout
from clearhead.engine.modes import own_modes
from clearhead.errors import ClearheadError, Interrupted
from clearhead.learn.language import LanguageRun
from clearhead.learn.run import Run
from clearhead.learn.translate import TranslateRun
from clearhead.settings import Language, Training, Translating
from decoders import tiny_folder
from tiny import tiny_bert
from translators import NAMES as TRANSLATORS
from translators import tiny_folder as tiny_translator

SMALL = {"layers": 3, "width": 16, "heads": 2, "context": 12, "vocab": 300, "batch_tokens": 60}


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("".join(f"line {n}: the soup was {'good' if n % 2 else 'cold'}.\n" for n in range(40)))
    return path


def run_of(texts, out, **changes):
    return LanguageRun(Language(data=[str(texts)], out=str(out), **(SMALL | changes)))


def kinds_of_run(tmp_path, texts, reviews):
    """Runs of each kind of block, one with an adapter, one that classifies, those that translate."""
    for architecture in ("gpt2", "llama", "qwen3", "gpt_neox"):
        yield run_of(texts, tmp_path / architecture, architecture=architecture, dropout=0.2)
    base = str(tiny_folder(tmp_path / "base", "llama"))
    yield LanguageRun(
        Language(data=[str(texts)], out=str(tmp_path / "lora"), base=base, lora=2, lora_dropout=0.3)
    )
    bert = str(tiny_bert(tmp_path / "bert"))
    yield Run(Training(data=str(reviews), out=str(tmp_path / "classify"), base=bert, dropout=0.2))
    for name in TRANSLATORS:  # T5's blocks share what is cut out of the biases of distances
        base = str(tiny_translator(tmp_path / f"base-{name}", name, decoder_start_token_id=1))
        out = str(tmp_path / f"translate-{name}")
        yield TranslateRun(Translating(data=[str(texts)] * 2, out=out, base=base, dropout=0.2))


def gradients(run, *, checkpointing):
    """The gradients of one batch, the state of dropout after it, and the bytes kept for the gradient."""
    network, kept = run.model.loaded.network, 0
    for stack in filter(None, (network.encoder, network.decoder)):
        stack.checkpointing = checkpointing
    drop = Dropout(torch.Generator().manual_seed(5), run.settings.dropout)

    def keep(tensor):
        nonlocal kept
        kept += tensor.numel() * tensor.element_size()
        return tensor

    with own_modes(learning=True):
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = run.objective.loss(network, list(range(min(4, len(run.objective.lengths)))), drop=drop)
        loss.backward()
    found = {n: p.grad.clone() for n, p in network.named_parameters() if p.grad is not None}
    network.zero_grad()
    return float(loss.detach()), found, drop.generator.get_state(), kept


def test_checkpointing_keeps_every_bit_of_the_gradient_and_less_in_memory(tmp_path, texts, reviews):
    for run in kinds_of_run(tmp_path, texts, reviews):
        loss, right, state, whole = gradients(run, checkpointing=False)
        again, found, after, kept = gradients(run, checkpointing=True)
        assert again == loss and torch.equal(state, after)
        assert found.keys() == right.keys()
        assert all(torch.equal(found[name], right[name]) for name in right), run.out
        assert kept < 0.7 * whole, (run.out, kept, whole)


def test_a_run_with_checkpointing_is_the_run_without(tmp_path, texts):
    for name, checkpointing in (("a", False), ("b", True)):
        for _ in run_of(texts, tmp_path / name, checkpointing=checkpointing, dropout=0.2, max_steps=4):
            pass
    a, b = (load_file(tmp_path / name / "model.safetensors") for name in "ab")
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_the_average_is_its_formula_and_is_what_is_evaluated_and_saved(tmp_path, texts):
    run = run_of(texts, tmp_path / "run", ema=0.4, max_steps=6, learning_rate=1e-2)
    network = run.model.loaded.network
    right = {name: weight.detach().double() for name, weight in network.named_parameters()}
    for progress in run:
        share = min(0.4, (1 + progress.step.number) / (10 + progress.step.number))
        for name, weight in network.named_parameters():
            right[name] = share * right[name] + (1 - share) * weight.detach().double()
    saved = ch.load(tmp_path / "run")
    for name, weight in saved.loaded.network.named_parameters():
        torch.testing.assert_close(weight.double(), right[name], atol=1e-6, rtol=1e-5)
        assert not torch.equal(weight, network.get_parameter(name))
    with run.trainer.averaged():
        assert run.evaluation().loss == progress.metrics.loss
    assert run.evaluation().loss != progress.metrics.loss


def test_a_run_with_averages_goes_on_to_the_same_bits(tmp_path, texts):
    changes = {
        "ema": 0.9,
        "dropout": 0.1,
        "save_steps": 2,
        "eval_steps": 3,
        "checkpointing": True,
        "epochs": 2,
    }
    for _ in run_of(texts, tmp_path / "whole", **changes):
        pass
    with pytest.raises(Interrupted):  # noqa: PT012
        for progress in (run := run_of(texts, tmp_path / "cut", **changes)):
            if progress.step.number == 5:
                run.stop()
    for _ in run_of(texts, tmp_path / "cut", resume=True, **changes):
        pass
    assert len({(tmp_path / n / "model.safetensors").read_bytes() for n in ("whole", "cut")}) == 1
    states = [next((tmp_path / name).glob("state-*/state.json")).read_text() for name in ("whole", "cut")]
    assert len({json.loads(state)["standing"]["tensors"] for state in states}) == 1


def test_products_in_bfloat16_leave_the_weights_as_exact_as_they_are(tmp_path, texts):
    exact, rounded = (
        run_of(texts, tmp_path / str(kind), autocast=kind, architecture="gpt2", dropout=0.0)
        for kind in (None, "bfloat16")
    )
    members = list(range(4))
    with own_modes(learning=True):
        losses = [
            run.objective.loss(run.model.loaded.network, members, drop=None) for run in (exact, rounded)
        ]
        for loss in losses:
            loss.backward()
    assert float(losses[0].detach()) != float(losses[1].detach())
    assert float(losses[1].detach()) == pytest.approx(float(losses[0].detach()), rel=1e-2)
    for one, two in zip(*(run.model.loaded.network.parameters() for run in (exact, rounded)), strict=True):
        assert two.dtype == torch.float32 and two.grad.dtype == torch.float32
        assert torch.nn.functional.cosine_similarity(one.grad.flatten(), two.grad.flatten(), dim=0) > 0.99
    assert exact.evaluation().loss == rounded.evaluation().loss  # what is asked is not rounded
    for _ in rounded:
        pass
    assert ch.load(tmp_path / "bfloat16").loaded.network.embedding.tokens.weight.dtype == torch.float32


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ema": 1.0}, "--ema 1.0 must be at least 0 and below 1"),
        ({"autocast": "float16"}, "'float16' is not"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, texts, changes, said):
    with pytest.raises(ClearheadError, match=said):
        run_of(texts, tmp_path / "run", **changes)


def test_a_loss_that_is_no_number_names_its_step_and_batch(tmp_path, texts):
    run = run_of(texts, tmp_path / "run", accumulate=3, epochs=2, eval_steps=1)

    def spoiled():
        for progress in run:
            if progress.step.number == 2:
                with torch.no_grad():
                    run.model.loaded.network.embedding.tokens.weight.fill_(float("nan"))

    said = r"at step 3, batch 1 of \d+ \(loss nan\).*the best model so far, of step 2, is kept"
    with pytest.raises(ClearheadError, match=said):
        spoiled()
