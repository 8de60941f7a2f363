"""Where a model's folder is, and whether two tensors are one to the bit."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import Tensor

from clearhead.checkpoint.tensors import INDEX, WEIGHTS
from clearhead.infer.model import Model


def same_bits(one: Tensor, two: Tensor) -> bool:
    """Whether two tensors hold the same raw bytes (a NaN equals itself, 0 is not −0)."""
    alike = one.shape == two.shape and one.dtype == two.dtype
    return alike and one.numpy().tobytes() == two.numpy().tobytes()


@contextmanager
def folder_of(model: Model) -> Iterator[Path]:
    """The folder a model was read from; a temporary one where there is none, or several files or adapters."""
    folder = model.loaded.folder
    if folder and not model.loaded.adapters and any((folder / name).is_file() for name in (WEIGHTS, INDEX)):
        yield folder
        return
    with tempfile.TemporaryDirectory() as place:
        model.save(place)
        yield Path(place)
