"""Small tokenizer folders with the files that popular models have; nothing is downloaded."""

import io
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import sentencepiece
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Core

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


# --- folders with the files of published repositories ----------------------------------------------------

FAIRSEQ = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
MERGES = ["t h", "th e", "Ġ c", "Ġc a", "Ġca t", "Ġ Ġ", "ĠĠ ĠĠ", "a a", "aa aa", "r e"]


def byte_vocabulary(**first: int) -> dict[str, int]:
    """The 256 bytes and what `MERGES` makes of them, after the tokens of `first`."""
    pieces = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *(merge.replace(" ", "") for merge in MERGES)]
    return {**first, **{piece: len(first) + index for index, piece in enumerate(pieces)}}


def files(folder: Path, **contents: Any) -> Path:
    """A folder with these files; `vocab_json={…}` becomes vocab.json, a string is written as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        stem, _, ending = name.rpartition("_")
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / f"{stem}.{ending}").write_text(text, encoding="utf-8")
    return folder


def roberta_folder(folder: Path, **config: Any) -> Path:
    """roberta-base's older files: no tokenizer.json, and the class only in config.json."""
    vocabulary = byte_vocabulary(**FAIRSEQ)
    vocabulary["<mask>"] = len(vocabulary)
    merges = "#version: 0.2\n" + "\n".join(MERGES) + "\n"
    files(folder, vocab_json=vocabulary, merges_txt=merges, config_json={"model_type": "roberta"})
    return files(folder, tokenizer_config_json=config) if config else folder


def bart_folder(folder: Path) -> Path:
    """bart-base's older files, which are RoBERTa's."""
    return files(roberta_folder(folder), config_json={"model_type": "bart"})


def roberta_rules(prefix: bool = False) -> Core:
    """roberta-base's tokenizer.json."""
    vocabulary = byte_vocabulary(**FAIRSEQ)
    vocabulary["<mask>"] = len(vocabulary)
    core = Core(models.BPE(vocabulary, [tuple(merge.split()) for merge in MERGES]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    core.decoder = decoders.ByteLevel()
    core.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=prefix
    )
    core.add_special_tokens([*FAIRSEQ, AddedToken("<mask>", lstrip=True, normalized=False)])
    return core


def modernbert_rules() -> Core:
    """ModernBERT's kind of tokenizer.json: byte-level, NFC, and runs of spaces as added tokens."""
    first = {"|||IP_ADDRESS|||": 0, "<|padding|>": 1}
    core = Core(models.BPE(byte_vocabulary(**first), [tuple(merge.split()) for merge in MERGES]))
    core.normalizer = normalizers.NFC()
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_tokens([AddedToken("|||IP_ADDRESS|||", normalized=True)])
    core.add_special_tokens(["<|padding|>"])
    core.add_tokens([AddedToken(" " * count, normalized=True) for count in range(24, 1, -1)])
    core.add_special_tokens(["[UNK]", "[CLS]", "[SEP]", "[PAD]", AddedToken("[MASK]", lstrip=True)])
    core.add_tokens(["[unused0]", "[unused1]"])
    ids = [(token, core.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    core.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:0 [SEP]:0", special_tokens=ids
    )
    return core


def charsmap(replacements: dict[str, str]) -> bytes:
    """SentencePiece's table of replacements: a double-array trie, each node with a block of its own."""
    units, texts = [0] * 256, b""
    children: dict[bytes, int] = {}  # prefix → the place from which its continuations are counted

    def block(prefix: bytes) -> int:
        if prefix not in children:
            children[prefix] = len(units)
            units.extend([0] * 256)
        return children[prefix]

    units[0] = block(b"") << 10
    for key, text in sorted(replacements.items()):
        word = key.encode()
        for end in range(1, len(word) + 1):
            place = children[word[: end - 1]] ^ word[end - 1]
            leaf = (units[place] >> 8) & 1 or end == len(word)
            units[place] = (place ^ block(word[:end])) << 10 | leaf << 8 | word[end - 1]
        units[children[word]] = len(texts)
        texts += text.encode() + b"\0"
    trie = b"".join(unit.to_bytes(4, "little") for unit in units)
    return len(trie).to_bytes(4, "little") + trie + texts


REPLACED = {
    "ﬁ": "fi",
    "Ａ": "A",
    "\n": " ",
    "\t": " ",
    "\u00a0": " ",
    "\u3000": " ",
    "½": "1/2",
    "e\u0301": "é",
}


def fairseq_unigram(*, later: bool = False) -> Core:
    """XLM-R's tokenizer.json, as converted at first or `later`."""
    pieces = [(token, 0.0) for token in FAIRSEQ]
    pieces += [("▁", -2.0), ("▁the", -3.0), ("▁cat", -3.5), ("at", -3.2), ("é", -6.0), ("▁▁", -5.0)]
    pieces += [
        (letter, -4.0 - index / 9) for index, letter in enumerate("abcdefghijklmnopqrstuvwxyz,.!ABCﬁ中")
    ]
    core = Core(models.Unigram(pieces, 3, False))
    collapse = [normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "▁")]
    mapped = normalizers.Precompiled(charsmap(REPLACED))
    core.normalizer = normalizers.Sequence([mapped, *collapse]) if later else mapped
    metaspace = pre_tokenizers.Metaspace()
    core.pre_tokenizer = (
        metaspace if later else pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace])
    )
    core.decoder = decoders.Metaspace()
    core.add_special_tokens([*FAIRSEQ, AddedToken("<mask>", lstrip=True, normalized=False)])
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return core


