"""Lens, effects, attribution, rollout and comparison: what they say is what can be computed by hand."""

import pytest
import torch

import clearhead as ch
import decoders
import families
import translators
from clearhead.errors import DataError, SettingError
from clearhead.explain.attribution import attribution
from clearhead.explain.compare import compare
from clearhead.explain.edit import Edit, ablate, edit
from clearhead.explain.effects import effects, head_scores, rollout
from clearhead.explain.flow import gradient_flow
from clearhead.explain.lens import lens
from clearhead.explain.look import look
from clearhead.explain.objective import Reading, objective
from clearhead.explain.record import record
from clearhead.model.layout import pack

TEXT = "the film was not so good"


def of(folder, kind):
    """A tiny model of each kind of answer, its text."""
    if kind == "label":
        return ch.load(families.tiny_folder(folder, "bert", ("a", "b", "c"), wide=True)), TEXT
    if kind == "vector":
        return ch.load(families.tiny_folder(folder, "roberta", wide=True)), TEXT
    if kind in families.OVER:
        families.over_tokens("bert", kind, wide=True).save_pretrained(folder)
        families.write_tokenizer(folder, "bert")
        return ch.load(folder), TEXT if kind == "tag" else ("what was good ?", TEXT)
    if kind == "fill":
        families.filler("bert", wide=True).save_pretrained(folder)
        families.write_tokenizer(folder, "bert")
        return ch.load(folder), "the [MASK] was not so [MASK]"
    if kind == "speak":
        return ch.load(decoders.tiny_folder(folder, "llama", wide=True)), TEXT
    return ch.load(translators.tiny_folder(folder, "bart", wide=True)), TEXT


KINDS = ("label", "vector", "tag", "answer", "fill", "speak", "translate")


@pytest.fixture(params=KINDS)
def given(request, tmp_path):
    return request.param, *of(tmp_path, request.param)


def test_effects_are_what_comes_of_leaving_one_part_out(given):
    kind, model, text = given
    reading = Reading.of(model, text)
    found = effects(reading)
    config = model.config
    layers = config.decoder_layers or config.layers
    assert found.heads.shape == (layers, config.heads)
    assert found.parts.shape == (layers, 3 if kind == "translate" else 2)
    target = objective(reading)
    with torch.no_grad():
        whole = float(target()[0])
        assert found.score == pytest.approx(whole, abs=1e-5)
        for layer, head in ((0, 1), (layers - 1, 2)):
            with edit(model, ablate(layer, head)):
                changed = float(target()[0])
            assert float(found.heads[layer, head]) == pytest.approx(changed - whole, abs=1e-4)
    if kind in ("label", "speak", "translate", "fill", "tag", "answer"):
        assert whole < 0  # a log-probability


def test_attributions_sum_to_what_the_text_adds(given):
    _, model, text = given
    model.loaded.network.double()
    reading = Reading.of(model, text)
    found = attribution(reading)
    assert len(found.values) == len(reading.encoding.ids) and found.points <= 256
    assert abs(found.gap) <= 0.021 * max(abs(found.score - found.baseline), 0.1)
    assert all(one.grad is None for one in model.loaded.network.parameters())


def test_the_last_layer_of_the_lens_says_what_the_model_says(given):
    kind, model, text = given
    reading = Reading.of(model, text)
    found = lens(reading, candidates=2)
    config = model.config
    assert len(found.layers) == (config.decoder_layers or config.layers) + 1
    last = found.layers[-1]
    if kind == "label":
        (result,) = model.predict([text])
        assert last[0][0].text == result.label and last[0][0].probability == pytest.approx(
            result.score, abs=1e-5
        )
    elif kind == "speak":
        piece = next(ch.generate(model, [text], max_new_tokens=1))
        assert piece
        network = model.loaded.network
        batch = pack([list(reading.encoding.ids)])
        with torch.no_grad():
            said = network.next_logits(network(batch))[: len(reading.fed)].softmax(-1)
        for row, guesses in enumerate(last):
            assert guesses[0].probability == pytest.approx(float(said[row].max()), abs=1e-6)
    elif kind == "translate":
        assert [row[0].text for row in last] == [model.tokenizer.name(id) for id in reading.said[1:]]
    elif kind == "answer":
        (result,) = model.answer([text])
        assert (
            found.tokens == ("start", "end") and len(last) == 2 and result.tokens == len(reading.encoding.ids)
        )
    elif kind == "tag":
        (result,) = model.predict([text])
        content = [row[0] for row, special in zip(last, reading.encoding.special, strict=True) if not special]
        assert [word.tag for word in result.words] == [guess.text for guess in content]
    elif kind == "fill":
        (result,) = model.fill([text], candidates=2)
        masks = [row for row, id in zip(last, reading.encoding.ids, strict=True) if id == 4]
        assert [[guess.text for guess in row] for row in masks] == [
            [one.token_str for one in best] for best in result.masks
        ]
    else:
        assert last[0][0].probability == pytest.approx(1.0)


def test_a_look_holds_what_was_recorded_and_what_the_model_answers(given):
    kind, model, text = given
    found = look(model, text, layers=[0, -1], heads=[1, 3])
    kinds = ["cross", "encoder", "decoder"] if kind == "translate" else ["self"]
    assert [one.kind for one in found.weights] == kinds
    for one in found.weights:
        assert one.values.shape == (2, 2, len(one.queries), len(one.keys)) and one.heads == (1, 3)
        torch.testing.assert_close(one.values.sum(-1), torch.ones(one.values.shape[:3]), atol=1e-5, rtol=0)
    if kind == "label":
        assert found.answers[0][1][0].name == model.predict([text])[0].label
    if kind == "answer":
        assert sum(row.share for row in found.answers[0][1]) <= 1 + 1e-6
    with pytest.raises(DataError, match="nothing to look at in an empty text"):
        look(model, " \n")
    with pytest.raises(SettingError, match="layers=9: the model has 3, 0 to 2"):
        look(model, text, layers=[9])


