"""An encoder–decoder of Marian's shape: steps of training, and translation by beams, sides taking turns.

    python benchmarks/translate.py --quick | --full [--parts training translation] [--rounds 3] [--json FILE]

The texts: Multi30k, English to German (files of $CLEARHEAD_SHARED), in byte pairs that are learned from it.
The shape: 6 + 6 blocks, width 512, 8 heads, hidden 2048, one vocabulary of 8,000 for both sides; float32.

- training: the same pairs once, new weights, dropout 0.1 everywhere, smoothed labels (0.1), fused AdamW.
  clearhead: its trainer, 4,096 tokens of both sides a step. Peers: a plain loop around torch.nn.Transformer,
  in padded batches by length that hold as many tokens, and in shuffled batches of 64.
- translation: beam-4 of the test sentences by a published folder of random weights. The end is held back so
  that each answer is as long as its reference; a peer's batch goes on to the longest of its answers.
  clearhead: all sentences in one call. Peers: `transformers` in batches of 32, as they come and by length;
  CTranslate2, by length. Same answers: of those that end with their batch.

The full run takes about 5 minutes a round on two cores, the quick one (2 + 2 blocks of width 64) a minute.
"""

import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import measuring
import pairs as texts
from beam_engines import Engine, clearhead, ctranslate2, prepare, transformers
from measuring import Job, Result, median
from pairs import Pair, Way

FULL = {"layers": 6, "width": 512, "heads": 8, "hidden": 2048, "vocab": 8000}
QUICK = {"layers": 2, "width": 64, "heads": 4, "hidden": 128, "vocab": 500}
RATE, DECAY, LONGEST_GRADIENT, DROPOUT, SMOOTHING = 1e-4, 0.01, 1.0, 0.1, 0.1
OURS = "clearhead"


def pairs_of(job: Job, part: str) -> list[Pair]:
    """Pairs of ids as `prepare` has written them."""
    return [tuple(pair) for pair in json.loads((Path(job["folder"]) / f"{part}.json").read_text())]


def learn(job: Job) -> Result:
    """The library's trainer."""
    import torch

    from clearhead.checkpoint.fresh import new_transformer
    from clearhead.learn.schedule import Schedule
    from clearhead.learn.trainer import Plan, Trainer
    from clearhead.model.config import Activation, Config, Sinusoidal
    from clearhead.tasks.translate import Translations

    torch.set_num_threads(job["cores"])
    size = job["size"]
    config = Config(
        **size, decoder_layers=size["layers"], positions=Sinusoidal(), activation=Activation.RELU,
        scale_embedding=True, language_head=True, dropout=DROPOUT, attention_dropout=DROPOUT,
        hidden_dropout=DROPOUT,
    )  # fmt: skip
    read, said = zip(*pairs_of(job, "train"), strict=True)
    objective = Translations(read, said, size["vocab"] - 1, SMOOTHING)
    plan = Plan(epochs=1, batch_tokens=job["tokens"], accumulate=1, max_steps=None, seed=0, dropout=None)
    trainer = Trainer(new_transformer(config, None, seed=0), objective, plan=plan)
    trainer.prepare(
        Schedule(RATE, len(trainer.steps), 1, "constant"),
        weight_decay=DECAY,
        max_grad_norm=LONGEST_GRADIENT,
    )
    trainer.estimate()  # warms up, changes nothing
    seconds, steps = measuring.clock(lambda: list(trainer.run()))
    batches = [batch for step in trainer.steps for batch in step[2]]
    sums = [sum(objective.keys[i][side] for i in batch) for batch in batches for side in (0, 1)]
    tokens = sum(-(-one // 8) * 8 for one in sums)
    return told(job, seconds, tokens=tokens, steps=len(steps), losses=[step.loss for step in steps])


def plain(job: Job, *, way: Way) -> Result:
    """The plain loop."""
    import torch

    from plain_gpt import adamw
    from plain_translator import Lessons, Size, Translator

    torch.set_num_threads(job["cores"])
    torch.manual_seed(0)
    model = Translator(Size(**job["size"], dropout=DROPOUT)).train()
    optimizer, losses = adamw(model, rate=RATE, decay=DECAY), list[float]()
    lessons = Lessons(model, pairs_of(job, "train"))
    batches = way(lessons.pairs)

    def learn() -> None:
        for batch in batches:
            loss = lessons.loss(batch)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), LONGEST_GRADIENT)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())

    for _ in range(2):  # warms up, changes nothing
        lessons.loss(batches[0]).backward()
        optimizer.zero_grad()
    seconds, _ = measuring.clock(learn)
    tokens = sum(texts.rectangle(batch, lessons.pairs) for batch in batches)
    return told(job, seconds, tokens=tokens, steps=len(batches), losses=losses)


