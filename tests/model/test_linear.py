"""Linear layers: the same numbers as torch's, gradients too, and the same bits in every company."""

import copy
import gc
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.autograd import forward_ad
from torch.nn import functional

from clearhead.engine import products
from clearhead.engine.products import (
    ONEDNN,
    PACKED,
    QUICK,
    forget_changed,
    laid_out,
    packed_of,
    prepack,
)
from clearhead.model.config import Activation
from clearhead.model.linear import Linear, activation_for

sizes = st.integers(1, 200)
activations = st.sampled_from([None, *Activation])


def layer_of(inputs: int, outputs: int, *, bias: bool, activation: Activation | None) -> Linear:
    torch.manual_seed(inputs * 1000 + outputs)
    return Linear(inputs, outputs, bias=bias, activation=activation)


@settings(max_examples=60, deadline=None)
@given(sizes, sizes, st.integers(2, 150), st.booleans(), activations, st.data())
def test_a_row_has_the_same_bits_among_any_others(inputs, outputs, rows, bias, activation, data):
    layer = layer_of(inputs, outputs, bias=bias, activation=activation)
    x = torch.randn(rows, inputs)
    start = data.draw(st.integers(0, rows - 2))
    end = data.draw(st.integers(start + 2, rows))
    with torch.inference_mode():
        whole = layer(x)[start:end]
        assert torch.equal(layer(x[start:end]), whole)
        assert torch.equal(layer(x[start:end].clone()), whole)


@settings(max_examples=60, deadline=None)
@given(sizes, sizes, st.integers(0, 150), st.booleans(), activations)
def test_the_numbers_and_gradients_are_those_of_torch(inputs, outputs, rows, bias, activation):
    layer = layer_of(inputs, outputs, bias=bias, activation=activation)
    exact = layer_of(inputs, outputs, bias=bias, activation=activation).double()
    x = torch.randn(rows, inputs, requires_grad=True)
    y = x.detach().double().requires_grad_()
    found, wanted = layer(x), functional.linear(y, exact.weight, exact.bias)
    if activation:
        wanted = activation_for(activation)(wanted)
    with torch.no_grad():
        torch.testing.assert_close(layer(x).double(), wanted, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-5)
    push = torch.randn(rows, outputs)
    found.backward(push)
    wanted.backward(push.double())
    for ours, theirs in zip([x, *layer.parameters()], [y, *exact.parameters()], strict=True):
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-4, atol=1e-4)


def test_gradients_of_gradients_are_right():
    layer = layer_of(5, 4, bias=True, activation=Activation.TANH)
    x = torch.randn(3, 5, requires_grad=True)
    exact = layer_of(5, 4, bias=True, activation=Activation.TANH).double()
    y = x.detach().double().requires_grad_()
    twice = [
        torch.autograd.grad(
            torch.autograd.grad(model(given).square().sum(), given, create_graph=True)[0].square().sum(),
            given,
        )[0].double()
        for model, given in ((layer, x), (exact, y))
    ]
    torch.testing.assert_close(*twice, rtol=1e-4, atol=1e-4)


def test_only_what_is_trained_gets_a_gradient():
    layer = layer_of(6, 3, bias=True, activation=None).requires_grad_(False)
    x = torch.randn(4, 6, requires_grad=True)
    layer(x).sum().backward()
    assert x.grad is not None
    assert layer.weight.grad is layer.bias.grad is None
    assert not layer(x.detach()).requires_grad


