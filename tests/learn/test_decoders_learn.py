"""Every published decoder can be trained: gradients as the published code's, and a run from start to end."""

import pytest
import torch
from torch.nn.functional import cross_entropy

import clearhead as ch
from clearhead.checkpoint.folder import read_folder
from clearhead.infer.generate import tokens
from clearhead.settings import Generating
from clearhead.tasks.pieces import Pieces
from decoders import NAMES, kinds, published, tiny_folder
from families import VOCAB, write_tokenizer
from float64 import in_float64


def documents():
    """Ids of texts of several lengths."""
    return [[(7 * place + length) % VOCAB for place in range(length)] for length in (9, 2, 30, 17)]


@pytest.mark.shows("gradients")
@pytest.mark.parametrize("speaks", [True])
@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_the_published_code(tmp_path, name, speaks):
    with in_float64(*kinds(name)):
        model = published(name, speaks=speaks, wide=True)
        model.save_pretrained(tmp_path)
        write_tokenizer(tmp_path, name)
        loaded = read_folder(tmp_path)
        model.double()
        total = 0.0
        for row in documents():
            logits = model(input_ids=torch.tensor([row[:-1]])).logits[0]
            total = total + cross_entropy(logits, torch.tensor(row[1:]), reduction="sum")
        total.backward()
    network = loaded.network.double()
    pieces = Pieces.of(documents(), context=64)
    loss = pieces.loss(network, range(4), drop=None)
    loss.backward()
    torch.testing.assert_close(loss.detach(), total.detach(), atol=1e-10, rtol=1e-12)
    ours = {name: parameter.grad for name, parameter in network.named_parameters()}
    given = loaded.family.to_published(ours, prefixed=True, config=loaded.network.config, head=None)
    spelled = {"lm_head.weight": "embed_out.weight"} if name.startswith("gpt_neox") else {}
    named = ((spelled.get(name, name), parameter) for name, parameter in model.named_parameters())
    theirs = {name: parameter.grad for name, parameter in named if name in given}
    assert theirs.keys() == given.keys()
    for tensor, gradient in given.items():
        torch.testing.assert_close(gradient, theirs[tensor], atol=1e-10, rtol=1e-9, msg=tensor)


@pytest.mark.shows("train")
@pytest.mark.parametrize("speaks", [True])
@pytest.mark.parametrize("name", NAMES)
def test_a_family_is_trained_and_comes_back(tmp_path, name, speaks):
    base = tiny_folder(tmp_path / "base", name)
    (tmp_path / "texts.txt").write_text("good bread and cold soup . " * 20)
    out = tmp_path / "run"
    asked = {"data": [str(tmp_path / "texts.txt")], "base": base, "out": out, "context": 16}
    run = ch.train("language", **asked, max_steps=2, batch_tokens=64, seed=1)
    assert [progress.step.number for progress in run] == [1, 2]
    model = ch.load(out)
    assert model.loaded.family.model_type == ch.load(base).loaded.family.model_type
    assert model.config.language_head == speaks
    assert list(tokens(model, [[5, 6]], settings=Generating(max_new_tokens=3)))
