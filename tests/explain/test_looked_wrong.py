"""What an attacker of looking inside has found, as rules that hold now."""

import pytest
import torch

import clearhead as ch
import decoders
import families
import translators
from clearhead.errors import DataError, SettingError
from clearhead.explain.compare import compare
from clearhead.explain.edit import Edit, ablate, edit, patch
from clearhead.explain.effects import rollout
from clearhead.explain.look import look
from clearhead.explain.objective import Reading, objective
from clearhead.explain.record import record
from clearhead.model.layout import pack

IDS = [[2, 7, 8, 3], [2, 9, 3]]


@pytest.fixture
def bert(tmp_path):
    return ch.load(families.tiny_folder(tmp_path / "bert", "bert", ("a", "b"), wide=True))


def times(factor):
    return Edit("pattern", 1, lambda weights, _: weights * factor)


def test_weights_that_were_edited_are_what_is_recorded_and_edits_add_up(bert):
    network, what = bert.loaded.network, ["pattern", "z"]
    with record(network, layers=1, what=what) as plain:
        network(pack(IDS))
    with edit(network, times(0.5)), edit(network, times(0.5)), record(network, layers=1, what=what) as seen:
        network(pack(IDS))
    for one, before in zip(seen, plain, strict=True):
        torch.testing.assert_close(one.attention[1], before.attention[1] / 4)
        torch.testing.assert_close(one["z"][1], before["z"][1] / 4)
    for first, second in ((ablate(1, 0), times(1.0)), (times(1.0), ablate(1, 0))):
        with edit(network, first), edit(network, second), record(network, layers=1, what="z") as seen:
            network(pack(IDS))
        assert all(not one["z"][1][:, 0].any() and one["z"][1][:, 1].any() for one in seen)
    with pytest.raises(SettingError, match="patch at pattern: it is made of weights; change them with Edit"):
        patch("pattern", 0, value=torch.zeros(4, 4, 4))


def test_a_model_saved_while_it_is_edited_is_the_model(bert, tmp_path):
    with edit(bert, ablate(0, 0), ablate(1, 1)):
        bert.save(tmp_path / "saved")
    again = ch.load(tmp_path / "saved")
    assert again.predict(["good bread"]) == bert.predict(["good bread"])


def test_the_span_that_effects_are_of_is_the_models_answer(tmp_path):
    families.over_tokens("bert", "answer", wide=True).save_pretrained(tmp_path)
    families.write_tokenizer(tmp_path, "bert")
    model = ch.load(tmp_path)
    for pair in (
        ("great bread", "the soup was warm"),
        ("what was good ?", "the film was not so good , slow"),
    ):
        reading = Reading.of(model, pair)
        start, end = objective(reading).wanted.tolist()
        best = model.answer([pair])[0].candidates[0]
        offsets = reading.encoding.offsets
        assert (offsets[start][0], offsets[end][1]) == (best.start, best.end)


def test_models_that_part_behind_the_last_block_or_in_depth_do_not_agree(tmp_path):
    text = "the film was not so good"
    one, other = (ch.load(decoders.tiny_folder(tmp_path / name, "llama", wide=True)) for name in "ab")
    assert compare(one, other, text=text).first is None
    with torch.no_grad():
        other.loaded.network.encoder.norm.weight.neg_()
    assert compare(one, other, text=text).first.point == "final norm"
    first, second = (
        ch.load(families.tiny_folder(tmp_path / name, "bert", ("a", "b"), wide=True)) for name in "cd"
    )
    with torch.no_grad():
        second.loaded.network.head.output.weight.neg_()
    assert compare(first, second, text=text).first.point == "answer"
    deep = ch.load(families.tiny_folder(tmp_path / "e", "bert", ("a", "b"), wide=True, num_hidden_layers=4))
    for pair in ((first, deep), (deep, first)):
        with pytest.raises(SettingError, match="the models have [34] and [34] layers"):
            compare(*pair, text=text)


def test_an_answer_longer_than_the_positions_is_refused_with_both_numbers(tmp_path):
    bart = ch.load(translators.tiny_folder(tmp_path / "bart", "bart", wide=True))
    with pytest.raises(DataError, match=r"the answer has \d+ tokens, .* takes 40; shorten it"):
        look(bart, "great bread", answer="soup " * 60)
    t5 = ch.load(translators.tiny_folder(tmp_path / "t5", "t5", wide=True))
    with pytest.raises(DataError, match="shorten it"):
        compare(t5, bart, text="great bread", answer="soup " * 60)


def test_a_rollout_of_some_layers_is_refused(bert):
    for choice in ({"layers": 2}, {"heads": 0}, {"queries": 1}):
        with record(bert, **choice) as seen:
            bert.predict(["good bread"])
        with pytest.raises(SettingError, match="a rollout needs the weights of all layers"):
            rollout(seen[0])


@pytest.mark.parametrize(
    ("asked", "said"),
    [({"heads": []}, "heads=.* asks for nothing"), ({"what": 3}, "what=3 is"), ({"what": [["q"]]}, "what=")],
)
def test_odd_choices_are_refused_at_once(bert, asked, said):
    with pytest.raises(SettingError, match=said), record(bert, **asked):
        pass
