"""Going on with texts: the same answer in any company, and the published code's where both decode alike."""

import random

import pytest
import torch

import clearhead as ch
from clearhead.check.textbook import explicit
from clearhead.errors import DataError, SettingError
from clearhead.infer.generate import tokens
from clearhead.model.kernels import Context
from clearhead.model.layout import pack
from clearhead.settings import Generating
from decoders import tiny_folder
from families import VOCAB

NAMES = ("gpt2", "llama", "mistral", "qwen3", "gpt_neox")


@pytest.fixture(scope="module", params=NAMES)
def folder(request, tmp_path_factory):
    changes = {"n_positions": 512} if request.param == "gpt2" else {"max_position_embeddings": 512}
    return tiny_folder(tmp_path_factory.mktemp(request.param), request.param, wide=True, **changes)


@pytest.fixture(scope="module")
def model(folder):
    return ch.load(folder)


def prompts(count=7, most=60):
    chance = random.Random(3)
    return [[chance.randrange(2, VOCAB) for _ in range(chance.randint(1, most))] for _ in range(count)]


def answers(model, given, **settings):
    found = {}
    for token in tokens(model, given, settings=Generating(**settings)):
        found.setdefault((token.text, token.sample), []).append(token)
    return found


def ids(found):
    return {key: [token.id for token in row] for key, row in found.items()}


def test_greedy_is_the_most_likely_token_of_the_whole_pass_each_time(model):
    network = model.loaded.network
    given = prompts()
    found = answers(model, given, max_new_tokens=12)
    for index, prompt in enumerate(given):
        row = list(prompt)
        for token in found[index, 0]:
            batch = pack([row])
            with torch.inference_mode():
                stream = network(batch, Context.of(batch.layout, attend=explicit))[len(row) - 1 : len(row)]
                logits = network.next_logits(stream)[0]
            assert int(logits.argmax()) == token.id
            assert abs(float(logits.log_softmax(-1)[token.id]) - token.log_probability) < 1e-4
            row.append(token.id)


@pytest.mark.parametrize(
    "settings",
    [{}, {"temperature": 0.9, "top_p": 0.9}, {"temperature": 1.3, "top_k": 9, "samples": 2}],
    ids=["greedy", "nucleus", "top-k"],
)
def test_an_answer_does_not_depend_on_its_company(model, settings):
    given = prompts()
    together = answers(model, given, max_new_tokens=20, **settings)
    for order in ([4, 2, 6, 0], [1], [5, 3]):
        for most in (1, 3, 16):
            found = answers(
                model, [given[index] for index in order], max_new_tokens=20, batch_texts=most, **settings
            )
            for (place, sample), row in found.items():
                right = together[order[place], sample]
                assert [(token.id, token.log_probability) for token in row] == [
                    (token.id, token.log_probability) for token in right
                ]


@pytest.mark.parametrize("most", [1, 4, 9])
def test_guesses_from_the_prompt_change_no_bit_of_a_greedy_answer(model, most):
    given = [prompt * 3 for prompt in prompts(4, 20)]
    plain = answers(model, given, max_new_tokens=40)
    for batch in (1, 16):
        guessed = answers(model, given, max_new_tokens=40, lookup=most, batch_texts=batch)
        assert guessed == plain


def test_a_seed_repeats_and_samples_differ(model):
    given = prompts(2)
    settings = {"temperature": 1.0, "max_new_tokens": 12, "samples": 3}
    one, two = (ids(answers(model, given, seed=5, **settings)) for _ in range(2))
    assert one == two
    assert one != ids(answers(model, given, seed=6, **settings))
    assert len({tuple(one[0, sample]) for sample in range(3)}) > 1


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({}, {}),
        ({"repetition_penalty": 1.7}, {"repetition_penalty": 1.7}),
        ({"no_repeat_ngram_size": 2}, {"no_repeat_ngram_size": 2}),
        ({"min_new_tokens": 9}, {"min_new_tokens": 9}),
    ],
    ids=["greedy", "penalty", "n-grams", "least"],
)
def test_greedy_answers_are_those_of_transformers(folder, model, ours, theirs):
    from transformers import AutoModelForCausalLM

    published = AutoModelForCausalLM.from_pretrained(folder).eval()
    published.generation_config.eos_token_id = list(model.loaded.ends)
    for index, prompt in enumerate(given := prompts()):
        with torch.no_grad():
            right = published.generate(
                torch.tensor([prompt]), max_new_tokens=20, do_sample=False, pad_token_id=0, **theirs
            )[0, len(prompt) :].tolist()
        assert ids(answers(model, given, max_new_tokens=20, **ours))[index, 0] == right


