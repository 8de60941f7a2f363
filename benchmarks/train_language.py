"""Steps of training a language model: clearhead and a plain PyTorch loop, taking turns.

    python benchmarks/train_language.py --quick | --full [--rounds 3] [--json FILE]

The shape is that of nanoGPT's model of characters (a GPT-2: 6 blocks, width 384, 6 heads, context 256, a
vocabulary of 65), in float32, with the same AdamW (decay of matrices alone), gradients clipped to norm 1,
about 4,096 tokens a step, the same number of threads; ids are random, weights new. Only the steps are timed.

- blocks: whole blocks of the context, with dropout 0.2 everywhere and without.
- documents: short documents (lengths log-normal, mean 60 tokens, at most 256), with dropout 0.2 and without.
  clearhead packs them; the peer pads each batch to its longest, as a plain loop does.
- memory: a vocabulary of 128,000 (2 blocks of width 256), 2,048 tokens a step: the peak of the process above
  what it held before the first step.

clearhead: the trainer of `clearhead train language`. Peer: modules of torch.nn (plain_gpt.py), fused
attention, `cross_entropy` over all logits.

The full run takes 4 to 10 minutes a round on two cores. Needs the development environment.
"""

import random
from functools import partial
from math import exp, log

import measuring
from measuring import Job, Result, median

NANO = {"layers": 6, "width": 384, "heads": 6, "context": 256, "vocab": 65}
TINY = {"layers": 2, "width": 64, "heads": 2, "context": 64, "vocab": 65}
WIDE = {"layers": 2, "width": 256, "heads": 4, "context": 256, "vocab": 128_000}
RATE, DECAY, LONGEST_GRADIENT = 1e-3, 0.1, 1.0
KINDS = ("blocks", "documents")
DROPOUTS = (0.2, 0.0)


def documents(job: Job, kind: str) -> list[list[int]]:
    """Documents of random ids, for so many steps: each one id longer than what is read of it."""
    chance, context = random.Random(0), job["size"]["context"]
    budget, found = job["steps"] * job["tokens"], []
    while budget > 0:
        length = context
        if kind == "documents":
            length = min(context, max(2, round(exp(chance.gauss(log(50), 0.6)))))  # their mean is 60
        found.append([chance.randrange(job["size"]["vocab"]) for _ in range(length + 1)])
        budget -= length
    return found


def clearhead(job: Job, *, kind: str, dropout: float) -> Result:
    """The library's trainer."""
    import torch

    from clearhead.checkpoint.fresh import new_transformer
    from clearhead.learn.schedule import Schedule
    from clearhead.learn.trainer import Plan, Trainer
    from clearhead.model.config import Activation, Config, Learned
    from clearhead.tasks.pieces import Pieces

    torch.set_num_threads(job["cores"])
    size = job["size"]
    config = Config(
        vocab=size["vocab"], width=size["width"], layers=size["layers"], heads=size["heads"],
        hidden=4 * size["width"], positions=Learned(size["context"]), activation=Activation.GELU_TANH,
        norm_first=True, initial_std=0.02, causal=True, language_head=True, dropout=dropout,
        attention_dropout=dropout,
    )  # fmt: skip
    network = new_transformer(config, None, seed=0)
    pieces = Pieces.of(documents(job, kind), context=size["context"])
    plan = Plan(epochs=1, batch_tokens=job["tokens"], accumulate=1, max_steps=None, seed=0, dropout=None)
    trainer = Trainer(network, pieces, plan=plan)
    schedule = Schedule(RATE, len(trainer.steps), 1, "constant")
    trainer.prepare(schedule, weight_decay=DECAY, max_grad_norm=LONGEST_GRADIENT)
    trainer.step()  # the first one also warms up
    return timed(job, lambda: list(trainer.run()), tokens=sum(pieces.lengths[i] for step in trainer.steps[1:]
                 for batch in step[2] for i in batch))  # fmt: skip


