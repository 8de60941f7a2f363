"""verify of models that give vectors: whole models pass, planted faults are seen."""

import json
from dataclasses import replace

import pytest

import clearhead as ch
from clearhead.check import embedding
from clearhead.check.finding import Verdict
from clearhead.infer.model import Model
from clearhead.model.config import Pooling
from decoders import tiny_folder as tiny_decoder
from families import NAMES
from sentences import sentence_files, sentence_folder

COMPANY = "a text's vector, pooled as the folder says, keeps every bit in any company"
SAID = "a text's vector is what the equations say, pooled as the folder says (float64)"
SAVED = "saved and loaded, the model is the same to the bit"


def failed(model):
    return [finding.law for finding in ch.verify(model) if finding.verdict is Verdict.FAIL]


@pytest.mark.shows("verify")
@pytest.mark.parametrize("embeds", [True])
@pytest.mark.parametrize("name", NAMES)
def test_a_model_that_gives_vectors_keeps_its_promises(tmp_path, name, embeds):
    folder = sentence_folder(tmp_path, name)
    for pooling in ("cls", "mean", "max", "last"):
        findings = list(embedding.embedding(ch.load(sentence_files(folder, pooling=pooling))))
        assert {finding.law: finding.verdict for finding in findings} == {
            COMPANY: Verdict.PASS, SAID: Verdict.PASS
        }  # fmt: skip
    assert failed(ch.load(folder)) == []


def test_a_decoder_that_gives_vectors_does_too(tmp_path):
    folder = tiny_decoder(tmp_path, "llama")
    width = json.loads((folder / "config.json").read_text())["hidden_size"]
    sentence_files(folder, pooling="last", width=width, limit=None)
    model = ch.load(folder)
    assert model.embeds
    assert failed(model) == []


@pytest.fixture
def model(tmp_path):
    return ch.load(sentence_folder(tmp_path / "model", pooling="cls"))


@pytest.mark.parametrize("wrong", [{"pooling": Pooling.MEAN}, {"normalise": False}])
def test_a_folder_that_is_misread_is_seen(model, wrong):
    facts = replace(model.loaded.embedding, **wrong)
    assert SAID in failed(Model(replace(model.loaded, embedding=facts)))


def test_facts_that_are_lost_in_saving_are_seen(model, monkeypatch):
    from clearhead.checkpoint import folder

    plain = folder.write_embedding
    lost = lambda place, facts, **more: plain(place, replace(facts, limit=None), **more)  # noqa: E731
    monkeypatch.setattr(folder, "write_embedding", lost)
    assert SAVED in failed(model)


def test_a_neighbour_that_changes_a_vector_is_seen(model, monkeypatch):
    plain = embedding.Model.embed

    def moved(self, texts, **options):
        return plain(self, texts, **options) * (1 + 1e-6 * (len(texts) > 4))

    monkeypatch.setattr(embedding.Model, "embed", moved)
    assert COMPANY in failed(model)


def test_models_that_answer_something_else_have_no_such_laws(bert_folder):
    assert list(embedding.embedding(ch.load(bert_folder))) == []
