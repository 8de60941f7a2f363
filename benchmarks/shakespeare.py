"""A language model from one book: `clearhead train language` against a plain PyTorch loop, three seeds.

    python benchmarks/shakespeare.py --quick | --full [--seeds 0 1 2] [--kinds characters bpe]
                                     [--text FILE] [--json FILE]

The text: tiny Shakespeare (1,115,394 bytes), or any file of text; its last tenth is kept for evaluation. Both
sides have the same tokenizer (single characters, and byte pairs with a vocabulary of 1,000, learned once from
the training part), the same shape (a GPT-2: 4 blocks, width 128, 4 heads, context 128, dropout 0.1) and the
same recipe: 250 steps of 4,096 tokens, AdamW with rate 2e-3, warm-up over a tenth and linear decay, weight
decay 0.01 of matrices alone, gradients clipped to norm 1. clearhead: its command, `--blocks`. Peer: modules
of torch.nn put together as GPT-2 is, blocks drawn at random places of the text. Both are scored by the same
rule: the whole last tenth in blocks of the context, each token once, in bits per byte.

Needs the development environment. The full run takes 20 to 60 minutes on two cores.
"""

import gzip
import os
import tempfile
from math import log
from pathlib import Path
from statistics import mean, stdev

import measuring
from measuring import Job, Result

LAYERS, WIDTH, HEADS, CONTEXT, DROPOUT = 4, 128, 4, 128, 0.1
RATE, WARMUP, DECAY, LONGEST_GRADIENT = 2e-3, 0.1, 0.01, 1.0
KINDS = {"characters": 4000, "bpe": 1000}
SHARED = Path(os.environ.get("CLEARHEAD_SHARED", "../shared")) / "data" / "tinyshakespeare.txt.gz"


def prepare(job: Job) -> Result:
    """The two parts of the text, and a tokenizer of each kind."""
    from clearhead.text.train import train_tokenizer

    folder = Path(job["folder"])
    raw = Path(job["text"]).read_bytes()
    text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()[: job["characters"]]
    end = len(text) - len(text) // 10
    (folder / "train.txt").write_text(text[:end], newline="")
    (folder / "test.txt").write_text(text[end:], newline="")
    for kind, vocab in KINDS.items():
        train_tokenizer([text[:end]], vocab=vocab, kind=kind, closed=False).write(folder / kind)
    return {"bytes": len(text.encode())}


def clearhead(job: Job) -> Result:
    """This library."""
    import torch

    import clearhead as ch

    torch.set_num_threads(job["cores"])
    folder = Path(job["folder"])
    run = ch.train(
        "language", data=[folder / "train.txt"], validation=folder / "test.txt", out=folder / "run",
        architecture="gpt2", layers=LAYERS, width=WIDTH, heads=HEADS, context=CONTEXT,
        tokenizer=folder / job["kind"], blocks=True, dropout=DROPOUT, batch_tokens=job["tokens"],
        epochs=100, max_steps=job["steps"], learning_rate=RATE, warmup=WARMUP, weight_decay=DECAY,
        eval_steps=job["steps"], save_steps=10**6, seed=job["seed"], overwrite=True,
    )  # fmt: skip
    seconds, steps = measuring.clock(lambda: list(run))
    metrics = steps[-1].metrics
    return {"seconds": seconds, "bits": metrics.bits_per_byte, "tokens": metrics.tokens, "steps": len(steps)}


