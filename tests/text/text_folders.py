"""Small tokenizer folders with the files that popular models have; nothing is downloaded."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Core
from tokenizers import decoders, models, pre_tokenizers, processors

from clearhead.text import Tokenizer, train_tokenizer

WORDS = (
    *(
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "please",
        "print",
        "as",
        "is",
        "or",
        "the",
        "cat",
        "sat",
        "on",
    ),
    *(
        "mat",
        "un",
        "##want",
        "##ed",
        "runn",
        "##ing",
        "café",
        "cafe",
        "naïve",
        "naive",
        "Café",
        "Cafe",
        "É",
        "é",
    ),
    *(
        "e",
        "E",
        "a",
        "b",
        "c",
        "d",
        "##a",
        "##b",
        "##c",
        "##s",
        "s",
        "sep",
        "SEP",
        "mask",
        "MASK",
        "[",
        "]",
        "<",
    ),
    *(
        ">",
        "/",
        ",",
        ".",
        "!",
        "?",
        "'",
        "中",
        "文",
        "über",
        "uber",
        "##e",
        "##x",
        "x",
        "y",
        "z",
        "1",
        "2",
        "½",
    ),
)

LITERALS = ["[CLS]", "[SEP]", "[PAD]", "[MASK]", "[UNK]", "<s>", "</s>", "<pad>", "<mask>", "<|endoftext|>"]

SENTENCES = ["the cat sat on the mat , and the dog did not", "a naïve café : éclairs", "ab cd ef gh"] * 4


def bert_folder(folder: Path, words: Sequence[str] | None = None, **config: Any) -> Path:
    """A vocab.txt of `words` and, if there are options, a tokenizer_config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(words or WORDS) + "\n", encoding="utf-8")
    if config:
        (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def bert(folder: Path, words: Sequence[str] | None = None, **config: Any) -> Tokenizer:
    return Tokenizer.read(bert_folder(folder, words, **config))


def written(core: Core, folder: Path, **config: Any) -> Path:
    """A folder with a tokenizer.json exactly as the library writes it."""
    folder.mkdir(parents=True, exist_ok=True)
    core.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def bytes_only() -> Tokenizer:
    """Byte-level without a single merge."""
    return train_tokenizer([], vocab=258)


def byte_level() -> Tokenizer:
    return train_tokenizer(SENTENCES, vocab=300)


def word_level(special: bool = True) -> Core:
    """Whole words split at spaces: a typed `[SEP]` is a word of this vocabulary."""
    vocabulary = {word: index for index, word in enumerate(WORDS)}
    core = Core(models.WordLevel(vocabulary, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    (core.add_special_tokens if special else core.add_tokens)(["[PAD]", "[CLS]", "[SEP]", "[MASK]"])
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return core


def unigram() -> Core:
    """SentencePiece as XLM-R and T5 have it: `</s>` is a piece, with the best score of all."""
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0), ("▁the", -3.0)]
    pieces += [(letter, -4.0) for letter in "abcdefghijklmnopqrstuvwxyz</>"]
    core = Core(models.Unigram(pieces, 3, False))
    core.pre_tokenizer, core.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    core.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>"])
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return core


def gpt2(**pre_tokenizer: Any) -> Core:
    """GPT-2's kind: one added token that is unknown, begin and end at once, and no template."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: index for index, letter in enumerate(alphabet)}
    core = Core(models.BPE({**vocabulary, "<|endoftext|>": 256}, []))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(**{"add_prefix_space": False, **pre_tokenizer})
    core.decoder = decoders.ByteLevel()
    core.post_processor = processors.ByteLevel(trim_offsets=True)
    core.add_special_tokens(["<|endoftext|>"])
    return core
