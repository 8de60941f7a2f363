"""Attention: the numbers that the book's notebooks print, and laws that hold for all numbers."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.reference import (
    Affine,
    AttentionWeights,
    ColumnHead,
    Linear,
    Llama3,
    Rotary,
    Sight,
    attend,
    attention_columns,
    attention_rows,
    attention_to,
    linear,
    multi_head_columns,
    multi_head_rows,
    project,
    route,
    scaled_dot_product_self_attention,
    self_attention,
    self_attention_by_vector,
    sinusoidal_positions,
    softmax,
    turned,
)

UNSCALED = [
    [0.94744244, -0.24348429, -0.91310441, -0.44522983],
    [1.64201168, -0.08470004, 4.02764044, 2.18690791],
    [1.61949281, -0.06641533, 3.96863308, 2.15858316],
]
SCALED = [
    [0.97411966, -0.23738409, -0.72333202, -0.34413007],
    [1.59622051, -0.09516106, 3.70194096, 2.01339538],
    [1.32638014, 0.13062402, 3.02371664, 1.6902419],
]
MULTI_HEAD = [
    [-21.207, -5.373, -20.933, -9.179, -11.319, -17.812],
    [-1.995, 7.906, -10.516, 3.452, 9.863, -7.24],
    [5.479, 1.115, 9.244, 0.453, 5.656, 7.089],
    [-7.413, -7.416, 0.363, -5.573, -6.736, -0.848],
    [-11.261, -9.937, -4.848, -8.915, -13.378, -5.761],
    [3.548, 10.036, -2.244, 1.604, 12.113, -2.557],
    [4.888, -5.814, 2.407, 3.228, -4.232, 3.71],
    [1.248, 18.894, -6.409, 3.224, 19.717, -5.629],
]


def notebook_inputs():
    """Three column vectors, seed 3, as the notebook draws them."""
    np.random.seed(3)
    return [np.random.normal(size=(4, 1)) for _ in range(3)]


def notebook_parameters(width=4, head_width=4, seed=0):
    """Drawn in the notebook's order Ωq, Ωk, Ωv, βq, βk, βv; returned in the order of the functions."""
    if seed is not None:
        np.random.seed(seed)
    omega_q, omega_k, omega_v = (np.random.normal(size=(head_width, width)) for _ in range(3))
    beta_q, beta_k, beta_v = (np.random.normal(size=(head_width, 1)) for _ in range(3))
    return ColumnHead(omega_v, omega_q, omega_k, beta_v, beta_q, beta_k)


def notebook_heads():
    """Six columns of width 8 (seed 3), two heads of width 4 and Ωc (seed 0)."""
    np.random.seed(3)
    x = np.random.normal(size=(8, 6))
    np.random.seed(0)
    heads = [notebook_parameters(width=8, head_width=4, seed=None) for _ in range(2)]
    return x, heads, np.random.normal(size=(8, 8))


def in_rows(head: ColumnHead) -> tuple[Affine, Affine, Affine]:
    """Query, key and value of the same head as the row form stores them."""
    query = Affine(head.omega_q, head.beta_q[:, 0])
    key = Affine(head.omega_k, head.beta_k[:, 0])
    return query, key, Affine(head.omega_v, head.beta_v[:, 0])


def test_self_attention_one_vector_at_a_time_is_as_printed():
    outputs = self_attention_by_vector(notebook_inputs(), *notebook_parameters())
    assert [output.shape for output in outputs] == [(4, 1)] * 3
    np.testing.assert_allclose(np.hstack(outputs).T, UNSCALED, atol=5.1e-9)


def test_self_attention_in_matrix_form_is_as_printed():
    output = self_attention(np.hstack(notebook_inputs()), *notebook_parameters())
    np.testing.assert_allclose(output.T, UNSCALED, atol=5.1e-9)


def test_scaled_self_attention_is_as_printed():
    output = scaled_dot_product_self_attention(np.hstack(notebook_inputs()), *notebook_parameters())
    np.testing.assert_allclose(output.T, SCALED, atol=5.1e-9)


def test_the_unscaled_attention_matrix_is_extreme_and_scaling_makes_it_less_so():
    x, parameters = np.hstack(notebook_inputs()), notebook_parameters()
    queries = project(x, parameters.omega_q, beta=parameters.beta_q)
    keys = project(x, parameters.omega_k, beta=parameters.beta_k)
    unscaled = attention_columns(queries, keys, scaled=False)
    scaled = attention_columns(queries, keys, scaled=True)
    np.testing.assert_array_equal(np.round(unscaled.max(axis=0), 4), [0.9983, 0.9941, 0.9884])
    np.testing.assert_allclose(unscaled.sum(axis=0), 1, atol=1e-15)
    assert (scaled.max(axis=0) < unscaled.max(axis=0)).all()


def test_two_heads_are_as_printed():
    x, heads, omega_c = notebook_heads()
    np.testing.assert_array_equal(np.round(multi_head_columns(x, heads, omega_c=omega_c), 3), MULTI_HEAD)


