"""Answers in texts: the time to find them, and what is learned, against the published model.

    python benchmarks/answer.py --quick | --full [--parts speed losses training] [--seeds 0 1 2] [--json FILE]

The questions: XQuAD, English (48 articles, 1,190 questions; files of $CLEARHEAD_SHARED). The model: MiniLM (6
blocks, width 384) with a new head of spans, one folder for both sides; float32.

- speed: all questions, from texts to answers, contexts in windows of 384 tokens that begin half a window
  apart. Peer: `transformers` in padded batches of 32 windows, as they come (shuffled) and by length, its
  logits read as its published script reads them (20 best beginnings and ends; `--best N` pairs more). Same
  answers: how many.
- training: 40 articles to learn from, 8 to be tested on, over the seeds: clearhead's command and a plain loop
  around `transformers` with its batches in padded rectangles, rate (1e-4, warm-up over a tenth, linear) and
  decay, dropout 0.1.
- losses: the first 20 of both from the same start, without dropout, of the same windows. The plain loop reads
  each window by itself: in a padded rectangle the published loss takes padding for places where an answer may
  begin, so that a window's loss depends on its company; by how much is told, too. Exit status 1 if two losses
  differ by more than 1e-4.

The full run takes about 8 minutes for a seed's training and one for a round of speed; the quick one (few
questions, one step each way) a minute. Needs the development environment; fetches MiniLM where it is not here
yet, as `clearhead get` does.
"""

import json
import os
import random
import sys
import tempfile
from pathlib import Path
from statistics import mean
from typing import Any

import measuring
from measuring import Job, Result, median, median_of

SHARED = Path(os.environ.get("CLEARHEAD_SHARED", "../shared"))
DATA = SHARED / "data" / "xquad.en.json"
WINDOW, SIZE, BEST, MOST, RATE, EPOCHS = 384, 32, 20, 30, 1e-4, 2
FIRST, NEAR = 20, 1e-4
PARTS = ("speed", "losses", "training")


def articles(job: Job) -> list[dict]:
    """The articles, or a few questions of some."""
    found = json.loads(DATA.read_text(encoding="utf-8"))["data"]
    return found if not job["quick"] else [a | {"paragraphs": a["paragraphs"][:1]} for a in found[:12]]


def prepare(job: Job) -> Result:
    """The folder of the model, and the files of questions."""
    import torch
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    from clearhead.checkpoint.catalog import get, locate

    get("minilm")
    source, folder = locate("minilm"), Path(job["folder"])
    torch.manual_seed(0)
    model = AutoModelForQuestionAnswering.from_pretrained(source)
    model.save_pretrained(folder / "base")
    tokenizer = AutoTokenizer.from_pretrained(source, model_max_length=WINDOW)
    tokenizer.save_pretrained(folder / "base")
    every = articles(job)
    last = len(every) // 6
    for name, some in (("all", every), ("train", every[:-last]), ("test", every[-last:])):
        (folder / f"{name}.json").write_text(json.dumps({"version": "1.1", "data": some}), encoding="utf-8")
    return {}


def questions(job: Job, part: str) -> list[tuple[str, str, list[str]]]:
    """Question, context and right answers."""
    said = json.loads((Path(job["folder"]) / f"{part}.json").read_text(encoding="utf-8"))["data"]
    rows = [(p["context"], one) for article in said for p in article["paragraphs"] for one in p["qas"]]
    return [(one["question"], context, [a["text"] for a in one["answers"]]) for context, one in rows]


def found_by_clearhead(job: Job) -> Result:
    """The library, from texts to answers."""
    import torch

    import clearhead as ch

    torch.set_num_threads(job["cores"])
    model = ch.load(Path(job["folder"]) / "base")
    pairs = [(question, context) for question, context, _ in questions(job, "all")]
    model.answer(pairs[:2])
    seconds, results = measuring.clock(lambda: model.answer(pairs))
    places = [[one.start, one.end] for one in results]
    return {"seconds": seconds, "places": places, "peak_mb": measuring.peak_memory()}


