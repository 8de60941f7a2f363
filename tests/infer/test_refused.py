"""What cannot be asked of a language model is said in one line, and nothing is answered silently instead."""

import json

import pytest
import torch

import clearhead as ch
from clearhead.errors import ClearheadError, DataError, FolderError, NotFinite, SettingError
from clearhead.infer.beams import beam_search
from clearhead.infer.choose import choose
from clearhead.infer.generate import tokens
from clearhead.settings import Generating
from decoders import tiny_folder
from families import VOCAB


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_folder(tmp_path_factory.mktemp("llama"), "llama", wide=True)


@pytest.fixture(scope="module")
def model(folder):
    return ch.load(folder)


def edited(folder, tmp_path, **changes):
    place = tmp_path / "edited"
    place.mkdir()
    for file in folder.iterdir():
        (place / file.name).write_bytes(file.read_bytes())
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(config | changes))
    return place


@pytest.mark.parametrize("prompt", [[5, 99999], [5, -1], [5.7], [True], ["a"], "the cat", []])
def test_prompts_that_are_no_ids_of_the_model_are_refused_by_number(model, prompt):
    asked = Generating(max_new_tokens=2)
    for ask in (
        lambda: list(tokens(model, [[5], prompt], settings=asked)),
        lambda: list(beam_search(model, [[5], prompt], settings=Generating(beams=2))),
    ):
        with pytest.raises(DataError, match="prompt 1 "):
            ask()
    with pytest.raises(DataError, match="prompt 0 "):
        choose(model, prompt, options=["good", "bad"])


def test_one_string_is_not_many_prompts(model):
    with pytest.raises(DataError, match=r"one string was given where a list of texts is needed"):
        list(ch.generate(model, "hello there"))
    with pytest.raises(DataError, match=r"one string was given"):
        choose(model, [5], options="abc")
    with pytest.raises(DataError, match="text 0 is NoneType"):
        list(ch.generate(model, [None]))


@pytest.mark.parametrize("count", [1, 3])
def test_settings_are_one_for_each_prompt(model, count):
    with pytest.raises(SettingError, match=f"{count} settings were given for 2 prompts"):
        list(tokens(model, [[5], [6]], settings=[Generating()] * count))


def test_beams_are_not_ignored_where_answers_are_streamed(model):
    with pytest.raises(SettingError, match="beams are searched by"):
        list(ch.generate(model, ["good"], beams=3))


@pytest.mark.parametrize("way", [{}, {"temperature": 1.0}, {"beams": 2}])
def test_where_every_token_is_forbidden_none_is_written(model, way):
    end = model.loaded.ends[0]
    biases = [f"{id}=-inf" for id in range(VOCAB) if id != end]
    asked = Generating(logit_bias=biases, min_new_tokens=3, max_new_tokens=5, **way)
    with pytest.raises(SettingError, match="no token is left to choose"):
        list((beam_search if "beams" in way else tokens)(model, [[5, 6]], settings=asked))


def test_a_beams_log_probability_is_the_models_own(model):
    plain = {tuple(b.ids): b.log_probability for (found) in beam_search(model, [[5, 6]], settings=Generating(
        beams=VOCAB, samples=VOCAB, max_new_tokens=1)) for b in found}  # fmt: skip
    asked = Generating(beams=2, samples=2, max_new_tokens=1, logit_bias=["5=20"])
    (found,) = beam_search(model, [[5, 6]], settings=asked)
    assert found[0].ids == (5,) and found[0].score > found[0].log_probability
    for beam in found:
        assert beam.log_probability == pytest.approx(plain[tuple(beam.ids)], abs=1e-5)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"logit_bias": ["5=1e308"]}, "is not ID=NUMBER"),
        ({"logit_bias": ["1" * 5000 + "=1"]}, "is not ID=NUMBER"),
        ({"repetition_penalty": 1e-300}, "--repetition-penalty"),
        ({"beams": 2, "length_penalty": 2000.0}, "--length-penalty 2000.0 must be from"),
        ({"stop": [5]}, "is no list of strings"),
    ],
)
def test_numbers_that_float32_cannot_hold_are_refused_by_name(given, said):
    with pytest.raises(SettingError, match=said):
        Generating(**given)


def test_numbers_that_are_not_finite_are_said_instead_of_an_answer(folder, tmp_path):
    model = ch.load(edited(folder, tmp_path))
    with torch.no_grad():
        model.loaded.network.language_head.weight.mul_(1e39)
    for ask in (tokens, beam_search):
        asked = Generating(beams=2 if ask is beam_search else 1)
        with pytest.raises(ClearheadError, match="computes numbers that are not finite"):
            list(ask(model, [[5, 6]], settings=asked))


def test_texts_whose_loss_is_not_finite_are_not_scored(folder, tmp_path):
    model = ch.load(edited(folder, tmp_path))
    with torch.no_grad():
        model.loaded.network.language_head.weight.fill_(float("inf"))
    (tmp_path / "texts.txt").write_text("the good soup is warm and so is the bread\n")
    with pytest.raises(NotFinite, match="the loss of these texts is nan"):
        ch.evaluate(model, tmp_path / "texts.txt")


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("mistral", {"layer_types": ["full_attention"] * 3}, "layer_types"),
        ("mistral-whole", {"layer_types": ["sliding_attention"] * 3}, "layer_types"),
        *(
            (name, {"is_causal": False}, "is_causal=False is not supported")
            for name in ("gpt2", "qwen3", "gpt_neox")
        ),
        ("llama", {"eos_token_id": 999}, "eos_token_id 999 is beyond"),
    ],
)
def test_fields_that_would_change_the_arithmetic_are_refused(tmp_path, name, changes, said):
    folder = tiny_folder(tmp_path / "made", name)
    (folder / "generation_config.json").unlink(missing_ok=True)
    with pytest.raises(FolderError, match=said):
        ch.load(edited(folder, tmp_path, **changes))


def test_a_mistral_that_says_what_its_window_says_loads(tmp_path):
    folder = tiny_folder(tmp_path / "made", "mistral", wide=True)
    named = ch.load(edited(folder, tmp_path, layer_types=["sliding_attention"] * 3))
    assert named.config == ch.load(folder).config


@pytest.mark.parametrize("spelling", ["type", "rope_type"])
def test_an_older_scaling_is_heard_beside_newer_parameters(tmp_path, spelling):
    folder = tiny_folder(tmp_path / "made", "llama")
    newer = {"rope_type": "default", "rope_theta": 10000.0}
    found = ch.load(
        edited(folder, tmp_path, rope_parameters=newer, rope_scaling={spelling: "linear", "factor": 2.0})
    )
    assert found.config.positions.scaling.factor == 2.0
