"""verify of encoder–decoders: whole models pass, planted faults are seen."""

import json
from dataclasses import replace

import pytest
import torch

import clearhead as ch
from clearhead.check import answering as laws
from clearhead.check import verify
from clearhead.check.answering import answering
from clearhead.check.finding import Verdict
from clearhead.check.outputs import one_by_one
from clearhead.check.speaking import generated
from clearhead.check.verify import company, equations, keeping, texts
from clearhead.infer import beams, generate
from clearhead.infer.model import Model
from clearhead.model import attention, kernels
from clearhead.model.cache import Cache
from clearhead.model.positions import Bias, RelativePositions
from clearhead.text.tokenizer import Tokenizer
from published_seq2seq import build, descriptions
from translators import NAMES, tiny_folder

NEIGHBOUR = "a neighbour changes no bit (float32, CPU)"
PACKED = "the packed kernel equals the textbook's attention (float64)"
EQUATIONS = "the model equals the equations in NumPy, read from the folder on their own (float64)"
GREEDY = "greedy answers and their log-probabilities keep every bit in any company"
SEEDED = "a seed gives the same answer in any company and order"
BEAMS = "beam search finds the same answers, and scores them the same to the bit, in any company"
AHEAD = "no token of an answer sees what comes later, and each sees the text"
OWN = "an answer reads its own text and nothing else: no padding, no neighbour (float32, CPU)"
CACHED = "answered in cached steps, of itself and of the text, an answer is the same as at once (float32)"
TOLD = "greedy answers are what the equations answer, begun as the folder says (float32, within 2e-5)"
SAVED = "saved and loaded, the model is the same to the bit"
LAWS = {NEIGHBOUR, PACKED, EQUATIONS, GREEDY, SEEDED, BEAMS, AHEAD, OWN, CACHED, TOLD, SAVED}


def failed(model, law=None):
    """The laws that fail: all, or those of one function."""
    found = law(model) if law else ch.verify(model)
    return {finding.law for finding in found if finding.verdict is Verdict.FAIL}


@pytest.fixture(params=["bart", "t5"])
def model(request, tmp_path_factory):
    return made(tmp_path_factory, request.param)


@pytest.fixture
def bart(tmp_path_factory):
    return made(tmp_path_factory, "bart")


@pytest.fixture
def t5(tmp_path_factory):
    return made(tmp_path_factory, "t5")


def made(factory, name):
    return ch.load(tiny_folder(factory.mktemp(name), name, wide=True))


@pytest.mark.shows("verify")
@pytest.mark.parametrize("translates", [True])
@pytest.mark.parametrize("name", NAMES)
def test_an_encoder_decoder_keeps_its_promises(tmp_path, name, translates):
    findings = ch.verify(ch.load(tiny_folder(tmp_path, name, wide=True)))
    assert [finding for finding in findings if finding.verdict is Verdict.FAIL] == []
    assert {finding.law for finding in findings} >= LAWS


def test_two_tokenizers_are_both_held_to_their_laws(tmp_path):
    described = next(one for one in descriptions() if one["repository"] == "Helsinki-NLP/opus-mt-en-de")
    model = ch.load(build(described, tmp_path / "folder"), allow_bin=True)
    assert failed(model) == set()
    law, target = "text that looks like a control token stays text", model.loaded.target
    assert {law, f"{law}, of answers"} <= {finding.law for finding in texts(model)}
    control = min(target.control_ids)
    plain = Tokenizer.encode

    def wrong(self, given, **more):
        found = plain(self, given, **more)
        return [replace(e, ids=(control, *e.ids[1:])) for e in found] if self is target else found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Tokenizer, "encode", wrong)
        assert failed(model, texts) == {f"{law}, of answers"}
        assert failed(model, keeping) == {"saved and loaded, the tokenizer gives the same ids"}


def test_a_cache_that_shifts_positions_is_seen(bart, monkeypatch):
    plain = laws.pack

    def shifted(pieces, past=None):
        batch = plain(pieces, past=past)
        late = batch.layout.positions - 1 if any(past or [0]) else batch.layout.positions
        return replace(batch, layout=replace(batch.layout, positions=late.clamp(min=0)))

    monkeypatch.setattr(laws, "pack", shifted)
    assert failed(bart, laws.cached) == {CACHED}


def test_a_cache_that_shifts_distances_is_seen(t5, monkeypatch):
    plain = Bias.__call__

    def shifted(self, queries, keys):
        late = len(queries) == 1 and queries.start
        return plain(self, range(queries.start - 1, queries.start) if late else queries, keys)

    monkeypatch.setattr(Bias, "__call__", shifted)
    assert failed(t5, answering) >= {CACHED, TOLD}