def test_an_answer_ends_for_a_reason_that_is_told(model):
    given = prompts(1)
    free = answers(model, given, max_new_tokens=30)[0, 0]
    assert free[-1].end in ("end", "length")
    assert all(token.end is None for token in free[:-1])
    short = answers(model, given, max_new_tokens=4)[0, 0]
    assert len(short) == 4 and short[-1].end == "length"
    text = "".join(token.piece for token in free)
    middle = text[len(text) // 2 : len(text) // 2 + 3]
    cut = answers(model, given, max_new_tokens=30, stop=[middle])[0, 0]
    assert "".join(token.piece for token in cut) == text[: text.index(middle)]
    assert cut[-1].end == "stop"


def test_the_pieces_are_the_text_of_the_ids(model):
    given, decode = prompts(), model.tokenizer.decode
    for (text, _), row in answers(model, given, max_new_tokens=20, temperature=1.0).items():
        whole, before = decode([*given[text], *(token.id for token in row)]), decode(given[text])
        assert before + "".join(token.piece for token in row) == whole


def test_a_prompt_that_leaves_no_room_is_refused_by_name(model):
    with pytest.raises(DataError, match="prompt 1 is empty"):
        next(tokens(model, [[3], []], settings=Generating()))
    with pytest.raises(DataError, match="prompt 0 has 512 tokens, and the model has 512 positions"):
        next(tokens(model, [[3] * 512], settings=Generating()))
    last = answers(model, [[3] * 508], max_new_tokens=50, min_new_tokens=50)[0, 0]
    assert len(last) == 4 and last[-1].end == "length"


def test_an_encoder_cannot_generate(tmp_path):
    from families import tiny_folder as tiny_encoder

    encoder = ch.load(tiny_encoder(tmp_path / "bert", "bert"))
    with pytest.raises(SettingError, match="bert has no language head, so it cannot generate"):
        next(tokens(encoder, [[3]], settings=Generating()))


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"temperature": -1}, "--temperature -1 must be at least 0"),
        ({"top_k": 5}, "--top-k is for sampling; give --temperature above 0"),
        ({"temperature": 1, "top_p": 0.0}, "--top-p 0.0 must be above 0"),
        ({"temperature": 1, "min_p": 2.0}, "--min-p 2.0 must be above 0"),
        ({"repetition_penalty": 0.0}, "--repetition-penalty 0.0 must be above 0"),
        ({"max_new_tokens": 0}, "--max-new-tokens 0 must be at least 1"),
        ({"min_new_tokens": 9, "max_new_tokens": 8}, "--min-new-tokens 9 is more than --max-new-tokens 8"),
        ({"samples": 2}, "--samples of a greedy answer are all alike"),
        ({"stop": [""]}, "--stop is empty"),
    ],
)
def test_contradictory_options_are_refused_by_name(settings, named):
    with pytest.raises(SettingError, match=named):
        Generating(**settings)


def test_a_tiny_temperature_is_greedy(model):
    given = prompts(3)
    greedy = ids(answers(model, given, max_new_tokens=10))
    assert ids(answers(model, given, max_new_tokens=10, temperature=1e-12)) == greedy
    assert ids(answers(model, given, max_new_tokens=10, temperature=1.0, top_k=1)) == greedy


def test_bfloat16_answers_are_near_those_of_float32(folder, model):
    half = ch.load(folder, dtype="bfloat16")
    assert {part.dtype for part in half.loaded.network.parameters()} == {torch.bfloat16}
    batch = pack(given := prompts(3))
    with torch.inference_mode():
        near, right = (
            one.loaded.network.next_logits(one.loaded.network(batch)).float() for one in (half, model)
        )
    kept = batch.layout.tokens - batch.layout.spare
    gap = (near - right)[:kept].norm() / right[:kept].norm()
    assert 1e-5 < gap < 0.1
    assert len(answers(half, given, max_new_tokens=5)) == 3
