"""Greedy generation by a decoder of GPT-2's shape: clearhead and its peers, taking turns.

    python benchmarks/generate.py --quick | --full [--jobs one eight sixteen] [--rounds 3] [--json FILE]

The jobs, from prompts of random ids to the ids of the answers, float32, random weights without an end token:
one: a prompt of 64 tokens, 128 new ones; eight: prompts of 16 to 128 tokens whose answers end after 16 to 128
tokens; sixteen: prompts of 8 to 512 tokens, 64 new ones each. The prompts are computed alone too (one new
token each), and the difference is the time of the steps.

clearhead is handed all prompts in one call. Its peers: `transformers` with its cache, the batch padded on the
left, until the longest answer ends; CTranslate2 with its own batch, each answer as long as the longest. A
peer that is not installed is left out.

The full run takes about 3 minutes a round on two cores, the quick one (2 blocks of width 64) half a minute.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import measuring
from measuring import Job, Result, median

OURS = "clearhead"


@dataclass(frozen=True)
class Size:
    """The sizes of a GPT-2."""

    layers: int
    width: int
    heads: int
    vocab: int


FULL, QUICK = Size(12, 768, 12, 50257), Size(2, 64, 4, 500)
JOBS: dict[str, list[tuple[int, int]]] = {  # (tokens of the prompt, new tokens) of each text
    "one": [(64, 128)],
    "eight": [(16 * (place + 1), 16 * ((5 * place) % 8 + 1)) for place in range(8)],
    "sixteen": [(8 + round(504 * (place / 15) ** 2), 64) for place in range(16)],
}
Answers = Callable[[list[list[int]], list[int]], list[list[int]]]


def prompts_of(job: str, *, vocab: int) -> tuple[list[list[int]], list[int]]:
    """Random ids, and how many are to follow."""
    import random

    chance = random.Random(1)
    sizes = JOBS[job]
    return [[chance.randrange(vocab) for _ in range(length)] for length, _ in sizes], [
        new for _, new in sizes
    ]


def clearhead(folder: Path, *, cores: int) -> Answers:
    """This library: each prompt with its own number of new tokens."""
    import torch

    import clearhead as ch
    from clearhead.infer.generate import tokens
    from clearhead.settings import Generating

    torch.set_num_threads(cores)
    model = ch.load(folder)

    def answer(prompts: list[list[int]], most: list[int]) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in prompts]
        for token in tokens(model, prompts, settings=[Generating(max_new_tokens=new) for new in most]):
            found[token.text].append(token.id)
        return found

    return answer


def transformers(folder: Path, *, cores: int) -> Answers:
    """The published code with its cache."""
    import torch
    from transformers import GPT2LMHeadModel

    torch.set_num_threads(cores)
    model = GPT2LMHeadModel.from_pretrained(folder, attn_implementation="sdpa").eval()

    def answer(prompts: list[list[int]], most: list[int]) -> list[list[int]]:
        longest = max(map(len, prompts))
        ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        with torch.inference_mode():
            made = model.generate(
                ids, attention_mask=mask, max_new_tokens=max(most), min_new_tokens=max(most), do_sample=False,
                pad_token_id=0, eos_token_id=None,
            )  # fmt: skip
        return [row[longest : longest + new].tolist() for row, new in zip(made, most, strict=True)]

    return answer


def ctranslate2(folder: Path, *, cores: int) -> Answers:
    """CTranslate2's generator, float32."""
    import ctranslate2

    model = ctranslate2.Generator(
        str(folder / "ctranslate2"), "cpu", compute_type="float32", inter_threads=1, intra_threads=cores
    )

    def answer(prompts: list[list[int]], most: list[int]) -> list[list[int]]:
        words = [[f"w{id}" for id in prompt] for prompt in prompts]
        made = model.generate_batch(
            words, max_length=max(most), min_length=max(most), sampling_topk=1,
            include_prompt_in_result=False, max_batch_size=len(prompts), end_token=[],
        )  # fmt: skip
        return [row.sequences_ids[0][:new] for row, new in zip(made, most, strict=True)]

    return answer


ENGINES = {OURS: clearhead, "transformers": transformers, "CTranslate2": ctranslate2}


def measure(job: Job, *, engine: str) -> Result:
    """One side: load, warm up, the prompts alone, all of it; then how fast memory is read."""
    prompts, most = prompts_of(job["job"], vocab=job["size"]["vocab"])
    answer = ENGINES[engine](Path(job["folder"]), cores=job["cores"])
    answer(prompts[:1], [20])  # whatever is prepared once, as when a model is loaded
    prefill = min(measuring.clock(lambda: answer(prompts, [1] * len(prompts)))[0] for _ in range(2))
    loaded = measuring.peak_memory()
    measuring.forget_peak()
    seconds, answers = measuring.clock(lambda: answer(prompts, most))
    peak = max(loaded, measuring.peak_memory())
    result = {"seconds": seconds, "prefill": prefill, "peak_mb": peak, "answers": answers}
    return result | {"bandwidth": bandwidth(job["read_mb"])}


