"""Public reports about generation, each for its whole kind; A14 is in text/, A16 in model/test_cache.py."""

import json
import random

import pytest
import torch

import clearhead as ch
from clearhead.check.textbook import explicit
from clearhead.infer import generate as generating
from clearhead.infer.beams import beam_search
from clearhead.infer.choosing import penalised
from clearhead.infer.generate import tokens
from clearhead.model.kernels import Context, grouped
from clearhead.model.layout import pack
from clearhead.settings import Generating
from decoders import NAMES, tiny_folder
from families import VOCAB


def model_of(tmp_path, name):
    return ch.load(tiny_folder(tmp_path / name, name, wide=True))


def logits(model, ids, *, attend):
    batch = pack([ids])
    with torch.inference_mode():
        stream = model.loaded.network(batch, Context.of(batch.layout, attend=attend))[: len(ids)]
        return model.loaded.network.next_logits(stream)


@pytest.mark.parametrize("attend", [explicit, grouped])
@pytest.mark.parametrize("name", NAMES)
def test_a07_no_logit_changes_with_a_later_token(tmp_path, name, attend):
    """By either kernel, in training and in use; with the cache: A16."""
    model, chance = model_of(tmp_path, name), random.Random(7)
    ids = [chance.randrange(VOCAB) for _ in range(12)]
    before = logits(model, ids, attend=attend)
    for place in range(12):
        other = [*ids[:place], (ids[place] + 1) % VOCAB, *ids[place + 1 :]]
        for training in (True, False):
            model.loaded.network.train(training)
            after = logits(model, other, attend=attend)
            assert torch.equal(after[:place], before[:place]) and not torch.equal(after[place], before[place])


@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral", "qwen3", "gpt_neox"])
def test_a10_prompts_of_any_length_together_are_as_alone(tmp_path, name):
    model, chance = model_of(tmp_path, name), random.Random(10)
    prompts = [[chance.randrange(2, VOCAB) for _ in range(length)] for length in (2, 5, 9)]
    asked = Generating(max_new_tokens=20)
    alone = [
        [(t.id, t.log_probability) for t in tokens(model, [prompt], settings=asked)] for prompt in prompts
    ]
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0], [2, 1, 0]):
        found = {place: [] for place in order}
        for token in tokens(model, [prompts[place] for place in order], settings=asked):
            found[order[token.text]].append((token.id, token.log_probability))
        assert [found[place] for place in range(3)] == alone


def test_a12_a_penalty_makes_no_token_likelier():
    scores = torch.tensor([-2.0, 1.0, -3.0])
    assert penalised(scores, [0, 1], penalty=2).tolist() == [-4.0, 0.5, -3.0]
    assert torch.equal(penalised(scores, [0, 1], penalty=1), scores)
    assert torch.equal(penalised(scores, [1] * 5, penalty=2), penalised(scores, [1], penalty=2))


@pytest.mark.parametrize("prompt", [1, 6, 60])
def test_a13_the_score_of_a_beam_does_not_know_the_prompts_length(tmp_path, monkeypatch, prompt):
    """Each allowed token has probability 0.5; the end token is counted, as tokens are."""
    model = ch.load(tiny_folder(tmp_path / "m", "llama", max_position_embeddings=128))
    object.__setattr__(model.loaded, "ends", (3,))
    asked = Generating(beams=4, samples=4, max_new_tokens=8)

    def halves(network, cache, *, pieces, wanted):
        rows = torch.full((len(pieces), VOCAB), -torch.inf)
        for row, piece in zip(rows, pieces, strict=True):
            row[list(FOLLOWS.get(piece[-1], (5, 6)))] = 0.0
        return list(rows[:, None])

    monkeypatch.setattr("clearhead.infer.steps.step", halves)
    (found,) = beam_search(model, [[7] * prompt], settings=asked)
    assert {len(beam.ids) for beam in found if beam.ended} >= {2, 5}
    for beam in found:
        assert beam.score == pytest.approx(-0.6931, abs=1e-4)
        assert beam.log_probability == pytest.approx(-0.6931 * len(beam.ids), abs=1e-3)


# The end, 3, may come second, after 5, or fifth.
FOLLOWS = {5: (3, 4), 6: (8, 11)} | dict.fromkeys((4, 8, 11), (9, 13)) | dict.fromkeys((9, 13), (10, 14))
FOLLOWS |= dict.fromkeys((10, 14), (3, 16))