def test_two_heads_in_rows_are_the_printed_table_transposed():
    x, heads, omega_c = notebook_heads()
    first, second = map(in_rows, heads)
    query, key, value = (
        Affine(np.vstack([a.weight, b.weight]), np.hstack([a.bias, b.bias]))
        for a, b in zip(first, second, strict=True)
    )
    weights = AttentionWeights(query, key, value, output=Affine(omega_c, np.zeros(8)))
    np.testing.assert_array_equal(
        np.round(multi_head_rows(x.T, weights, heads=2), 3), np.transpose(MULTI_HEAD)
    )


def test_the_routing_of_the_first_figure_is_a_weighted_sum():
    values = [np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]]), np.array([[2.0], [2.0]])]
    np.testing.assert_allclose(route(values, [0.1, 0.3, 0.6]), [[1.3], [1.5]])


def test_attention_is_uniform_where_all_keys_are_alike():
    np.testing.assert_allclose(attention_to([np.ones((4, 1))] * 5, np.ones((4, 1))), [0.2] * 5)


@st.composite
def texts(draw):
    """A text in columns and one head, sizes and numbers at random."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    width, head_width, tokens = draw(st.integers(1, 6)), draw(st.integers(1, 6)), draw(st.integers(1, 7))
    omegas = [random.normal(size=(head_width, width)) for _ in range(3)]
    betas = [random.normal(size=(head_width, 1)) for _ in range(3)]
    return random.normal(size=(width, tokens)), ColumnHead(*omegas, *betas)


@given(texts())
def test_one_vector_at_a_time_equals_the_matrix_form(text):
    x, head = text
    by_vector = self_attention_by_vector(list(x.T[:, :, None]), *head)
    np.testing.assert_allclose(np.hstack(by_vector), self_attention(x, *head), atol=1e-12)


@given(texts())
def test_the_row_form_is_the_column_form_transposed(text):
    x, head = text
    query, key, value = in_rows(head)
    queries, keys, values = linear(x.T, *query), linear(x.T, *key), linear(x.T, *value)
    scaled = attend(queries, keys, values=values)
    unscaled = attend(queries * np.sqrt(queries.shape[1]), keys, values=values)
    np.testing.assert_allclose(scaled.T, scaled_dot_product_self_attention(x, *head), atol=1e-12)
    np.testing.assert_allclose(unscaled.T, self_attention(x, *head), atol=1e-12)
    columns = attention_columns(queries.T, keys.T, scaled=True)
    np.testing.assert_allclose(attention_rows(queries, keys).T, columns, atol=1e-14)


@given(texts(), st.randoms(use_true_random=False))
def test_a_permuted_text_gives_permuted_outputs(text, random):
    x, head = text
    order = random.sample(range(x.shape[1]), x.shape[1])
    for attention in (self_attention, scaled_dot_product_self_attention):
        np.testing.assert_allclose(attention(x[:, order], *head), attention(x, *head)[:, order], atol=1e-12)


def test_positions_break_the_symmetry_of_every_permutation():
    x, parameters = np.hstack(notebook_inputs()), notebook_parameters()
    positions = sinusoidal_positions(3, 4).T
    straight = self_attention(x + positions, *parameters)
    for order in list(permutations(range(3)))[1:]:
        permuted = self_attention(x[:, order] + positions, *parameters)
        assert np.abs(permuted - straight[:, order]).max() > 0.1


@given(texts())
def test_every_output_lies_between_the_smallest_and_largest_value(text):
    x, head = text
    values = project(x, head.omega_v, beta=head.beta_v)
    output = self_attention(x, *head)
    assert (output <= values.max(axis=1, keepdims=True) + 1e-12).all()
    assert (output >= values.min(axis=1, keepdims=True) - 1e-12).all()


def test_a_value_too_many_is_refused():
    with pytest.raises(ValueError, match="zip"):
        route([np.ones((2, 1))] * 3, [0.5, 0.5])


def test_rotary_positions_are_the_formula_of_2021():
    """Su et al. 2021, equation 34, in the paper's own order of columns: pairs (0, 1), (2, 3), …"""
    x = np.random.default_rng(2).normal(size=(5, 6))
    expected = np.empty_like(x)
    for m in range(5):
        for i in range(3):
            theta = 10000.0 ** (-2 * i / 6)
            one, two = x[m, 2 * i], x[m, 2 * i + 1]
            expected[m, 2 * i] = one * np.cos(m * theta) - two * np.sin(m * theta)
            expected[m, 2 * i + 1] = two * np.cos(m * theta) + one * np.sin(m * theta)
    order = [0, 2, 4, 1, 3, 5]
    np.testing.assert_allclose(turned(x[:, order], base=10000.0), expected[:, order], rtol=0, atol=1e-13)


