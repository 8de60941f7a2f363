"""Greedy generation by decoders: clearhead and its peers, taking turns.

    python benchmarks/generate.py --quick | --full [--jobs one eight sixteen] [--rounds 3] [--json FILE]
                                  [--smollm2 FOLDER] [--gguf FILE]

The models: GPT-2's shape with random weights and no end token; and, with `--smollm2` (a folder that
`clearhead get smollm2` has made), SmolLM2-135M-Instruct, whose end is held back on all sides.

The jobs, from prompts of random ids to the ids of the answers, float32. one: a prompt of 64 tokens, 128 new
ones; eight: prompts of 16 to 128 tokens whose answers end after 16 to 128 tokens; sixteen: prompts of 8 to
512 tokens, 64 new ones each. The prompts are computed alone too (one new token each), and the difference is
the time of the steps. SmolLM2 has the first job alone.

clearhead is handed all prompts in one call; one prompt also with weights in bfloat16. Its peers:
`transformers` with its cache, the batch padded on the left, until the longest answer ends; CTranslate2 with
its own batch, each answer as long as the longest; llama.cpp (llama-cpp-python, with `--gguf`: a GGUF file of
SmolLM2, which is made float32 first). A peer that is not installed is left out.

The full run takes about 3 minutes a round on two cores, the quick one (2 blocks of width 64) half a minute.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import measuring
from measuring import Job, Result, median

OURS, HALF, LLAMA = "clearhead", "clearhead, bfloat16", "llama.cpp"
GPT2, SMOLLM2 = "GPT-2's shape", "SmolLM2"


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


def clearhead(folder: Path, *, cores: int, dtype: str = "float32") -> Answers:
    """This library: each prompt with its own number of new tokens."""
    import torch

    import clearhead as ch
    from clearhead.infer.generate import tokens
    from clearhead.settings import Generating

    torch.set_num_threads(cores)
    model = ch.load(folder, dtype=dtype)
    ends = bool(model.loaded.ends)

    def answer(prompts: list[list[int]], most: list[int]) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in prompts]
        ways = [Generating(max_new_tokens=new, min_new_tokens=new if ends else 0) for new in most]
        for token in tokens(model, prompts, settings=ways):
            found[token.text].append(token.id)
        return found

    return answer


def transformers(folder: Path, *, cores: int) -> Answers:
    """The published code with its cache."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(cores)
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="sdpa", dtype="float32").eval()
    end = model.generation_config.eos_token_id

    def answer(prompts: list[list[int]], most: list[int]) -> list[list[int]]:
        longest = max(map(len, prompts))
        ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        with torch.inference_mode():
            made = model.generate(
                ids, attention_mask=mask, max_new_tokens=max(most), min_new_tokens=max(most), do_sample=False,
                pad_token_id=0, eos_token_id=end,
            )  # fmt: skip
        return [row[longest : longest + new].tolist() for row, new in zip(made, most, strict=True)]

    return answer


def ctranslate2(folder: Path, *, cores: int) -> Answers:
    """CTranslate2's generator, float32."""
    import json

    import ctranslate2

    place = folder / "ctranslate2"
    model = ctranslate2.Generator(
        str(place), "cpu", compute_type="float32", inter_threads=1, intra_threads=cores
    )
    known = json.loads((place / "vocabulary.json").read_text())

    def answer(prompts: list[list[int]], most: list[int]) -> list[list[int]]:
        words = [[known[id] for id in prompt] for prompt in prompts]
        made = model.generate_batch(
            words, max_length=max(most), min_length=max(most), sampling_topk=1,
            include_prompt_in_result=False, max_batch_size=len(prompts), end_token=[],
        )  # fmt: skip
        return [row.sequences_ids[0][:new] for row, new in zip(made, most, strict=True)]

    return answer


def llama(folder: Path, *, cores: int) -> Answers:
    """llama.cpp, float32, one prompt after another."""
    import llama_cpp

    model = llama_cpp.Llama(
        str(folder / "float32.gguf"), n_ctx=1024, n_threads=cores, n_threads_batch=cores, verbose=False
    )
    end = {model.token_eos(): float("-inf")}  # held back, as everywhere

    def answer(prompts: list[list[int]], most: list[int]) -> list[list[int]]:
        found = []
        for prompt, new in zip(prompts, most, strict=True):
            model.reset()
            made = model.generate(
                prompt, top_k=1, temp=0.0, repeat_penalty=1.0, logits_processor=barring(end)
            )
            found.append([next(made) for _ in range(new)])
        return found

    def barring(ids: dict[int, float]) -> llama_cpp.LogitsProcessorList:
        def process(seen: Any, scores: Any) -> Any:
            for id, score in ids.items():
                scores[id] = score
            return scores

        return llama_cpp.LogitsProcessorList([process])

    return answer


ENGINES = {
    OURS: clearhead, HALF: partial(clearhead, dtype="bfloat16"), "transformers": transformers,
    "CTranslate2": ctranslate2, LLAMA: llama,
}  # fmt: skip


