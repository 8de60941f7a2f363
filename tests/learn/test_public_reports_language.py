"""Public reports about training, held for language models: the whole kind of each."""

import json

import pytest
import torch

import clearhead as ch
from clearhead.engine.modes import own_modes
from clearhead.learn.language import LanguageRun
from clearhead.learn.trainer import Plan, Trainer
from clearhead.settings import Language
from clearhead.tasks.language import IGNORED, next_token_loss
from clearhead.text.tokenizer import Tokenizer
from decoders import tiny_folder

SMALL = {"layers": 1, "width": 16, "heads": 2, "context": 40, "vocab": 300, "batch_tokens": 40}
TEMPLATE = (
    "{% for m in messages %}{% if m['role'] == 'user' %}{{ '[' + m['content'] + ']' }}"
    "{% else %}{{ m['content'] + eos_token }}{% endif %}{% endfor %}"
)


def texts_of(path, sizes):
    path.write_text("".join(json.dumps({"text": "soup " * size}) + "\n" for size in sizes))
    return str(path)


def gradients(run, batches):
    plan = Plan(epochs=1, batch_tokens=10**6, accumulate=1, max_steps=None, seed=0, dropout=None)
    trainer = Trainer(run.model.loaded.network, run.objective, plan=plan)
    with own_modes(learning=True):
        loss = trainer.gradients(batches, None)
    found = {name: one.grad.clone() for name, one in trainer.network.named_parameters()}
    trainer.network.zero_grad()
    return loss, found


@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral", "gpt_neox"])
def test_a06_the_way_that_shows_its_weights_gives_the_same_answers_and_gradients(tmp_path, name):
    """The textbook's weights and the fused kernel, over texts of many lengths and rows of no text: no row
    without keys can be, and what stands in no text gives zeros and no gradient."""
    from clearhead.check.textbook import explicit
    from clearhead.model.kernels import Context, grouped
    from clearhead.model.layout import pack

    network = ch.load(tiny_folder(tmp_path, name)).loaded.network.double()
    batch = pack([[5, 6, 7], [8], [], [9, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]], multiple=8)
    assert batch.layout.spare
    found = []
    for attend in (grouped, explicit):
        network.zero_grad()
        with own_modes(learning=True):
            stream = network(batch, Context.of(batch.layout, attend=attend))
            targets = torch.full((len(stream),), IGNORED)
            for rows in batch.layout.slices:
                targets[rows.start : max(rows.start, rows.stop - 1)] = batch.ids[rows.start + 1 : rows.stop]
            next_token_loss(stream, network.next_weight, targets=targets).backward()
        found.append([stream.detach(), *(one.grad.clone() for one in network.parameters())])
    for ours, textbook in zip(*found, strict=True):
        assert ours.isfinite().all()
        torch.testing.assert_close(ours, textbook, rtol=1e-10, atol=1e-12)


def test_a21_accumulation_counts_each_token_once(tmp_path):
    data = texts_of(tmp_path / "a.jsonl", [1, 12, 3, 1])
    run = LanguageRun(Language(data=[data], validation=data, out=str(tmp_path / "run"), **SMALL))
    (whole, right), (parts, found) = (gradients(run, batches) for batches in ([[0, 1, 2]], [[0], [1], [2]]))
    assert whole == pytest.approx(parts, rel=1e-6)
    for name, gradient in right.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-5, atol=1e-6 * float(gradient.abs().max()))


@pytest.mark.parametrize("few", [False, True], ids=["most asked", "few asked"])
def test_a22_what_is_not_asked_is_in_no_loss_and_no_gradient(few):
    torch.manual_seed(0)
    x, weight = torch.randn(5, 8), torch.randn(11, 8, requires_grad=True)
    targets = torch.tensor([3, 1, 4, 1, 5])
    more = 20 if few else 3
    wide = torch.cat([x, torch.full((more, 8), 1e30)]).requires_grad_()
    asked = torch.cat([targets, torch.full((more,), IGNORED)])
    loss = next_token_loss(wide, weight, targets=asked)
    loss.backward()
    got = weight.grad.clone()
    weight.grad = None
    right = next_token_loss(x.requires_grad_(), weight, targets=targets)
    right.backward()
    assert loss.item() == pytest.approx(right.item(), rel=1e-6)
    torch.testing.assert_close(got, weight.grad)
    torch.testing.assert_close(wide.grad[:5], x.grad)
    assert not wide.grad[5:].any()


@pytest.mark.parametrize("stop", [3, 5, 7])
def test_a23_a_run_that_goes_on_sees_each_text_as_often(tmp_path, stop):
    data = texts_of(tmp_path / "a.jsonl", range(2, 12))
    made = {"data": [data], "validation": data, "epochs": 3, "save_steps": 1, "eval_steps": 100} | SMALL

    def seen(run, last=None):
        ids = []
        for progress in run:
            ids.append(run.trainer.steps[progress.step.number - 1][2])
            if progress.step.number == last:
                break
        return ids

    right = seen(LanguageRun(Language(out=str(tmp_path / "whole"), **made)))
    first = seen(LanguageRun(Language(out=str(tmp_path / "cut"), **made)), stop)
    rest = seen(LanguageRun(Language(out=str(tmp_path / "cut"), resume=True, **made)))
    assert first + rest == right
    for epoch in range(3):
        members = [n for number, _, batches in LanguageRun(
            Language(out=str(tmp_path / "other"), **made)
        ).trainer.steps if number == epoch for batch in batches for n in batch]  # fmt: skip
        assert len(members) == len(set(members))


def test_a24_the_end_is_learned_also_where_it_is_the_padding_token(tmp_path):
    (tmp_path / "a.txt").write_text("[a?] a good answer. " * 30)
    for _ in ch.train("language", data=[tmp_path / "a.txt"], out=tmp_path / "base", max_steps=1, **SMALL):
        pass
    folder = tmp_path / "base"
    said = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(said | {"pad_token": said["eos_token"]}))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    rows = [
        [{"role": "user", "content": "a?"}, {"role": "assistant", "content": said}]
        for said in ("a b", "a b c d")
    ]
    data = tmp_path / "chats.jsonl"
    data.write_text("".join(json.dumps({"messages": row}) + "\n" for row in rows))
    made = {"base": str(folder), "data": [str(data)], "validation": str(data), "out": str(tmp_path / "run")}
    run = LanguageRun(Language(fingerprint=False, **made))
    tokenizer = Tokenizer.read(folder)
    end = tokenizer.roles["eos_token"]
    assert tokenizer.roles["pad_token"] == end
    learned = run.objective.ids[run.objective.learned].tolist()
    assert learned.count(end) == 2 and learned[-1] == end


def test_a45_a_seed_decides_a_new_adapter_whatever_was_drawn_before(tmp_path):
    base = str(tiny_folder(tmp_path / "base", "llama"))
    data = texts_of(tmp_path / "a.jsonl", range(2, 12))

    def made(seed):
        out = str(tmp_path / "run")
        run = LanguageRun(Language(base=base, data=[data], out=out, lora=2, seed=seed))
        return {name: one for name, one in run.model.loaded.network.state_dict().items() if "downs" in name}

    first = made(1)
    torch.rand(100)
    again, other = made(1), made(2)
    assert first and all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)