def found_by_peer(job: Job, *, by_length: bool) -> Result:
    """`transformers`, from texts to answers."""
    import torch
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    torch.set_num_threads(job["cores"])
    folder = Path(job["folder"]) / "base"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForQuestionAnswering.from_pretrained(folder).eval()
    pairs = questions(job, "all")

    def work() -> list[list[int]]:
        windows, owners = [], []
        for number, (question, context, _) in enumerate(pairs):
            asked = len(tokenizer(question, add_special_tokens=False)["input_ids"])
            room = WINDOW - 3 - asked
            rows = tokenizer(
                question, context, max_length=WINDOW, truncation="only_second", stride=room // 2,
                return_overflowing_tokens=True, return_offsets_mapping=True,
            )  # fmt: skip
            for place in range(len(rows["input_ids"])):
                inside = [source == 1 for source in rows.sequence_ids(place)]
                kept = {name: rows[name][place] for name in ("input_ids", "token_type_ids", "attention_mask")}
                windows.append((kept, rows["offset_mapping"][place], inside))
                owners.append(number)
        order = list(range(len(windows)))
        if by_length:
            order.sort(key=lambda index: len(windows[index][1]))
        else:
            random.Random(0).shuffle(order)
        best: list[tuple[float, int, int]] = [(-float("inf"), 0, 0)] * len(pairs)
        with torch.inference_mode():
            for at in range(0, len(order), SIZE):
                members = order[at : at + SIZE]
                batch = tokenizer.pad([windows[index][0] for index in members], return_tensors="pt")
                said = model(**batch)
                for row, index in enumerate(members):
                    _, offsets, inside = windows[index]
                    starts, ends = (one[row][: len(offsets)] for one in (said.start_logits, said.end_logits))
                    for first in starts.topk(min(job["best"], len(offsets))).indices.tolist():
                        for last in ends.topk(min(job["best"], len(offsets))).indices.tolist():
                            if inside[first] and inside[last] and first <= last < first + MOST:
                                score = float(starts[first] + ends[last])
                                if score > best[owners[index]][0]:
                                    best[owners[index]] = score, offsets[first][0], offsets[last][1]
        return [[start, end] for _, start, end in best]

    tokenizer("a", "b")
    seconds, places = measuring.clock(work)
    return {"seconds": seconds, "places": places, "peak_mb": measuring.peak_memory()}


def learned_by_clearhead(job: Job) -> Result:
    """The command's run; the batches of its steps for the peer, and without dropout its first losses."""
    import torch

    import clearhead as ch
    from clearhead.infer.answer import evaluate_answers
    from clearhead.settings import Asking, Finding

    torch.set_num_threads(job["cores"])
    folder = Path(job["folder"])
    files = {"data": str(folder / "train.json"), "validation": str(folder / "test.json")}
    options = files | {
        "base": str(folder / "base"),
        "epochs": job["epochs"], "seed": job["seed"], "overwrite": True, "learning_rate": RATE,
    }  # fmt: skip
    if still := job["part"] == "losses":
        options |= {"dropout": 0.0, "max_steps": job["steps"] or FIRST}
    run = ch.train("answer", out=str(folder / "run"), **{"max_steps": job["steps"]} | options)
    windows = [
        [list(window.ids), list(window.segments), *ends]
        for window, ends in zip(run.objective.windows, run.objective.targets.tolist(), strict=True)
    ]
    steps = [[index for batch in batches for index in batch] for _, _, batches in run.trainer.steps]
    (folder / "steps.json").write_text(json.dumps({"windows": windows, "steps": steps}))
    if still:
        return {"losses": [progress.step.loss for progress in run]}
    seconds, _ = measuring.clock(lambda: list(run))
    test = evaluate_answers(
        ch.load(folder / "run"), folder / "test.json", asking=Asking(), finding=Finding()
    ).metrics
    return {"seconds": seconds, "exact": test.exact_match, "f1": test.f1}


def learned_by_peer(job: Job) -> Result:
    """A plain loop over the same batches, in padded rectangles."""
    import torch
    from transformers import AutoModelForQuestionAnswering

    from plain_gpt import adamw
    from rotten_tomatoes import share_of_peak

    torch.set_num_threads(job["cores"])
    folder = Path(job["folder"])
    said = json.loads((folder / "steps.json").read_text())
    windows, steps = said["windows"], said["steps"]

    def batch(members: list[int]) -> dict[str, torch.Tensor]:
        longest = max(len(windows[index][0]) for index in members)
        rows = [windows[index] for index in members]
        fields = {
            "input_ids": [ids + [0] * (longest - len(ids)) for ids, *_ in rows],
            "token_type_ids": [kinds + [0] * (longest - len(kinds)) for _, kinds, *_ in rows],
            "attention_mask": [[1] * len(ids) + [0] * (longest - len(ids)) for ids, *_ in rows],
            "start_positions": [row[2] for row in rows],
            "end_positions": [row[3] for row in rows],
        }
        return {name: torch.tensor(value) for name, value in fields.items()}

    def learn(*, dropout: bool, singly: bool) -> tuple[torch.nn.Module, list[float], list[float]]:
        """The model, its losses, and those of the same windows in padded rectangles."""
        torch.manual_seed(job["seed"])
        model = AutoModelForQuestionAnswering.from_pretrained(folder / "base").train(dropout)
        optimizer = adamw(model, rate=RATE, decay=0.01)
        losses, padded = [], []
        for number, members in enumerate(steps, 1):
            for group in optimizer.param_groups:
                group["lr"] = RATE * share_of_peak(number, steps=len(steps))
            parts = [[member] for member in members] if singly else [members]
            total = 0.0
            for part in parts:
                loss = model(**batch(part)).loss / len(parts)
                loss.backward()
                total += loss.item()
            losses.append(total)
            if singly:
                with torch.no_grad():
                    padded.append(model(**batch(members)).loss.item())
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        return model, losses, padded

    if job["part"] == "losses":
        _, losses, padded = learn(dropout=False, singly=True)
        return {"losses": losses, "padded": padded}
    seconds, (model, *_) = measuring.clock(lambda: learn(dropout=True, singly=False))
    model.save_pretrained(folder / "peer")
    return {"seconds": seconds} | scored_peer(job, folder)