def test_turning_keeps_lengths_and_the_first_vector_and_sees_distances_only():
    query, key = np.random.default_rng(3).normal(size=(2, 8))
    queries, keys = turned([query] * 20, base=50.0), turned([key] * 20, base=50.0)
    np.testing.assert_array_equal(queries[0], query)
    np.testing.assert_allclose((queries**2).sum(axis=1), (query**2).sum(), rtol=1e-13)
    dot_products = queries @ keys.T
    for shift in range(-19, 20):
        diagonal = np.diagonal(dot_products, shift)
        np.testing.assert_allclose(diagonal, diagonal[0], rtol=0, atol=1e-12)
    assert np.abs(dot_products[0] - dot_products[0, 0]).max() > 0.1


@pytest.mark.parametrize("window", [1, 3, 8, 9, 100])
def test_a_window_is_the_attention_of_its_own_tokens_alone(window):
    queries, keys = np.random.default_rng(4).normal(size=(2, 9, 4))
    attention = attention_rows(queries, keys, window=window)
    for i, query in enumerate(queries):
        seen = [j for j in range(9) if abs(i - j) <= window]
        np.testing.assert_allclose(attention[i, seen], softmax(keys[seen] @ query / 2.0), atol=1e-15)
        assert not np.delete(attention[i], seen).any()


@pytest.mark.parametrize("window", [None, 0, 1, 3, 9])
def test_causal_attention_is_that_of_the_tokens_up_to_its_own(window):
    queries, keys = np.random.default_rng(5).normal(size=(2, 9, 4))
    attention = attention_rows(queries, keys, window=window, causal=True)
    for i, query in enumerate(queries):
        seen = list(range(0 if window is None else max(0, i - window), i + 1))
        np.testing.assert_allclose(attention[i, seen], softmax(keys[seen] @ query / 2.0), atol=1e-15)
        assert not np.delete(attention[i], seen).any()


def grouped(heads, kv_heads, *, head_width=4, width=6):
    """Random weights of attention without biases."""
    random = np.random.default_rng(6)
    sizes = [(heads * head_width, width), *[(kv_heads * head_width, width)] * 2, (width, heads * head_width)]
    return AttentionWeights(*(Affine(random.normal(size=size), None) for size in sizes))


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 1), (4, 2), (6, 3)])
def test_shared_keys_and_values_are_those_of_as_many_heads_that_are_alike(heads, kv_heads):
    """Ainslie et al. 2023: neighbouring heads share."""
    weights = grouped(heads, kv_heads)

    def repeated(layer):
        each = layer.weight.reshape(kv_heads, 4, 6)
        return Affine(np.repeat(each, heads // kv_heads, axis=0).reshape(heads * 4, 6), None)

    alike = weights._replace(key=repeated(weights.key), value=repeated(weights.value))
    x = np.random.default_rng(7).normal(size=(5, 6))
    shared = multi_head_rows(x, weights, heads=heads, sight=Sight(causal=True))
    np.testing.assert_allclose(
        shared, multi_head_rows(x, alike, heads=heads, sight=Sight(causal=True)), atol=1e-13
    )


def test_normed_queries_and_keys_do_not_feel_how_long_they_were():
    weights = grouped(2, 2)._replace(query_norm=np.arange(1.0, 5.0), key_norm=np.ones(4))
    longer = weights._replace(query=Affine(10.0 * weights.query.weight, None))
    x = np.random.default_rng(8).normal(size=(5, 6))
    rotary = Rotary(base=50.0)
    one, two = (
        multi_head_rows(x, w, heads=2, sight=Sight(rotary=rotary), epsilon=0.0) for w in (weights, longer)
    )
    np.testing.assert_allclose(one, two, rtol=0, atol=1e-12)
    unnormed = multi_head_rows(
        x, weights._replace(query_norm=None), heads=2, sight=Sight(rotary=rotary), epsilon=0.0
    )
    assert np.abs(one - unnormed).max() > 1e-3


def test_a_part_of_a_head_may_turn_and_the_rest_stays():
    x = np.random.default_rng(9).normal(size=(7, 8))
    found = turned(x, base=50.0, share=0.5)
    np.testing.assert_array_equal(found[:, :4], turned(x[:, :4], base=50.0))
    np.testing.assert_array_equal(found[:, 4:], x[:, 4:])


def test_linear_scaling_puts_positions_closer_together():
    x = np.tile(np.random.default_rng(10).normal(size=8), (21, 1))
    found = turned(x, base=50.0, scaling=Linear(4.0))
    np.testing.assert_allclose(found[::4], turned(x[:6], base=50.0), rtol=0, atol=1e-13)


def test_llama3_scaling_keeps_quick_pairs_and_slows_slow_ones_and_is_even_between():
    """By hand: an original length of 2π makes the speeds the numbers of turns."""
    scaling = Llama3(factor=8.0, low=1.0, high=4.0, original=2.0 * np.pi)
    speed = np.array([9.0, 4.0, 2.5, 1.0, 0.5])
    # At 2.5 turns, half of 2.5 stays and half is an eighth: 2.5 · (0.5 + 0.5 / 8).
    np.testing.assert_allclose(scaling.slowed(speed), [9.0, 4.0, 1.40625, 0.125, 0.0625], rtol=1e-15)
