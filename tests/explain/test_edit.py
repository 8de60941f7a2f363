"""Edits change what they say, for whom they say, and nothing after they end."""

import pytest
import torch

import clearhead as ch
import decoders
import families
import translators
from clearhead.errors import SettingError
from clearhead.explain.edit import Edit, ablate, edit, patch
from clearhead.explain.record import record
from clearhead.infer.generate import tokens
from clearhead.model.layout import pack
from clearhead.settings import Generating

TEXTS = ["good bread", "the film was not so good", "slow", "the soup was cold"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return ch.load(families.tiny_folder(tmp_path_factory.mktemp("bert"), "bert", ("a", "b"), wide=True))


def test_a_head_that_is_left_out_is_one_whose_part_of_the_output_matrix_is_zero(bert, tmp_path):
    other = ch.load(families.tiny_folder(tmp_path, "bert", ("a", "b"), wide=True))
    with torch.no_grad():
        other.loaded.network.encoder.blocks[1].attention.output.weight[:, 12:18] = 0
    with edit(bert, ablate(1, 2)):
        changed = bert.predict(TEXTS)
    for mine, right in zip(changed, other.predict(TEXTS), strict=True):
        assert mine.score == pytest.approx(right.score, abs=1e-6) and mine.label == right.label
    with edit(bert, ablate(1, 2, by=1.0)):
        assert bert.predict(TEXTS) == bert.predict(TEXTS)


def test_what_was_edited_is_as_before_when_the_block_has_ended_also_by_an_error(bert):
    before = bert.predict(TEXTS)
    try:
        with edit(bert, ablate(0, 0)):
            assert bert.predict(TEXTS) != before
            raise ZeroDivisionError
    except ZeroDivisionError:
        assert bert.predict(TEXTS) == before


def test_an_edit_of_one_text_changes_no_bit_of_the_others(bert):
    before = bert.predict(TEXTS)
    with edit(bert, ablate(1, 3, text=1)):
        after = bert.predict(TEXTS)
    assert after[1] != before[1]
    assert [after[n] for n in (0, 2, 3)] == [before[n] for n in (0, 2, 3)]


@pytest.mark.parametrize("point", ["embed", "resid_pre", "q", "z", "resid_mid", "mlp_out", "resid_post"])
def test_numbers_of_another_run_put_in_are_what_is_seen_and_what_follows(bert, point):
    layer = 0 if point == "embed" else 1
    with record(bert, what=[point, "resid_post"]) as seen:
        bert.loaded.network(pack([[2, 7, 8, 3], [2, 9, 10, 3]]))
    value = seen[1][point][layer]
    with (
        edit(bert, patch(point, layer, value=value, text=0)),
        record(bert, what=[point, "resid_post"]) as now,
    ):
        bert.loaded.network(pack([[2, 7, 8, 3], [2, 9, 10, 3]]))
    assert torch.equal(now[0][point][layer], value)
    assert torch.equal(now[1]["resid_post"][2], seen[1]["resid_post"][2])
    if point in ("embed", "resid_pre", "resid_mid", "resid_post"):  # all that comes after hangs on it
        torch.testing.assert_close(now[0]["resid_post"][2], seen[1]["resid_post"][2])
    else:
        assert not torch.equal(now[0]["resid_post"][2], seen[0]["resid_post"][2])


def test_a_patch_of_some_places_leaves_the_others(bert):
    with record(bert, what="resid_post") as seen:
        bert.loaded.network(pack([[2, 7, 8, 3], [2, 9, 10, 3]]))
    put = patch("resid_post", 0, value=seen[1]["resid_post"][0][1:3], places=range(1, 3), text=0)
    with edit(bert, put), record(bert, what="resid_post") as now:
        bert.loaded.network(pack([[2, 7, 8, 3], [2, 9, 10, 3]]))
    assert torch.equal(now[0]["resid_post"][0][1:3], seen[1]["resid_post"][0][1:3])
    assert torch.equal(now[0]["resid_post"][0][[0, 3]], seen[0]["resid_post"][0][[0, 3]])


@pytest.mark.parametrize("name", ["bert", "llama", "t5"])
def test_weights_can_be_edited_and_left_as_they_are_give_the_same(tmp_path, name):
    make = {"bert": families.tiny_folder, "llama": decoders.tiny_folder, "t5": translators.tiny_folder}[name]
    network = ch.load(make(tmp_path, name, wide=True)).loaded.network.double()
    ids, encoder = [[5, 6, 7, 8], [9, 10, 11]], name == "t5"
    same = Edit("pattern", 1, lambda weights, _: weights, encoder=encoder)
    even = Edit("pattern", 1, lambda weights, _: weights * 0 + 0.25, text=0, encoder=encoder)
    with torch.no_grad():
        before = network(pack(ids))
        with edit(network, same):
            torch.testing.assert_close(network(pack(ids)), before, atol=1e-10, rtol=1e-10)
        with edit(network, even), record(network, what=["z", "v"], layers=[1]) as seen:
            network(pack(ids))
    one = seen.sources[0] if encoder else seen[0]
    v = one["v"][1].mean(0).repeat_interleave(one["z"][1].shape[1] // one["v"][1].shape[1], 0)
    torch.testing.assert_close(one["z"][1], v.expand_as(one["z"][1]))


@pytest.mark.parametrize("name", ["gpt2", "bart"])
def test_generation_goes_by_what_was_edited_in_steps_as_at_once(tmp_path, name):
    make = decoders.tiny_folder if name == "gpt2" else translators.tiny_folder
    model = ch.load(make(tmp_path, name, wide=True))
    prompt, settings = [7, 8, 9, 10], Generating(max_new_tokens=8)
    with edit(model, ablate(0, 1), ablate(1, 3, by=2.0)), record(model, what="resid_post") as seen:
        made = list(tokens(model, [prompt], settings=settings))
        network = model.loaded.network
        rows = seen[0]["resid_post"][max(seen[0]["resid_post"])]
        stack = network.decoder or network.encoder
        said = network.next_logits(stack.norm(rows) if stack.norm else rows).argmax(-1)
    ids = [token.id for token in made]
    assert said[len(prompt) - 1 if name == "gpt2" else 0 :].tolist() == ids
    refused = pytest.raises(SettingError, match="an edit of one text .* is for calls without a cache")
    for where in ({}, {"encoder": True}) if name == "bart" else ({},):  # a text is read once for all answers
        with refused, edit(model, ablate(0, 1, text=0, **where)):
            list(tokens(model, [prompt], settings=settings))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (ablate(3, 0), "layer=3: the model has 3, 0 to 2"),
        (ablate(0, 4), "head=4: the model has 4, 0 to 3"),
        (ablate(0, 0, cross=True), "what='cross_z' is of a decoder"),
        (ablate(0, 0, encoder=True), "encoder=True is for models that read a text"),
        (Edit("stream", 0, lambda x, _: x), "what='stream' is not one of"),
        (Edit("embed", 1, lambda x, _: x), "layer=1: vectors of tokens are seen once, at layer 0"),
        ("z", "str is no edit; make one with ablate, patch or Edit"),
    ],
)
def test_an_edit_of_what_is_not_there_is_refused_by_name(bert, given, said):
    with pytest.raises(SettingError, match=said), edit(bert, given):
        pass


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (patch("z", 0, value=torch.zeros(2, 3)), r"patch at z: the value has the shape \[2, 3\]"),
        (Edit("z", 0, lambda x, _: x[:1]), r"the edit of z gave \[1, 4, 6\] back for numbers of \[4, 4, 6\]"),
        (Edit("z", 0, lambda x, _: None), "the edit of z gave NoneType back"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused_when_it_is_made(bert, given, said):
    with edit(bert, given), pytest.raises(SettingError, match=said):
        bert.loaded.network(pack([[2, 7, 8, 3]]))


def test_what_only_a_decoder_has_is_not_edited_in_an_encoder(tmp_path):
    model = ch.load(translators.tiny_folder(tmp_path, "bart"))
    refused = pytest.raises(SettingError, match="cross_z is of the decoder; leave encoder=True out")
    with refused, edit(model, ablate(0, 0, cross=True, encoder=True)):
        pass


def test_edits_end_in_whatever_order_their_blocks_do(bert):
    before = bert.predict(TEXTS)
    first, second = edit(bert, ablate(0, 0)), edit(bert, ablate(1, 1))
    seen = record(bert)
    found = seen.__enter__()
    first.__enter__()
    second.__enter__()
    seen.__exit__(None, None, None)
    first.__exit__(None, None, None)
    with edit(bert, ablate(1, 1)):
        one = bert.predict(TEXTS)
    assert bert.predict(TEXTS) == one != before
    second.__exit__(None, None, None)
    assert bert.predict(TEXTS) == before and len(found) == 0


@pytest.mark.parametrize("text", [7, -1])
def test_an_edit_of_a_text_that_no_call_had_is_told_at_the_end(bert, text):
    refused = pytest.raises(SettingError, match=f"text={text}: no call in here had a text of that number")
    with refused, edit(bert, ablate(0, 0, text=text)):
        bert.predict(TEXTS)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ablate(0, "a"), "head='a' is not a whole number"),
        (lambda: ablate(0, [0, 1]), "head=.* is not a whole number"),
        (lambda: Edit("z", None, lambda x, _: x), "layer=None is not a whole number"),
        (lambda: Edit("z", 0, lambda x, _: x, text="0"), "text='0' is not a whole number"),
        (lambda: Edit(3, 0, lambda x, _: x), "point=3 is no name of a point"),
        (lambda: Edit("z", 1, 3), "change=3 is no function"),
        (lambda: patch("z", 0, value=[1.0]), "patch at z: the value is list, not a tensor"),
    ],
)
def test_an_edit_of_another_type_is_refused_when_it_is_made(make, said):
    with pytest.raises(SettingError, match=said):
        make()