def told(job: Job, seconds: float, *, tokens: int, steps: int, losses: list[float]) -> Result:
    """What is told of training."""
    peak, useful = measuring.peak_memory(), sum(map(len, sum(pairs_of(job, "train"), ())))
    found = {"seconds": seconds, "tokens": tokens, "useful": useful, "steps": steps, "peak_mb": peak}
    return found | {"loss": losses[-1], "sgemm": measuring.sgemm_peak(job["sgemm"])}


def answered(job: Job, *, engine: Callable[..., Engine], size: int | None, by_length: bool) -> Result:
    """One side of translation: load, warm up, all sentences in batches of `size`, or in one call."""
    pairs = pairs_of(job, "test")
    answer = engine(Path(job["folder"]), cores=job["cores"])
    answer([pairs[0][0]], [20])  # whatever is prepared once, as when a model is loaded
    order = list(range(len(pairs)))
    if by_length:
        order.sort(key=lambda index: (len(pairs[index][1]), len(pairs[index][0])))
    batches = [order[at : at + (size or len(order))] for at in range(0, len(order), size or len(order))]
    seconds, made = measuring.clock(
        lambda: [answer([pairs[i][0] for i in batch], [len(pairs[i][1]) for i in batch]) for batch in batches]
    )
    answers, last = [[0]] * len(pairs), [False] * len(pairs)
    for batch, rows in zip(batches, made, strict=True):
        longest = max(len(pairs[index][1]) for index in batch)
        for index, row in zip(batch, rows, strict=True):
            answers[index], last[index] = row, size is None or len(pairs[index][1]) == longest
    tokens = sum(len(said) for _, said in pairs)
    found = {"seconds": seconds, "tokens": tokens, "peak_mb": measuring.peak_memory()}
    return found | {"answers": answers, "last": last}


TRAINING = {
    f"{OURS}, training": learn,
    "plain loop, by length": lambda job: plain(job, way=partial(texts.by_tokens, budget=job["tokens"])),
    "plain loop, 64 shuffled": partial(plain, way=partial(texts.shuffled, size=64)),
}
TRANSLATION = {
    f"{OURS}, translation": partial(answered, engine=clearhead, size=None, by_length=False),
    "transformers, 32 as they come": partial(answered, engine=transformers, size=32, by_length=False),
    "transformers, 32 by length": partial(answered, engine=transformers, size=32, by_length=True),
    "CTranslate2, 32 by length": partial(answered, engine=ctranslate2, size=32, by_length=True),
}
PARTS = {"training": TRAINING, "translation": TRANSLATION}


def table(part: str, found: dict[str, list[Result]]) -> str:
    """A row for each side."""
    ours = found.get(f"{OURS}, {part}")
    training = part == "training"
    last = ("tokens computed", "steps", "last loss") if training else ("same answers",)
    lines = []
    for side, results in found.items():
        first, seconds = results[0], median(results, "seconds")
        useful = first["useful"] if training else first["tokens"]
        rate = "" if ours is None else f"{measuring.ratio(results, ours):.2f}"
        line = [
            side,
            f"{seconds:.1f}",
            rate,
            f"{useful / seconds:,.0f}",
            f"{median(results, 'peak_mb'):,.0f}",
        ]
        if training:
            line += [f"{first['tokens']:,}", first["steps"], f"{median(results, 'loss'):.2f}"]
        else:
            line.append(same(first, ours[0]) if ours and results is not ours else "")
        lines.append(line)
    return measuring.table(("side", "seconds", "ratio", "tokens/s", "peak, MB", *last), lines)


def same(theirs: Result, ours: Result) -> str:
    """How many answers are the same, of those that ended with their batch."""
    rows = zip(theirs["answers"], ours["answers"], theirs["last"], strict=True)
    pairs = [(one, other) for one, other, last in rows if last]
    return f"{sum(one == other for one, other in pairs)} of {len(pairs)}"


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=[*PARTS], help="leave the other out")
    options = measuring.options_of(parser, {"prepare": prepare} | TRAINING | TRANSLATION)
    if missing := texts.check_data():
        parser.error(missing)
    rounds = options.rounds or (1 if options.quick else 3)
    job = {"size": FULL, "pairs": 1600, "sentences": 1000, "tokens": 4096, "sgemm": 2048}
    if options.quick:
        job = {"size": QUICK, "pairs": 400, "sentences": 64, "tokens": 1024, "sgemm": 512}
    measured = {}
    with tempfile.TemporaryDirectory() as folder:
        job |= {"folder": folder, "cores": options.cores}
        measuring.ask("prepare", job)
        for part in options.parts:
            sides = [side for side in PARTS[part] if not options.only or side in options.only]
            measured[part] = found = measuring.take_turns(sides, job, rounds=rounds)
            print(f"\n{part}: {job['size']}; rounds: {rounds}; ratio: the side's time over clearhead's\n")
            print(table(part, found) + "\n")
    measuring.report(measuring.facts(options.cores), {"job": job, "found": measured}, file=options.json)


if __name__ == "__main__":
    main()
