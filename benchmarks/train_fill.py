"""One epoch of masked language modelling on texts of skewed length: clearhead and the usual loop in turns.

    python benchmarks/train_fill.py --quick | --full [--rounds 3] [--json FILE]

The job: an epoch over 2,000 texts of random words (lengths log-normal with median 24 and 95th percentile 120,
at most 512), 15 % of whose tokens are hidden, from encoded texts to the last update. The shape: 4 blocks of
width 256, 4 heads, a vocabulary of 30,000, so the head is most of the work where it is computed for every
token. Loading, tokenizing, evaluating and saving are not part of it. All sides start from the same random
weights, in float32, with fused AdamW (decay 0.01 of matrices), a linear schedule, gradients clipped to 1,
the same number of threads, 32 texts a step.

clearhead: the trainer of `clearhead.train("fill")`, which hides tokens within the time that is measured, with
the budget of tokens that gives as many steps as the peer has. Peer: `transformers` (`BertForMaskedLM`, fused
attention), padded to the longest of each batch of 32, shuffled and grouped by length; its own collator pads
and hides before the time begins. Each with dropout 0.1, the published default, and without.

A round of the full run takes about ten minutes on two cores; the quick run takes a minute.

Needs the development environment: pip install -e ".[dev]"
"""

import json
from functools import partial
from pathlib import Path

import measuring
import shapes
from measuring import Job, Result, median
from shapes import Shape
from train_classify import (
    DECAY,
    DROPOUTS,
    LONGEST_GRADIENT,
    ORDERS,
    POOL,
    RATE,
    SIZE,
    WARMUP,
    budget_for,
    compare,
    result,
)

SHARE = 0.15  # of the tokens that are hidden
FILLER = Shape(layers=4, width=256, heads=4, hidden=1024, vocab=30000)
SIZES = {"filler": (FILLER, 2000)}
QUICK = {"filler": (shapes.TINY, 192)}


def clearhead(job: Job, *, dropout: float) -> Result:
    """The library's trainer on packed batches."""
    import torch

    import clearhead as ch

    torch.set_num_threads(job["cores"])
    lengths, folder = shapes.skewed_lengths(job["texts"]), Path(job["folder"])
    budget = budget_for(lengths, steps=-(-len(lengths) // SIZE))
    options = {"epochs": 1, "batch_tokens": budget, "dropout": dropout, "learning_rate": RATE}
    options |= {"weight_decay": DECAY, "max_grad_norm": LONGEST_GRADIENT, "warmup": WARMUP}
    options |= {
        "context": shapes.LONGEST,
        "mask_share": SHARE,
        "base": str(folder),
        "out": str(folder / "run"),
    }
    data, few = str(folder / "train.jsonl"), str(folder / "few.jsonl")  # few: nothing is evaluated here
    run = ch.train("fill", data=[data], validation=few, **options)
    assert run.objective.lengths == lengths
    loaded = measuring.peak_memory()
    measuring.forget_peak()
    seconds, steps = measuring.clock(lambda: list(run.trainer.run()))
    losses = [step.loss for step in steps]
    return result(job, seconds, losses=losses, loaded=loaded, rows=sum(step.tokens for step in steps))


def usual(job: Job, *, order: str, dropout: float) -> Result:
    """The usual loop."""
    import torch
    from transformers import (
        AutoTokenizer,
        BertForMaskedLM,
        DataCollatorForLanguageModeling,
        get_linear_schedule_with_warmup,
    )
    from transformers.trainer_pt_utils import get_length_grouped_indices

    from plain_gpt import adamw

    torch.set_num_threads(job["cores"])
    torch.manual_seed(0)
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    model = BertForMaskedLM.from_pretrained(job["folder"], attn_implementation="sdpa", **rates)
    tokenizer = AutoTokenizer.from_pretrained(job["folder"])
    hide = DataCollatorForLanguageModeling(tokenizer, mlm=True, mlm_probability=SHARE)
    lengths = shapes.skewed_lengths(job["texts"])
    texts = shapes.random_texts(lengths, vocab=job["shape"]["vocab"])
    chance = torch.Generator().manual_seed(0)
    if order == "shuffled":
        places = torch.randperm(len(texts), generator=chance).tolist()
    else:
        places = get_length_grouped_indices(lengths, SIZE, POOL, generator=chance)
    cut = shapes.cut(places, size=SIZE)

    def hidden(members: list[int]) -> dict[str, torch.Tensor]:
        batch = hide([{"input_ids": texts[index]} for index in members])
        # A mean over nothing is not a number, and neither is any weight after it: the shortest texts meet it.
        return batch if (batch["labels"] >= 0).any() else hidden(members)

    batches = [hidden(members) for members in cut]
    optimizer = adamw(model, rate=RATE, decay=DECAY)
    schedule = get_linear_schedule_with_warmup(optimizer, round(WARMUP * len(batches)), len(batches))
    model.train()

    def epoch() -> list[float]:
        losses = []
        for batch in batches:
            loss = model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), LONGEST_GRADIENT)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        return losses

    loaded = measuring.peak_memory()
    measuring.forget_peak()
    seconds, losses = measuring.clock(epoch)
    return result(job, seconds, losses=losses, loaded=loaded, rows=shapes.padded_tokens(lengths, cut))


def prepare(job: Job) -> Result:
    """Make the folder with random weights and the texts as files."""
    folder, shape = Path(job["folder"]), Shape(**job["shape"])
    shapes.make_folder(folder, shape, kind="BertForMaskedLM")
    texts = shapes.random_texts(shapes.skewed_lengths(job["texts"]), vocab=shape.vocab)
    rows = [json.dumps({"text": " ".join(f"w{number}" for number in ids[1:-1])}) for ids in texts]
    for name, part in (("train.jsonl", rows), ("few.jsonl", rows[:8])):
        (folder / name).write_text("\n".join(part) + "\n")
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
    hidden = SHARE * (sum(lengths) - 2 * len(lengths))
    head = (shape.width * shape.width + shape.width * shape.vocab) * hidden
    work = 3 * 2e-9 * (shapes.multiply_adds(shape, lengths) + head)  # backward: two products for each
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


def main() -> None:
    options = measuring.options_of(measuring.arguments(__doc__), SIDES)
    compare(options, QUICK if options.quick else SIZES, sides=MEASURE, told=rows_of)


if __name__ == "__main__":
    main()
