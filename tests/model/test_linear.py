"""Linear layers: the same numbers as torch's, gradients too, and the same bits in every company."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from clearhead.model import linear
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
        monkeypatch.setattr(linear, "ONEDNN", False)
        torch.testing.assert_close(quick, layer(x), rtol=1e-5, atol=1e-5)
