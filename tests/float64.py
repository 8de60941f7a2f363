"""The published code, computing in float64 throughout: its own casts to float32 become casts to float64.

Some published code casts rotary angles, norms or softmax to float32, whatever the weights are. Against such
code nothing agrees better than 1e-6, and a small mistake would hide there.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

import torch
import transformers.modeling_rope_utils

HERE_FLOAT64 = {"float", "float32"}


class Float64Torch:
    """The `torch` module, except that `torch.float32` is `torch.float64`."""

    def __getattr__(self, name: str) -> object:
        return torch.float64 if name in HERE_FLOAT64 else getattr(torch, name)


@contextmanager
def in_float64(*kinds: type) -> Iterator[None]:
    """Inside, the modules that define these model classes know no float32.

    Make the model inside as well (some tables are made with the model), call `.double()` on it, and run it
    inside: `with in_float64(ModernBertModel): ModernBertModel(config).double()(ids)`.
    """
    modules = {sys.modules[kind.__module__] for kind in kinds} | {transformers.modeling_rope_utils}
    with ExitStack() as stack:
        for module in modules:
            stack.enter_context(mock.patch.object(module, "torch", Float64Torch()))
        stack.enter_context(mock.patch.object(torch.Tensor, "float", torch.Tensor.double))
        yield
