"""SmolLM2 learns a task from 200 small conversations with an adapter (LoRA): what it says before and after.

    python benchmarks/finetune.py --quick | --full [--json FILE]

The task: a review of a dish is turned into a line such as `dish: soup; verdict: good`. 200 conversations are
made of templates, by number, and 40 more of sentences that are not among them. Before and after, the model
answers those 40 greedily; an answer counts if it is exactly right. The quick run learns from 16 in 2 steps.

Needs the development environment and the model: clearhead get smollm2. The full run takes 5 to 10 minutes on
two cores.
"""

import json
import random
import tempfile
from pathlib import Path

import measuring
from measuring import Job, Result

DISHES = "soup bread fish rice cake tea pie stew salad jam pasta curry".split()
GOOD = ["a joy", "just right", "the best in town", "full of flavour", "worth every penny", "delicious"]
BAD = ["a letdown", "far too salty", "cold in the middle", "burnt", "not worth the money", "bland"]
FRAMES = [
    "The {dish} was {words}.",
    "We ordered the {dish} and it was {words}.",
    "I had heard a lot about their {dish}; it was {words}.",
    "My brother says the {dish} was {words}, and he is right.",
    "{words}: that is all I can say about the {dish}.",
]


def conversations(count: int) -> list[list[dict[str, str]]]:
    """Different reviews with what is to be said of them, in an order by seed."""
    found = []
    for frame in FRAMES:
        for dish in DISHES:
            for verdict, many in (("good", GOOD), ("bad", BAD)):
                for words in many:
                    text = frame.format(dish=dish, words=words)
                    asked = {"role": "user", "content": f"Review: {text[0].upper()}{text[1:]}"}
                    said = {"role": "assistant", "content": f"dish: {dish}; verdict: {verdict}"}
                    found.append([asked, said])
    random.Random(0).shuffle(found)
    return found[:count]


def learn(job: Job) -> Result:
    """Ask, learn, ask again."""
    import torch

    import clearhead as ch
    from clearhead.infer.generate import tokens
    from clearhead.settings import Generating
    from clearhead.text.chat import conversation

    torch.set_num_threads(job["cores"])
    folder = Path(job["folder"])
    every = conversations(job["learned"] + job["asked"])
    learned, asked = every[: job["learned"]], every[job["learned"] :]
    for name, rows in (("learned", learned), ("asked", asked)):
        lines = [json.dumps({"messages": row}) + "\n" for row in rows]
        (folder / f"{name}.jsonl").write_text("".join(lines))

    def answers(model: ch.Model) -> list[str]:
        prompts = [conversation(model.tokenizer, row[:1]) for row in asked]
        said = [""] * len(prompts)
        for token in tokens(model, prompts, settings=Generating(max_new_tokens=24)):
            said[token.text] += token.piece
        return said

    before = answers(ch.load("smollm2"))
    run = ch.train(
        "language", base="smollm2", data=[folder / "learned.jsonl"], out=folder / "adapter",
        validation=folder / "asked.jsonl", lora=8, epochs=job["epochs"], batch_tokens=1024,
        max_steps=job["steps"],
    )  # fmt: skip
    seconds, steps = measuring.clock(lambda: list(run))
    after = answers(ch.load(folder / "adapter"))
    right = [row[1]["content"] for row in asked]
    counts = [sum(a == b for a, b in zip(said, right, strict=True)) for said in (before, after)]
    shown = [
        {"asked": row[0]["content"], "right": want, "before": one, "after": two}
        for row, want, one, two in zip(asked, right, before, after, strict=True)
    ]
    found = {"seconds": seconds, "steps": len(steps), "right_before": counts[0], "right_after": counts[1]}
    size = (folder / "adapter" / "adapter_model.safetensors").stat().st_size
    return found | {"asked": len(asked), "adapter_bytes": size, "shown": shown}


SIDES = {"learn": learn}


def main() -> None:
    parser = measuring.arguments(__doc__)
    options = measuring.options_of(parser, SIDES)
    if options.rounds or options.only:
        parser.error("this script measures one side once; --rounds and --only are not for it")
    sizes = {"learned": 200, "asked": 40, "epochs": 3, "steps": None}
    if options.quick:
        sizes = {"learned": 16, "asked": 4, "epochs": 2, "steps": 2}
    with tempfile.TemporaryDirectory() as folder:
        found = measuring.ask("learn", {"folder": folder, "cores": options.cores, **sizes})
    measuring.report(measuring.facts(options.cores), found, file=options.json)
    for row in found["shown"][:3]:
        print(f"\n{row['asked']}\n  before: {row['before']!r}\n  after:  {row['after']!r}")
    before, after, asked = (found[name] for name in ("right_before", "right_after", "asked"))
    print(f"\n{sizes['learned']} conversations, {found['steps']} steps in {found['seconds']:.0f} s")
    print(f"an adapter of {found['adapter_bytes'] / 1e6:.1f} MB")
    print(f"right before: {before} of {asked}; after: {after} of {asked}")


if __name__ == "__main__":
    main()
