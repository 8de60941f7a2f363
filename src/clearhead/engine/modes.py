"""The modes of torch in which this package computes, whatever the caller has set."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch


@contextmanager
def own_modes(*, learning: bool = False) -> Iterator[None]:
    """float32 on the CPU, without gradients or (`learning`) with them, whatever modes of torch the caller has
    set: a default dtype or device, autocast, `no_grad`, `inference_mode`."""
    with ExitStack() as modes:
        modes.enter_context(torch.autocast("cpu", enabled=False))
        modes.enter_context(torch.inference_mode(False))  # whose tensors nobody can learn from
        modes.enter_context(torch.set_grad_enabled(learning))
        if learning and torch.get_default_dtype() != torch.float32:  # a setting of all threads
            modes.callback(torch.set_default_dtype, torch.get_default_dtype())
            torch.set_default_dtype(torch.float32)
        if torch.get_default_device().type != "cpu":  # costs time in every operation
            modes.enter_context(torch.device("cpu"))
        modes.enter_context(whole_products())
        yield


@contextmanager
def whole_products() -> Iterator[None]:
    """Products of float32 in float32, whatever the caller lets them be rounded to: a setting of all
    threads."""
    matmul = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = matmul.fp32_precision
    if before in ("none", "ieee"):
        yield
        return
    matmul.fp32_precision = "ieee"
    try:
        yield
    finally:
        matmul.fp32_precision = before
