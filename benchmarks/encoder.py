"""Whole jobs through an encoder of BERT-base's shape: clearhead and its peers, taking turns.

    python benchmarks/encoder.py --quick | --full [--rounds 3] [--cores 2] [--json FILE]

The job: 512 texts as lists of token ids (random words, lengths log-normal with median 24 and 95th percentile
120, at most 512) become the two logits of each text (12 blocks, pooler, classification head), in input order,
as one float32 array. Sorting, batching, padding and putting the answers in order belong to the job; loading
the model and a first go over an eighth of the texts do not. All sides have the same random weights, float32
and the same number of threads; their answers are compared.

clearhead is handed all texts in one call. Its peers: `transformers` (fused attention) in padded batches of 32
as they come, of 32 by length, and by length with at most 2,048 tokens a batch, padding included; CTranslate2
(which leaves padding out of its linear layers) and ONNX Runtime in the last way. A peer that is not installed
is left out. To install them with the development environment:

    pip install -e ".[dev]" -r benchmarks/requirements.txt -c constraints.txt

The full run takes 4 to 8 minutes a round on two cores, the quick one (4 blocks of width 128, 128 texts) a
minute in all.
"""

import tempfile
from dataclasses import asdict
from functools import partial
from pathlib import Path

import engines
import measuring
import shapes
from measuring import Job, Result, median
from shapes import Shape

OURS = "clearhead"
QUICK = Shape(layers=4, width=128, heads=4, hidden=512, vocab=2000)
WAYS = {
    "in one call": shapes.together,
    "32 as they come": shapes.as_they_come,
    "32 by length": shapes.by_length,
    "2,048 tokens by length": shapes.by_budget,
}
PAIRS = (
    ("clearhead", engines.clearhead, "in one call"),
    ("transformers", engines.transformers, "32 as they come"),
    ("transformers", engines.transformers, "32 by length"),
    ("transformers", engines.transformers, "2,048 tokens by length"),
    ("CTranslate2", engines.ctranslate2, "2,048 tokens by length"),
    ("ONNX Runtime", engines.onnxruntime, "2,048 tokens by length"),
)


def measure(job: Job, *, engine: engines.Engine, way: str) -> Result:
    """One side: load, warm up, do the job against the clock, then measure the peak of sgemm."""
    import numpy as np

    lengths = shapes.skewed_lengths(job["texts"])
    texts = shapes.random_texts(lengths, vocab=job["shape"]["vocab"])
    score = engine(Path(job["folder"]), cores=job["cores"])

    def whole(texts: list[list[int]]) -> engines.Logits:
        found = np.empty((len(texts), 2), dtype=np.float32)
        for members in WAYS[way]([len(text) for text in texts]):
            found[members] = score([texts[index] for index in members])
        return found

    whole([texts[index] for index in shapes.sample(lengths, each=8)])
    loaded = measuring.peak_memory()
    measuring.forget_peak()
    seconds, logits = measuring.clock(lambda: whole(texts))
    working = measuring.peak_memory()
    batches = WAYS[way](lengths)
    rows = engines.packed_rows(texts) if way == "in one call" else shapes.padded_tokens(lengths, batches)
    result = {"seconds": seconds, "rows": rows, "peak_mb": max(loaded, working), "working_mb": working}
    return result | {"logits": logits.tolist(), "sgemm": measuring.sgemm_peak(job["sgemm"])}


def prepare(job: Job) -> Result:
    """Make the folder with random weights."""
    shapes.make_folder(job["folder"], Shape(**job["shape"]))
    return {}


def prepare_ctranslate2(job: Job) -> Result:
    """Convert the folder for CTranslate2."""
    engines.convert_ctranslate2(Path(job["folder"]))
    return {}


def prepare_onnxruntime(job: Job) -> Result:
    """Convert the folder for ONNX Runtime."""
    engines.convert_onnxruntime(Path(job["folder"]))
    return {}


PREPARE = {"prepare": prepare, "CTranslate2": prepare_ctranslate2, "ONNX Runtime": prepare_onnxruntime}
MEASURE = {
    OURS if name == OURS else f"{name}, {way}": partial(measure, engine=engine, way=way)
    for name, engine, way in PAIRS
}
SIDES = PREPARE | MEASURE


def largest_difference(one: Result, two: Result) -> float:
    """Between the logits of two sides."""
    pairs = zip(one["logits"], two["logits"], strict=True)
    return max(abs(a - b) for left, right in pairs for a, b in zip(left, right, strict=True))


def rows_of(found: dict[str, list[Result]], lengths: list[int], *, shape: Shape) -> list[dict[str, object]]:
    """What is told of each side: medians over rounds, and clearhead's as the measure."""
    useful, work = sum(lengths), 2e-9 * shapes.multiply_adds(shape, lengths)
    rows = []
    for side, results in found.items():
        seconds = median(results, "seconds")
        row = {"side": side, "seconds": seconds, "tokens_per_second": useful / seconds}
        row |= {"rows": results[0]["rows"], "gflops": work / seconds, "sgemm": median(results, "sgemm")}
        row["share"] = measuring.median_of(work / one["seconds"] / one["sgemm"] for one in results)
        row |= {"peak_mb": median(results, "peak_mb"), "working_mb": median(results, "working_mb")}
        row |= {"each_seconds": [one["seconds"] for one in results]}
        if OURS in found:
            row["ratio"] = measuring.ratio(results, found[OURS])
            row["difference"] = max(largest_difference(one, found[OURS][0]) for one in results)
        rows.append(row)
    return rows


def table(rows: list[dict[str, object]]) -> str:
    """The rows as docs/performance.md shows them."""
    header = ("side", "seconds", "ratio", "tokens/s", "tokens computed", "share of sgemm", "sgemm, GFLOP/s")
    header += ("peak, MB", "while working, MB", "largest difference")
    lines = [
        (
            row["side"], f"{row['seconds']:.2f}", f"{row.get('ratio', 1):.2f}",
            f"{row['tokens_per_second']:,.0f}", f"{row['rows']:,}", f"{row['share']:.0%}",
            f"{row['sgemm']:.0f}", f"{row['peak_mb']:,.0f}", f"{row['working_mb']:,.0f}",
            f"{row.get('difference', 0):.1e}",
        )
        for row in rows
    ]  # fmt: skip
    return measuring.table(header, lines)


def main() -> None:
    options = measuring.options_of(measuring.arguments(__doc__), SIDES)
    shape, texts = (QUICK, 128) if options.quick else (shapes.BASE, 512)
    sides = [side for side in MEASURE if not options.only or side in options.only]
    rounds = options.rounds or (1 if options.quick else 3)
    lengths = shapes.skewed_lengths(texts)
    with tempfile.TemporaryDirectory() as folder:
        job = {"folder": folder, "shape": asdict(shape), "texts": texts, "cores": options.cores}
        job["sgemm"] = 1024 if options.quick else 2048
        for name in PREPARE:
            if name == "prepare" or any(side.startswith(name) for side in sides):
                measuring.say(f"{name}: {measuring.ask(name, job).get('skipped', 'ready')}")
        found = measuring.take_turns(sides, job, rounds=rounds)
    rows = rows_of(found, lengths, shape=shape)
    measured = {
        "shape": asdict(shape),
        "texts": texts,
        "tokens": sum(lengths),
        "rounds": rounds,
        "rows": rows,
    }
    measuring.report(measuring.facts(options.cores), measured, file=options.json)
    print(f"{texts} texts, {sum(lengths):,} tokens, {shape}; ratio: the side's time over clearhead's\n")
    print(table(rows))


if __name__ == "__main__":
    main()