def plain(job: Job, *, kind: str, dropout: float) -> Result:
    """The plain loop."""
    import torch
    from torch import nn
    from torch.nn import functional

    from plain_gpt import Decoder, Size, adamw

    torch.set_num_threads(job["cores"])
    torch.manual_seed(0)
    size = job["size"]
    model = Decoder(Size(**size, dropout=dropout)).train()
    optimizer = adamw(model, rate=RATE, decay=DECAY)
    texts = documents(job, kind)
    random.Random(1).shuffle(texts)
    mean = sum(len(text) - 1 for text in texts) / len(texts)
    count = max(1, round(job["tokens"] / mean))  # texts of a step: as many tokens as clearhead has
    batches = [texts[start : start + count] for start in range(0, len(texts), count)]

    def step(batch: list[list[int]]) -> None:
        rows = nn.utils.rnn.pad_sequence([torch.tensor(text) for text in batch], batch_first=True)
        lengths = torch.tensor([len(text) for text in batch])
        targets = rows[:, 1:].clone()
        targets[torch.arange(targets.shape[1])[None] >= (lengths - 1)[:, None]] = -100
        logits = model(rows[:, :-1]).flatten(0, 1)
        functional.cross_entropy(logits, targets.flatten(), ignore_index=-100).backward()
        nn.utils.clip_grad_norm_(model.parameters(), LONGEST_GRADIENT)
        optimizer.step()
        optimizer.zero_grad()

    step(batches[0])
    tokens = sum(len(text) - 1 for batch in batches[1:] for text in batch)
    return timed(job, lambda: [step(batch) for batch in batches[1:]], tokens=tokens)


def timed(job: Job, work: object, *, tokens: int) -> Result:
    """Tokens a second, what memory the steps take at most, and the share of the processor's best."""
    before = measuring.peak_memory()
    measuring.forget_peak()
    before = min(before, measuring.peak_memory())
    seconds, _ = measuring.clock(work)
    peak = measuring.peak_memory()
    size = job["size"]
    weights = 12 * size["layers"] * size["width"] ** 2 + size["vocab"] * size["width"]
    found = {"seconds": seconds, "each": seconds / tokens, "tokens": tokens, "peak_mb": peak - before}
    sgemm = measuring.sgemm_peak(job["sgemm"])
    return found | {"sgemm": sgemm, "share": 6e-9 * weights * tokens / seconds / sgemm}


MEASURE = {}
for kind in KINDS:
    for rate in DROPOUTS:
        MEASURE[f"clearhead, {kind}, dropout {rate}"] = partial(clearhead, kind=kind, dropout=rate)
        MEASURE[f"plain loop, {kind}, dropout {rate}"] = partial(plain, kind=kind, dropout=rate)


def table(found: dict[str, list[Result]]) -> str:
    """A row for each side; the ratio is that of the times for one token."""
    header = ("side", "tokens/s", "ratio", "share of sgemm", "sgemm, GFLOP/s", "memory of the steps, MB")
    lines = []
    for side, results in found.items():
        ours = found.get(f"clearhead, {side.partition(', ')[2]}")
        ratio = "" if ours is None else f"{times(results, ours):.2f}"
        lines.append(
            (
                side, f"{1 / median(results, 'each'):,.0f}", ratio, f"{median(results, 'share'):.0%}",
                f"{median(results, 'sgemm'):.0f}", f"{median(results, 'peak_mb'):,.0f}",
            )
        )  # fmt: skip
    return measuring.table(header, lines)


def times(results: list[Result], ours: list[Result]) -> float:
    """How many times as long as clearhead a side takes for a token: the median of the rounds' ratios."""
    pairs = zip(results, ours, strict=True)
    return measuring.median_of(one["each"] / own["each"] for one, own in pairs)


def main() -> None:
    parser = measuring.arguments(__doc__)
    options = measuring.options_of(parser, MEASURE)
    rounds = options.rounds or (1 if options.quick else 3)
    quick = {"size": TINY, "tokens": 512, "steps": 4, "sgemm": 512}
    speed = quick if options.quick else {"size": NANO, "tokens": 4096, "steps": 9, "sgemm": 2048}
    memory = {"size": WIDE, "tokens": 2048, "steps": 3, "sgemm": 512}
    if options.quick:
        memory |= {"size": WIDE | {"vocab": 20_000}, "tokens": 512}
    sides = [side for side in MEASURE if not options.only or side in options.only]
    few = [side for side in sides if side.endswith("blocks, dropout 0.0")]
    measured = {}
    for name, job, asked in (("speed", speed, sides), ("memory", memory, few)):
        found = measuring.take_turns(asked, job | {"cores": options.cores}, rounds=rounds)
        measured[name] = {"job": job, "found": found}
        print(f"\n{name}: {job['size']}, about {job['tokens']:,} tokens a step; rounds: {rounds}\n")
        print(table(found) + "\n")
    measuring.report(measuring.facts(options.cores), measured, file=options.json)


if __name__ == "__main__":
    main()
