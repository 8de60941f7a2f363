"""verify of models that tag: whole models pass, planted faults are seen."""

from dataclasses import replace

import pytest
import torch

import clearhead as ch
from clearhead.check.finding import Verdict
from clearhead.infer import tag as asking
from families import NAMES, over_tokens, write_tokenizer

TAGS = "predict tags each word as the equations do (float32, within 2e-5)"
SLICES = "words and entities are slices of the text that was given"
COMPANY = "the tags of a text keep every bit in any company"


def folder_of(place, name):
    place.mkdir(exist_ok=True)
    over_tokens(name, "tag", wide=True).save_pretrained(place)
    write_tokenizer(place, name)
    return place


def failed(model):
    return [finding.law for finding in ch.verify(model) if finding.verdict is Verdict.FAIL]


@pytest.mark.shows("verify")
@pytest.mark.parametrize("over", ["tag"])
@pytest.mark.parametrize("name", NAMES)
def test_a_model_that_tags_keeps_its_promises(tmp_path, name, over):
    findings = ch.verify(ch.load(folder_of(tmp_path, name)))
    assert [finding.law for finding in findings if finding.verdict is Verdict.FAIL] == []
    assert {TAGS, SLICES, COMPANY} <= {finding.law for finding in findings}


@pytest.fixture
def model(tmp_path):
    return ch.load(folder_of(tmp_path / "bert", "bert"))


def test_labels_that_are_swapped_are_seen(model):
    swapped = replace(model.loaded, labels=("B-FOOD", "O", "I-FOOD"))
    assert TAGS in failed(replace(model, loaded=swapped))


def test_rows_that_are_shifted_are_seen(model, monkeypatch):
    plain = asking.asked_rows

    def shifted(*given):
        rows, words = plain(*given)
        return rows.roll(1), words

    monkeypatch.setattr(asking, "asked_rows", shifted)
    assert TAGS in failed(model)


def test_offsets_that_are_shifted_are_seen(model, monkeypatch):
    plain = asking.tag_rows

    def shifted(*given, **more):
        return [
            replace(one, words=tuple(replace(word, text=word.text + "!") for word in one.words))
            for one in plain(*given, **more)
        ]

    monkeypatch.setattr(asking, "tag_rows", shifted)
    assert failed(model) == [SLICES]


def test_a_tag_that_depends_on_its_neighbours_is_seen(model, monkeypatch):
    plain = asking.word_logits

    def leaning(model, examples, **more):
        return plain(model, examples, **more) * torch.tensor(1 + len(examples) * 1e-6)

    monkeypatch.setattr(asking, "word_logits", leaning)
    assert COMPANY in failed(model)
