"""Ids of large corpora by fastokens, where it is installed and gives the ids that `tokenizers` gives."""

import random
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from tokenizers import Tokenizer as Core

from clearhead.text.words import clean

Ids = list[list[int]]
SAMPLES = 1500
WORDS = (
    " the", "don't", "'LL", "’s", "naïve", "Straße", "İIıi", "ǅ", "x1y2", "12345678901", "½Ⅷ", "٣७",
    "漢字かな", "한국어", "ไทย", "हिन्दी", "אבג", "👨‍👩‍👧", "🇩🇪", "é", "ﬁ", "ſ", "\t", "\n", "\r\n", "  ",
    "\u3000", "\u200b", "\ufeff", "\0", "\x85", "\u2028", "def f(x):\n    return x", "<0x0A>", "▁", "##ing",
    "Ġ", "...", "--", "_", "http://a.b/c?d=1",
)  # fmt: skip


def bulk_of(
    core: Core, plain: Callable[[Sequence[str]], Ids], *, spelled: Callable[[list[int]], list[int]]
) -> Callable[[Sequence[str]], Ids]:
    """`plain`, or the same by fastokens: 10 to 50 times as quick on byte-level BPE (docs/decisions/0015).

    It is taken where it reads the rules of `core` and gives the ids of `plain` for a sample of difficult
    strings. `spelled` spells out control tokens among the ids.
    """
    try:
        from fastokens import Tokenizer as Quick
    except ImportError:
        return plain
    try:
        quick = Quick.from_json_str(core.to_str())
    except ValueError:  # kinds that it does not have
        return plain

    def bulk(texts: Sequence[str]) -> Ids:
        raw, borders = quick.encode_batch_flat([clean(text) for text in texts], split_special_tokens=True)
        ids = memoryview(raw).cast("I")  # 32 bits; the borders have 64
        spans = pairwise(memoryview(borders).cast("Q").tolist())
        return [spelled(ids[start:stop].tolist()) for start, stop in spans]

    vocabulary = core.get_vocab(with_added_tokens=True)
    words = sample([*vocabulary, *core.decode_batch([[id] for id in vocabulary.values()])])
    return bulk if bulk(words) == plain(words) else plain


def sample(vocabulary: Iterable[str]) -> list[str]:
    """Strings that splitters and merges stumble over, some of them made of tokens; the same every time."""
    chance, tokens = random.Random(0), sorted(vocabulary)

    def part() -> str:
        kind = chance.randrange(4)
        if kind == 0:
            return chance.choice(WORDS)
        if kind == 1:
            return chance.choice(tokens)
        if kind == 2:
            return chr(chance.randrange(0x20, 0x7F)) * chance.choice((1, 1, 1, 2, 30))
        return chr(chance.choice((chance.randrange(0xD800), chance.randrange(0xE000, 0x110000))))

    return ["".join(part() for _ in range(chance.randrange(1, 24))) for _ in range(SAMPLES)]
