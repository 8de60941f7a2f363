"""Entities over three seeds: `clearhead train tag` against a plain loop with the same recipe, step by step.

    python benchmarks/tag.py --quick | --full --train FILE --dev FILE [--seeds 0 1 2] [--epochs 5]

The files: CoNLL, such as wnut17.train.conll and wnut17.dev.conll of the shared task on emerging entities
(Derczynski et al. 2017). Both sides begin with the same weights (MiniLM under a new head, drawn by seed) and
see the same sentences in the same steps, so that their losses can be compared one by one:

- a word is learned by its first piece, the loss of a step is the mean over its words;
- AdamW, rate 1e-4, linear warm-up over a tenth of the steps and linear decay (the formula of
  docs/classify.md), decay 0.01 of matrices alone, gradients clipped to norm 1, no dropout;
- after the last epoch the entities of the dev file are scored: micro F1, strict.

clearhead: its command with `--dropout 0`. Peer: `transformers`, words split by its own tokenizer, padded
batches. Exit status 1 if one of the first 20 losses differs by more than 1e-4. The quick run takes 200
sentences once with one seed. Needs the development environment and the model: clearhead get minilm.
"""

import json
import re
import sys
import tempfile
from itertools import islice
from pathlib import Path
from statistics import mean

import measuring
from measuring import Job, Result

RATE, DECAY, LONGEST_GRADIENT = 1e-4, 0.01, 1.0
FIRST, NEAR = 20, 1e-4


def head_of(source: Path, target: Path, *, sentences: int | None) -> None:
    """The first sentences of a CoNLL file."""
    parts = re.split(r"\n[ \t]*\n", source.read_text(encoding="utf-8"))
    target.write_text("\n\n".join(islice(parts, sentences)), encoding="utf-8")


def run_of(job: Job):
    import clearhead as ch

    folder = Path(job["folder"])
    return ch.train(
        "tag", data=folder / "train.conll", validation=folder / "dev.conll", out=folder / "run", dropout=0.0,
        epochs=job["epochs"], seed=job["seed"], learning_rate=RATE, overwrite=True,
    )  # fmt: skip


def start(job: Job) -> Result:
    """Write what both sides begin with: the weights, and the sentences of each step."""
    run, folder = run_of(job), Path(job["folder"])
    run.model.save(folder / "start")
    rows = {
        name: [[list(row.words), list(row.labels)] for row in some]
        for name, some in (("training", run.training), ("dev", run.validation))
    }
    steps = [[index for batch in batches for index in batch] for _, _, batches in run.trainer.steps]
    (folder / "plan.json").write_text(json.dumps(rows | {"steps": steps, "labels": run.task.labels}))
    return {"steps": len(steps), "sentences": len(run.training)}


def clearhead(job: Job) -> Result:
    """What the command does."""
    import torch

    torch.set_num_threads(job["cores"])
    seconds, steps = measuring.clock(lambda: list(run_of(job)))
    metrics = [progress.metrics for progress in steps if progress.metrics]
    losses = [progress.step.loss for progress in steps]
    return {"seconds": seconds, "losses": losses, "f1": metrics[-1].f1, "each": [one.f1 for one in metrics]}


