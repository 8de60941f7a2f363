"""Laws of the packed encoder."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.check.textbook import explicit
from clearhead.checkpoint.fresh import new_transformer
from clearhead.checkpoint.sizes import sizes
from clearhead.engine.dropout import Dropout
from clearhead.errors import SettingError
from clearhead.infer.batches import unpad
from clearhead.model.config import (
    Activation,
    Config,
    Head,
    Learned,
    Norm,
    Pooling,
    Relative,
    Rotary,
    Sinusoidal,
)
from clearhead.model.kernels import Context
from clearhead.model.layout import pack
from clearhead.model.linear import activation_for
from clearhead.model.transformer import Transformer

CONFIG = Config(
    vocab=50, width=16, layers=2, heads=2, hidden=24, positions=Sinusoidal(), activation=Activation.RELU,
    scale_embedding=True,
)  # fmt: skip
SHAPES = [
    CONFIG,
    replace(CONFIG, positions=Learned(64), norm_first=True, activation=Activation.GELU_TANH),
    replace(CONFIG, width=20, hidden=33, activation=Activation.GELU_TANH),
    replace(
        CONFIG,
        positions=Rotary(64, 1000.0, local_base=50.0),
        norm_first=True,
        first_norm=False,
        gated=True,
        bias=False,
        norm_bias=False,
        window=3,
        global_every=3,
        layers=4,
        embedding_norm=True,
    ),
    replace(CONFIG, embedding_width=8, positions=Learned(64, offset=2), embedding_norm=True),
    replace(
        CONFIG, width=384, hidden=1536, heads=12, activation=Activation.GELU, embedding_norm=True, segments=2
    ),
]
texts = st.lists(st.lists(st.integers(0, 49), min_size=1, max_size=30), min_size=1, max_size=12)


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.detach().numpy().tobytes()


@pytest.mark.parametrize("config", SHAPES, ids=["after", "before", "odd", "rotary", "narrow", "wide"])
@pytest.mark.parametrize("pooling", Pooling)
def test_a_neighbour_changes_no_bit(config, pooling):
    model = new_transformer(config, Head(3, pooling, dense=pooling is Pooling.CLS), seed=0)

    @settings(max_examples=25, deadline=None)
    @given(texts)
    def law(texts):
        with torch.inference_mode():
            together = model.classify(pack(texts))
            for text, logits in zip(texts, together, strict=True):
                assert bits(model.classify(pack([text]))[0]) == bits(logits)

    law()


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_a_neighbour_changes_no_bit_whatever_the_number_of_threads(threads):
    model = new_transformer(SHAPES[-1], Head(2), seed=0)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        generator = torch.Generator().manual_seed(threads)
        lengths = torch.randint(1, 90, (120,), generator=generator).tolist()
        texts = [torch.randint(0, 50, (length,), generator=generator).tolist() for length in lengths]
        with torch.inference_mode():
            together = model.classify(pack(texts))
            changed = sum(
                bits(model.classify(pack([t]))[0]) != bits(row)
                for t, row in zip(texts, together, strict=True)
            )
        assert changed == 0
    finally:
        torch.set_num_threads(before)


@settings(max_examples=25, deadline=None)
@given(texts)
def test_the_packed_kernel_equals_the_textbook(texts):
    model = new_transformer(SHAPES[1], Head(3), seed=0).double()
    batch = pack(texts)
    with torch.inference_mode():
        fast = model.classify(batch)
        slow = model.classify(batch, Context.of(batch.layout, attend=explicit))
    torch.testing.assert_close(fast, slow, atol=1e-12, rtol=1e-12)


def test_both_kernels_give_the_same_gradients():
    model = new_transformer(SHAPES[1], Head(3), seed=0).double()
    batch = pack([[1, 2, 3], [4], [5, 6, 7], [8, 9]])
    grads = []
    for kernel in (None, explicit):
        model.zero_grad()
        model.classify(batch, Context.of(batch.layout, attend=kernel)).square().sum().backward()
        grads.append([parameter.grad.clone() for parameter in model.parameters()])
    for fast, slow in zip(*grads, strict=True):
        torch.testing.assert_close(fast, slow, atol=1e-12, rtol=1e-12)


def test_a_text_of_nothing_but_padding_harms_no_gradient():
    """Public report A05: the gradients of a real text are finite and those of the text alone."""
    model = new_transformer(CONFIG, Head(2), seed=0)
    ids = torch.tensor([[3, 4, 5, 6], [0, 0, 0, 0]])
    model.classify(unpad(ids, torch.tensor([[1, 1, 1, 1], [0, 0, 0, 0]])))[0].sum().backward()
    together = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad()
    model.classify(pack([[3, 4, 5, 6]]))[0].sum().backward()
    alone = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    for one, two in zip(together, alone, strict=True):
        assert one.isfinite().all()
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("pooling", Pooling)
def test_a_texts_vector_does_not_depend_on_padding_or_side(pooling):
    """Public reports A34 and A41: alone, in company, padded on either side; an empty text gives zeros."""
    model = new_transformer(CONFIG, Head(0, pooling, dense=False), seed=0)
    with torch.inference_mode():
        alone = vectors(model, pack([[7, 8, 9]]))
        company = vectors(model, pack([[7, 8, 9], list(range(20))]))
        left = vectors(model, unpad(torch.tensor([[0, 0, 7, 8, 9]]), torch.tensor([[0, 0, 1, 1, 1]])))
        right = vectors(model, unpad(torch.tensor([[7, 8, 9, 0, 0]]), torch.tensor([[1, 1, 1, 0, 0]])))
        nothing = vectors(model, unpad(torch.tensor([[0, 0]]), torch.tensor([[0, 0]])))
    assert bits(alone[0]) == bits(company[0]) == bits(left[0]) == bits(right[0])
    assert nothing.tolist() == [[0.0] * CONFIG.width]


def vectors(model: Transformer, batch) -> torch.Tensor:
    context = Context.of(batch.layout)
    return model.head(model(batch, context), context)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_no_dtype_gives_nan(dtype):
    model = new_transformer(CONFIG, Head(2), seed=0).to(dtype)
    with torch.inference_mode():
        assert model.classify(pack([[1, 2], [3, 4, 5, 6], []])).isfinite().all()


def test_without_positions_a_text_is_a_bag_and_with_them_it_is_not():
    model = new_transformer(CONFIG, Head(2, Pooling.MEAN, dense=False), seed=0).double()
    one, two = pack([[1, 2, 3, 4]]), pack([[3, 1, 4, 2]])
    with torch.inference_mode():
        assert not torch.allclose(model.classify(one), model.classify(two))
        model.embedding.positions.forward = lambda layout, like: torch.zeros_like(like)
        torch.testing.assert_close(model.classify(one), model.classify(two))


def test_sinusoids_know_no_longest_text_and_learned_positions_do():
    assert CONFIG.limit is None and SHAPES[1].limit == 64
    model = new_transformer(CONFIG, Head(2), seed=0)
    with torch.inference_mode():
        assert model.classify(pack([[1] * 1500])).isfinite().all()


def test_the_same_seed_gives_the_same_model_whatever_was_drawn_before():
    torch.manual_seed(1)
    one = new_transformer(CONFIG, Head(2), seed=5)
    state = torch.get_rng_state()
    torch.rand(100)
    two = new_transformer(CONFIG, Head(2), seed=5)
    other = new_transformer(CONFIG, Head(2), seed=6)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert not torch.equal(one.embedding.tokens.weight, other.embedding.tokens.weight)
    assert not torch.equal(state, torch.get_rng_state())


def test_making_a_model_leaves_the_global_stream_of_random_numbers_alone():
    state = torch.get_rng_state()
    new_transformer(CONFIG, Head(2), seed=5)
    assert torch.equal(state, torch.get_rng_state())


def test_dropout_drops_its_share_and_keeps_the_mean():
    x = torch.ones(200, 500)
    dropped = Dropout(torch.Generator().manual_seed(0))(x, 0.3)
    assert abs((dropped == 0).float().mean() - 0.3) < 0.01
    assert abs(dropped.mean() - 1) < 0.01
    again = Dropout(torch.Generator().manual_seed(0))(x, 0.3)
    assert torch.equal(dropped, again)
    assert torch.equal(Dropout(torch.Generator(), rate=0.0)(x, 0.3), x)


@pytest.mark.parametrize("config", SHAPES, ids=["after", "before", "odd", "rotary", "narrow", "wide"])
@pytest.mark.parametrize("head", [None, Head(0), Head(4, Pooling.MEAN, dense=False), Head(3)])
def test_sizes_from_facts_are_those_of_the_model(config, head):
    model = new_transformer(config, head, seed=0)
    assert sizes(config, head).parameters == sum(parameter.numel() for parameter in model.parameters())


TRANSLATES = replace(CONFIG, decoder_layers=3, language_head=True)
BOTH = {
    "plain": TRANSLATES,
    "untied": replace(TRANSLATES, tied=False, language_bias=True, norm_first=True),
    "two-vocabularies": replace(TRANSLATES, target_vocab=31, language_bias=True, kv_heads=1),
    "learned": replace(TRANSLATES, positions=Learned(64, offset=2), embedding_norm=True, tied=False),
    "relative": replace(
        TRANSLATES, positions=Relative(8, 20), norm=Norm.RMS, norm_first=True, bias=False, head_width=5,
        gated=True, tied=False, target_vocab=70,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BOTH)
def test_sizes_of_an_encoder_decoder_are_those_of_the_model(name):
    model, found = new_transformer(BOTH[name], None, seed=0), sizes(BOTH[name])
    assert found.parameters == sum(parameter.numel() for parameter in model.parameters())
    tables = [part.weight for part in model.modules() if isinstance(part, torch.nn.Embedding)]
    assert found.embedding == sum(table.numel() for table in tables)


@pytest.mark.parametrize("config", [*SHAPES, *BOTH.values()])
def test_every_weight_of_a_new_model_is_drawn(config, monkeypatch):
    """None is what happened to lie in memory."""
    plain = torch.nn.Module.to_empty

    def poisoned(module, **options):
        made = plain(module, **options)
        with torch.no_grad():
            for parameter in made.parameters():
                parameter.fill_(torch.nan)
        return made

    monkeypatch.setattr(torch.nn.Module, "to_empty", poisoned)
    for head in [None] if config.translates else [None, Head(3), Head(4, Pooling.MEAN, dense=False)]:
        model = new_transformer(config, head, seed=0)
        assert all(parameter.isfinite().all() for parameter in model.parameters())


def test_heads_that_do_not_divide_the_width_are_refused_by_name():
    with pytest.raises(SettingError, match="width=16 cannot be shared by heads=3 evenly"):
        replace(CONFIG, heads=3)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"language_head": True}, "language_head=True"),
        ({"decoder_layers": 2, "causal": True}, "decoder_layers=2 does not go with causal=True"),
        ({"decoder_layers": 2, "segments": 2}, "segments=2"),
        ({"decoder_layers": 2, "language_head": True, "qk_norm": True}, "qk_norm=True"),
        ({"decoder_layers": 2, "language_head": True, "first_norm": False}, "first_norm=False"),
        ({"target_vocab": 0}, "target_vocab=0"),
        ({"positions": Relative(3, 128)}, "positions.buckets=3"),
        ({"positions": Relative(32, 8)}, "positions.distance=8"),
    ],
)
def test_facts_that_do_not_go_together_are_refused_by_name(change, named):
    with pytest.raises(SettingError, match=named):
        Transformer(replace(CONFIG, **change))


@pytest.mark.parametrize(
    ("activation", "at_one", "at_gap"),
    [
        (Activation.GELU, 0.8413447, 2.6906392),
        (Activation.GELU_TANH, 0.8411920, 2.6911124),
        (Activation.RELU, 1.0, 2.7),
        (Activation.TANH, 0.7615942, 0.9910075),
        (Activation.SILU, 0.7310586, 2.5299719),
    ],
)
def test_both_forms_of_gelu_are_what_they_say(activation, at_one, at_gap):
    """Case A42: the two differ most, by 4.7e-4, near 2.7."""
    found = activation_for(activation)(torch.tensor([1.0, 2.7], dtype=torch.float64))
    torch.testing.assert_close(found, torch.tensor([at_one, at_gap], dtype=torch.float64), atol=1e-6, rtol=0)


@pytest.mark.parametrize("inner", [0.0, 0.3])
def test_a_rate_of_the_run_adds_no_place_to_drop_at(inner):
    """After the embedding; in each block attention's weights, its output, the feed-forward network's; inside
    that only where the architecture drops there. A plain loop with one rate drops at the same places."""
    config = replace(CONFIG, hidden_dropout=inner)
    network, asked = new_transformer(config, None, seed=0), []

    class Counted(Dropout):
        def __call__(self, x, rate):
            asked.append(self.rate_of(rate))
            return super().__call__(x, rate)

    batch = pack([[1, 2, 3]])
    network(batch, Context.of(batch.layout, attend=explicit, drop=Counted(torch.Generator(), 0.5)))
    assert asked == [0.5] * (1 + config.layers * (3 + bool(inner)))
