"""clearhead: same text, same answer. Train, check and look inside transformers on your own machine.

Public names are imported on first use, so that `import clearhead` stays light.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

# Intel's matrix products choose their kernels by the number of rows, which lets a text's neighbours change
# its last bits. In this mode they do not (docs/decisions/0002). It must be set before the first product.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")

__version__ = "0.1.0"

_PLACES = {
    "ClearheadError": "clearhead.errors",
    "Finding": "clearhead.check.finding",
    "Model": "clearhead.infer.model",
    "edit": "clearhead.explain.edit",
    "evaluate": "clearhead.infer.evaluate",
    "generate": "clearhead.infer.generate",
    "get": "clearhead.checkpoint.catalog",
    "grade": "clearhead.check.grading.run",
    "load": "clearhead.infer.model",
    "record": "clearhead.explain.record",
    "train": "clearhead.learn.run",
    "verify": "clearhead.check.verify",
}

if TYPE_CHECKING:
    from clearhead.check.finding import Finding
    from clearhead.check.grading.run import grade
    from clearhead.check.verify import verify
    from clearhead.checkpoint.catalog import get
    from clearhead.errors import ClearheadError
    from clearhead.explain.edit import edit
    from clearhead.explain.record import record
    from clearhead.infer.evaluate import evaluate
    from clearhead.infer.generate import generate
    from clearhead.infer.model import Model, load
    from clearhead.learn.run import train

__all__ = [
    "ClearheadError",
    "Finding",
    "Model",
    "edit",
    "evaluate",
    "generate",
    "get",
    "grade",
    "load",
    "record",
    "train",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'clearhead' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
