"""Relative positions in buckets: a table by hand, the published rule, and laws."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.t5.modeling_t5 import T5Attention

from clearhead.errors import FolderError
from clearhead.reference import (
    Affine,
    AttentionWeights,
    Relative,
    Sight,
    attention_rows,
    multi_head_rows,
    relative_buckets,
    softmax,
)


def test_buckets_to_both_sides_are_those_of_a_table_by_hand():
    # 8 buckets, 4 a side: 0 and 1 alone, then edges at 2 · (16 / 2)^(k / 2): 2, 5.66, and all from 16 on.
    ahead = [-99, -16, -6, -5, -2, -1, 0, 1, 2, 5, 6, 16, 99]
    found = relative_buckets(ahead, buckets=8, distance=16, causal=False)
    assert found.tolist() == [3, 3, 3, 2, 2, 1, 0, 5, 6, 6, 7, 7, 7]


def test_buckets_to_the_left_are_those_of_a_table_by_hand():
    # 8 buckets, one side: 0 to 3 alone, then edges at 4 · 4^(k / 4): 4, 5.66, 8, 11.31, and all from 16 on.
    apart = [0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 15, 16, 99]
    found = relative_buckets([-distance for distance in apart], buckets=8, distance=16, causal=True)
    assert found.tolist() == [0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7, 7, 7]
    assert relative_buckets([1, 7, 99], buckets=8, distance=16, causal=True).tolist() == [0, 0, 0]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("buckets", "distance"), [(32, 128), (8, 16), (64, 256), (6, 10), (32, 100)])
def test_buckets_are_those_of_the_published_code(buckets, distance, causal):
    ahead = np.arange(-600, 601)
    theirs = T5Attention._relative_position_bucket(
        torch.from_numpy(ahead), bidirectional=not causal, num_buckets=buckets, max_distance=distance
    )
    found = relative_buckets(ahead, buckets=buckets, distance=distance, causal=causal)
    np.testing.assert_array_equal(found, theirs.numpy())


@given(st.integers(4, 80), st.integers(0, 200), st.booleans())
def test_farther_keys_never_lie_in_lower_buckets_and_the_last_bucket_begins_before_the_distance(
    buckets, further, causal
):
    side = buckets if causal else buckets // 2
    distance = side // 2 + 1 + further
    found = relative_buckets(-np.arange(2 * distance), buckets=buckets, distance=distance, causal=causal)
    assert found[0] == 0 and (np.diff(found) >= 0).all()
    assert (found[distance:] == side - 1).all()
    if not causal:
        right = relative_buckets(np.arange(1, 2 * distance), buckets=buckets, distance=distance, causal=False)
        np.testing.assert_array_equal(right, found[1:] + side)


@pytest.mark.parametrize(
    ("buckets", "distance", "causal"), [(3, 128, False), (1, 128, True), (8, 2, False), (8, 4, True)]
)
def test_buckets_that_cannot_grow_are_refused(buckets, distance, causal):
    with pytest.raises(FolderError, match="cannot grow with the logarithm; there must be at least"):
        relative_buckets([0], buckets=buckets, distance=distance, causal=causal)


def test_a_bias_is_added_after_scaling_and_before_what_is_not_seen_is_hidden():
    random = np.random.default_rng(0)
    queries, keys, bias = (random.normal(size=shape) for shape in ((3, 4), (3, 4), (3, 3)))
    dots = queries @ keys.T
    np.testing.assert_allclose(attention_rows(queries, keys, bias=bias), softmax(dots / 2.0 + bias))
    np.testing.assert_allclose(attention_rows(queries, keys, bias=bias, scaled=False), softmax(dots + bias))
    seen = np.where(np.tri(3, dtype=bool), dots + bias, -np.inf)
    np.testing.assert_allclose(
        attention_rows(queries, keys, bias=bias, scaled=False, causal=True), softmax(seen)
    )


def heads_of_four(random):
    return AttentionWeights(*(Affine(random.normal(size=(8, 8)), None) for _ in range(4)))


@given(st.integers(0, 9), st.booleans())
def test_all_that_counts_is_how_far_a_key_lies_from_the_query(shift, causal):
    table = Relative(np.random.default_rng(1).normal(size=(8, 2)), 16)
    whole = table.bias(20, 20, causal=causal)
    part = table.bias(11, 11, causal=causal)
    np.testing.assert_array_equal(whole[:, shift : shift + 11, shift : shift + 11], part)


def test_the_memory_gives_keys_and_values_and_the_text_gives_queries():
    random = np.random.default_rng(0)
    weights = heads_of_four(random)
    x, memory = random.normal(size=(5, 8)), random.normal(size=(3, 8))
    query, key, value, output = (weights[i].weight for i in range(4))
    q, k, v = (
        (one @ other.T).reshape(-1, 2, 4) for one, other in ((x, query), (memory, key), (memory, value))
    )
    mixed = np.einsum("hqk,khd->qhd", softmax(np.einsum("qhd,khd->hqk", q, k) / 2.0), v)
    expected = mixed.reshape(5, 8) @ output.T
    np.testing.assert_allclose(multi_head_rows(x, weights, heads=2, memory=memory), expected, atol=1e-12)
    # The order of the memory is no part of what is said; its own text as memory is self-attention.
    turned = multi_head_rows(x, weights, heads=2, memory=memory[::-1])
    np.testing.assert_allclose(turned, expected, atol=1e-12)
    sight = Sight(causal=True)
    np.testing.assert_array_equal(
        multi_head_rows(x, weights, heads=2, sight=sight, memory=x),
        multi_head_rows(x, weights, heads=2, sight=sight),
    )