def test_a15_a_stop_string_ends_its_own_text_alone(tmp_path, monkeypatch):
    """Spread over two tokens, at step 2 of one text, at step 6 of another, never in the third."""
    model = model_of(tmp_path, "llama")
    stop, other = (model.tokenizer.plain([word])[0][0] for word in ("bread", "soup"))
    rows = {0: [other, stop], 1: [*[other] * 5, stop], 2: [other] * 10}
    prompts = [[10], [11, 12, 13], [14, 15]]
    first = {prompt[0]: rows[place] for place, prompt in enumerate(prompts)}
    asked = Generating(max_new_tokens=10, stop=["p bread"])

    def said(lane_rows):
        def advance(model, lane, *, logits):
            scores = torch.full((1, VOCAB), -30.0)
            scores[0, lane_rows[lane.ids[0]][min(lane.new, len(lane_rows[lane.ids[0]]) - 1)]] = 30.0
            return before(model, lane, logits=scores)

        return advance

    before = generating.advance
    monkeypatch.setattr(generating, "advance", said(first))
    together = {place: [] for place in range(3)}
    for token in tokens(model, prompts, settings=asked):
        together[token.text].append(token)
    assert [len(row) for row in together.values()] == [2, 6, 10]
    assert [row[-1].end for row in together.values()] == ["stop", "stop", "length"]
    texts = ["".join(token.piece for token in row) for row in together.values()]
    assert texts == [" sou", " soup" * 4 + " sou", " soup" * 10]
    for place, prompt in enumerate(prompts):
        alone = list(tokens(model, [prompt], settings=asked))
        assert [(t.id, t.piece, t.end) for t in alone] == [(t.id, t.piece, t.end) for t in together[place]]


@pytest.mark.parametrize("end", ["[SEP]", "[PAD]"])
def test_a24_an_end_token_that_is_also_the_padding_still_ends(tmp_path, end):
    """Nothing is decided by the padding's id: no text is padded."""
    folder = tiny_folder(tmp_path / "m", "llama", wide=True)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"pad_token": end, "eos_token": end}))
    (folder / "generation_config.json").unlink(missing_ok=True)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"eos_token_id": None, "pad_token_id": None}))
    model = ch.load(folder)
    id = model.tokenizer.roles["eos_token"]
    assert model.loaded.ends == (id,) and model.tokenizer.roles["pad_token"] == id
    bias = Generating(max_new_tokens=4, logit_bias=[f"{id}=1000"])
    for token in tokens(model, [[5, 6, 7], [id, 8]], settings=bias):
        assert (token.id, token.piece, token.end) == (id, "", "end")


@pytest.mark.parametrize("way", [{"temperature": 1e-30}, {"temperature": 1.0, "top_p": 1e-30}])
def test_a_tiny_temperature_or_nucleus_is_greedy(tmp_path, way):
    """Public report vllm#1623: nothing was left to choose from, and probabilities were NaN."""
    model = model_of(tmp_path, "llama")
    greedy, tiny = (
        [t.id for t in tokens(model, [[5, 6]], settings=Generating(max_new_tokens=9, **given))]
        for given in ({}, way)
    )
    assert greedy == tiny


def test_a_bias_is_the_published_one(tmp_path):
    from transformers import AutoModelForCausalLM

    folder = tiny_folder(tmp_path / "m", "llama", wide=True)
    model, published = ch.load(folder), AutoModelForCausalLM.from_pretrained(folder).eval()
    biases = {9: -3.0, 14: 2.5, 20: -1000.0, 31: 1.0}
    asked = Generating(max_new_tokens=20, logit_bias=[f"{id}={bias}" for id, bias in biases.items()])
    with torch.no_grad():
        right = published.generate(
            torch.tensor([[5, 6, 7]]), max_new_tokens=20, do_sample=False, pad_token_id=0,
            sequence_bias=[[[id], bias] for id, bias in biases.items()],
        )[0, 3:].tolist()  # fmt: skip
    assert [token.id for token in tokens(model, [[5, 6, 7]], settings=asked)] == right
    assert list(ch.generate(model, ["soup"], logit_bias={9: -3.0}))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["x=1"], "--logit-bias 'x=1' is not ID=NUMBER"),
        (["5"], "is not ID=NUMBER"),
        (["5=nan"], "is not ID=NUMBER"),
        (["5=inf"], "is not ID=NUMBER"),
        (["5=1_0"], "is not ID=NUMBER"),
        (["5=1", "05=2"], "names the id 5 twice"),
        ({"999999": 1}, "--logit-bias 999999: the model's ids go from 0 to"),
        (dict.fromkeys(range(VOCAB), "-inf"), "forbids every token"),
    ],
)
def test_a_bias_that_cannot_be_is_refused_by_name(tmp_path, given, said):
    with pytest.raises(ch.ClearheadError, match=said):
        list(ch.generate(model_of(tmp_path, "llama"), ["soup"], logit_bias=given))
