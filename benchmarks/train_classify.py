"""One epoch of training a classifier on texts of skewed length: clearhead and the usual loop, taking turns.

    python benchmarks/train_classify.py --quick | --full [--shapes small base] [--rounds 3] [--json FILE]

The job: an epoch over texts of random words (lengths log-normal with median 24 and 95th percentile 120, at
most 512) with random labels, from encoded texts to the last update, for two shapes: small (4 blocks of width
256, 4 heads, 2,000 texts) and base (BERT-base, 96 texts). Loading, tokenizing, evaluating and saving are not
part of it. All sides start from the same random weights, in float32, with fused AdamW (decay 0.01 of
matrices), a linear schedule, gradients clipped to norm 1, the same number of threads, 32 texts a step.

clearhead: the trainer of `clearhead.train`, with the budget of tokens that gives as many steps as the peer
has, so that a step has 32 texts on average. Peer: `transformers` (fused attention), padded to the longest of
each batch of 32, with texts shuffled, and with texts grouped by length as its own trainer's sampler does in a
large file. Each with dropout 0.1, the published default, and without.

The full run takes 4 to 7 minutes a round for each shape on two cores, the quick one a minute.

Needs the development environment: pip install -e ".[dev]"
"""

import argparse
import csv
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import measuring
import shapes
from measuring import Job, Result, median
from shapes import Shape

SIZE = 32  # texts of a step
POOL = 50  # batches that the peer sorts together, its sampler's most; by itself it takes fewer of few texts
RATE, DECAY, LONGEST_GRADIENT, WARMUP = 1e-4, 0.01, 1.0, 0.1
SIZES = {"small": (shapes.SMALL, 2000), "base": (shapes.BASE, 96)}
QUICK = {"small": (shapes.TINY, 192)}
Told = Callable[..., list[dict[str, object]]]
ORDERS = ("shuffled", "grouped by length")
DROPOUTS = (0.1, 0.0)


def labels(texts: int) -> list[int]:
    """A label for each text: nothing to be learned, but work to be done."""
    return [index * 7 % 3 % 2 for index in range(texts)]


