"""The process of the code that is graded, from outside: started, asked, ended when it takes too long."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from clearhead.check.grading.wire import packed, unpacked
from clearhead.errors import DataError, SettingError
from clearhead.settings import Grading

IMPORTS = 20.0  # seconds more for loading: libraries are slow to import


@dataclass(frozen=True)
class Answer:
    """What came back from one call: a value, or why there is none.

    kind: the name of their exception, or "time", "memory", "ended" where the process was or is no more.
    """

    value: Any = None
    error: str = ""
    kind: str = ""
    mutated: bool = False
    dtype: str = ""

    @property
    def stopped(self) -> bool:
        return self.kind in ("time", "memory", "ended")


class Gone(Exception):
    """The process gave no answer."""

    def __init__(self, kind: str, error: str):
        super().__init__(error)
        self.kind, self.error = kind, error


@dataclass
class Cell:
    """Code as it stands in a file: the whole of a .py, or one cell of a notebook."""

    name: str
    source: str


class Process:
    """Their code, running. After it was stopped it starts again with the next question."""

    def __init__(self, cells: Sequence[Cell], folder: Path, *, limits: Grading):
        self.cells, self.folder, self.limits = cells, folder, limits
        self.failed: list[str] = []
        self.functions: dict[str, list[int | None]] = {}
        self.running: subprocess.Popen[bytes] | None = None
        self.asks: BinaryIO
        self.answers: int
        self.rest = b""

    def __enter__(self) -> "Process":
        self.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self.end()

    def start(self) -> None:
        """Start and load. Raises DataError if loading takes too long or ends the process."""
        asked, self_asks = os.pipe()
        self.answers, answered = os.pipe()
        room = str(int(self.limits.memory * 1e9))
        if os.name != "posix":
            raise SettingError("code is graded in a process of its own, which needs Linux or macOS")
        # Not -I: their libraries may lie in the user's own folder or where PYTHONPATH says.
        command = [
            sys.executable,
            "-P",
            "-m",
            "clearhead.check.grading.worker",
            str(asked),
            str(answered),
            room,
        ]
        quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
        self.running = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(asked, answered),
            env=os.environ | quiet,
            start_new_session=True,
        )
        os.close(asked)
        os.close(answered)
        self.asks, self.rest = os.fdopen(self_asks, "wb"), b""
        cells = [{"name": cell.name, "source": cell.source} for cell in self.cells]
        try:
            self.send({"what": "load", "cells": cells, "folder": str(self.folder)})
            loaded = self.read(self.limits.time + IMPORTS)
        except Gone as gone:
            self.end()
            raise DataError(
                f"{self.cells[0].name}: running it gave no answer ({gone.error}); "
                "put what takes long below `if __name__ == '__main__':`"
            ) from None
        self.failed = [one["error"] for one in loaded["failed"]]
        self.functions, self.own = loaded["functions"], loaded["own"]

    def end(self) -> None:
        """Stop the process and whatever it started."""
        if self.running is None:
            return
        try:
            os.killpg(self.running.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self.running.kill()
        self.running.wait()
        with suppress(BrokenPipeError):
            self.asks.close()
        os.close(self.answers)
        self.running = None

    def send(self, request: dict[str, Any]) -> None:
        """Ask; Gone where nobody listens."""
        try:
            self.asks.write(json.dumps(request).encode() + b"\n")
            self.asks.flush()
        except BrokenPipeError:
            raise Gone("ended", "Python itself ended") from None

    def read(self, seconds: float) -> dict[str, Any]:
        """One answer; Gone where none comes in time."""
        until = time.monotonic() + seconds
        while b"\n" not in self.rest:
            left = until - time.monotonic()
            if left <= 0.0 or not select.select([self.answers], [], [], left)[0]:
                raise Gone("time", f"nothing came back within {seconds:.3g} s")
            block = os.read(self.answers, 1 << 16)
            if not block:
                raise Gone("ended", self.how_it_ended())
            self.rest += block
        line, _, self.rest = self.rest.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def how_it_ended(self) -> str:
        """Why the process is no more."""
        assert self.running is not None
        code = self.running.wait()
        if code < 0:
            return f"Python itself was ended by {signal.Signals(-code).name}, out of memory perhaps"
        return f"Python itself ended with status {code}: is exit() called?"

    def call(self, function: str, cases: Sequence[Sequence[Any]]) -> list[Answer]:
        """An answer to each case; after one that stopped the process there are no more."""
        return list(self.called(function, cases))

    def called(self, function: str, cases: Sequence[Sequence[Any]]) -> Iterator[Answer]:
        """The answers one by one."""
        if self.running is None:
            self.start()
        until = time.monotonic() + 6.0 * self.limits.time  # for all of them
        try:
            asked = [packed(list(case)) for case in cases]
            self.send({"what": "call", "function": function, "cases": asked})
            for _ in cases:
                told = self.read(min(self.limits.time, max(0.1, until - time.monotonic())))
                yield self.answer(told)
        except Gone as gone:
            self.end()
            yield Answer(error=gone.error, kind=gone.kind)

    def answer(self, told: dict[str, Any]) -> Answer:
        """What one line says."""
        if "error" in told:
            memory = told["kind"] == "MemoryError"
            return Answer(error=told["error"], kind="memory" if memory else told["kind"])
        dtype = told["value"].get("dtype", "") if isinstance(told["value"], dict) else ""
        try:
            return Answer(unpacked(told["value"]), mutated=told["mutated"], dtype=dtype)
        except ValueError as error:
            return Answer(error=str(error), kind="form", mutated=told["mutated"])

    def printed(self) -> str:
        """What the code has printed since this was last asked."""
        if self.running is None:
            return ""
        try:
            self.send({"what": "printed"})
            return str(self.read(self.limits.time)["printed"])
        except Gone:
            self.end()
            return ""