def plain(job: Job) -> Result:
    """A plain loop around `transformers`."""
    import torch
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    from clearhead.data.schemes import places
    from clearhead.tasks.scores_tags import measure_tags
    from plain_gpt import adamw
    from rotten_tomatoes import share_of_peak

    torch.set_num_threads(job["cores"])
    folder = Path(job["folder"])
    plan = json.loads((folder / "plan.json").read_text())
    tokenizer = AutoTokenizer.from_pretrained(folder / "start")
    model = AutoModelForTokenClassification.from_pretrained(folder / "start").eval()  # dropout off
    numbers = {label: number for number, label in enumerate(plan["labels"])}

    def encoded(rows):
        found = tokenizer([words for words, _ in rows], is_split_into_words=True, truncation=True)
        firsts = []
        for place, (words, _) in enumerate(rows):
            ids = found.word_ids(place)
            firsts.append([ids.index(word) if word in ids else None for word in range(len(words))])
        return found["input_ids"], firsts

    def logits_of(texts):
        return model(**tokenizer.pad({"input_ids": texts}, return_tensors="pt")).logits

    ids, firsts = encoded(plan["training"])
    optimizer = adamw(model, rate=RATE, decay=DECAY)
    count = len(plan["steps"])
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: share_of_peak(done + 1, steps=count))

    def train():
        losses = []
        for members in plan["steps"]:
            logits = logits_of([ids[index] for index in members])
            labels = torch.full(logits.shape[:2], -100)
            for place, index in enumerate(members):
                for first, tag in zip(firsts[index], plan["training"][index][1], strict=True):
                    if first is not None:
                        labels[place, first] = numbers[tag]
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), LONGEST_GRADIENT)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        return losses

    seconds, losses = measuring.clock(train)
    right, said, same = [], [], 0
    ids, firsts = encoded(plan["dev"])
    with torch.inference_mode():
        for text, places_of, (_, tags) in zip(ids, firsts, plan["dev"], strict=True):
            best = logits_of([text])[0].argmax(-1).tolist()
            found = ["O" if first is None else plan["labels"][best[first]] for first in places_of]
            right.append(places(tags))
            said.append(places(found, strict=True))
            same += sum(one == two for one, two in zip(found, tags, strict=True))
    words = sum(len(tags) for _, tags in plan["dev"])
    metrics = measure_tags(right, said, types=(), words=words, same=same, loss=0.0)
    return {"seconds": seconds, "losses": losses, "f1": metrics.f1}


MEASURE = {"clearhead": clearhead, "plain loop": plain}
SIDES = MEASURE | {"start": start}


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--train", type=Path, help="CoNLL file to learn from")
    parser.add_argument("--dev", type=Path, help="CoNLL file to score")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=5)
    options = measuring.options_of(parser, SIDES)
    if options.rounds or options.only:
        parser.error("the seeds are the rounds of this script, and it compares both sides")
    if not options.train or not options.dev:
        parser.error("say --train FILE and --dev FILE")
    seeds, epochs = (options.seeds[:1], 1) if options.quick else (options.seeds, options.epochs)
    found: dict[str, list[Result]] = {side: [] for side in MEASURE}
    gaps = []
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            for name, file in (("train", options.train), ("dev", options.dev)):
                head_of(file, Path(folder) / f"{name}.conll", sentences=200 if options.quick else None)
            job = {"folder": folder, "cores": options.cores, "epochs": epochs, "seed": seed}
            about = measuring.ask("start", job)
            measuring.say(f"seed {seed}: {about['sentences']:,} sentences, {about['steps']:,} steps a side")
            for side in MEASURE:
                found[side].append(measuring.ask(side, job))
                last = found[side][-1]
                measuring.say(f"{side}: entity F1 {last['f1']:.4f}, {last['seconds']:.1f} s")
            pairs = zip(*(found[side][-1]["losses"] for side in MEASURE), strict=True)
            gaps.append(max(abs(one - two) for one, two in islice(pairs, FIRST)))
    measuring.report(measuring.facts(options.cores), found | {"gaps": gaps}, file=options.json)
    header = ("side", *(f"F1, seed {seed}" for seed in seeds), "mean", "seconds")
    lines = []
    for side, results in found.items():
        each = [result["f1"] for result in results]
        seconds = measuring.median(results, "seconds")
        lines.append((side, *(f"{value:.2%}" for value in each), f"{mean(each):.2%}", f"{seconds:.1f}"))
    print(measuring.table(header, lines))
    print(f"largest gap of the first {FIRST} losses: {max(gaps):.1e} (allowed {NEAR:.0e})")
    sys.exit(int(max(gaps) > NEAR))


if __name__ == "__main__":
    main()