def plain(job: Job) -> Result:
    """A plain loop around torch.nn."""
    import torch
    from torch import nn
    from torch.nn import functional

    from clearhead.text.tokenizer import Tokenizer
    from plain_gpt import Decoder, Size, adamw

    torch.set_num_threads(job["cores"])
    torch.manual_seed(job["seed"])
    folder = Path(job["folder"])
    tokenizer = Tokenizer.read(folder / job["kind"])
    ends = [tokenizer.roles[role] for role in ("bos_token", "eos_token")]

    def ids_of(name: str) -> torch.Tensor:
        (ids,) = tokenizer.plain([(folder / name).read_bytes().decode()])
        return torch.tensor([ends[0], *ids, ends[1]])

    training, test = ids_of("train.txt"), ids_of("test.txt")
    model = Decoder(Size(LAYERS, WIDTH, HEADS, CONTEXT, tokenizer.vocab_size, DROPOUT))
    optimizer = adamw(model, rate=RATE, decay=DECAY)
    warmup = max(1, round(WARMUP * job["steps"]))
    size = job["tokens"] // CONTEXT

    def train() -> None:
        model.train()
        for step in range(1, job["steps"] + 1):
            share = (
                step / warmup if step <= warmup else (job["steps"] + 1 - step) / (job["steps"] + 1 - warmup)
            )
            for group in optimizer.param_groups:
                group["lr"] = RATE * share
            starts = torch.randint(len(training) - CONTEXT - 1, (size,))
            rows = torch.stack([training[start : start + CONTEXT + 1] for start in starts.tolist()])
            logits = model(rows[:, :-1]).flatten(0, 1)
            functional.cross_entropy(logits, rows[:, 1:].flatten()).backward()
            nn.utils.clip_grad_norm_(model.parameters(), LONGEST_GRADIENT)
            optimizer.step()
            optimizer.zero_grad()

    seconds, _ = measuring.clock(train)
    model.eval()
    nats = tokens = 0.0
    with torch.inference_mode():
        for start in range(0, len(test) - 1, CONTEXT):
            row = test[start : start + CONTEXT + 1]
            loss = functional.cross_entropy(model(row[None, :-1])[0], row[1:], reduction="sum")
            nats, tokens = nats + float(loss), tokens + len(row) - 1
    size_in_bytes = len((folder / "test.txt").read_bytes())
    return {
        "seconds": seconds,
        "bits": nats / log(2) / size_in_bytes,
        "tokens": tokens,
        "steps": job["steps"],
    }


MEASURE = {"clearhead": clearhead, "plain loop": plain}
SIDES = MEASURE | {"prepare": prepare}


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--kinds", nargs="+", choices=[*KINDS], default=[*KINDS], help="of tokens")
    parser.add_argument("--text", type=Path, default=SHARED, help="file of text, also .gz")
    options = measuring.options_of(parser, SIDES)
    if options.rounds:
        parser.error("--rounds is not for this script; the seeds are its rounds")
    if not options.text.is_file():
        parser.error(f"--text: there is no file {options.text}")
    seeds, steps, characters = ([0], 8, 30_000) if options.quick else (options.seeds, 250, None)
    found: dict[str, dict[str, list[Result]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        job = {"folder": folder, "text": str(options.text), "characters": characters, "cores": options.cores}
        measuring.ask("prepare", job)
        for kind in options.kinds:
            found[kind] = {side: [] for side in MEASURE if not options.only or side in options.only}
            for seed in seeds:
                for side in found[kind]:
                    said = measuring.ask(
                        side, job | {"kind": kind, "seed": seed, "steps": steps, "tokens": 4096}
                    )
                    found[kind][side].append(said)
                    measuring.say(
                        f"{kind}, seed {seed}, {side}: {said['bits']:.4f} bits, {said['seconds']:.0f} s"
                    )
    measuring.report(measuring.facts(options.cores), {"steps": steps, "found": found}, file=options.json)
    header = ("tokens", "side", *(f"seed {seed}" for seed in seeds), "mean", "deviation", "seconds")
    lines = []
    for kind, sides in found.items():
        for side, results in sides.items():
            bits = [result["bits"] for result in results]
            spread = f"{stdev(bits):.4f}" if len(bits) > 1 else ""
            seconds = measuring.median(results, "seconds")
            lines.append(
                [
                    kind,
                    side,
                    *(f"{value:.4f}" for value in bits),
                    f"{mean(bits):.4f}",
                    spread,
                    f"{seconds:.0f}",
                ]
            )
    print(measuring.table(header, lines))


if __name__ == "__main__":
    main()
