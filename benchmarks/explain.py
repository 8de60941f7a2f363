"""What it costs to look inside: a call with and without a recorder, and the peer's road to the same weights.

    python benchmarks/explain.py --quick | --full [--rounds 3] [--cores 2] [--json FILE]

- a layer: 64 texts of skewed length through BERT-base's shape, from ids to logits, float32; the attention of
  one layer of all of them is kept. Peer: `transformers`, fused and as they come in batches of 32; its eager
  attention with `output_attentions`, which keeps every layer; and a text at a time that way, as bertviz asks
  for it.
- a long text: 8,192 tokens through the same shape, with nothing recorded and with four rows of two heads of
  one layer. The memory above that of the plain run is what counts.

The answers with a recorder are the same bits as without, or the script stops. The quick run takes few texts
of a tiny shape. Needs the development environment; makes its own model, fetches nothing.
"""

import tempfile
from dataclasses import asdict
from pathlib import Path

import engines
import measuring
import shapes
from measuring import Job, Result, median

LAYER, HEADS, ROWS = 5, (0, 7), (0, 1000, 4000, 8000)
PLAIN, OURS = "clearhead", "clearhead, one layer recorded"
FUSED, EAGER = "transformers, 32 as they come", "transformers, 32, eager, all layers kept"
SINGLY = "transformers, one at a time, eager, all layers kept"
LONG, LONG_SEEN = "8,192 tokens", "8,192 tokens, four rows of two heads recorded"


def texts_of(job: Job) -> list[list[int]]:
    """The ids of the texts."""
    lengths = shapes.skewed_lengths(job["texts"])
    return shapes.random_texts(lengths, vocab=job["shape"]["vocab"])


def ours(job: Job, *, recorded: bool) -> Result:
    """All texts in one call, with or without a recorder."""
    import numpy as np
    import torch

    import clearhead as ch

    torch.set_num_threads(job["cores"])
    model, texts = ch.load(job["model"]), engines.encodings_of(texts_of(job))
    before = model.logits(texts).numpy()
    measuring.forget_peak()
    if not recorded:
        seconds, after = measuring.clock(lambda: model.logits(texts).numpy())
        kept = 0
    else:
        with ch.record(model, layers=[job["layer"]]) as seen:
            seconds, after = measuring.clock(lambda: model.logits(texts).numpy())
        kept = sum(weights.numel() for one in seen for weights in one.attention.values())
        assert len(seen) == len(texts)
    assert np.array_equal(before, after), "a recorder has changed an answer"
    return {"seconds": seconds, "peak_mb": measuring.peak_memory(), "weights": kept}


def peer(job: Job, *, size: int, eager: bool) -> Result:
    """The published code in batches of so many texts; eager, with the weights of all layers kept."""
    import torch
    from transformers import BertForSequenceClassification

    torch.set_num_threads(job["cores"])
    how = "eager" if eager else "sdpa"
    model = BertForSequenceClassification.from_pretrained(job["model"], attn_implementation=how).eval()
    texts = texts_of(job)
    batches = shapes.as_they_come([len(text) for text in texts], size=size)

    def run() -> int:
        kept = []
        for batch in batches:
            ids, mask = (torch.from_numpy(part) for part in engines.padded([texts[n] for n in batch]))
            with torch.inference_mode():
                found = model(input_ids=ids, attention_mask=mask, output_attentions=eager)
            kept += found.attentions or ()
        return sum(weights.numel() for weights in kept)

    run()
    measuring.forget_peak()
    seconds, kept = measuring.clock(run)
    return {"seconds": seconds, "peak_mb": measuring.peak_memory(), "weights": kept}


def long(job: Job, *, recorded: bool) -> Result:
    """One long text, with or without a recorder."""
    import torch

    import clearhead as ch

    torch.set_num_threads(job["cores"])
    model = ch.load(job["long"])
    text = engines.encodings_of(shapes.random_texts([job["tokens"]], vocab=job["shape"]["vocab"]))
    measuring.forget_peak()
    if not recorded:
        seconds, _ = measuring.clock(lambda: model.logits(text))
        return {"seconds": seconds, "peak_mb": measuring.peak_memory(), "weights": 0}
    with ch.record(model, layers=[job["layer"]], heads=job["heads"], queries=job["rows"]) as seen:
        seconds, _ = measuring.clock(lambda: model.logits(text))
    (weights,) = seen.attention[0].values()
    assert weights.shape == (len(job["heads"]), len(job["rows"]), job["tokens"]), weights.shape
    return {"seconds": seconds, "peak_mb": measuring.peak_memory(), "weights": weights.numel()}


SIDES = {
    PLAIN: lambda job: ours(job, recorded=False),
    OURS: lambda job: ours(job, recorded=True),
    FUSED: lambda job: peer(job, size=32, eager=False),
    EAGER: lambda job: peer(job, size=32, eager=True),
    SINGLY: lambda job: peer(job, size=1, eager=True),
    LONG: lambda job: long(job, recorded=False),
    LONG_SEEN: lambda job: long(job, recorded=True),
}


def table(found: dict[str, list[Result]]) -> str:
    """Time and memory of each side, and by how much they are above those of the run that records nothing."""
    lines = []
    for side, results in found.items():
        plain = found.get(LONG if side in (LONG, LONG_SEEN) else PLAIN, results)
        peak, base = median(results, "peak_mb"), median(plain, "peak_mb")
        lines.append(
            (
                side,
                f"{median(results, 'seconds'):.2f}",
                f"{measuring.ratio(results, plain):.2f}",
                f"{peak:,.0f}",
                f"{peak / base:.2f}",
                f"{peak - base:,.0f}",
                f"{median(results, 'weights'):,.0f}",
            )
        )
    header = ("side", "seconds", "ratio", "peak, MB", "ratio", "above plain, MB", "weights kept")
    return measuring.table(header, lines)


def main() -> None:
    options = measuring.options_of(measuring.arguments(__doc__), SIDES)
    shape = shapes.TINY if options.quick else shapes.BASE
    tokens = 256 if options.quick else 8192
    sides = [side for side in SIDES if not options.only or side in options.only]
    with tempfile.TemporaryDirectory() as folder:
        model = shapes.make_folder(Path(folder) / "model", shape)
        far = shapes.make_folder(Path(folder) / "long", shape, longest=tokens)
        job = {
            "model": str(model), "long": str(far), "shape": asdict(shape), "cores": options.cores,
            "texts": 8 if options.quick else 64, "tokens": tokens, "layer": min(LAYER, shape.layers - 1),
            "heads": [min(head, shape.heads - 1) for head in HEADS],
            "rows": [min(row, tokens - 4 + place) for place, row in enumerate(ROWS)],
        }  # fmt: skip
        found = measuring.take_turns(sides, job, rounds=options.rounds or (1 if options.quick else 3))
    print(table(found))
    print()
    measuring.report(measuring.facts(options.cores), {"sides": found}, file=options.json)


if __name__ == "__main__":
    main()
