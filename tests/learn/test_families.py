"""Every published family can be trained: gradients as the published code's, and a run from start to end."""

import pytest
import torch
from torch.nn.functional import cross_entropy

import clearhead as ch
from clearhead.check.finding import Verdict
from clearhead.checkpoint.folder import read_folder
from clearhead.errors import SettingError
from clearhead.learn.start import pooled
from clearhead.model.config import Head, Pooling
from clearhead.model.layout import pack
from families import NAMES, kinds, published, texts, tiny_folder, write_tokenizer
from float64 import in_float64

LABELS = ("bad", "good")


@pytest.mark.shows("gradients")
@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_the_published_code(tmp_path, name):
    ids = texts()
    targets = torch.arange(len(ids)) % 2
    with in_float64(*kinds(name)):
        model = published(name, LABELS, wide=True)
        model.save_pretrained(tmp_path)
        write_tokenizer(tmp_path, name)
        loaded = read_folder(tmp_path)
        model.double()
        right = torch.stack([model(input_ids=torch.tensor([row])).logits[0] for row in ids])
        cross_entropy(right, targets).backward()
    network = loaded.network.double()
    cross_entropy(network.classify(pack(ids)), targets).backward()
    ours = {name: parameter.grad for name, parameter in network.named_parameters()}
    given = loaded.family.to_published(ours, prefixed=True, config=loaded.network.config, head=None)
    theirs = {name: parameter.grad for name, parameter in model.named_parameters() if name in given}
    assert theirs.keys() == given.keys()
    for tensor, gradient in given.items():
        torch.testing.assert_close(gradient, theirs[tensor], atol=1e-10, rtol=1e-9, msg=tensor)


@pytest.mark.shows("train")
@pytest.mark.parametrize("name", NAMES)
def test_a_family_is_trained_and_comes_back(tmp_path, name, reviews):
    base = tiny_folder(tmp_path / "base", name)
    out = tmp_path / "run"
    run = ch.train("classify", data=reviews, base=base, out=out, max_steps=2, batch_tokens=64, seed=1)
    assert [progress.step.number for progress in run] == [1, 2]
    model = ch.load(out)
    assert model.loaded.family.model_type == ch.load(base).loaded.family.model_type
    assert set(model.predict(["good bread", "cold soup"])[0].scores) == set(LABELS)


@pytest.mark.shows("train")
@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_trained_with_any_pooling_keeps_its_promises(tmp_path, name, reviews, pooling):
    base = tiny_folder(tmp_path / "base", name, num_hidden_layers=1)
    out = tmp_path / "run"
    list(ch.train("classify", data=reviews, base=base, out=out, max_steps=1, pooling=pooling, freeze=True))
    model = ch.load(out)
    assert [finding.law for finding in ch.verify(model) if finding.verdict is Verdict.FAIL] == []
    assert model.loaded.network.head_facts.dense == (pooling == "cls")


def test_what_pools_all_tokens_has_neither_dense_layer_nor_what_belongs_to_it():
    whole = Head(2, dense_norm=True, drop_first=True, dropout=0.3)
    assert pooled(whole, Pooling.CLS) == whole
    assert pooled(whole, Pooling.MEAN) == Head(2, Pooling.MEAN, dense=False, dropout=0.3)
    with pytest.raises(SettingError, match="dense_norm of a head is the norm of its dense layer; dense=True"):
        Head(2, dense=False, dense_norm=True)