@cache
def pieces(size: int = 80, *sentences: str, kind: str = "unigram", **options: Any) -> bytes:
    """A model file of SentencePiece, trained on a few sentences; the same each time."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences or SENTENCES),
        model_writer=written,
        vocab_size=size,
        hard_vocab_limit=False,
        character_coverage=1.0,
        num_threads=1,
        minloglevel=2,
        model_type=kind,
        **options,
    )
    return written.getvalue()


def t5_pieces(**options: Any) -> bytes:
    """T5's: padding is piece 0, the end 1, and texts have no beginning."""
    return pieces(pad_id=0, eos_id=1, unk_id=2, bos_id=-1, **options)


def model_folder(folder: Path, name: str, model: bytes, **contents: Any) -> Path:
    """A folder with a model file of SentencePiece, and other files."""
    files(folder, **contents)
    (folder / name).write_bytes(model)
    return folder


GERMAN = ["die Katze saß auf der Matte , und der Hund nicht", "ein naives Café : Éclairs", "für 中文 ₂"] * 4


def marian_folder(folder: Path, *, separate: bool = False, every: bool = False, **config: Any) -> Path:
    """opus-mt's files: two models, pieces in an order of their own, some of which are not numbered. Where
    `every` byte is a piece, unknown characters are spelled in bytes."""
    options = {"byte_fallback": True} if every else {}
    size = 256 if every else 0
    models_ = {
        "source.spm": pieces(size + 90, **options),
        "target.spm": pieces(size + 120, *GERMAN, **options),
    }
    known = {name: _texts(model)[3:-4] for name, model in models_.items()}  # behind <unk>, <s> and </s>
    source, target = known.values()
    first, last = {"</s>": 0, "<unk>": 1}, (">>deu<<", ">>fra<<", "<pad>")
    vocabularies = {"vocab.json": [*reversed(target), *source, *last]}
    if separate:
        vocabularies = {"vocab.json": [*source, *last], "target_vocab.json": [*target, "<pad>"]}
    for name, rest in vocabularies.items():
        ids = {token: 2 + id for id, token in enumerate(dict.fromkeys(rest))}
        files(folder, **{name.replace(".", "_"): {**first, **ids}})
    for name, model in models_.items():
        (folder / name).write_bytes(model)
    config = {
        "source_lang": "en",
        "target_lang": "de",
        **({"separate_vocabs": True} if separate else {}),
        **config,
    }
    return files(folder, tokenizer_config_json=config, config_json={"model_type": "marian"})


def _texts(model: bytes) -> list[str]:
    read = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [read.IdToPiece(id) for id in range(len(read))]


def t5_rules() -> Core:
    """t5-small's tokenizer.json, with fewer words."""
    words = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0), ("▁the", -3.0), ("▁cat", -3.5)]
    letters = enumerate("abcdefghijklmnopqrstuvwxyz,.!ABCé中")
    words += [("at", -3.2), *((letter, -4.0 - index / 9) for index, letter in letters)]
    gaps = [f"<extra_id_{number}>" for number in range(99, -1, -1)]
    core = Core(models.Unigram([*words, *((gap, 0.0) for gap in gaps)], 2, False))
    core.normalizer = normalizers.Precompiled(charsmap(REPLACED))
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    core.decoder = decoders.Metaspace()
    core.add_special_tokens(["<pad>", "</s>", "<unk>", *gaps])
    core.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    return core