def test_a_text_that_is_too_long_is_refused_with_both_numbers(tmp_path):
    model, _ = of(tmp_path, "label")
    with pytest.raises(DataError, match="the text has 10002 tokens, the model takes 32; shorten it"):
        look(model, "good " * 10_000)


def test_a_rollout_of_even_weights_is_what_the_product_says(tmp_path):
    model, text = of(tmp_path, "label")
    with record(model) as seen:
        model.predict([text])
    reached = rollout(seen[0])
    torch.testing.assert_close(reached.sum(-1), torch.ones(reached.shape[:2]))
    first = seen[0].attention[0].mean(0) / 2 + torch.eye(reached.shape[1]) / 2
    torch.testing.assert_close(reached[0], first)
    second = (seen[0].attention[1].mean(0) / 2 + torch.eye(reached.shape[1]) / 2) @ first
    torch.testing.assert_close(reached[1], second)
    with record(model, queries=[1]) as some:
        model.predict([text])
    with pytest.raises(SettingError, match="a rollout needs the weights of all layers"):
        rollout(some[0])


def back_by(steps):
    """Weights that look so many tokens back, or at the first one."""

    def change(weights, _):
        shifted = torch.zeros_like(weights)
        rows = torch.arange(weights.shape[1])
        shifted[:, rows, (rows - steps).clamp(min=0)] = 1
        return shifted

    return change


def test_heads_are_told_by_what_they_look_at(tmp_path):
    model, _ = of(tmp_path, "speak")
    plain = head_scores(model, length=8)
    for kind, steps in (("previous", 1), ("duplicate", 8), ("induction", 7)):
        with edit(model, Edit("pattern", 1, back_by(steps))):
            found = head_scores(model, length=8)
        for name in ("previous", "first", "duplicate", "induction"):
            scores = getattr(found, name)
            assert torch.equal(scores[0], getattr(plain, name)[0]) and scores.shape == (3, 4)
            # Looking 8 back, the first of the second eight looks at the first token.
            share = 1 / 8 if (kind, name) == ("duplicate", "first") else float(name == kind)
            assert torch.equal(scores[1], torch.full((4,), share))
    for odd in ({"length": 1}, {"sequences": 0}, {"length": 2.5}):
        with pytest.raises(SettingError, match=f"{next(iter(odd))}="):
            head_scores(model, **odd)


def test_without_residual_connections_the_gradient_of_a_deep_stack_is_lost_on_its_way(tmp_path):
    network = ch.load(decoders.tiny_folder(tmp_path, "gpt2", n_layer=24)).loaded.network.double()
    for block in network.encoder.blocks:  # a norm before each part keeps a gradient's size, too
        block.attention_norm = block.feed_forward_norm = torch.nn.Identity()
    found = gradient_flow(network, [[2, 7, 8, 3], [2, 9, 3]])
    assert found.with_residual.shape == (24,) and float(found.with_residual[-1]) == 1
    assert 0.5 < float(found.with_residual[0]) < 2 and float(found.without_residual[0]) < 1e-30
    before = network(pack([[5, 6]]))
    assert torch.equal(network(pack([[5, 6]])), before)


def test_two_models_that_agree_part_nowhere(given):
    _, model, text = given
    found = compare(model, model, text=text)
    assert found.first is None and not found.facts and all(gap.difference == 0 for gap in found.gaps)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_a_planted_porting_error_is_found_where_it_is(tmp_path, name):
    make = families.tiny_folder if name == "bert" else decoders.tiny_folder
    layers = {"gpt2": "n_layer"}.get(name, "num_hidden_layers")
    one, other = (ch.load(make(tmp_path / n, name, wide=True, **{layers: 5})) for n in ("one", "other"))
    with torch.no_grad():  # two query rows of head 2 in layer 3 swapped
        weight = other.loaded.network.encoder.blocks[3].attention.qkv.weight
        width = one.config.each_head
        rows = torch.arange(2 * width, 3 * width)
        weight[rows] = weight[rows.flip(0)]
    found = compare(one, other, text=TEXT)
    assert (found.first.layer, found.first.point, found.heads) == (3, "q", (2,))
    before = [gap for gap in found.gaps if gap.layer < 3]
    assert before and all(gap.difference == 0 for gap in before)


def test_models_that_cannot_be_compared_are_refused_with_the_reason(tmp_path):
    one, _ = of(tmp_path / "one", "label")
    other = ch.load(families.tiny_folder(tmp_path / "other", "bert", ("a",), hidden_size=16))
    with pytest.raises(SettingError, match=r"layer 0, resid_pre: .* other shapes: \[8, 24\] and \[8, 16\]"):
        compare(one, other, text=TEXT)
    third = ch.load(families.tiny_folder(tmp_path / "third", "roberta"))
    with pytest.raises(DataError, match="the tokenizers part before the models do: token 1 of the text"):
        compare(one, third, text="☃")
    with pytest.raises(SettingError, match="one of the models reads a text"):
        compare(one, of(tmp_path / "t", "translate")[0], text=TEXT)