def measure(job: Job, *, engine: str) -> Result:
    """One side: load, warm up, the prompts alone, all of it; then how fast memory is read."""
    prompts, most = prompts_of(job["job"], vocab=job["vocab"])
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
    """What the sides load, in folders named by the models."""
    folder, size = Path(job["folder"]), Size(**job["size"])
    random_gpt2(folder / GPT2, size)
    found = {GPT2: 12 * size.layers * size.width**2 + size.vocab * size.width}
    vocabularies = {GPT2: size.vocab}
    if job["smollm2"]:
        import json

        known = Path(job["smollm2"])
        (folder / SMOLLM2).mkdir()
        for file in known.iterdir():
            (folder / SMOLLM2 / file.name).symlink_to(file.resolve())
        said = json.loads((known / "config.json").read_text())
        width, shared = said["hidden_size"], said["num_key_value_heads"] / said["num_attention_heads"]
        block = width * (2 * width + 2 * shared * width + 3 * said["intermediate_size"])
        found[SMOLLM2] = round(said["num_hidden_layers"] * block) + said["vocab_size"] * width
        vocabularies[SMOLLM2] = said["vocab_size"]
        if job["gguf"]:
            whole_numbers(Path(job["gguf"]), folder / SMOLLM2 / "float32.gguf")
    for model in found:
        converted(folder / model, words=model == GPT2)
    return {"weights": found, "vocabularies": vocabularies}


def random_gpt2(folder: Path, size: Size) -> None:
    """A published folder with random weights, no end token and made-up words."""
    import json

    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

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


def converted(folder: Path, *, words: bool) -> None:
    """CTranslate2's copy of a folder."""
    import json

    try:
        from ctranslate2.converters import TransformersConverter
    except ModuleNotFoundError:
        return
    TransformersConverter(str(folder)).convert(str(folder / "ctranslate2"), force=True)
    if words:  # its config must name its tokens, used or not
        about = folder / "ctranslate2" / "config.json"
        said = json.loads(about.read_text())
        named = said | {name: said[name] or "w0" for name in said if name.endswith("_token")}
        about.write_text(json.dumps(named))


def whole_numbers(source: Path, place: Path) -> None:
    """A GGUF file with its matrices as float32."""
    try:
        import llama_cpp
    except ModuleNotFoundError:
        return
    ways = llama_cpp.llama_model_quantize_default_params()
    ways.ftype, ways.allow_requantize = llama_cpp.LLAMA_FTYPE_ALL_F32, True
    llama_cpp.llama_model_quantize(str(source).encode(), str(place).encode(), ways)


MEASURE = {engine: partial(measure, engine=engine) for engine in ENGINES}
SIDES = {"prepare": prepare} | MEASURE


def rows_of(
    found: dict[str, list[Result]], *, model: str, job: str, weight_mb: float
) -> list[dict[str, object]]:
    """What is told of each side."""
    steps = max(new for _, new in JOBS[job]) - 1
    rows = []
    for side, results in found.items():
        seconds, prefill = median(results, "seconds"), median(results, "prefill")
        decode = [one["seconds"] - one["prefill"] for one in results]
        read = weight_mb / 2 if side == HALF else weight_mb
        reads = [steps * read * 1e-3 / took for took in decode]
        row = {"model": model, "side": side, "job": job, "seconds": seconds, "prefill": prefill}
        row |= {"step_ms": 1e3 * measuring.median_of(decode) / steps, "peak_mb": median(results, "peak_mb")}
        row["share"] = measuring.median_of(
            gigabytes / one["bandwidth"] for gigabytes, one in zip(reads, results, strict=True)
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
    header = (
        "model",
        "job",
        "side",
        "seconds",
        "ratio",
        "prompts, s",
        "a step, ms",
        "share of read bandwidth",
    )
    header += ("peak, MB", "same answers")
    lines = [
        (
            row["model"], row["job"], row["side"], f"{row['seconds']:.2f}", f"{row.get('ratio', 1):.2f}",
            f"{row['prefill']:.2f}", f"{row['step_ms']:.1f}", f"{row['share']:.0%}", f"{row['peak_mb']:,.0f}",
            row.get("same", ""),
        )
        for row in rows
    ]  # fmt: skip
    return measuring.table(header, lines)


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS), help="leave the others out")
    parser.add_argument("--smollm2", type=Path, help="folder of clearhead get smollm2")
    parser.add_argument("--gguf", type=Path, help="its GGUF file, for llama.cpp")
    options = measuring.options_of(parser, SIDES)
    size = QUICK if options.quick else FULL
    rounds = options.rounds or (1 if options.quick else 3)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        job = {"size": size.__dict__, "cores": options.cores, "read_mb": 100 if options.quick else 1000}
        places = {name: str(getattr(options, name) or "") for name in ("smollm2", "gguf")}
        made = measuring.ask("prepare", job | places | {"folder": folder})
        for model, name in [(GPT2, name) for name in options.jobs] + [(SMOLLM2, "one")]:
            if model not in made["weights"]:
                continue
            left_out = set() if name == "one" else {HALF}
            if not (model == SMOLLM2 and options.gguf):
                left_out.add(LLAMA)
            sides = [one for one in options.only or MEASURE if one not in left_out]
            about = {"job": name, "folder": str(Path(folder) / model), "vocab": made["vocabularies"][model]}
            found = measuring.take_turns(sides, job | about, rounds=rounds)
            rows += rows_of(found, model=model, job=name, weight_mb=4e-6 * made["weights"][model])
    measured = {"size": size.__dict__, "rounds": rounds, "rows": rows}
    measuring.report(measuring.facts(options.cores), measured, file=options.json)
    print(f"{size}; ratio: the side's time over clearhead's\n")
    print(table(rows))


if __name__ == "__main__":
    main()
