"""Models and texts to measure with: shapes, skewed lengths, ways to make batches, and what they cost.

Nothing here imports a library for matrices, except to make a folder.
"""

import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

Batches = list[list[int]]

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CLS, SEP, FIRST = 2, 3, 5  # ids in the vocabulary of `make_folder`; FIRST is the first plain word
MEDIAN, TWENTIETH, LONGEST = 24, 120, 512  # tokens: the median, what one text in 20 exceeds, the most


@dataclass(frozen=True)
class Shape:
    """The sizes of a BERT."""

    layers: int
    width: int
    heads: int
    hidden: int
    vocab: int


BASE = Shape(layers=12, width=768, heads=12, hidden=3072, vocab=30522)
SMALL = Shape(layers=4, width=256, heads=4, hidden=1024, vocab=8000)
TINY = Shape(layers=2, width=64, heads=4, hidden=256, vocab=1000)


def skewed_lengths(count: int, *, seed: int = 0) -> list[int]:
    """Lengths in tokens, log-normal, in an order fixed by the seed; special tokens included.

    They are the distribution's own quantiles at (i + ½) / count, so that any number of texts has the same
    median (24) and 95th percentile (120); the few beyond 512 are cut there.
    """
    spread = math.log(TWENTIETH / MEDIAN) / NormalDist().inv_cdf(0.95)
    normal = [NormalDist().inv_cdf((place + 0.5) / count) for place in range(count)]
    lengths = [min(LONGEST, max(3, round(MEDIAN * math.exp(spread * z)))) for z in normal]
    random.Random(seed).shuffle(lengths)
    return lengths


def random_texts(lengths: Sequence[int], *, vocab: int, seed: int = 0) -> list[list[int]]:
    """Ids of random words between [CLS] and [SEP]."""
    chance = random.Random(seed + 1)
    return [[CLS, *(chance.randrange(FIRST, vocab) for _ in range(length - 2)), SEP] for length in lengths]


def multiply_adds(shape: Shape, lengths: Sequence[int]) -> int:
    """Multiply-adds that the matrix products of these texts need, from embedding to pooler, padding apart.

    Per token and block: queries, keys, values, output (4 width²) and the feed-forward network (2 width ·
    hidden); per text and block: scores and mixing (2 length² · width); per text: the pooler (width²).
    """
    d = shape.width
    dense = (4 * d * d + 2 * d * shape.hidden) * sum(lengths)
    mixing = 2 * d * sum(length * length for length in lengths)
    return shape.layers * (dense + mixing) + d * d * len(lengths)


def as_they_come(lengths: Sequence[int], *, size: int = 32) -> Batches:
    """Batches of `size` texts in input order."""
    return cut(range(len(lengths)), size=size)


def by_length(lengths: Sequence[int], *, size: int = 32) -> Batches:
    """Batches of `size` texts of similar length."""
    return cut(sorted(range(len(lengths)), key=lambda index: lengths[index]), size=size)


def by_budget(lengths: Sequence[int], *, budget: int = 2048) -> Batches:
    """Batches of texts of similar length that hold at most `budget` tokens, padding included."""
    found: Batches = []
    for index in sorted(range(len(lengths)), key=lambda index: lengths[index]):
        if not found or lengths[index] * (len(found[-1]) + 1) > budget:
            found.append([])
        found[-1].append(index)
    return found


def together(lengths: Sequence[int]) -> Batches:
    """All texts in one call: the library makes its batches."""
    return [list(range(len(lengths)))]


def cut(order: Sequence[int], *, size: int) -> Batches:
    """Consecutive parts of `size`."""
    return [list(order[at : at + size]) for at in range(0, len(order), size)]


def padded_tokens(lengths: Sequence[int], batches: Batches) -> int:
    """Tokens of all rectangles."""
    return sum(len(batch) * max(lengths[index] for index in batch) for batch in batches)


def sample(lengths: Sequence[int], *, each: int) -> list[int]:
    """One text of every `each`, short and long ones alike: to warm up with."""
    return sorted(range(len(lengths)), key=lambda index: lengths[index])[each // 2 :: each]


def make_folder(
    folder: str | Path,
    shape: Shape,
    *,
    seed: int = 0,
    kind: str = "BertForSequenceClassification",
    longest: int = LONGEST,
    **changes: object,
) -> Path:
    """A published BERT folder with random weights, of a class with two labels or another, for texts of up to
    `longest` tokens, and a vocabulary of made-up words."""
    import torch
    import transformers

    torch.manual_seed(seed)
    config = transformers.BertConfig(
        vocab_size=shape.vocab,
        hidden_size=shape.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=shape.hidden,
        max_position_embeddings=longest,
        position_embedding_type="absolute",  # CTranslate2's converter asks for it by name
        **changes,
    )
    folder = Path(folder)
    getattr(transformers, kind)(config).save_pretrained(folder)
    words = [*SPECIAL, *(f"w{number}" for number in range(FIRST, shape.vocab))]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    about = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": longest}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    return folder
