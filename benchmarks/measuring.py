"""What the benchmarks share: processes that take turns, facts of the machine, memory, sgemm, tables.

Each side (clearhead, or a peer) runs in a process of its own, with the same number of threads and without any
setting for matrix products but its own. Within a round every side runs once; each round begins with another
side. A time is the median over rounds; a ratio is the median of the ratios within rounds, so that a machine
that slows down for a while slows both.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

Job = dict[str, Any]
Result = dict[str, Any]
Side = Callable[[Job], Result]

PACKAGES = (
    "torch",
    "numpy",
    "transformers",
    "sentence-transformers",
    "ctranslate2",
    "onnxruntime",
    "onnx",
    "scikit-learn",
)
# What may be set on a machine for other programs' sake, or by importing clearhead: nobody inherits it.
UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "MKL_CBWR", "MKL_DYNAMIC", "KMP_AFFINITY")


def arguments(document: str) -> argparse.ArgumentParser:
    """The flags that all benchmarks have; `document` is the script's own description."""
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=document, formatter_class=shape)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="small sizes, about a minute: does it run?")
    size.add_argument("--full", action="store_true", help="the sizes of docs/performance.md")
    parser.add_argument("--cores", type=int, default=os.cpu_count(), help="threads of every side (all cores)")
    parser.add_argument("--rounds", type=int, help="how often the sides take turns")
    parser.add_argument("--only", nargs="+", metavar="SIDE", help="leave the other sides out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    return parser


def options_of(parser: argparse.ArgumentParser, sides: dict[str, Side]) -> argparse.Namespace:
    """The parsed flags; in a side's own process, do that side's job, print the result and leave."""
    options = parser.parse_args()
    if options.side:
        job = json.loads(options.job)
        try:
            result = sides[options.side](job)
        except ModuleNotFoundError as missing:
            result = {"skipped": f"{missing.name} is not installed"}
        print(json.dumps(result))
        sys.exit(0)
    if not options.quick and not options.full:
        parser.error("say --quick or --full")
    unknown = [name for name in options.only or [] if name not in sides]
    if unknown:
        parser.error(f"--only {unknown[0]!r} is no side; sides: {', '.join(sides)}")
    return options


def clean(cores: int) -> dict[str, str]:
    """The environment of every side."""
    kept = {name: value for name, value in os.environ.items() if name not in UNSET}
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(cores))
    return kept | threads | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def ask(side: str, job: Job) -> Result:
    """Run one side of the running script in a process of its own; `job["cores"]` is its number of threads."""
    command = [sys.executable, sys.argv[0], "--side", side, "--job", json.dumps(job)]
    done = subprocess.run(command, env=clean(job["cores"]), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{side} failed:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def take_turns(sides: Sequence[str], job: Job, *, rounds: int) -> dict[str, list[Result]]:
    """Each side's results, one a round. A side whose package is not installed is told and left out."""
    found: dict[str, list[Result]] = {side: [] for side in sides}
    for number in range(rounds):
        left = list(found)
        for side in left[number % len(left) :] + left[: number % len(left)]:
            result = ask(side, job)
            if "skipped" in result:
                say(f"{side}: left out, {result['skipped']}")
                del found[side]
                continue
            found[side].append(result)
            say(f"round {number + 1} of {rounds}, {side}: {result['seconds']:.2f} s")
    return found


def median(results: Sequence[Result], name: str) -> float:
    """The median of one number over rounds."""
    return statistics.median(result[name] for result in results)


def median_of(numbers: Iterable[float]) -> float:
    """The median of some numbers."""
    return statistics.median(numbers)


def ratio(peer: Sequence[Result], ours: Sequence[Result]) -> float:
    """How many times as long the peer takes: the median of the ratios within rounds."""
    return statistics.median(p["seconds"] / o["seconds"] for p, o in zip(peer, ours, strict=True))


def clock(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that some work takes, and what it gives."""
    start = time.perf_counter()
    given = work()
    return time.perf_counter() - start, given


def peak_memory() -> float:
    """Most megabytes of memory this process has held so far (VmHWM), since `forget_peak` where that works."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise OSError("this system does not tell a process's peak memory (VmHWM in /proc/self/status)")


def forget_peak() -> None:
    """Begin `peak_memory` anew from what is held now, where the system lets a process do so."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def sgemm_peak(size: int = 2048) -> float:
    """GFLOP/s of the best of large float32 matrix products in this process, by torch, with its threads."""
    import torch

    best = 0.0
    for rows, inner, columns in ((size, size, size), (2 * size, 768, 3072)):
        left, right = torch.randn(rows, inner), torch.randn(inner, columns)
        for _ in range(6):
            seconds, _ = clock(lambda left=left, right=right: left @ right)
            best = max(best, 2e-9 * rows * inner * columns / seconds)
    return best


def facts(cores: int) -> dict[str, Any]:
    """Machine, versions, commit and command."""
    found: dict[str, Any] = {
        "command": " ".join(["python", *(shown(word) for word in sys.argv)]),
        "commit": commit(),
        "processor": f"{processor()}, {os.cpu_count()} cores, {cores} used",
        "python": sys.version.split()[0],
    }
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def shown(word: str) -> str:
    """A word of the command without the place of this clone."""
    root = str(Path(__file__).resolve().parent.parent)
    return word.removeprefix(root + os.sep)


def processor() -> str:
    """The processor's name as the system tells it, and the widest vectors that it has."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    flags = {word for line in lines if line.startswith("flags") for word in line.split()}
    wide = next((name for flag, name in WIDE.items() if flag in flags), "no AVX2")
    return f"{names[0] if names else 'unknown'} ({wide})"


WIDE = {"avx512_vnni": "AVX-512 with VNNI", "avx512f": "AVX-512", "avx_vnni": "AVX-VNNI", "avx2": "AVX2"}


def commit() -> str:
    """The commit that is measured, with a mark where files differ from it."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=7"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def say(line: str) -> None:
    """A line for the person who waits."""
    print(line, file=sys.stderr, flush=True)


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table, first column to the left, the others to the right."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def report(about: dict[str, Any], measured: dict[str, Any], *, file: Path | None) -> None:
    """Print the facts, and write facts and measurements as JSON."""
    print("\n".join(f"{name}: {value}" for name, value in about.items()))
    if file:
        file.write_text(json.dumps({"facts": about, "measured": measured}, indent=1) + "\n")
