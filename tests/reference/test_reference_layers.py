"""The layers: the numbers that the sources print, and laws that hold for all numbers."""

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from clearhead.reference import (
    Affine,
    batch_norm,
    feed_forward,
    gated_feed_forward,
    gelu,
    gelu_tanh,
    layer_norm,
    linear,
    plain_layer,
    relu,
    rms_norm,
    self_attention,
    silu,
    sinusoidal_positions,
    softmax,
)

EXERCISE = [[1, 2, 3, 4], [10, 10, 20, 20], [-1, 0, 0, 1]]
PRINTED_ROW = [-1.342, -0.447, 0.447, 1.342]

numbers = st.floats(-100, 100, allow_nan=False, width=64)
tables = arrays(np.float64, array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=6), elements=numbers)


def test_layer_norm_of_one_to_four_is_as_printed():
    np.testing.assert_array_equal(np.round(layer_norm([1, 2, 3, 4]), 3), PRINTED_ROW)


def test_the_rows_of_the_exercise_get_mean_zero_and_deviation_one():
    y = layer_norm(EXERCISE)
    np.testing.assert_array_equal(np.round(y.mean(axis=-1), 3), [0, 0, 0])
    np.testing.assert_array_equal(np.round(y.std(axis=-1), 3), [1, 1, 1])
    np.testing.assert_array_equal(np.round(y[0], 3), PRINTED_ROW)


def test_layer_norm_uses_the_biased_variance():
    np.testing.assert_allclose(layer_norm([0, 2], 0.0), [-1, 1], atol=1e-15)


def test_layer_norm_applies_scale_then_shift():
    plain = layer_norm(EXERCISE)
    learned = layer_norm(EXERCISE, scale=[1, 2, 3, 4], shift=[5, 6, 7, 8])
    np.testing.assert_allclose(learned, plain * [1, 2, 3, 4] + [5, 6, 7, 8], rtol=1e-15)


def test_layer_norm_of_equal_numbers_is_zero():
    np.testing.assert_array_equal(layer_norm([[7, 7, 7]]), [[0, 0, 0]])


@given(tables, numbers)
def test_layer_norm_does_not_see_a_number_added_to_a_whole_vector(x, constant):
    np.testing.assert_allclose(layer_norm(x + constant), layer_norm(x), atol=1e-9)


@given(tables, st.floats(0.1, 10))
def test_layer_norm_without_epsilon_does_not_see_the_size_of_a_vector(x, factor):
    assume((x.std(axis=-1) > 0.1).all())
    np.testing.assert_allclose(layer_norm(factor * x, 0.0), layer_norm(x, 0.0), atol=1e-9)


@given(tables)
def test_layer_norm_of_the_opposite_is_the_opposite(x):
    np.testing.assert_array_equal(layer_norm(-x), -layer_norm(x))


@given(tables)
def test_layer_norm_of_a_vector_is_the_same_in_every_batch(x):
    np.testing.assert_array_equal(layer_norm(x)[:1], layer_norm(x[:1]))


def test_batch_norm_of_a_vector_depends_on_its_neighbours_and_layer_norm_does_not():
    text, one, other = [1.0, 2.0, 3.0, 4.0], [0.0, 5.0, 1.0, 1.0], [9.0, 2.0, -3.0, 0.0]
    np.testing.assert_array_equal(layer_norm([text, one])[0], layer_norm([text, other])[0])
    assert np.abs(batch_norm([text, one])[0] - batch_norm([text, other])[0]).max() > 0.5


@given(tables)
def test_batch_norm_is_layer_norm_of_the_transposed_table(x):
    np.testing.assert_allclose(batch_norm(x), layer_norm(x.T).T, atol=1e-9)


def test_batch_norm_agrees_with_torch():
    x = np.random.default_rng(0).normal(size=(5, 4))
    scale, shift = np.arange(1.0, 5.0), np.arange(4.0)
    expected = torch.nn.functional.batch_norm(
        torch.from_numpy(x), None, None, torch.from_numpy(scale), torch.from_numpy(shift), training=True
    )
    np.testing.assert_allclose(batch_norm(x, scale=scale, shift=shift), expected.numpy(), atol=1e-13)