def bandwidth(megabytes: int) -> float:
    """GB/s at which this process reads memory, with its threads."""
    import torch

    numbers = torch.ones(megabytes * 250_000)
    return max(megabytes * 1e-3 / measuring.clock(numbers.sum)[0] for _ in range(5))


def prepare(job: Job) -> Result:
    """A published folder with random weights, no end token and made-up words; CTranslate2's copy of it."""
    import json

    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    size, folder = Size(**job["size"]), Path(job["folder"])
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=size.vocab, n_embd=size.width, n_layer=size.layers, n_head=size.heads,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    GPT2LMHeadModel(config).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    words = {f"w{number}": number for number in range(size.vocab)}
    rules = {"model": {"type": "WordLevel", "vocab": words, "unk_token": "w0"}, "added_tokens": []}
    (folder / "tokenizer.json").write_text(json.dumps({"version": "1.0"} | rules))
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "w0"}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    try:
        from ctranslate2.converters import TransformersConverter

        TransformersConverter(str(folder)).convert(str(folder / "ctranslate2"), force=True)
        about = folder / "ctranslate2" / "config.json"  # which must name its tokens, used or not
        said = json.loads(about.read_text())
        named = said | {name: said[name] or "w0" for name in said if name.endswith("_token")}
        about.write_text(json.dumps(named))
    except ModuleNotFoundError:
        return {}
    return {}


MEASURE = {engine: partial(measure, engine=engine) for engine in ENGINES}
SIDES = {"prepare": prepare} | MEASURE


def rows_of(found: dict[str, list[Result]], *, job: str, weight_mb: float) -> list[dict[str, object]]:
    """What is told of each side."""
    steps = max(new for _, new in JOBS[job]) - 1
    rows = []
    for side, results in found.items():
        seconds, prefill = median(results, "seconds"), median(results, "prefill")
        decode = [one["seconds"] - one["prefill"] for one in results]
        reads = [steps * weight_mb * 1e-3 / took for took in decode]
        row = {"side": side, "job": job, "seconds": seconds, "prefill": prefill}
        row |= {"step_ms": 1e3 * measuring.median_of(decode) / steps, "peak_mb": median(results, "peak_mb")}
        row["share"] = measuring.median_of(
            read / one["bandwidth"] for read, one in zip(reads, results, strict=True)
        )
        if OURS in found:
            row["ratio"] = measuring.ratio(results, found[OURS])
            same = sum(
                mine == theirs
                for mine, theirs in zip(found[OURS][0]["answers"], results[0]["answers"], strict=True)
            )
            row["same"] = f"{same} of {len(JOBS[job])}"
        rows.append(row)
    return rows


def table(rows: list[dict[str, object]]) -> str:
    """The rows as docs/performance.md shows them."""
    header = ("job", "side", "seconds", "ratio", "prompts, s", "a step, ms", "share of read bandwidth")
    header += ("peak, MB", "same answers")
    lines = [
        (
            row["job"], row["side"], f"{row['seconds']:.2f}", f"{row.get('ratio', 1):.2f}",
            f"{row['prefill']:.2f}", f"{row['step_ms']:.1f}", f"{row['share']:.0%}", f"{row['peak_mb']:,.0f}",
            row.get("same", ""),
        )
        for row in rows
    ]  # fmt: skip
    return measuring.table(header, lines)


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS), help="leave the others out")
    options = measuring.options_of(parser, SIDES)
    size = QUICK if options.quick else FULL
    sides = [side for side in MEASURE if not options.only or side in options.only]
    rounds = options.rounds or (1 if options.quick else 3)
    inner = 12 * size.layers * size.width**2 + size.vocab * size.width
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        job = {"folder": folder, "size": size.__dict__, "cores": options.cores}
        job["read_mb"] = 100 if options.quick else 1000
        measuring.ask("prepare", job)
        for name in options.jobs:
            found = measuring.take_turns(sides, job | {"job": name}, rounds=rounds)
            rows += rows_of(found, job=name, weight_mb=4e-6 * inner)
    measured = {"size": size.__dict__, "rounds": rounds, "rows": rows}
    measuring.report(measuring.facts(options.cores), measured, file=options.json)
    print(f"{size}; ratio: the side's time over clearhead's\n")
    print(table(rows))


if __name__ == "__main__":
    main()
