"""Kill `clearhead train` again and again, resume it, and compare with a run that nothing disturbed.

    python scripts/kill_sweep.py [--kills 40] [--seed 0] [--base FOLDER]
                                 [--task classify|language|fill|translate|lora]

Every run is a process of its own, killed with SIGKILL before a random one of its file operations (so also in
the middle of a save) or after a random time. Whatever happened, the run that is resumed to its end must leave
the same files: model, labels, tokenizer, fingerprint and settings byte for byte, the same log apart from
times, and the same final weights, optimiser moments and dropout generator (by their SHA-256).
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: a fork must find one thread

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import clearhead.app.reporting
import clearhead.learn.run  # noqa: F401 - imported once, before the forks
from clearhead.app.cli import main

SETTINGS = """
    --epochs 3 --batch-tokens 96 --accumulate 2 --dropout 0.2 --eval-steps 3 --save-steps 2 --seed 3
    --learning-rate 0.01
""".split()
NEW = "--from new --layers 1 --width 16 --heads 2 --hidden 32 --vocab 300".split()
LANGUAGE = "--context 24 --documents line --format text".split()
MORE = {
    "classify": [],
    "language": ["--architecture", "gpt2", *LANGUAGE],
    "fill": ["--whole-words", *LANGUAGE],
    "translate": ["--target-column", "label"],
    "lora": "--lora 2 --lora-dropout 0.1 --checkpointing --ema 0.9".split() + LANGUAGE,
}
NOT_BEGUN = "holds no run to go on with"


def write_reviews(path: Path) -> None:
    """60 labelled texts."""
    chance = random.Random(0)
    words = "soup bread table film story cold warm slow kind place food end left right".split()
    rows = ["text,label"]
    for number in range(60):
        label = ("good", "bad")[number % 2]
        text = " ".join([*chance.choices(words, k=chance.randint(2, 12)), label, str(number)])
        rows.append(f"{text},{label}")
    path.write_text("\n".join(rows) + "\n")


def language_model(work: Path) -> Path:
    """A small language model for adapters to stand on."""
    write_reviews(work / "reviews.csv")
    command = ["train", "language", "--architecture", "llama", *NEW, *LANGUAGE, "--max-steps", "2"]
    status, said, _ = life(
        [*command, "--data", str(work / "reviews.csv"), "--out", str(work / "base")], work / "base"
    )
    assert status == 0, said
    return work / "base"


def life(
    arguments: list[str], out: Path, *, kill_at: int | None = None, after: float | None = None
) -> tuple[int, str, int]:
    """One process: its exit status (−9 for killed), what it said, and the file operations it did."""
    said, counted = out.with_name("said.txt"), out.with_name("counted.txt")
    counted.write_text("0")
    child = os.fork()
    if not child:
        with said.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        count = 0

        def watch(event: str, values: tuple) -> None:
            nonlocal count
            if event != "open" and not event.startswith(("os.", "shutil.", "fcntl.")):
                return
            if not any(isinstance(value, str | Path) and str(value).startswith(str(out)) for value in values):
                return
            count += 1
            if count == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        status: object = 70
        try:
            main(arguments)
        except SystemExit as left:
            status = left.code
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            # Renamed: a kill by the clock may fall between the emptying of a file and its text.
            written = counted.with_suffix(".new")
            written.write_text(str(count))
            written.replace(counted)
            os._exit(status if isinstance(status, int) else 71)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), said.read_text(), int(counted.read_text())


def remains(out: Path) -> dict[str, object]:
    """All that a finished run leaves, without times."""
    found: dict[str, object] = {}
    for path in sorted(path for path in out.rglob("*") if path.is_file()):
        name = str(path.relative_to(out))
        if name == "metrics.jsonl":
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            found[name] = [{key: value for key, value in line.items() if key != "seconds"} for line in lines]
        elif path.name == "state.json":
            standing = json.loads(path.read_text())["standing"]
            found[name] = {key: value for key, value in standing.items() if key != "seconds"}
        else:
            found[name] = path.name if name == "report.html" else path.read_bytes()
    return found


def sweep(work: Path, *, kills: int, seed: int, task: list[str]) -> None:
    """Kill, resume, compare, until so many kills have been survived."""
    chance = random.Random(seed)
    data = work / "reviews.csv"
    write_reviews(data)
    whole, out = work / "whole" / "run", work / "killed" / "run"
    whole.parent.mkdir()
    out.parent.mkdir()

    def command(folder: Path) -> list[str]:
        return ["train", *task, "--data", str(data), "--out", str(folder), *SETTINGS]

    began = time.perf_counter()
    status, said, operations = life(command(whole), whole)
    lasted = time.perf_counter() - began
    assert status == 0, said
    right = remains(whole)
    print(f"undisturbed: {operations} file operations, {lasted:.1f} s, {len(right)} files left", flush=True)
    survived = runs = 0
    while survived < kills:
        shutil.rmtree(out, ignore_errors=True)
        arguments, here = command(out), 0
        while True:
            timed = chance.random() < 0.25
            at = chance.randint(1, operations)
            status, said, _ = life(
                arguments,
                out,
                kill_at=None if timed or here > 6 else at,
                after=chance.uniform(0, lasted) if timed and here <= 6 else None,
            )
            if status == 0:
                break
            if status == 2 and NOT_BEGUN in said:
                arguments = command(out)
                continue
            assert status == -signal.SIGKILL, f"status {status} after {here} kills: {said}"
            here += 1
            arguments = [*command(out), "--resume"]
        survived, runs = survived + here, runs + 1
        left = remains(out)
        assert left.keys() == right.keys(), f"files differ: {left.keys() ^ right.keys()}"
        changed = [name for name, content in right.items() if left[name] != content]
        assert not changed, f"after {here} kills: {changed}"
        print(f"run {runs}: {here} kills, the same to the bit", flush=True)
    print(f"{survived} kills in {runs} runs: every run ended with the bits of the undisturbed one")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--base", help="folder of a model to start from; else a new model")
    parser.add_argument("--task", choices=tuple(MORE), default="classify")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        base = ["--from", given.base] if given.base else NEW
        if given.task == "lora" and not given.base:
            base = ["--from", str(language_model(Path(place)))]
        task = [{"lora": "language"}.get(given.task, given.task), *base, *MORE[given.task]]
        sweep(Path(place), kills=given.kills, seed=given.seed, task=task)