def scored_peer(job: Job, folder: Path) -> Result:
    """The scores of the peer's model, its logits read and measured as clearhead's own."""
    import shutil

    import clearhead as ch
    from clearhead.infer.answer import evaluate_answers
    from clearhead.settings import Asking, Finding

    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(folder / "base" / name, folder / "peer")
    model = ch.load(folder / "peer")
    test = evaluate_answers(model, folder / "test.json", asking=Asking(), finding=Finding()).metrics
    return {"exact": test.exact_match, "f1": test.f1}


SPEED = {
    "clearhead, speed": found_by_clearhead,
    "transformers, 32 shuffled": lambda job: found_by_peer(job, by_length=False),
    "transformers, 32 by length": lambda job: found_by_peer(job, by_length=True),
}
TRAINING = {"clearhead, training": learned_by_clearhead, "plain loop, training": learned_by_peer}
SIDES = {"prepare": prepare, **SPEED, **TRAINING}


def speed(job: Job, rounds: int) -> dict[str, list[Result]]:
    """Rounds of all sides, taking turns."""
    found: dict[str, list[Result]] = {side: [] for side in SPEED}
    names = list(SPEED)
    for number in range(rounds):
        for side in names[number % len(names) :] + names[: number % len(names)]:
            found[side].append(measuring.ask(side, job))
            measuring.say(f"round {number + 1} of {rounds}, {side}: {found[side][-1]['seconds']:.1f} s")
    ours = found["clearhead, speed"]
    rows = []
    for side, results in found.items():
        ratios = [one["seconds"] / own["seconds"] for one, own in zip(results, ours, strict=True)]
        same = sum(a == b for a, b in zip(results[0]["places"], ours[0]["places"], strict=True))
        peak = max(one["peak_mb"] for one in results)
        seconds = median(results, "seconds")
        rows.append(
            (
                side,
                f"{seconds:.1f}",
                f"{median_of(ratios):.2f}",
                f"{peak:,.0f}",
                f"{same} of {len(results[0]['places'])}",
            )
        )
    print("\n" + measuring.table(("side", "seconds", "ratio", "peak, MB", "same places"), rows) + "\n")
    return found


def losses(job: Job, seed: int) -> dict[str, Any]:
    """The first losses of both sides, and how far they are apart."""
    ours, peer = (measuring.ask(side, job | {"seed": seed, "part": "losses"}) for side in TRAINING)
    apart, padded = (
        max(abs(a - b) for a, b in zip(ours["losses"], peer[name], strict=True))
        for name in ("losses", "padded")
    )
    print(f"\nfirst {len(ours['losses'])} losses at most {apart:.1e} apart (allowed {NEAR:.0e});", end=" ")
    print(f"from those of the same windows in padded rectangles {padded:.1e}\n")
    return {"clearhead": ours, "plain loop": peer, "apart": apart, "padded": padded}


def training(job: Job, seeds: list[int]) -> list[dict[str, Result]]:
    """Both sides for each seed."""
    found = []
    for seed in seeds:
        both = {side: measuring.ask(side, job | {"seed": seed, "part": "training"}) for side in TRAINING}
        scores = ", ".join(f"{side}: EM {one['exact']:.1f}, F1 {one['f1']:.1f}" for side, one in both.items())
        measuring.say(f"seed {seed}: {scores}")
        found.append(both)
    rows = [
        (side, *(f"{mean(one[side][name] for one in found):.1f}" for name in ("exact", "f1", "seconds")))
        for side in TRAINING
    ]
    print("\n" + measuring.table(("side", "exact match", "F1", "seconds"), rows) + "\n")
    return found


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--best", type=int, default=BEST, help="beginnings and ends the peer pairs (20)")
    parser.add_argument("--seeds", nargs="+", type=int, help="of training (0 1 2)")
    options = measuring.options_of(parser, SIDES)
    if not DATA.is_file():
        parser.error(f"{DATA} is not there; set CLEARHEAD_SHARED to the folder that holds data/xquad.en.json")
    job = {
        "quick": options.quick,
        "cores": options.cores,
        "epochs": EPOCHS,
        "best": options.best,
        "steps": 2 if options.quick else None,
    }
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        job |= {"folder": folder, "seed": 0}
        measuring.ask("prepare", job)
        if "speed" in options.parts:
            found["speed"] = speed(job, options.rounds or (1 if options.quick else 3))
        if "losses" in options.parts:
            found["losses"] = losses(job, (options.seeds or [0])[0])
        if "training" in options.parts:
            found["training"] = training(job, options.seeds or ([0] if options.quick else [0, 1, 2]))
    measuring.report(measuring.facts(options.cores), {"found": found}, file=options.json)
    sys.exit("losses" in found and found["losses"]["apart"] > NEAR)


if __name__ == "__main__":
    main()
