"""Quality of translation: a plain PyTorch loop and `clearhead train translate` on Multi30k, by sacreBLEU.

    python benchmarks/multi30k.py --quick | --full [--epochs 5] [--seed 0] [--only SIDE] [--json FILE]

29,000 pairs, English to German (files of $CLEARHEAD_SHARED); 9.4 million parameters on both sides: 4 + 4
blocks, width 256, 4 heads, hidden 1024, one learned vocabulary of 8,000 byte pairs, dropout 0.1, smoothed
labels (0.1), 2,048 tokens of both sides a step, the rate of 2017 with its warm-up (Vaswani et al. 2017,
section 5). clearhead learns for so many epochs, by one command; the plain loop (torch.nn.Transformer, padded
batches by length, Adam) then learns for the time which that command took with all it does beside: the
vocabulary, the scores after each epoch, the report. Both translate the 1,000 sentences of test_2016_flickr,
greedily and by 4 beams, and are scored by sacreBLEU (Post 2018) against the references as they are.

The quick run, on 2,000 pairs with fewer steps, takes a minute a side and translates nothing of worth.
Needs the development environment and sacrebleu.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import measuring
import pairs as texts
from measuring import Job, Result
from pairs import Pair

SHAPE = {"layers": 4, "width": 256, "heads": 4, "hidden": 1024, "vocab": 8000}
DROPOUT, MOST = 0.1, 64  # most tokens of an answer
WAYS = {"greedy": 1, "beam 4": 4}


def prepare(job: Job) -> Result:
    """The vocabulary, and the pairs as text."""
    folder = Path(job["folder"])
    both = [line for language in ("en", "de") for line in texts.lines("train", language)[: job["pairs"]]]
    texts.write_tokenizer(folder, both, vocab=job["size"]["vocab"])
    for part, most in (("train", job["pairs"]), ("val", None), ("test", job["sentences"])):
        rows = list(zip(*(texts.lines(part, language)[:most] for language in ("en", "de")), strict=True))
        lines = [json.dumps({"source": read, "target": said}, ensure_ascii=False) for read, said in rows]
        (folder / f"{part}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return {}


def rows_of(job: Job, part: str) -> tuple[list[str], list[str]]:
    """The texts and their translations."""
    lines = (Path(job["folder"]) / f"{part}.jsonl").read_text().split("\n")[:-1]
    rows = [json.loads(line) for line in lines]
    return [row["source"] for row in rows], [row["target"] for row in rows]


def plain(job: Job) -> Result:
    """The plain loop: so many seconds, then the test sentences."""
    import torch

    from clearhead.text.tokenizer import Tokenizer
    from plain_translator import Lessons, Size, Translator, answers

    torch.set_num_threads(job["cores"])
    torch.manual_seed(job["seed"])
    tokenizer = Tokenizer.read(job["folder"])

    def pairs_of(part: str) -> list[Pair]:
        both = [tokenizer.plain(side) for side in rows_of(job, part)]
        return [([*read, texts.ENDED], [*said, texts.ENDED]) for read, said in zip(*both, strict=True)]

    model = Translator(Size(**job["size"], dropout=DROPOUT)).train()
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    lessons = Lessons(model, pairs_of("train"))
    start, epoch, done, step = time.perf_counter(), 0, 0.0, 0
    while time.perf_counter() - start < job["seconds"]:
        batches = texts.by_tokens(lessons.pairs, budget=job["tokens"], seed=epoch)
        for number, batch in enumerate(batches, 1):
            step += 1
            for group in optimizer.param_groups:
                group["lr"] = rate(step, width=job["size"]["width"], warmup=job["warmup"])
            lessons.loss(batch).backward()
            optimizer.step()
            optimizer.zero_grad()
            done = epoch + number / len(batches)
            if time.perf_counter() - start >= job["seconds"]:
                break
        epoch += 1
    seconds = time.perf_counter() - start
    found = {"seconds": seconds, "epochs": done, "steps": step, "loss": loss_of(lessons, pairs_of("val"))}
    sources = [read for read, _ in pairs_of("test")]
    said = {}
    for name, beams in WAYS.items():
        took, made = measuring.clock(lambda beams=beams: answers(model, sources, beams=beams, most=MOST))
        said[name] = scored(job, [tokenizer.decode(ids) for ids in made]) | {"seconds": took}
    return found | {"parameters": sum(one.numel() for one in model.parameters()), "answers": said}


def rate(step: int, *, width: int, warmup: int) -> float:
    """The rate of update `step`, counted from 1 (Vaswani et al. 2017, equation 3)."""
    return float(width**-0.5 * min(step**-0.5, step * warmup**-1.5))


def loss_of(lessons: object, pairs: list[Pair]) -> float:
    """The mean of −log p over the tokens of the answers, in nats, without dropout and smoothing."""
    import torch

    from plain_translator import Lessons

    judge = Lessons(lessons.model.eval(), pairs)
    judge.criterion = torch.nn.CrossEntropyLoss(ignore_index=judge.model.pad)
    total = 0.0
    with torch.inference_mode():
        for batch in texts.by_tokens(pairs, budget=4096):
            total += float(judge.loss(batch)) * sum(len(pairs[index][1]) for index in batch)
    return total / sum(len(said) for _, said in pairs)


def clearhead(job: Job) -> Result:
    """The library's commands, as a user types them."""
    folder, size = Path(job["folder"]), job["size"]
    peak = rate(job["warmup"], width=size["width"], warmup=job["warmup"])
    train = ["train", "translate", "--data", folder / "train.jsonl", "--validation", folder / "val.jsonl"]
    train += ["--out", folder / "run", "--architecture", "transformer", "--overwrite", "--seed", job["seed"]]
    for name in ("layers", "width", "heads", "hidden", "vocab"):
        train += [f"--{name}", size[name]]
    train += ["--batch-tokens", job["tokens"], "--epochs", job["epochs"], "--dropout", DROPOUT]
    train += ["--learning-rate", peak, "--warmup", job["warmup"], "--schedule", "inverse_sqrt"]
    seconds, done = measuring.clock(lambda: command(train))
    if done.returncode:
        return {"skipped": done.stderr.strip().splitlines()[-1]}
    said = {}
    (folder / "test.txt").write_text("".join(f"{line}\n" for line in rows_of(job, "test")[0]))
    for name, beams in WAYS.items():
        ask = ["predict", folder / "run", folder / "test.txt", "--json"]
        ask += ["--beams", beams, "--max-new-tokens", MOST]
        took, made = measuring.clock(lambda ask=ask: command(ask))
        if made.returncode:
            return {"skipped": made.stderr.strip().splitlines()[-1]}
        answers = [json.loads(line)["answer"] for line in made.stdout.splitlines()]
        said[name] = scored(job, answers) | {"seconds": took}
    return {"seconds": seconds, "epochs": job["epochs"], "answers": said}


