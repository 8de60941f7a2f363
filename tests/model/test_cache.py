"""What was computed before is not computed again, and changes nothing."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.check.textbook import explicit
from clearhead.checkpoint.fresh import new_transformer
from clearhead.model.cache import Cache
from clearhead.model.config import Activation, Config, Learned, Norm, Rotary, Sinusoidal
from clearhead.model.kernels import Context
from clearhead.model.layout import pack

PLAIN = {
    "vocab": 40,
    "width": 16,
    "layers": 3,
    "heads": 4,
    "hidden": 24,
    "causal": True,
    "language_head": True,
}
SHAPES = {
    "learned": Config(**PLAIN, positions=Learned(200), norm_first=True, activation=Activation.GELU_TANH),
    "sinusoidal": Config(**PLAIN, positions=Sinusoidal()),
    "rotary": Config(
        **PLAIN, positions=Rotary(200, 10000.0), norm=Norm.RMS, norm_first=True, gated=True, kv_heads=2,
        activation=Activation.SILU, bias=False,
    ),
    "window": Config(
        **PLAIN, positions=Rotary(200, 100.0), norm_first=True, window=5, kv_heads=1, qk_norm=True,
    ),
    "some windows": Config(
        **PLAIN, positions=Rotary(200, 100.0, share=0.5), norm_first=True, window=70, global_every=2,
        parallel=True,
    ),
}  # fmt: skip


def network_of(name, dtype=torch.float64):
    return new_transformer(SHAPES[name], None, seed=0).to(dtype)


def whole(network, text, **options):
    batch = pack([text])
    return network(batch, Context.of(batch.layout, **options))[: len(text)]


def in_steps(network, texts, *, cuts, **options):
    """The stream of each text, computed in steps: `cuts[text]` are the lengths of its pieces."""
    cache = Cache(network.config, len(texts))
    found = [[] for _ in texts]
    for step in range(max(len(cut) for cut in cuts)):
        pieces = []
        for text, cut, past in zip(texts, cuts, cache.lengths, strict=True):
            pieces.append(text[past : past + cut[step]] if step < len(cut) else [])
        batch = pack(pieces, past=cache.lengths)
        stream = network(batch, Context.of(batch.layout, cache=cache, **options))
        for index, rows in enumerate(batch.layout.slices):
            found[index].append(stream[rows])
    return [torch.cat(parts) for parts in found]


@st.composite
def cut_texts(draw):
    texts = draw(st.lists(st.lists(st.integers(0, 39), min_size=1, max_size=100), min_size=1, max_size=4))
    cuts = []
    for text in texts:
        left, cut = len(text), []
        while left:
            cut.append(draw(st.integers(1, left)))
            left -= cut[-1]
        cuts.append(cut)
    return texts, cuts


@pytest.mark.parametrize("name", SHAPES)
def test_any_split_into_cached_steps_gives_the_same_vectors(name):
    network = network_of(name)

    @settings(max_examples=30, deadline=None)
    @given(cut_texts())
    def law(drawn):
        texts, cuts = drawn
        with torch.inference_mode():
            for text, mine in zip(texts, in_steps(network, texts, cuts=cuts), strict=True):
                torch.testing.assert_close(
                    mine, whole(network, text, attend=explicit), atol=1e-10, rtol=1e-10
                )

    law()


@pytest.mark.parametrize(
    "cut", [[1, 2], [2, 1], [5, 3, 2], [1] * 10, [9, 1], [150, 1, 30, 2], [5, *[1] * 5], [5, 3, 1, 1]]
)
@pytest.mark.parametrize("name", SHAPES)
def test_known_splits_with_either_kernel_in_float32(name, cut):
    """Among them those of public report A16."""
    network = network_of(name, torch.float32)
    text = [(7 * place) % 40 for place in range(sum(cut))]
    with torch.inference_mode():
        exact = whole(network, text)
        for options in ({}, {"attend": explicit}):
            (mine,) = in_steps(network, [text], cuts=[cut], **options)
            torch.testing.assert_close(mine, exact, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", SHAPES)
def test_a_decoder_cannot_see_what_comes_later(name):
    network = network_of(name)
    text = [(7 * place) % 40 for place in range(30)]
    with torch.inference_mode():
        before = whole(network, text)
        for place in (1, 15, 29):
            other = [*text[:place], (text[place] + 1) % 40, *text[place + 1 :]]
            after = whole(network, other)
            assert torch.equal(after[:place], before[:place])
            assert not torch.equal(after[place], before[place])


@pytest.mark.parametrize("name", SHAPES)
def test_texts_join_leave_return_and_are_copied_at_any_step(name):
    network = network_of(name)
    texts = [[(3 * place + start) % 40 for place in range(90)] for start in range(3)]
    cache = Cache(network.config, 2)

    def step(pieces):
        batch = pack(pieces, past=cache.lengths)
        stream = network(batch, Context.of(batch.layout, cache=cache))
        return [stream[rows] for rows in batch.layout.slices]

    with torch.inference_mode():
        right = [whole(network, text) for text in texts]
        step([texts[0][:40], texts[1][:3]])
        cache.join()
        step([texts[0][40:41], texts[1][3:10], texts[2][:70]])
        cache.keep([2, 1, 2])  # the first leaves, the third is there twice
        assert cache.lengths == [70, 10, 70]
        one, two, other = step([texts[2][70:72], texts[1][10:11], [1, 2, 3]])
        torch.testing.assert_close(one, right[2][70:72])
        torch.testing.assert_close(two, right[1][10:11])
        torch.testing.assert_close(other, whole(network, [*texts[2][:70], 1, 2, 3])[70:])
        cache.forget([2, 1, 3])
        again = step([texts[2][70:90], texts[1][10:90], texts[2][70:71]])
        torch.testing.assert_close(again[0], right[2][70:90])
        torch.testing.assert_close(again[1], right[1][10:90])
        torch.testing.assert_close(again[2], right[2][70:71])


def test_room_grows_in_blocks_and_a_window_bounds_it():
    for name, count, most in (("rotary", 190, 256), ("window", 1000, 128)):
        network = network_of(name)
        cache = Cache(network.config, 1)
        with torch.inference_mode():
            for place in range(count):
                batch = pack([[place % 40]], past=cache.lengths)
                network(batch, Context.of(batch.layout, cache=cache))
        assert cache.lengths == [count]
        room = cache.texts[0][0].store.shape[2]
        assert room <= most and room % 64 == 0


def test_a_neighbour_changes_no_bit_of_a_cached_step():
    network = network_of("rotary", torch.float32)
    texts = [[(5 * place + start) % 40 for place in range(11 + 9 * start)] for start in range(6)]
    steps = [[len(text) - 2, 1, 1] for text in texts]
    with torch.inference_mode():
        together = in_steps(network, texts, cuts=steps)
        for text, cut, mine in zip(texts, steps, together, strict=True):
            (alone,) = in_steps(network, [text], cuts=[cut])
            assert torch.equal(alone, mine)
