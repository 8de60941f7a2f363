"""Beam search: by hand, against the best of all sequences, and against the published code."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference_folders import VOCAB, Published
from transformers import GPT2Config, GPT2LMHeadModel

from clearhead.errors import SettingError
from clearhead.reference import read
from clearhead.reference.decoding import Hypothesis, beam_search, greedy, log_softmax

NEVER = -math.inf


def table(rows):
    """A model that judges by the last token alone."""
    return lambda ids: np.log(rows[ids[-1]])


# Greedy begins with 1 (0.6), after which all is unlikely; 2 (0.4) leads to 3 surely.
HIDDEN = table(
    {
        0: [1e-9, 0.6, 0.4, 1e-9],
        1: [0.3, 0.3, 0.2, 0.2],
        2: [1e-9, 1e-9, 1e-9, 1.0],
        3: [0.25, 0.25, 0.25, 0.25],
    }
)


def test_two_beams_find_what_greedy_misses():
    one = beam_search(HIDDEN, [0], beams=1, most=2)
    two = beam_search(HIDDEN, [0], beams=2, most=2)
    assert one[0].tokens == (1, 0)
    assert two[0].tokens == (2, 3)
    assert two[0].score == pytest.approx(math.log(0.4) / 2)
    assert two[1] == Hypothesis((1, 0), pytest.approx(math.log(0.18) / 2))


def test_each_hypothesis_finishes_by_itself():
    """Token 0 is the end. After one step it is second; the other runs on and ends a step later."""
    rows = {5: [0.4, 0.6, 1e-9], 1: [0.9, 0.05, 0.05], 2: [0.1, 0.1, 0.8]}
    found = beam_search(table(rows), [5], beams=2, most=4, ends={0}, length_penalty=0.0)
    assert [one.tokens for one in found] == [(1, 0), (0,)]
    assert found[0].score == pytest.approx(math.log(0.54))
    assert found[1].score == pytest.approx(math.log(0.4))


def test_an_end_below_the_best_beams_does_not_count():
    rows = {5: [0.2, 0.5, 0.3], 1: [0.01, 0.98, 0.01], 2: [0.01, 0.01, 0.98]}
    found = beam_search(table(rows), [5], beams=2, most=1, ends={0})
    assert [one.tokens for one in found] == [(1,), (2,)]


def test_the_prompt_counts_neither_for_scores_nor_for_lengths():
    def model(ids):
        return np.log([0.5, 0.3, 0.2])

    short, long = (beam_search(model, [0] * count, beams=3, most=3, ends=[2]) for count in (1, 50))
    assert short == long


def test_the_length_penalty_decides_between_short_and_long():
    rows = {5: [0.45, 0.55, 1e-9], 1: [1e-9, 0.7, 0.3], 2: [0.1, 0.1, 0.8]}

    def best(penalty):
        return beam_search(table(rows), [5], beams=2, most=3, ends=[0], length_penalty=penalty)[0].tokens

    assert best(0.0) == (0,)
    assert best(2.0) == (1, 1, 1)


def test_stopping_early_is_content_with_the_first_that_finish():
    """Token 0 is the end, found twice in two steps; (1, 1, 1) is better and takes three."""
    rows = {5: [0.3, 0.6, 0.1], 1: [0.2, 0.79, 0.01], 2: [0.98, 0.01, 0.01]}

    def search(early):
        return beam_search(table(rows), [5], beams=2, most=3, ends=[0], early_stopping=early)

    assert [one.tokens for one in search(True)] == [(1, 0), (0,)]
    assert search("never")[0].tokens == (1, 1, 1)


def test_what_has_probability_zero_is_never_found():
    rows = {0: [0.0, 1.0], 1: [1.0, 0.0]}
    with np.errstate(divide="ignore"):
        found = beam_search(table(rows), [0], beams=4, most=3)
    assert [one.tokens for one in found] == [(1, 0, 1)]


@st.composite
def models(draw):
    """A random model of three or fewer tokens that sees the whole text, and how many tokens may follow."""
    seed = draw(st.integers(0, 2**32 - 1))
    vocab, most = draw(st.integers(1, 3)), draw(st.integers(1, 4))

    def model(ids):
        random = np.random.default_rng([seed, len(ids), *ids])
        return log_softmax(random.normal(scale=2.0, size=vocab))

    return model, vocab, most


def everything(model, *, vocab, most, ends, penalty):
    """The score of every sequence that ends, or is as long as may be."""
    found = {}
    for length in range(1, most + 1):
        for tokens in product(range(vocab), repeat=length):
            if (length == most or tokens[-1] in ends) and not set(tokens[:-1]) & set(ends):
                total = sum(model([0, *tokens[:i]])[token] for i, token in enumerate(tokens))
                found[tokens] = total / length**penalty
    return found


@given(
    models(),
    st.sets(st.integers(0, 2)),
    st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0]),
    st.sampled_from([False, "never"]),
)
def test_as_many_beams_as_sequences_find_them_all(model, ends, penalty, early):
    judge, vocab, most = model
    scores = everything(judge, vocab=vocab, most=most, ends=ends, penalty=penalty)
    found = beam_search(
        judge,
        [0],
        beams=vocab**most + len(scores),
        most=most,
        ends=ends,
        length_penalty=penalty,
        early_stopping=early,
    )
    assert {one.tokens for one in found} == set(scores)
    np.testing.assert_allclose([one.score for one in found], sorted(scores.values(), reverse=True))
    assert found[0].score == pytest.approx(max(scores.values()))


@given(models())
def test_one_beam_is_greedy(model):
    judge, _, most = model
    ids = [0]
    for _ in range(most):
        ids.append(greedy(judge(ids)))
    assert beam_search(judge, [0], beams=1, most=most)[0].tokens == tuple(ids[1:])


@given(models(), st.integers(1, 4), st.sets(st.integers(0, 2)), st.sampled_from([True, False, "never"]))
def test_results_are_sorted_different_and_scored_as_they_say(model, beams, ends, early):
    judge, _, most = model
    found = beam_search(judge, [0], beams=beams, most=most, ends=ends, early_stopping=early)
    assert 1 <= len(found) <= beams
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert len({one.tokens for one in found}) == len(found)
    for one in found:
        assert len(one.tokens) == most or one.tokens[-1] in ends
        assert not set(one.tokens[:-1]) & ends
        total = sum(judge([0, *one.tokens[:i]])[token] for i, token in enumerate(one.tokens))
        assert one.score == pytest.approx(total / len(one.tokens))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A GPT-2 whose weights are so wide that its choices are clear."""
    sizes = {"n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 32, "bos_token_id": 0, "eos_token_id": 0}
    folder = tmp_path_factory.mktemp("tiny")
    Published(folder, GPT2LMHeadModel, GPT2Config(vocab_size=VOCAB, **sizes))
    return GPT2LMHeadModel.from_pretrained(folder).double().eval(), read(folder)


@pytest.mark.parametrize("ends", [[3], [3, 9, 17, 28], [9]])
@pytest.mark.parametrize("penalty", [-1.0, 0.0, 1.0, 2.0])
@pytest.mark.parametrize("early", [True, False, "never"])
def test_the_published_search_finds_the_same(tiny, early, penalty, ends):
    theirs, ours = tiny
    prompts = np.random.default_rng(3).integers(4, VOCAB, size=(4, 3))
    for prompt in prompts.tolist():
        with torch.no_grad():
            answer = theirs.generate(
                torch.tensor([prompt]),
                attention_mask=torch.ones(1, 3, dtype=torch.long),
                do_sample=False,
                num_beams=4,
                num_return_sequences=4,
                max_new_tokens=7,
                length_penalty=penalty,
                early_stopping=early,
                eos_token_id=ends,
                pad_token_id=0,
                return_dict_in_generate=True,
                output_scores=True,
            )
        found = beam_search(
            lambda ids: log_softmax(ours.next_logits(ids)),
            prompt,
            beams=4,
            most=7,
            ends=ends,
            length_penalty=penalty,
            early_stopping=early,
        )
        for one, ids, score in zip(found, answer.sequences, answer.sequences_scores, strict=True):
            assert ids[3 : 3 + len(one.tokens)].tolist() == list(one.tokens)
            assert one.score == pytest.approx(score.item(), abs=1e-4)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"beams": 0, "most": 1}, "num_beams=0 must be at least 1"),
        ({"beams": 1, "most": 0}, "max_new_tokens=0 must be at least 1"),
    ],
)
def test_what_cannot_work_is_refused_by_name(fields, message):
    with pytest.raises(SettingError, match=message):
        beam_search(HIDDEN, [0], **fields)
