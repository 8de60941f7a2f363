"""Beam search: the published code's answers on random tiny models; the best of all where all can be tried."""

import pytest
import torch

import clearhead as ch
from clearhead.errors import SettingError
from clearhead.infer.beams import beam_search
from clearhead.infer.choose import choose
from clearhead.model.layout import pack
from clearhead.settings import Generating
from decoders import published, tiny_folder
from families import VOCAB, write_tokenizer

NAMES = ("gpt2", "llama", "mistral", "qwen3", "gpt_neox")
WAYS = [
    {"beams": 3},
    {"beams": 4, "samples": 4, "length_penalty": 0.3},
    {"beams": 4, "samples": 2, "length_penalty": -1.0, "early_stopping": True},
    {"beams": 5, "samples": 3, "no_repeat_ngram_size": 2, "repetition_penalty": 1.3},
    {"beams": 2, "min_new_tokens": 5},
]


def found(model, prompt, **settings):
    return next(beam_search(model, [prompt], settings=Generating(**settings)))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("name", NAMES)
def test_answers_are_those_of_transformers_on_random_tiny_models(tmp_path, name, seed):
    theirs = published(name, wide=True)
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    theirs.save_pretrained(tmp_path)
    write_tokenizer(tmp_path, name)
    model = ch.load(tmp_path)
    prompt = torch.randint(2, VOCAB, (1, 5 + seed))
    way = WAYS[seed % len(WAYS)]
    names = {"beams": "num_beams", "samples": "num_return_sequences"}
    with torch.no_grad():
        given = theirs.generate(
            prompt, max_new_tokens=12, do_sample=False, pad_token_id=0, return_dict_in_generate=True,
            output_scores=True, **{names.get(key, key): value for key, value in way.items()},
        )  # fmt: skip
    right = []
    for row in given.sequences[:, prompt.shape[1] :].tolist():
        end = next((place for place, id in enumerate(row) if id in model.loaded.ends), len(row) - 1)
        right.append(tuple(row[: end + 1]))
    mine = found(model, prompt[0].tolist(), max_new_tokens=12, **way)
    assert [beam.ids for beam in mine] == right
    torch.testing.assert_close(
        torch.tensor([beam.score for beam in mine]), given.sequences_scores, atol=1e-4, rtol=1e-4
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return ch.load(tiny_folder(tmp_path_factory.mktemp("beams"), "llama", wide=True))


def test_with_enough_beams_the_best_of_all_answers_is_found(model):
    prompt = [5, 9, 2]
    best = found(model, prompt, beams=VOCAB, max_new_tokens=2, length_penalty=0.0, samples=1)[0]
    totals = {}
    for first in range(VOCAB):
        one, two = rows(model, [*prompt, first])[len(prompt) - 1 :]
        if first in model.loaded.ends:
            totals[first,] = float(one[first])
            continue
        totals |= {(first, second): float(one[first] + two[second]) for second in range(VOCAB)}
    right = max(totals, key=totals.__getitem__)
    assert best.ids == right
    assert abs(best.log_probability - totals[right]) < 1e-4


def rows(model, ids):
    """The log-probabilities of what follows each id."""
    network = model.loaded.network
    with torch.inference_mode():
        return network.next_logits(network(pack([ids]))[: len(ids)]).log_softmax(-1)


def test_more_beams_than_tokens_are_refused(model):
    with pytest.raises(SettingError, match=f"--beams 100 is more than the vocabulary of {VOCAB}"):
        found(model, [3], beams=100)


def test_each_prompt_may_have_settings_of_its_own(model):
    prompts = [[5, 9, 2], [3], [7, 8]]
    ways = [
        Generating(beams=beams, max_new_tokens=new, batch_texts=2) for beams, new in [(2, 5), (4, 3), (1, 6)]
    ]
    apart = [next(beam_search(model, [one], settings=way)) for one, way in zip(prompts, ways, strict=True)]
    assert list(beam_search(model, prompts, settings=ways)) == apart
    with pytest.raises(SettingError, match="2 settings were given for 3 prompts; give one for each"):
        next(beam_search(model, prompts, settings=ways[:2]))


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"beams": 2, "temperature": 1.0}, "--beams searches for the most likely answer; --temperature"),
        ({"beams": 2, "samples": 3}, "--samples 3 is more than --beams 2"),
        ({"length_penalty": 2.0}, "--length-penalty is for beam search"),
        ({"early_stopping": True}, "--early-stopping is for beam search"),
        ({"beams": 0}, "--beams 0 must be at least 1"),
    ],
)
def test_contradictory_options_are_refused_by_name(settings, named):
    with pytest.raises(SettingError, match=named):
        Generating(**settings)


def test_a_choice_among_given_answers_is_told_with_its_log_probability(model):
    prompt, options = [5, 9, 2, 11], ["good bread", "cold", "the soup was slow ."]
    choices = choose(model, prompt, options=options)
    assert {choice.text for choice in choices} == set(options)
    for choice in choices:
        (ids,) = model.tokenizer.plain([choice.text])
        said = rows(model, [*prompt, *ids])[len(prompt) - 1 :]
        whole = sum(float(row[id]) for row, id in zip(said, ids, strict=False))
        assert abs(choice.log_probability - whole) < 1e-4
        assert choice.tokens == len(ids)
    assert [choice.share for choice in choices] == sorted((one.share for one in choices), reverse=True)
    assert abs(sum(choice.share for choice in choices) - 1) < 1e-9
    for wrong in ([], ["a", "a"], ["a", ""]):
        with pytest.raises(SettingError):
            choose(model, prompt, options=wrong)
