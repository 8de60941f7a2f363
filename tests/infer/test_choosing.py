"""What generation chooses is what the textbook's rules choose, in NumPy, one array at a time."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import clearhead as ch
from clearhead.infer.beams import beam_search
from clearhead.infer.choosing import chances, chosen, ruled
from clearhead.model.layout import pack
from clearhead.reference import decoding
from clearhead.reference.layers import softmax
from clearhead.settings import Generating
from decoders import tiny_folder
from families import VOCAB

VOCABULARY = 12
logits = st.lists(
    st.floats(-30, 30, width=32), min_size=VOCABULARY, max_size=VOCABULARY, unique_by=lambda x: round(x, 3)
)
ids = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=20)


class Uniform:
    """A stream of one number."""

    def __init__(self, number):
        self.number = number

    def random(self):
        return self.number


@settings(deadline=None, max_examples=200)
@given(
    x=logits, temperature=st.floats(0.05, 5), k=st.none() | st.integers(1, 20),
    p=st.none() | st.floats(0.01, 1), least=st.none() | st.floats(0.01, 1), uniform=st.floats(0, 0.999),
)  # fmt: skip
def test_sampling_is_the_textbooks(x, temperature, k, p, least, uniform):
    asked = Generating(temperature=temperature, top_k=k, top_p=p, min_p=least)
    scores = torch.tensor(x, dtype=torch.float32)
    plain = decoding.tempered(scores.numpy(), temperature)
    if k is not None:
        plain = decoding.top_k(plain, k)
    if p is not None:
        plain = decoding.nucleus(plain, p)
    if least is not None:
        plain = decoding.min_p(plain, least)
    right = softmax(plain)
    mine = chances(scores, asked).numpy()
    assume(not near_a_border(scores.numpy(), temperature, p=p, least=least))
    np.testing.assert_allclose(mine, right, atol=1e-12)
    ends = right.cumsum()
    assume(np.abs(ends - uniform).min() > 1e-9)
    assert chosen(scores, asked, chance=Uniform(uniform)) == decoding.sample(plain, uniform)


def near_a_border(x, temperature, *, p, least):
    """Whether rounding decides which side of a threshold a token falls on."""
    shares = np.sort(softmax(decoding.tempered(x, temperature)))[::-1]
    sums = shares.cumsum()
    close = p is not None and np.abs(sums - p).min() < 1e-9
    return bool(close or (least is not None and np.abs(shares - least * shares[0]).min() < 1e-9))


@settings(deadline=None, max_examples=200)
@given(
    x=logits, row=ids, penalty=st.floats(0.2, 5), size=st.integers(0, 4), new=st.integers(0, 5),
    least=st.integers(0, 5), ends=st.lists(st.integers(0, VOCABULARY - 1), max_size=2),
)  # fmt: skip
def test_penalties_and_bans_are_the_textbooks(x, row, penalty, size, new, least, ends):
    asked = Generating(repetition_penalty=penalty, no_repeat_ngram_size=size, min_new_tokens=least)
    scores = torch.tensor(x, dtype=torch.float64)
    right = decoding.repetition_penalty(scores.numpy(), row, penalty=penalty)
    if size:
        right = decoding.without(right, decoding.repeating(row, size))
    if new < least:
        right = decoding.without(right, ends)
    mine = ruled(scores, row, new=new, ends=ends, settings=asked)
    np.testing.assert_allclose(mine.numpy(), right, rtol=1e-12)
    if np.isfinite(right).any():
        assert chosen(mine, asked, chance=Uniform(0)) == decoding.greedy(right)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return ch.load(tiny_folder(tmp_path_factory.mktemp("beams"), "qwen3", wide=True))


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("penalty", [-0.5, 0.0, 1.0, 2.0])
@pytest.mark.parametrize("beams", [2, 3, 7])
def test_beams_are_the_textbooks(model, beams, penalty, early):
    network = model.loaded.network

    def judged(whole):
        with torch.inference_mode():
            stream = network(pack([whole]))[len(whole) - 1 : len(whole)]
            return network.next_logits(stream)[0].double().log_softmax(-1).numpy()

    for start in range(4):
        prompt = [(7 * place + start) % (VOCAB - 2) + 2 for place in range(3 + start)]
        right = decoding.beam_search(
            judged, prompt, beams=beams, most=8, ends=model.loaded.ends, length_penalty=penalty,
            early_stopping=early,
        )  # fmt: skip
        asked = Generating(
            beams=beams, samples=beams, max_new_tokens=8, length_penalty=penalty, early_stopping=early
        )
        (mine,) = beam_search(model, [prompt], settings=asked)
        assert [beam.ids for beam in mine] == [one.tokens for one in right]
        np.testing.assert_allclose(
            [beam.score for beam in mine], [one.score for one in right], atol=1e-4, rtol=1e-4
        )