def bert_rules(**normalizer: bool | None) -> Core:
    """bert-base's tokenizer.json."""
    core = Core(models.WordPiece({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer(**normalizer)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.decoder = decoders.WordPiece()
    core.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    core.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return core


def rules_folder(core: Core, folder: Path, *, model_type: str | None = None, **config: Any) -> Path:
    """tokenizer.json, and what else is not empty of tokenizer_config.json and config.json."""
    files(folder, tokenizer_json=core.to_str())
    if config:
        files(folder, tokenizer_config_json=config)
    return files(folder, config_json={"model_type": model_type}) if model_type else folder


def published_folders(base: Path) -> dict[str, Path]:
    """One folder for each kind of published tokenizer files."""
    vocabulary = byte_vocabulary()
    vocabulary["<|endoftext|>"] = len(vocabulary)
    gpt2_files = {"vocab_json": vocabulary, "merges_txt": "\n".join(MERGES)}
    return {
        "bert": bert_folder(base / "bert", tokenizer_class="BertTokenizer", model_max_length=512),
        "bert_cased": rules_folder(
            bert_rules(lowercase=False),
            base / "bert_cased",
            tokenizer_class="BertTokenizer",
            do_lower_case=False,
        ),
        "distilbert": bert_folder(
            base / "distilbert", tokenizer_class="DistilBertTokenizer", do_lower_case=False
        ),
        "electra": rules_folder(bert_rules(), base / "electra", tokenizer_class="ElectraTokenizerFast"),
        "mobilebert": rules_folder(bert_rules(), base / "mobilebert", model_type="mobilebert"),
        "roberta": roberta_folder(base / "roberta"),
        "roberta_spaced": roberta_folder(
            base / "roberta_spaced", add_prefix_space=True, model_max_length=512
        ),
        "roberta_rules": rules_folder(roberta_rules(), base / "roberta_rules", model_type="roberta"),
        "gpt2": files(base / "gpt2", **gpt2_files, config_json={"model_type": "gpt2"}),
        "gpt2_begin": files(
            base / "gpt2_begin",
            **gpt2_files,
            tokenizer_config_json={"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True},
        ),
        "modernbert": rules_folder(
            modernbert_rules(),
            base / "modernbert",
            model_type="modernbert",
            tokenizer_class="PreTrainedTokenizerFast",
            **{f"{role}_token": f"[{role.upper()}]" for role in ("cls", "sep", "pad", "mask", "unk")},
        ),
        "xlmr": rules_folder(fairseq_unigram(), base / "xlmr", model_type="xlm-roberta"),
        "xlmr_later": rules_folder(
            fairseq_unigram(later=True), base / "xlmr_later", tokenizer_class="XLMRobertaTokenizer"
        ),
        "camembert": rules_folder(
            fairseq_unigram(), base / "camembert", tokenizer_class="CamembertTokenizer"
        ),
        "xlmr_pieces": model_folder(
            base / "xlmr_pieces",
            "sentencepiece.bpe.model",
            pieces(unk_id=0, bos_id=1, eos_id=2),
            config_json={"model_type": "xlm-roberta"},
        ),
        "camembert_pieces": model_folder(
            base / "camembert_pieces",
            "sentencepiece.bpe.model",
            pieces(unk_id=0, bos_id=1, eos_id=2),
            tokenizer_config_json={"tokenizer_class": "CamembertTokenizer"},
        ),
        "bart": bart_folder(base / "bart"),
        "bart_rules": rules_folder(roberta_rules(), base / "bart_rules", tokenizer_class="BartTokenizerFast"),
        "t5": rules_folder(t5_rules(), base / "t5", model_type="t5", model_max_length=512, extra_ids=100),
        "t5_pieces": model_folder(
            base / "t5_pieces", "spiece.model", t5_pieces(), config_json={"model_type": "t5"}
        ),
        "marian": marian_folder(base / "marian"),
        "marian_separate": marian_folder(base / "marian_separate", separate=True),
        "words": rules_folder(word_level(), base / "words", tokenizer_class="PreTrainedTokenizerFast"),
        "trained": _made(train_tokenizer(SENTENCES, vocab=300), base / "trained"),
        "trained_pieces": _made(
            train_tokenizer(SENTENCES, vocab=120, kind="wordpiece", lowercase=True), base / "trained_pieces"
        ),
    }


PUBLISHED = [
    *("bert", "bert_cased", "distilbert", "electra", "mobilebert", "roberta", "roberta_spaced"),
    *("roberta_rules", "gpt2", "gpt2_begin", "modernbert", "xlmr", "xlmr_later", "camembert"),
    *("xlmr_pieces", "camembert_pieces", "bart", "bart_rules", "t5", "t5_pieces"),
    *("marian", "marian_separate", "words", "trained", "trained_pieces"),
]


def _made(tokenizer: Tokenizer, folder: Path) -> Path:
    tokenizer.write(folder)
    return folder