def budget_for(lengths: list[int], *, steps: int) -> int:
    """The smallest number of tokens a batch for which clearhead's first epoch has at most so many steps."""
    from clearhead.learn.batches import epoch_batches

    budget = sum(lengths) // steps
    while len(epoch_batches(lengths, budget=budget, seed=0, epoch=0)) > steps:
        budget += max(1, budget // 100)
    return budget


def clearhead(job: Job, *, dropout: float) -> Result:
    """The library's trainer on packed batches."""
    import torch

    import clearhead as ch

    torch.set_num_threads(job["cores"])
    lengths, folder = shapes.skewed_lengths(job["texts"]), Path(job["folder"])
    budget = budget_for(lengths, steps=-(-len(lengths) // SIZE))
    options = {"epochs": 1, "batch_tokens": budget, "dropout": dropout, "learning_rate": RATE}
    options |= {"weight_decay": DECAY, "max_grad_norm": LONGEST_GRADIENT, "warmup": WARMUP}
    data, few = str(folder / "train.csv"), str(folder / "few.csv")  # few: nothing is evaluated here
    run = ch.train(
        "classify", data=data, validation=few, base=str(folder), out=str(folder / "run"), **options
    )
    assert [example.tokens for example in run.examples] == lengths
    loaded = measuring.peak_memory()
    measuring.forget_peak()
    seconds, steps = measuring.clock(lambda: list(run.trainer.run()))
    losses = [step.loss for step in steps]
    return result(job, seconds, losses=losses, loaded=loaded, rows=sum(step.tokens for step in steps))


def usual(job: Job, *, order: str, dropout: float) -> Result:
    """The usual loop."""
    import torch
    from transformers import BertForSequenceClassification, get_linear_schedule_with_warmup
    from transformers.trainer_pt_utils import get_length_grouped_indices

    from plain_gpt import adamw

    torch.set_num_threads(job["cores"])
    torch.manual_seed(0)
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    model = BertForSequenceClassification.from_pretrained(job["folder"], attn_implementation="sdpa", **rates)
    lengths = shapes.skewed_lengths(job["texts"])
    texts = shapes.random_texts(lengths, vocab=job["shape"]["vocab"])
    targets = torch.tensor(labels(len(texts)))
    chance = torch.Generator().manual_seed(0)
    optimizer = adamw(model, rate=RATE, decay=DECAY)
    steps = -(-len(texts) // SIZE)
    schedule = get_linear_schedule_with_warmup(optimizer, round(WARMUP * steps), steps)
    model.train()

    def epoch() -> tuple[list[float], int]:
        if order == "shuffled":
            places = torch.randperm(len(texts), generator=chance).tolist()
        else:
            places = get_length_grouped_indices(lengths, SIZE, POOL, generator=chance)
        batches = shapes.cut(places, size=SIZE)
        losses = []
        for batch in batches:
            ids = [torch.tensor(texts[index]) for index in batch]
            ids = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
            loss = model(input_ids=ids, attention_mask=(ids != 0).long(), labels=targets[batch]).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), LONGEST_GRADIENT)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        return losses, shapes.padded_tokens(lengths, batches)

    loaded = measuring.peak_memory()
    measuring.forget_peak()
    seconds, (losses, rows) = measuring.clock(epoch)
    return result(job, seconds, losses=losses, loaded=loaded, rows=rows)


def result(job: Job, seconds: float, *, losses: list[float], loaded: float, rows: int) -> Result:
    """What a side tells."""
    working = measuring.peak_memory()
    found = {"seconds": seconds, "steps": len(losses), "loss": sum(losses) / len(losses), "rows": rows}
    found |= {"peak_mb": max(loaded, working), "working_mb": working}
    return found | {"sgemm": measuring.sgemm_peak(job["sgemm"])}


def prepare(job: Job) -> Result:
    """Make the folder with random weights and the texts as a file."""
    folder, shape = Path(job["folder"]), Shape(**job["shape"])
    shapes.make_folder(folder, shape)
    texts = shapes.random_texts(shapes.skewed_lengths(job["texts"]), vocab=shape.vocab)
    rows = [
        (" ".join(f"w{number}" for number in ids[1:-1]), f"label {label}")
        for ids, label in zip(texts, labels(len(texts)), strict=True)
    ]
    for name, part in (("train.csv", rows), ("few.csv", rows[:8])):
        with (folder / name).open("w", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *part])
    return {}


PREPARE = {"prepare": prepare}
MEASURE = {}
for rate in DROPOUTS:
    MEASURE[f"clearhead, dropout {rate}"] = partial(clearhead, dropout=rate)
    for way in ORDERS:
        MEASURE[f"transformers {way}, dropout {rate}"] = partial(usual, order=way, dropout=rate)
SIDES = PREPARE | MEASURE


def rows_of(found: dict[str, list[Result]], *, texts: int, shape: Shape) -> list[dict[str, object]]:
    """What is told of each side; its time over that of clearhead with the same dropout."""
    lengths = shapes.skewed_lengths(texts)
    work = 3 * 2e-9 * shapes.multiply_adds(shape, lengths)  # backward: two products for each of forward's
    rows = []
    for side, results in found.items():
        ours = found.get(f"clearhead, {side.partition(', ')[2]}")
        seconds = median(results, "seconds")
        row = {"side": side, "seconds": seconds, "tokens_per_second": sum(lengths) / seconds}
        row |= {"texts_per_step": texts / results[0]["steps"], "rows": results[0]["rows"]}
        row["share"] = measuring.median_of(work / one["seconds"] / one["sgemm"] for one in results)
        row |= {name: median(results, name) for name in ("sgemm", "loss", "peak_mb", "working_mb")}
        row |= {"each_seconds": [one["seconds"] for one in results]}
        if ours:
            row["ratio"] = measuring.ratio(results, ours)
        rows.append(row)
    return rows


def table(rows: list[dict[str, object]]) -> str:
    """The rows as docs/performance.md shows them."""
    header = ("side", "seconds", "ratio", "tokens/s", "texts a step", "tokens computed", "share of sgemm")
    header += ("sgemm, GFLOP/s", "peak, MB", "while working, MB", "mean loss")
    lines = [
        (
            row["side"], f"{row['seconds']:.2f}", f"{row.get('ratio', 1):.2f}",
            f"{row['tokens_per_second']:,.0f}", f"{row['texts_per_step']:.1f}", f"{row['rows']:,}",
            f"{row['share']:.0%}", f"{row['sgemm']:.0f}", f"{row['peak_mb']:,.0f}",
            f"{row['working_mb']:,.0f}", f"{row['loss']:.3f}",
        )
        for row in rows
    ]  # fmt: skip
    return measuring.table(header, lines)


def compare(
    options: argparse.Namespace, sizes: dict[str, tuple[Shape, int]], *, sides: Iterable[str], told: Told
) -> None:
    """Let the sides take turns at each size, and print and write what they took; `told` makes the rows."""
    chosen = [side for side in sides if not options.only or side in options.only]
    rounds = options.rounds or (1 if options.quick else 3)
    measured = {}
    for name, (shape, texts) in sizes.items():
        with tempfile.TemporaryDirectory() as folder:
            job = {"folder": folder, "shape": asdict(shape), "texts": texts, "cores": options.cores}
            job["sgemm"] = 1024 if options.quick else 2048
            measuring.ask("prepare", job)
            found = measuring.take_turns(chosen, job, rounds=rounds)
        rows = told(found, texts=texts, shape=shape)
        tokens = sum(shapes.skewed_lengths(texts))
        measured[name] = {"shape": asdict(shape), "texts": texts, "tokens": tokens, "rows": rows}
        print(
            f"\n{name}: {texts} texts, {tokens:,} tokens, {shape}; rounds: {rounds}; ratio: the side's time"
        )
        print("over clearhead's with the same dropout\n")
        print(table(rows) + "\n")
    measuring.report(measuring.facts(options.cores), measured, file=options.json)


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--shapes", nargs="+", choices=SIZES, default=[*SIZES], help="with --full")
    options = measuring.options_of(parser, SIDES)
    sizes = QUICK if options.quick else {name: SIZES[name] for name in options.shapes}
    compare(options, sizes, sides=MEASURE, told=rows_of)


if __name__ == "__main__":
    main()