@pytest.mark.parametrize("activation", [None, *Activation])
def test_without_onednn_the_layer_computes_the_same(activation, monkeypatch):
    layer, x = layer_of(70, 9, bias=True, activation=activation), torch.randn(5, 70)
    with torch.inference_mode():
        quick = layer(x)
        monkeypatch.setattr(products, "ONEDNN", False)
        torch.testing.assert_close(quick, layer(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("activation", [None, *Activation])
@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
def test_what_is_no_number_stays_none(activation, number):
    layer = layer_of(3, 2, bias=False, activation=activation)
    with torch.no_grad():
        layer.weight.fill_(1.0)
        x = torch.tensor([[number, 0.0, 0.0], [1.0, 2.0, 3.0]])
        quick = layer(x)
    slow = functional.linear(x, layer.weight)
    slow = activation_for(activation)(slow) if activation else slow
    torch.testing.assert_close(quick, slow, equal_nan=True)
    torch.testing.assert_close(layer(x).detach(), slow.detach(), equal_nan=True)


@pytest.mark.parametrize("flags", list(product((False, True), repeat=3)))
def test_whatever_needs_a_gradient_gets_the_right_one(flags):
    layer = layer_of(5, 4, bias=True, activation=Activation.GELU)
    exact = nn.Linear(5, 4)
    exact.load_state_dict(layer.state_dict())
    x, y = torch.randn(3, 5), None
    y = x.clone()
    pairs = [(x, y), (layer.weight, exact.weight), (layer.bias, exact.bias)]
    for pair, flag in zip(pairs, flags, strict=True):
        for part in pair:
            part.requires_grad_(flag)
    found, wanted = layer(x), functional.gelu(exact(y))
    assert found.requires_grad == wanted.requires_grad == any(flags)
    if any(flags):
        found.sum().backward()
        wanted.sum().backward()
        for ours, theirs in pairs:
            assert (ours.grad is None) == (theirs.grad is None)
            if theirs.grad is not None:
                torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("trained", [False, True])
def test_forward_derivatives_and_transforms_are_those_of_torch(trained):
    layer = layer_of(5, 4, bias=True, activation=Activation.TANH).requires_grad_(trained)
    x, way = torch.randn(3, 5), torch.randn(3, 5)

    def plain(x):
        return functional.linear(x, layer.weight, layer.bias).tanh()

    torch.testing.assert_close(torch.func.jvp(layer, (x,), (way,)), torch.func.jvp(plain, (x,), (way,)))
    torch.testing.assert_close(torch.func.jacrev(layer)(x), torch.func.jacrev(plain)(x))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, way)
        ours, theirs = (forward_ad.unpack_dual(model(dual)).tangent for model in (layer, plain))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.skipif(not ONEDNN, reason="torch without oneDNN has nothing to lay out")
@pytest.mark.parametrize(
    ("outputs", "inputs"),
    [(60, 24), (24, 40), (192, 64), (576, 576), (1000, 300), (7, 5), (576, 1536), (96, 3072), (768, 3072)],
)
@pytest.mark.parametrize("kind", [None, Activation.GELU, Activation.RELU])
@pytest.mark.parametrize("dtype", sorted(QUICK, key=str))
def test_weights_laid_out_for_few_rows_change_no_bit_and_one_row_is_as_any(outputs, inputs, kind, dtype):
    """Also where the processor has a kernel of its own for one row, which sums in another order."""
    torch.manual_seed(0)
    layer = Linear(inputs, outputs, activation=kind).to(dtype)
    x = torch.randn(70, inputs, dtype=dtype)
    with torch.no_grad():
        right = layer(x)
        prepack([layer.weight])
        assert packed_of(layer.weight)[0] is layer.weight
    with torch.no_grad(), laid_out():
        assert packed_of(layer.weight)[0] is not layer.weight
        for rows in (1, 2, 3, 5, 8, 15, 16, 17, 33, 64, 70):
            for start in (0, 1, 70 - rows):
                assert torch.equal(layer(x[start : start + rows]), right[start : start + rows])


@pytest.mark.skipif(not ONEDNN, reason="torch without oneDNN has nothing to lay out")
def test_a_weight_that_has_changed_is_not_taken_for_what_it_was():
    layer, x = Linear(24, 16), torch.randn(3, 24)
    with torch.no_grad(), laid_out():
        prepack([layer.weight])
        layer.weight.mul_(2)
        right = torch.nn.functional.linear(x, layer.weight, layer.bias)
        torch.testing.assert_close(layer(x), right)
        layer.weight = torch.nn.Parameter(layer.weight * 3)
        torch.testing.assert_close(layer(x), torch.nn.functional.linear(x, layer.weight, layer.bias))
        prepack([layer.weight])
    copied = copy.deepcopy(layer).double()
    torch.testing.assert_close(copied(x.double()).float(), layer(x))
    layer(x).sum().backward()
    assert layer.weight.grad is not None


@pytest.mark.skipif(not ONEDNN, reason="torch without oneDNN has nothing to lay out")
@pytest.mark.parametrize("shape", [(16, 24), (15, 23), (15, 22)])
def test_a_change_that_no_version_tells_of_is_seen(shape):
    """torch's fused optimisers and `.data` change a tensor and leave its version."""
    layer, x = Linear(shape[1], shape[0]), torch.randn(3, shape[1])

    def by_optimizer():
        layer(x).square().sum().backward()
        torch.optim.AdamW(layer.parameters(), lr=0.1, fused=True).step()

    def by_data():
        layer.weight.data[2, 1] += 1e-6

    for change in (by_optimizer, by_data):
        version = layer.weight._version
        with torch.no_grad():
            prepack([layer.weight])
        assert not forget_changed([layer.weight])
        change()
        assert layer.weight._version == version
        assert forget_changed([layer.weight]) and not forget_changed([layer.weight])
        with torch.no_grad(), laid_out():
            right = torch.nn.functional.linear(x, layer.weight, layer.bias)
            torch.testing.assert_close(layer(x), right)


def test_another_number_of_threads_takes_the_plain_weight():
    """Kernels, and with them the bits of one row, may depend on it."""
    layer, threads = Linear(24, 16), torch.get_num_threads()
    prepack([layer.weight])
    try:
        with laid_out():
            assert (packed_of(layer.weight)[0] is not layer.weight) == ONEDNN
            torch.set_num_threads(threads + 1)
            assert packed_of(layer.weight)[0] is layer.weight
    finally:
        torch.set_num_threads(threads)


def test_the_copy_goes_with_its_weight():
    layer = Linear(24, 16)
    prepack([layer.weight])
    key = id(layer.weight)
    assert (key in PACKED) == ONEDNN
    del layer
    gc.collect()
    assert key not in PACKED


def test_weights_made_in_inference_mode_are_taken_as_they_are():
    """They have no version that could tell whether they have changed."""
    with torch.inference_mode():
        layer, x = Linear(24, 16), torch.randn(3, 24)
        prepack([layer.weight])
        torch.testing.assert_close(layer(x), torch.nn.functional.linear(x, layer.weight, layer.bias))
