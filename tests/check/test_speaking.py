"""verify of decoders: whole models pass, planted faults are seen."""

from dataclasses import replace

import pytest

import clearhead as ch
from clearhead.check import speaking as laws
from clearhead.check.finding import Verdict
from clearhead.check.speaking import speaking
from clearhead.infer import generate
from clearhead.model.cache import Cache, Memory, Span
from clearhead.model.kernels import Sight
from decoders import NAMES, tiny_folder

AHEAD = "no token sees what comes later"
CACHED = "computed in cached steps, a text is the same as at once (float32)"
GREEDY = "greedy answers and their log-probabilities keep every bit in any company"
SEEDED = "a seed gives the same answer in any company and order"


def failed(model):
    return {finding.law for finding in speaking(model) if finding.verdict is Verdict.FAIL}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return ch.load(tiny_folder(tmp_path_factory.mktemp("mistral"), "mistral", wide=True))


@pytest.mark.shows("verify")
@pytest.mark.parametrize("speaks", [False, True], ids=["body", "head"])
@pytest.mark.parametrize("name", NAMES)
def test_a_decoder_keeps_its_promises(tmp_path, name, speaks):
    findings = ch.verify(ch.load(tiny_folder(tmp_path, name, speaks=speaks, wide=True)))
    assert [finding.law for finding in findings if finding.verdict is Verdict.FAIL] == []
    laws = {finding.law for finding in findings}
    assert {AHEAD, CACHED} <= laws
    assert ({GREEDY, SEEDED} <= laws) == speaks


def test_a_mask_off_by_one_is_seen(model, monkeypatch):
    plain = Sight.seen

    def shifted(self, queries, keys):
        return plain(self, range(queries.start + 1, queries.stop + 1), keys)

    monkeypatch.setattr(Sight, "seen", shifted)
    assert failed(model) & {AHEAD, CACHED}


def test_a_cache_that_shifts_positions_is_seen(model, monkeypatch):
    plain = laws.pack

    def shifted(pieces, past=None):
        batch = plain(pieces, past=past)
        places = batch.layout.positions
        late = places - 1 if any(past or [0]) else places
        return replace(batch, layout=replace(batch.layout, positions=late.clamp(min=0)))

    monkeypatch.setattr(laws, "pack", shifted)
    assert CACHED in failed(model)


def test_a_window_off_by_one_in_the_cache_is_seen(model, monkeypatch):
    plain = Memory.add

    def narrow(self, keys, values):
        span = plain(self, keys, values)
        if span.first == 0:
            return span
        return Span(span.keys[:, 1:], span.values[:, 1:], span.first + 1)

    monkeypatch.setattr(Memory, "add", narrow)
    assert CACHED in failed(model)


def test_a_neighbour_that_moves_a_seed_is_seen(model, monkeypatch):
    plain, places = generate.stream_of, iter(range(10**6))
    monkeypatch.setattr(
        generate, "stream_of", lambda seed, prompt, *, sample: plain(seed, prompt, sample=next(places))
    )
    assert SEEDED in failed(model)


def test_a_neighbour_that_lends_its_keys_is_seen(model, monkeypatch):
    plain = Cache.remember

    def mixed(self, layer, layout, *, keys, values):
        spans = plain(self, layer, layout, keys=keys, values=values)
        if not spans or len(spans) < 2:
            return spans
        return [replace(spans[0], values=spans[0].values * 1.5), *spans[1:]]

    monkeypatch.setattr(Cache, "remember", mixed)
    assert failed(model) & {GREEDY, SEEDED}
