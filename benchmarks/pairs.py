"""Multi30k (Elliott et al. 2016): English captions of pictures, each with its German translation, as ids.

The vocabulary is that of the benchmarks' own byte pairs, learned from the training pairs of both languages;
its last token is the padding token, with which answers begin, as Marian has it.
"""

import gzip
import json
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

SHARED = Path(os.environ.get("CLEARHEAD_SHARED", "../shared")) / "data"
PARTS = {"train": "train", "val": "val", "test": "test_2016_flickr"}
BEGIN, END, PAD = "<s>", "</s>", "<pad>"
ENDED = 1  # id of the end token
Pair = tuple[list[int], list[int]]  # what is read, what is answered; both with the end token
Batches = list[list[int]]


def lines(part: str, language: str) -> list[str]:
    """The sentences of one language."""
    path = SHARED / f"multi30k.{PARTS[part]}.{language}.gz"
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def check_data() -> str | None:
    """What is missing, if anything."""
    names = [f"multi30k.{part}.{language}.gz" for part in PARTS.values() for language in ("en", "de")]
    missing = [name for name in names if not (SHARED / name).is_file()]
    return f"CLEARHEAD_SHARED: there is no file {SHARED / missing[0]}" if missing else None


def write_tokenizer(folder: Path, texts: Sequence[str], *, vocab: int) -> None:
    """Learn a vocabulary and write it with the padding token as a published folder has it."""
    from clearhead.text.train import train_tokenizer

    train_tokenizer(texts, vocab=vocab - 1).write(folder)
    path, about = folder / "tokenizer.json", folder / "tokenizer_config.json"
    rules = json.loads(path.read_text())
    control = next(token for token in rules["added_tokens"] if token["content"] == END)
    rules["added_tokens"].append(control | {"id": len(rules["model"]["vocab"]), "content": PAD})
    words = (BEGIN, "$A", END)
    if any(name not in json.dumps(rules["post_processor"]) for name in words[::2]):
        raise SystemExit("the learned tokenizer frames texts in another way than this script knows")
    path.write_text(json.dumps(rules, ensure_ascii=False))
    said = json.loads(about.read_text()) | {"pad_token": PAD, "unk_token": BEGIN}  # CTranslate2 wants one
    about.write_text(json.dumps(said))


def encoded(folder: Path, part: str, *, most: int | None = None) -> list[Pair]:
    """Pairs of ids, the first `most` in an order fixed by a seed where that is given."""
    from clearhead.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.read(folder)
    both = [tokenizer.plain(lines(part, language)) for language in ("en", "de")]
    pairs = [([*read, ENDED], [*said, ENDED]) for read, said in zip(*both, strict=True)]
    if most is not None:
        random.Random(0).shuffle(pairs)
    return pairs[:most]


def rectangle(batch: Sequence[int], pairs: Sequence[Pair]) -> int:
    """Tokens of both rectangles, padding included."""
    return len(batch) * sum(max(len(pairs[index][side]) for index in batch) for side in (0, 1))


def by_tokens(pairs: Sequence[Pair], *, budget: int, seed: int = 0) -> Batches:
    """Batches of pairs of similar length whose rectangles hold at most `budget` tokens; in random order."""
    order = sorted(range(len(pairs)), key=lambda index: (len(pairs[index][1]), len(pairs[index][0])))
    found: Batches = []
    for index in order:
        if not found or rectangle([*found[-1], index], pairs) > budget:
            found.append([])
        found[-1].append(index)
    random.Random(seed).shuffle(found)
    return found


def shuffled(pairs: Sequence[Pair], *, size: int = 64, seed: int = 0) -> Batches:
    """Batches of `size` pairs in random order."""
    order = list(range(len(pairs)))
    random.Random(seed).shuffle(order)
    return [order[at : at + size] for at in range(0, len(order), size)]


Way = Callable[[Sequence[Pair]], Batches]