def command(words: list[object]) -> "subprocess.CompletedProcess[str]":
    """What a command of clearhead says."""
    line = [sys.executable, "-m", "clearhead", *map(str, words)]
    return subprocess.run(line, capture_output=True, text=True)


def scored(job: Job, answers: list[str]) -> Result:
    """BLEU of answers to the test sentences, its signature, and the first answers to look at."""
    from sacrebleu.metrics import BLEU

    metric = BLEU()
    score = metric.corpus_score(answers, [rows_of(job, "test")[1]])
    return {"bleu": score.score, "signature": str(metric.get_signature()), "first": answers[:3]}


SIDES = {"prepare": prepare, "clearhead": clearhead, "plain loop": plain}
MEASURE = [side for side in SIDES if side != "prepare"]


def table(found: dict[str, Result]) -> str:
    """A row for each side and way to search."""
    lines = []
    for side, result in found.items():
        for way, said in result["answers"].items():
            about = f"{result['epochs']:.1f}", f"{result['seconds']:,.0f}"
            lines.append((side, *about, way, f"{said['seconds']:.1f}", f"{said['bleu']:.2f}"))
    return measuring.table(("side", "epochs", "seconds", "search", "seconds of it", "BLEU"), lines)


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of both sides")
    parser.add_argument("--epochs", type=int, help="of clearhead (5)")
    parser.add_argument("--seconds", type=float, help="of the plain loop, where clearhead is left out")
    options = measuring.options_of(parser, SIDES)
    if options.rounds:
        parser.error("--rounds is not for this script; run it with other seeds")
    if missing := texts.check_data():
        parser.error(missing)
    job = {"size": SHAPE, "pairs": None, "sentences": 1000, "tokens": 2048, "warmup": 800, "epochs": 5}
    if options.quick:
        small = {"size": SHAPE | {"vocab": 2000}, "pairs": 2000, "sentences": 100}
        job |= small | {"tokens": 1024, "warmup": 40, "epochs": 2}
    job |= {"cores": options.cores, "seed": options.seed, "seconds": options.seconds or 30.0}
    job["epochs"] = options.epochs or job["epochs"]
    found: dict[str, Result] = {}
    with tempfile.TemporaryDirectory() as folder:
        job["folder"] = folder
        measuring.ask("prepare", job)
        for side in [side for side in MEASURE if not options.only or side in options.only]:
            result = measuring.ask(side, job)
            if "skipped" in result:
                measuring.say(f"{side}: left out, {result['skipped']}")
                continue
            found[side] = result
            if side == "clearhead" and not options.seconds:
                job["seconds"] = result["seconds"]
            bleu = ", ".join(f"{way} {said['bleu']:.2f}" for way, said in result["answers"].items())
            measuring.say(f"{side}: {result['epochs']:.1f} epochs in {result['seconds']:.0f} s; BLEU: {bleu}")
    measuring.report(measuring.facts(options.cores), {"job": job, "found": found}, file=options.json)
    print(f"\n{table(found)}\n")
    for side, result in found.items():
        for way, said in result["answers"].items():
            print(f"{side}, {way}: {said['signature']}; {' | '.join(said['first'])}")


if __name__ == "__main__":
    main()
