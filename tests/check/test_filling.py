"""verify of models that fill masks: whole models pass, planted faults are seen."""

from dataclasses import replace

import pytest
import torch

import clearhead as ch
from clearhead.check.finding import Verdict
from clearhead.infer import masked as asking
from families import NAMES, filler, write_tokenizer

EQUATIONS = "the model equals the equations in NumPy, read from the folder on their own (float64)"
SAID = "what stands behind a mask is what the equations say (float32, within 2e-5)"
COMPANY = "what stands behind a mask keeps every bit in any company"


def folder_of(place, name, **changes):
    place.mkdir(exist_ok=True)
    filler(name, wide=True, **changes).save_pretrained(place)
    write_tokenizer(place, name)
    return place


def failed(model):
    return [finding.law for finding in ch.verify(model) if finding.verdict is Verdict.FAIL]


@pytest.mark.shows("verify")
@pytest.mark.parametrize("fills", [True])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("name", NAMES)
def test_a_model_that_fills_masks_keeps_its_promises(tmp_path, name, fills, tied):
    findings = ch.verify(ch.load(folder_of(tmp_path, name, tie_word_embeddings=tied)))
    assert [finding.law for finding in findings if finding.verdict is Verdict.FAIL] == []
    assert {SAID, COMPANY} <= {finding.law for finding in findings}


def test_our_own_folder_says_it_too(tmp_path):
    model = ch.load(folder_of(tmp_path / "theirs", "electra"))
    from clearhead.checkpoint.families import FAMILIES
    from clearhead.infer.model import Model

    own = Model(replace(model.loaded, family=FAMILIES["clearhead"]))
    own.save(tmp_path / "ours")
    again = ch.load(tmp_path / "ours")
    assert again.loaded.family.model_type == "clearhead" and again.config == model.config
    assert again.fill(["a [MASK] ."]) == model.fill(["a [MASK] ."])
    assert failed(again) == []


@pytest.fixture
def model(tmp_path):
    return ch.load(folder_of(tmp_path / "bert", "bert"))


def test_a_bias_that_is_lost_is_seen(model):
    with torch.no_grad():
        model.loaded.network.fill.bias.zero_()
    assert {EQUATIONS, SAID} <= set(failed(model))


def test_places_that_are_shifted_are_seen(model, monkeypatch):
    plain = asking.with_masks

    def shifted(*given, **more):
        found = plain(*given, **more)
        return replace(found, ids=(*found.ids[1:], found.ids[0]))

    monkeypatch.setattr(asking, "with_masks", shifted)
    assert SAID in failed(model)


def test_a_fingerprint_holds_what_it_says(model, tmp_path):
    import json

    model.save(tmp_path / "saved")
    path = tmp_path / "saved" / "fingerprint.json"
    said = json.loads(path.read_text())
    said["answers"][0][0] += 1
    path.write_text(json.dumps(said))
    with pytest.raises(ch.ClearheadError, match="the answers to the sample differ"):
        ch.load(tmp_path / "saved")


def test_info_counts_what_there_is(tmp_path):
    from clearhead.checkpoint.sizes import sizes

    for name in NAMES:
        for tied in (True, False):
            loaded = ch.load(folder_of(tmp_path / f"{name} {tied}", name, tie_word_embeddings=tied)).loaded
            counted = sum(parameter.numel() for parameter in loaded.network.parameters())
            assert sizes(loaded.network.config, loaded.network.head_facts).parameters == counted
