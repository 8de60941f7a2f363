"""The process in which code to be graded runs: it loads cells, calls functions, and sends answers as JSON.

It trusts the code as whoever asks does; limits are for accidents. Started with `python -P -m`, so that
neither
the folder it is called from nor this one hides a module; the folder of the graded file comes first once
loading
begins, as when Python runs that file.
"""

import contextlib
import inspect
import io
import json
import linecache
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

from clearhead.check.grading.wire import packed, unpacked

KEPT = 20_000  # characters of what is printed
MISFITS = (TypeError, AttributeError, ValueError, RuntimeError, IndexError)


class Kept(io.TextIOBase):
    """Where prints go: the first characters are kept, the rest is let go."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text[: max(0, KEPT - len(self.text))]
        return len(text)

    def writable(self) -> bool:
        return True


class Graded:
    """The code of one file: its names, and in what kind of numbers each of its functions is asked."""

    def __init__(self) -> None:
        self.module = ModuleType("graded")
        self.files: set[str] = set()
        self.kinds: dict[str, str] = {}
        self.folder = ""

    def load(self, cells: list[dict[str, str]], folder: str) -> dict[str, Any]:
        """Run the cells one after another; one that fails keeps no other from running."""
        sys.path.insert(0, folder)
        self.folder = folder
        sys.modules["graded"] = self.module
        failed = []
        for cell in cells:
            name, source = cell["name"], cell["source"]
            self.files.add(name)
            self.module.__dict__["__file__"] = name
            linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
            try:
                exec(compile(source, name, "exec", dont_inherit=True), self.module.__dict__)
            except BaseException as error:  # whatever it is, it is theirs, and is told
                failed.append(self.told(error))
        functions = dict(self.functions())
        own = [name for name in functions if self.is_own(getattr(self.module, name))]
        return {"failed": failed, "functions": functions, "own": own}

    def functions(self) -> Iterator[tuple[str, list[int | None]]]:
        """Names that can be called, and with how many arguments: at least, at most."""
        for name, value in self.module.__dict__.items():
            if callable(value) and not name.startswith("_"):
                with contextlib.suppress(TypeError, ValueError):
                    yield name, arity(value)

    def is_own(self, value: Any) -> bool:
        """Whether something that can be called was made in the file, or in one beside it; not imported from
        a library."""
        source = sys.modules.get(getattr(value, "__module__", None) or "graded", self.module)
        return (
            source is self.module or os.path.dirname(getattr(source, "__file__", None) or "") == self.folder
        )

    def told(self, error: BaseException) -> dict[str, Any]:
        """An exception, with the line of their file where it came up."""
        place = ""
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename in self.files:
                line = f" ({frame.line.strip()})" if frame.line else ""
                place = f"{os.path.basename(frame.filename)}, line {frame.lineno}{line}: "
        short = isinstance(error, MemoryError) or "allocate memory" in str(error)
        said = " ".join(str(error).split())[:300]
        kind = type(error).__name__
        return {
            "error": f"{place}{kind}{': ' if said else ''}{said}",
            "kind": "MemoryError" if short else kind,
        }

    def call(self, function: str, arguments: list[Any]) -> dict[str, Any]:
        """One answer. Until one call has succeeded, numbers are offered in each kind there is."""
        kinds = [self.kinds[function]] if function in self.kinds else self.offered()
        first: dict[str, Any] = {}
        for kind in kinds:
            given = [prepared(argument, kind) for argument in arguments]
            before = repr(packed(given))
            try:
                value = packed(getattr(self.module, function)(*given))
            except MISFITS as error:
                first = first or self.told(error)
                if isinstance(error, NotImplementedError | RecursionError) or "allocate memory" in str(error):
                    break
            except BaseException as error:
                return self.told(error)
            else:
                self.kinds[function] = kind
                return {"value": value, "mutated": repr(packed(given)) != before}
        return first

    def offered(self) -> list[str]:
        """Kinds of numbers: those of the libraries that the code has imported, then plain lists."""
        mine = {value.__name__ for value in self.module.__dict__.values() if isinstance(value, ModuleType)}
        torch = [kind for kind in ("torch.float64", "torch.float32") if "torch" in sys.modules]
        jax = [kind for kind in ("jax",) if "jax" in sys.modules]
        first = [*torch, "numpy"] if "torch" in mine and "numpy" not in mine else ["numpy", *torch]
        return [kind + way for kind in [*first, *jax] for way in ("", " stacked", " boxed")] + ["lists"]


def arity(function: Callable[..., Any]) -> list[int | None]:
    """How many arguments a function takes by place: at least, and at most (None for any number)."""
    least, most = 0, 0
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            return [least, None]
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            most += 1
            least += parameter.default is parameter.empty
    return [least, most]


def prepared(value: Any, kind: str) -> Any:
    """An argument in one kind of numbers.

    A list of numbers may be `stacked`, one array, or `boxed`, a list of arrays [1, 1], as products of
    matrices
    are.
    """
    library, _, way = kind.partition(" ")
    if isinstance(value, list):
        if way and value and all(isinstance(item, int | float) for item in value):
            boxes = [np.full((1, 1), item) for item in value]
            return prepared(np.asarray(value) if way == "stacked" else boxes, kind)
        return [prepared(item, kind) for item in value]
    if not isinstance(value, np.ndarray):
        return value
    if library == "lists":
        return value.tolist()
    if library == "jax":
        return sys.modules["jax"].numpy.asarray(value)
    if library.startswith("torch"):
        torch = sys.modules["torch"]
        dtype = getattr(torch, library.partition(".")[2]) if value.dtype.kind == "f" else torch.int64
        return torch.tensor(value, dtype=dtype)
    return value.copy()


def limit_memory(room: int) -> None:
    """No more address space than this many bytes, where the system can say so."""
    try:
        import resource
    except ImportError:  # Windows has no such limit; the time still has
        return
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (room, room))
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main(asked: int, answered: int, *, room: int) -> None:
    """Read requests from one pipe and write answers to another, until the first is closed."""
    limit_memory(room)
    graded, kept = Graded(), Kept()
    sys.stdout = sys.stderr = kept
    with open(asked, encoding="utf-8") as requests, open(answered, "w", encoding="utf-8") as answers:

        def send(answer: dict[str, Any]) -> None:
            answers.write(json.dumps(answer) + "\n")
            answers.flush()

        for line in requests:
            request = json.loads(line)
            match request["what"]:
                case "load":
                    send(graded.load(request["cells"], request["folder"]))
                case "call":
                    for arguments in request["cases"]:
                        send(graded.call(request["function"], unpacked(arguments)))
                case "printed":
                    send({"printed": kept.text})
                    kept.text = ""


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), room=int(sys.argv[3]))