def test_a_cache_that_forgets_a_key_of_the_source_is_seen(model, monkeypatch):
    plain = Cache.sources

    def less(self, layer, layout):
        found = plain(self, layer, layout)
        return [replace(one, keys=one.keys[:, 1:], values=one.values[:, 1:]) for one in found]

    monkeypatch.setattr(Cache, "sources", less)
    assert failed(model, answering) == {CACHED, TOLD}


def test_a_decoder_that_looks_ahead_is_seen(model):
    for block in model.loaded.network.decoder.blocks:
        block.attention.sight = replace(block.attention.sight, causal=False)
    assert failed(model, laws.ahead) == {AHEAD}
    assert failed(model, equations) == {EQUATIONS}


def test_a_decoder_that_does_not_see_its_text_is_seen(model, monkeypatch):
    monkeypatch.setattr(attention, "across", lambda source, *, queries, **rest: torch.zeros_like(queries))
    assert failed(model, laws.ahead) == {AHEAD}


@pytest.mark.parametrize("first", [-1, 1], ids=["before", "after"])
def test_cross_attention_that_sees_a_neighbours_source_is_seen(model, monkeypatch, first):
    plain = kernels.meetings

    def wide(answers, source):
        for run in plain(answers, source):
            start = min(max(0, run.source + first), source.tokens - run.texts * run.seen)
            yield replace(run, source=start)

    monkeypatch.setattr(kernels, "meetings", wide)
    assert NEIGHBOUR in failed(model, company)
    assert failed(model, equations) == {PACKED, EQUATIONS}
    assert failed(model, laws.foreign) == {OWN}


def test_cross_attention_that_sees_a_spare_row_is_seen(model, monkeypatch):
    def wide(answers, source):
        runs = list(one_by_one(answers, source))
        last = max(runs, key=lambda run: run.source)
        return [replace(run, seen=run.seen + 1) if run is last else run for run in runs]

    monkeypatch.setattr(kernels, "meetings", wide)
    assert failed(model, laws.foreign) == {OWN}


def test_a_source_that_is_anothers_in_the_cache_is_seen(model, monkeypatch):
    plain = Cache.sources
    monkeypatch.setattr(Cache, "sources", lambda *given: (found := plain(*given))[1:] + found[:1])
    assert failed(model, laws.cached) == {CACHED}
    assert failed(model, generated) == {GREEDY, SEEDED, BEAMS}


def test_relative_biases_off_by_one_are_seen(t5, monkeypatch):
    plain = RelativePositions.buckets
    monkeypatch.setattr(RelativePositions, "buckets", lambda self, apart: plain(self, apart + 1))
    assert failed(t5, equations) == {EQUATIONS}


def test_a_table_of_the_other_side_is_seen(bart):
    network = bart.loaded.network
    network.decoder_embedding.positions = network.embedding.positions
    assert failed(bart, equations) == {EQUATIONS}


def test_a_beam_that_depends_on_its_company_is_seen(model, monkeypatch):
    plain = beams.joined

    def crowded(*given, **more):
        found = plain(*given, **more)
        return [logits * (1 + 1e-6 * (len(found) > 2)) for logits in found]

    monkeypatch.setattr(beams, "joined", crowded)
    assert failed(model, generated) == {BEAMS}


def test_an_answer_that_begins_with_another_token_is_seen(model):
    begin = replace(model.loaded.begin, start=model.loaded.begin.start + 4)
    other = Model(replace(model.loaded, begin=begin))
    assert failed(other, answering) == {TOLD}


@pytest.mark.parametrize(
    "field", [{"forced_bos_token_id": 2}, {"bad_words_ids": [[5]]}], ids=["first", "never"]
)
def test_an_answer_with_another_token_than_the_folder_says_is_seen(tmp_path, field, monkeypatch):
    path = tiny_folder(tmp_path, "bart", wide=True) / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | field))
    model = ch.load(tmp_path)
    assert failed(model, answering) == set()
    monkeypatch.setattr(generate, "framed", lambda scores, begin, *, new: scores)
    assert failed(model, answering) == {TOLD}


def test_a_beginning_that_is_lost_in_saving_is_seen(bart, monkeypatch):
    plain = verify.load

    def forgetful(folder, **opening):
        loaded = plain(folder, **opening).loaded
        return Model(replace(loaded, begin=replace(loaded.begin, start=4)))

    monkeypatch.setattr(verify, "load", forgetful)
    assert failed(bart, keeping) == {SAVED}
