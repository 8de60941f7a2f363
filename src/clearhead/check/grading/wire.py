"""Arguments and answers as JSON, for the pipe between a grade and the process of the code that is graded."""

from typing import Any

import numpy as np

LARGEST = 1_000_000  # numbers in an answer; more is a mistake, and would only fill the pipe


def packed(value: Any, depth: int = 0) -> Any:
    """A value as JSON: whatever holds numbers becomes an array, other things say what they are."""
    if hasattr(value, "detach"):  # torch, which need not be imported to be recognised
        value = value.detach().cpu()
        value = value.double().numpy() if str(value.dtype) == "torch.bfloat16" else value.numpy()
    elif hasattr(value, "__array__") and not isinstance(value, np.ndarray | np.generic):
        value = np.asarray(value)
    match value:
        case np.ndarray() if value.size > LARGEST or value.dtype.kind not in "fiub":
            return {"other": f"an array of {value.dtype} with {value.size:,} entries"}
        case np.ndarray():
            numbers = value.astype(np.float64) if value.dtype.kind == "f" else value
            return {"array": numbers.reshape(-1).tolist(), "shape": value.shape, "dtype": str(value.dtype)}
        case np.generic():
            return packed(np.asarray(value), depth)
        case None | str() | bool() | int() | float():
            return value
        case list() | tuple() if len(value) <= LARGEST and depth < 20:
            return [packed(item, depth + 1) for item in value]
        case dict() if len(value) <= LARGEST and depth < 20:
            return {
                "dict": [[packed(name, depth + 1), packed(item, depth + 1)] for name, item in value.items()]
            }
        case _:
            return {"other": f"a value of type {type(value).__name__}"}


def unpacked(value: Any) -> Any:
    """What `packed` made JSON of; what could not be packed raises ValueError with what it is."""
    match value:
        case {"array": entries, "shape": shape, "dtype": dtype}:
            return np.array(entries, dtype=dtype).reshape(shape)
        case {"dict": items}:
            return {hashable(unpacked(name)): unpacked(item) for name, item in items}
        case {"other": what}:
            raise ValueError(f"{what} was returned")
        case list():
            return [unpacked(item) for item in value]
        case _:
            return value


def hashable(name: Any) -> Any:
    """A list as a tuple, so that it can name an entry again."""
    return tuple(hashable(item) for item in name) if isinstance(name, list) else name
