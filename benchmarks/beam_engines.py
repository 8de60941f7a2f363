"""Who translates in translate.py: this library and its peers, from one folder of random weights."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pairs as texts
from measuring import Job, Result
from pairs import ENDED

BEAMS = 4
Answers = list[list[int]]
Engine = Callable[[Sequence[list[int]], Sequence[int]], Answers]


def prepare(job: Job) -> Result:
    """A published folder of random weights with a learned tokenizer, CTranslate2's copy, and the ids."""
    import torch
    from transformers import MarianConfig, MarianMTModel

    folder, size = Path(job["folder"]), job["size"]
    both = [line for language in ("en", "de") for line in texts.lines("train", language)]
    texts.write_tokenizer(folder, both, vocab=size["vocab"])
    shape = {}
    for side in ("encoder", "decoder"):
        shape |= {f"{side}_layers": size["layers"], f"{side}_attention_heads": size["heads"]}
        shape[f"{side}_ffn_dim"] = size["hidden"]
    pad = size["vocab"] - 1
    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=size["vocab"], d_model=size["width"], scale_embedding=True, max_position_embeddings=512,
        pad_token_id=pad, decoder_start_token_id=pad, bos_token_id=None, eos_token_id=ENDED,
        forced_eos_token_id=None, **shape,
    )  # fmt: skip
    model = MarianMTModel(config).eval()
    model.generation_config.bad_words_ids = [[pad]]
    model.save_pretrained(folder)
    for part, most in (("train", job["pairs"]), ("test", job["sentences"])):
        found = texts.encoded(folder, part, most=most)
        (folder / f"{part}.json").write_text(json.dumps(found))
    try:
        from ctranslate2.converters import TransformersConverter
    except ModuleNotFoundError:
        return {}
    TransformersConverter(str(folder)).convert(str(folder / "ctranslate2"), force=True)
    return {}


def clearhead(folder: Path, *, cores: int) -> Engine:
    """This library: each sentence with its own number of tokens."""
    import torch

    import clearhead as ch
    from clearhead.infer.beams import beam_search
    from clearhead.settings import Generating

    torch.set_num_threads(cores)
    model = ch.load(folder)

    def answer(sources: Sequence[list[int]], most: Sequence[int]) -> Answers:
        ways = [
            Generating(beams=BEAMS, max_new_tokens=new, min_new_tokens=new, batch_texts=64) for new in most
        ]
        return [list(found[0].ids) for found in beam_search(model, sources, settings=ways)]

    return answer


def transformers(folder: Path, *, cores: int) -> Engine:
    """The published code: one padded batch, until the longest answer ends."""
    import torch
    from transformers import MarianMTModel

    torch.set_num_threads(cores)
    model = MarianMTModel.from_pretrained(folder, attn_implementation="sdpa", dtype="float32").eval()
    pad = model.config.pad_token_id

    def answer(sources: Sequence[list[int]], most: Sequence[int]) -> Answers:
        rows = [torch.tensor(ids) for ids in sources]
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad)
        with torch.inference_mode():
            made = model.generate(
                ids, attention_mask=(ids != pad).long(), num_beams=BEAMS, do_sample=False,
                max_new_tokens=max(most), min_new_tokens=max(most),
            )  # fmt: skip
        return [row[1 : 1 + new].tolist() for row, new in zip(made, most, strict=True)]

    return answer


def ctranslate2(folder: Path, *, cores: int) -> Engine:
    """CTranslate2's translator, float32."""
    import ctranslate2

    place = folder / "ctranslate2"
    model = ctranslate2.Translator(
        str(place), "cpu", compute_type="float32", inter_threads=1, intra_threads=cores
    )
    known = json.loads((place / "shared_vocabulary.json").read_text())
    numbers = {word: number for number, word in enumerate(known)}

    def answer(sources: Sequence[list[int]], most: Sequence[int]) -> Answers:
        made = model.translate_batch(
            [[known[id] for id in ids] for ids in sources], beam_size=BEAMS,
            max_decoding_length=max(most), min_decoding_length=max(most), max_batch_size=len(sources),
        )  # fmt: skip
        return [
            [numbers[word] for word in one.hypotheses[0][:new]] for one, new in zip(made, most, strict=True)
        ]

    return answer