@given(tables)
def test_softmax_is_positive_and_sums_to_one(x):
    for axis in (0, 1, -1):
        y = softmax(x, axis=axis)
        assert (y >= 0).all()
        np.testing.assert_allclose(y.sum(axis=axis), 1, atol=1e-14)


@given(tables, numbers)
def test_softmax_does_not_see_a_number_added_everywhere(x, constant):
    np.testing.assert_allclose(softmax(x + constant), softmax(x), atol=1e-12)


def test_softmax_is_exponentials_over_their_sum():
    powers = [math.exp(1), math.exp(2), math.exp(-3)]
    np.testing.assert_allclose(softmax([1, 2, -3]), np.array(powers) / sum(powers), rtol=1e-15)


@pytest.mark.filterwarnings("error")
def test_softmax_of_huge_numbers_does_not_overflow():
    np.testing.assert_array_equal(softmax([1e300, 1e300, -1e300]), [0.5, 0.5, 0])


def test_softmax_gives_nothing_to_what_is_masked():
    np.testing.assert_allclose(softmax([[0, -np.inf, 0]]), [[0.5, 0, 0.5]])


@pytest.mark.filterwarnings("error")
def test_softmax_of_a_fully_masked_row_is_zero_and_leaves_other_rows_alone():
    y = softmax([[-np.inf, -np.inf], [1, 1]])
    np.testing.assert_array_equal(y, [[0, 0], [0.5, 0.5]])


def test_relu_keeps_the_positive_part():
    np.testing.assert_array_equal(relu([-2, 0, 3]), [0, 0, 3])


def test_the_two_gelus_agree_with_torch():
    x = np.linspace(-6, 6, 101)
    torch_gelu = torch.nn.functional.gelu
    np.testing.assert_allclose(gelu(x), torch_gelu(torch.from_numpy(x)).numpy(), atol=1e-15)
    np.testing.assert_allclose(
        gelu_tanh(x), torch_gelu(torch.from_numpy(x), approximate="tanh").numpy(), atol=1e-15
    )


def test_the_two_gelus_are_different_functions():
    x = np.linspace(-6, 6, 1001)
    assert 1e-4 < np.abs(gelu(x) - gelu_tanh(x)).max() < 5e-4


@given(arrays(np.float64, 5, elements=numbers))
def test_gelu_of_x_minus_gelu_of_minus_x_is_x(x):
    np.testing.assert_allclose(gelu(x) - gelu(-x), x, atol=1e-13)
    np.testing.assert_allclose(gelu_tanh(x) - gelu_tanh(-x), x, atol=1e-13)


def test_float32_goes_in_and_float64_comes_out():
    x = np.ones((2, 2), dtype=np.float32)
    functions = (relu, gelu, gelu_tanh, softmax, layer_norm, batch_norm, lambda x: linear(x, x))
    assert {function(x).dtype for function in functions} == {np.dtype(np.float64)}


def test_linear_multiplies_with_the_transposed_weight_and_adds_the_bias():
    weight = [[1, 2], [3, 4], [5, 6]]
    np.testing.assert_array_equal(linear([[1, 10]], weight), [[21, 43, 65]])
    np.testing.assert_array_equal(linear([[1, 10]], weight, bias=[1, 2, 3]), [[22, 45, 68]])


def test_feed_forward_treats_every_token_by_itself():
    random = np.random.default_rng(1)
    x = random.normal(size=(5, 4))
    expand = Affine(random.normal(size=(7, 4)), random.normal(size=7))
    contract = Affine(random.normal(size=(4, 7)), random.normal(size=4))
    together = feed_forward(x, expand, contract=contract)
    alone = [contract.weight @ relu(expand.weight @ token + expand.bias) + contract.bias for token in x]
    np.testing.assert_allclose(together, alone, atol=1e-13)


