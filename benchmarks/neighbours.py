"""How many texts' scores change by a bit with their neighbours: clearhead and its peers, float32 and int8.

    python benchmarks/neighbours.py --quick | --full [--json FILE] [--svg FILE] [--layers 6]

512 texts of random words (lengths log-normal with median 24 and 95th percentile 120, at most 512) go through
a BERT with random weights (the full run: 6 blocks of BERT-base's; logits of two labels) once each alone, in a
call of its own, and again in company, as a user would run them: in batches of 32 as they come, in batches of
32 by length, and by length with at most 2,048 tokens a batch (clearhead: all in one call, which makes batches
of its own). A text counts as changed where the bytes of its logits differ from those it has alone, in any of
the three. Nothing is timed. The weights are drawn twice as wide as BERT's, so that the scores differ from
text to text as a trained model's do.

Engines: clearhead float32; `transformers` float32 with fused and with eager attention, and under torch's
dynamic int8; CTranslate2 float32 and int8; ONNX Runtime float32 and dynamically quantised to int8. To install
them with the development environment:

    pip install -e ".[dev]" -r benchmarks/requirements.txt -c constraints.txt

The full run takes about 15 minutes on two cores, the quick one (2 blocks of width 64, 64 texts) a minute.
`--svg` draws the figure of the README.
"""

import math
import tempfile
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import engines
import figure
import measuring
import shapes
from measuring import Job, Result
from shapes import Shape

COMPANIES = {
    "32 as they come": shapes.as_they_come,
    "32 by length": shapes.by_length,
    "by tokens": shapes.by_budget,
}
Rows = list[list[float]]


def compare(job: Job, *, engine: engines.Engine) -> Result:
    """Each text alone, then in each company."""
    import numpy as np

    lengths = shapes.skewed_lengths(job["texts"])
    texts = shapes.random_texts(lengths, vocab=job["shape"]["vocab"])
    score = engine(Path(job["folder"]), cores=job["cores"])
    alone = np.concatenate([score([text]) for text in texts])
    changed, largest = {}, 0.0
    in_any = np.zeros(len(texts), dtype=bool)
    for name, way in COMPANIES.items():
        own = name == "by tokens" and engine is engines.clearhead
        found = np.empty_like(alone)
        for members in (shapes.together if own else way)(lengths):
            found[members] = score([texts[index] for index in members])
        differs = np.array([a.tobytes() != b.tobytes() for a, b in zip(alone, found, strict=True)])
        changed[name] = int(differs.sum())
        in_any |= differs
        largest = max(largest, largest_change(alone.tolist(), found.tolist()))
    result = {"changed": changed, "changed_in_any": int(in_any.sum()), "largest_change": largest}
    first = [probability(row) for row in alone.tolist()]
    mean = sum(first) / len(first)
    spread = math.sqrt(sum((value - mean) ** 2 for value in first) / len(first))
    return result | {"texts": len(texts), "spread": spread, "alone": alone.tolist()}


def probability(logits: list[float]) -> float:
    """The first label's probability, in double precision."""
    return 1 / sum(math.exp(other - logits[0]) for other in logits)


def largest_change(one: Rows, two: Rows) -> float:
    """The largest change of a probability."""
    return max(abs(probability(a) - probability(b)) for a, b in zip(one, two, strict=True))


def prepare(job: Job) -> Result:
    """Make the folder with random weights, wider than BERT's 0.02."""
    shapes.make_folder(job["folder"], Shape(**job["shape"]), initializer_range=0.04)
    return {}


def prepare_ctranslate2(job: Job) -> Result:
    """Convert the folder for CTranslate2, which quantises when it loads."""
    engines.convert_ctranslate2(Path(job["folder"]))
    return {}


def prepare_onnxruntime(job: Job) -> Result:
    """Convert the folder for ONNX Runtime, in float32 and in int8."""
    engines.convert_onnxruntime(Path(job["folder"]), int8=True)
    return {}


PREPARE = {"prepare": prepare, "CTranslate2": prepare_ctranslate2, "ONNX Runtime": prepare_onnxruntime}
ENGINES = {
    ("clearhead", "float32"): engines.clearhead,
    ("transformers, fused attention", "float32"): engines.transformers,
    ("transformers, eager attention", "float32"): partial(engines.transformers, attention="eager"),
    ("CTranslate2", "float32"): engines.ctranslate2,
    ("ONNX Runtime", "float32"): engines.onnxruntime,
    ("transformers, torch dynamic", "int8"): partial(engines.transformers, int8=True),
    ("CTranslate2", "int8"): partial(engines.ctranslate2, compute_type="int8"),
    ("ONNX Runtime, dynamic", "int8"): partial(engines.onnxruntime, file="model-int8.onnx"),
}
MEASURE = {
    f"{name}, {precision}": partial(compare, engine=engine) for (name, precision), engine in ENGINES.items()
}
SIDES = PREPARE | MEASURE


def table(rows: list[Result]) -> str:
    """The rows as docs/performance.md shows them."""
    header = ("engine", "precision", "texts changed", *COMPANIES, "largest change of a probability")
    lines = [
        (
            row["engine"], row["precision"], f"{row['changed_in_any']} of {row['texts']}",
            *row["changed"].values(), f"{row['largest_change']:.1e}" if row["largest_change"] else "0",
        )
        for row in rows
    ]  # fmt: skip
    return measuring.table(header, lines)


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--layers", type=int, default=6, help="blocks of the full run")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw the figure")
    options = measuring.options_of(parser, SIDES)
    full = replace(shapes.BASE, layers=options.layers)
    shape, texts = (shapes.TINY, 64) if options.quick else (full, 512)
    rows, ours = [], None
    with tempfile.TemporaryDirectory() as folder:
        job = {"folder": folder, "shape": asdict(shape), "texts": texts, "cores": options.cores}
        for name in PREPARE:
            measuring.say(f"{name}: {measuring.ask(name, job).get('skipped', 'ready')}")
        for (name, precision), side in zip(ENGINES, MEASURE, strict=True):
            if options.only and side not in options.only:
                continue
            result = measuring.ask(side, job)
            if "skipped" in result:
                measuring.say(f"{side}: left out, {result['skipped']}")
                continue
            alone = result.pop("alone")
            ours = ours or alone
            result["from_clearhead"] = largest_change(ours, alone)
            rows.append({"engine": name, "precision": precision} | result)
            measuring.say(f"{side}: {result['changed_in_any']} of {texts} changed")
    about = measuring.facts(options.cores)
    measured = {"shape": asdict(shape), "texts": texts, "tokens": sum(shapes.skewed_lengths(texts))}
    measuring.report(about, measured | {"rows": rows}, file=options.json)
    print(f"{texts} texts, {measured['tokens']:,} tokens, {shape}\n")
    print(table(rows))
    for row in rows:
        print(
            f"{row['engine']}, {row['precision']}: probabilities alone spread by {row['spread']:.1e}", end=""
        )
        print(f" and are at most {row['from_clearhead']:.1e} from the first row's")
    if options.svg:
        options.svg.parent.mkdir(parents=True, exist_ok=True)
        options.svg.write_text(figure.neighbours(rows, texts=texts, notes=notes(about, shape)))


def notes(about: dict[str, str], shape: Shape) -> list[str]:
    """The small print of the figure."""
    model = (
        f"BERT with {shape.layers} blocks of width {shape.width}, random weights; points of a probability."
    )
    return [model, about["processor"]]


if __name__ == "__main__":
    main()