def test_a_gated_feed_forward_is_one_layer_times_the_activation_of_the_other():
    random = np.random.default_rng(5)
    x, w, v, contract = (random.normal(size=shape) for shape in ((3, 4), (5, 4), (5, 4), (4, 5)))
    expand = Affine(np.concatenate([w, v]), None)
    expected = (gelu(x @ w.T) * (x @ v.T)) @ contract.T
    found = gated_feed_forward(x, expand, contract=Affine(contract, None), activation=gelu)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)


def test_a_plain_layer_is_relu_of_beta_plus_omega_x():
    result = plain_layer([[1], [2]], omega=[[1, 1], [-1, -1]], beta=[[0.5], [0.5]])
    np.testing.assert_array_equal(result, [[3.5], [0]])


def test_a_plain_layer_for_the_restaurant_passage_would_need_1_4_billion_weights():
    passage = np.zeros((37, 1024))
    omega = np.broadcast_to(0.0, (passage.size, passage.size))  # takes no memory
    assert passage.size == 37_888
    assert omega.size == 1_435_500_544


def test_a_plain_layer_takes_one_length_of_text_and_self_attention_takes_any():
    random = np.random.default_rng(2)
    width, tokens = 4, 3
    omega = random.normal(size=(width * tokens, width * tokens))
    attention = [random.normal(size=(width, width))] * 3 + [random.normal(size=(width, 1))] * 3
    longer = random.normal(size=(width, tokens + 1))
    with pytest.raises(ValueError, match="matmul"):
        plain_layer(longer.reshape(-1, 1), omega=omega, beta=0.0)
    assert self_attention(longer, *attention).shape == longer.shape


def test_sinusoidal_positions_are_the_formula_of_2017():
    table = sinusoidal_positions(50, 6)
    for position in range(50):
        for i in range(3):
            angle = position / 10000 ** (2 * i / 6)
            np.testing.assert_allclose(table[position, 2 * i], math.sin(angle), atol=1e-14)
            np.testing.assert_allclose(table[position, 2 * i + 1], math.cos(angle), atol=1e-14)


def test_an_odd_width_ends_with_a_sine():
    table = sinusoidal_positions(4, 5)
    assert table.shape == (4, 5)
    np.testing.assert_allclose(table[:, 4], np.sin(np.arange(4) / 10000 ** (4 / 5)), atol=1e-15)


@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 9))
def test_sinusoids_extend_to_longer_texts_without_changing(count, more, width):
    np.testing.assert_array_equal(
        sinusoidal_positions(count + more, width)[:count], sinusoidal_positions(count, width)
    )


def test_every_sinusoidal_position_is_different():
    table = sinusoidal_positions(512, 16)
    distances = np.linalg.norm(table[:, None] - table[None], axis=-1) + 9 * np.eye(512)
    assert distances.min() > 0.1


def test_rms_norm_is_as_computed_by_hand():
    """The mean square of 1, 2, 3, 4, 5 is 11."""
    np.testing.assert_allclose(rms_norm([1, 2, 3, 4, 5], 0.0), np.arange(1, 6) / math.sqrt(11), rtol=1e-15)
    np.testing.assert_allclose(
        rms_norm([3, 4], 3.5, scale=[2, 1]), [6 / 4, 4 / 4], rtol=1e-15
    )  # (9 + 16) / 2 + 3.5 = 16


@given(tables)
def test_rms_norm_is_layer_norm_where_the_mean_is_zero_already(x):
    x = x - x.mean(axis=-1, keepdims=True)
    np.testing.assert_allclose(rms_norm(x, 1e-3), layer_norm(x, 1e-3), rtol=1e-9, atol=1e-9)


@given(tables)
def test_rms_norm_is_torchs(x):
    expected = torch.nn.functional.rms_norm(torch.tensor(x), x.shape[-1:], eps=1e-6).numpy()
    np.testing.assert_allclose(rms_norm(x), expected, rtol=1e-12, atol=1e-12)


@given(arrays(np.float64, 5, elements=numbers))
def test_silu_is_torchs_and_far_away_it_is_relu(x):
    np.testing.assert_allclose(silu(x), torch.nn.functional.silu(torch.tensor(x)).numpy(), rtol=0, atol=1e-13)
    far = np.array([-1e4, 1e4])
    np.testing.assert_array_equal(silu(far), relu(far))
