"""Learn a vocabulary from texts: byte-level BPE or WordPiece, the same from the same texts."""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import Tokenizer as Core

from clearhead.errors import DataError, SettingError
from clearhead.settings import Kind
from clearhead.text.kinds import BERT
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.words import LONGEST, Counts, count_words

BEGIN, END, UNKNOWN = "<s>", "</s>", "[UNK]"
CONTROL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MOST = 10_000_000  # the library takes room for all of them at once
MINIMUM = {"bpe": 256 + 2, "wordpiece": len(CONTROL) + 4, "characters": 4}
CHARACTERS = 1000  # most characters of a WordPiece vocabulary; texts with others are unknown words
# Special tokens of models for masked tokens, in the order of their ids, as RoBERTa and ModernBERT have them.
MASKED = {
    "roberta": {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"},
    "modernbert": {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"},
}
BYTES = "byte-level BPE reads any text (--kind bpe; for masked tokens --architecture roberta or modernbert)"
TWICE = 2  # two pieces are merged only if they meet twice


def train_tokenizer(
    texts: Iterable[str],
    *,
    vocab: int,
    kind: Kind = "bpe",
    lowercase: bool = False,
    closed: bool = True,
    limit: int | None = None,
) -> Tokenizer:
    """A tokenizer of at most `vocab` tokens; few texts give fewer. `texts` are read once, as a stream.

    `bpe` is byte-level byte-pair encoding (Sennrich et al. 2016; bytes as in Radford et al. 2019). It is
    lossless unless `lowercase`. A text becomes `<s> text </s>`, a pair `<s> first </s> second </s>`, all in
    segment 0; `<s>` is id 0, `</s>` id 1.

    Not `closed`, a text becomes `<s> text`: it can be gone on with. `limit` is the most tokens of a text that
    its model is to be asked about, which the files say.

    `wordpiece` is BERT's kind (Devlin et al. 2019), learned with the same merges: `[CLS] text [SEP]`, a pair
    in two segments, and `[UNK]` for a word with a character that is not in the vocabulary, or with more than
    100 characters, which is not learned from. It holds the 1,000 most frequent characters, or fewer, so that
    they fill no more than half of it. `lowercase` strips accents.

    `characters` makes each character a token: the most frequent ones, of equals the first by code point, and
    `[UNK]` for any other. Texts begin and end as with `bpe`.

    Memory is bounded (`clearhead.text.words`). The same texts give byte-identical files in every process.
    SettingError if `vocab` cannot hold what the kind needs, DataError if it can learn from none of
    the texts. What is left out is said in a warning.
    """
    if vocab > MOST:
        raise SettingError(f"vocab={vocab} is more than any text needs; make it at most {MOST:,}")
    if vocab < MINIMUM[kind]:
        needs = {
            "bpe": f"256 bytes and {BEGIN} and {END}",
            "wordpiece": f"{', '.join(CONTROL)}, a character, which takes two, and as much beside",
            "characters": f"{BEGIN}, {END}, {UNKNOWN} and a character",
        }
        raise SettingError(f"vocab={vocab} is too small; make it at least {MINIMUM[kind]}, for {needs[kind]}")
    if isinstance(texts, str):
        raise DataError("train_tokenizer takes a list of texts and was given one string; put it into a list")
    stated = {} if limit is None else {"model_max_length": limit}
    if kind == "wordpiece":
        if not closed:
            raise SettingError("wordpiece closes every text with [SEP], as BERT does; use bpe or characters")
        return _wordpiece(texts, vocab=vocab, lowercase=lowercase, stated=stated)
    learn = _bpe if kind == "bpe" else _single_characters
    core, roles = learn(texts, vocab=vocab, lowercase=lowercase)
    return _framed(core, {**roles, **stated}, closed=closed)


def masked_tokenizer(
    texts: Iterable[str], *, architecture: str, vocab: int, lowercase: bool = False
) -> Tokenizer:
    """A tokenizer of at most `vocab` tokens with a mask token and the other special tokens of a family.

    `bert` has WordPiece, `roberta` and `modernbert` byte-level BPE; a text begins and ends as theirs do, a
    pair has one end token between its texts, or RoBERTa's two. As published, white space before a mask that a
    text holds belongs to it. SettingError if `vocab` cannot hold the bytes and the special tokens.
    """
    if architecture == "bert":
        return train_tokenizer(texts, vocab=vocab, kind="wordpiece", lowercase=lowercase)
    names = MASKED[architecture]
    if vocab < (least := 256 + len(names)):
        needs = f"256 bytes and {', '.join(names.values())}"
        raise SettingError(f"vocab={vocab} is too small; make it at least {least}, for {needs}")
    core, _ = _bpe(texts, vocab=vocab, lowercase=lowercase, first=tuple(names.values()))
    mask = AddedToken(names["mask"], lstrip=True, special=True)
    core.add_special_tokens([*(name for role, name in names.items() if role != "mask"), mask])
    begin, end = names["cls"], names["sep"]
    between = f"{end}:0 {end}:0" if architecture == "roberta" else f"{end}:0"
    core.post_processor = processors.TemplateProcessing(
        single=f"{begin}:0 $A:0 {end}:0",
        pair=f"{begin}:0 $A:0 {between} $B:0 {end}:0",
        special_tokens=[(name, core.token_to_id(name)) for name in (begin, end)],
    )
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    return Tokenizer(core, config | {f"{role}_token": name for role, name in names.items()})


def _bpe(
    texts: Iterable[str], *, vocab: int, lowercase: bool, first: tuple[str, ...] = (BEGIN, END)
) -> tuple[Core, dict[str, str]]:
    core = Core(models.BPE())
    if lowercase:
        core.normalizer = normalizers.Lowercase()
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    core.decoder = decoders.ByteLevel()
    counts = _words(core, texts)
    if counts.left:
        found = _left_out(counts, longest=LONGEST, units="bytes")
        warnings.warn(
            f"{found} left out, as there are too many different ones; they are read by what the others "
            "taught, or byte by byte",
            stacklevel=2,
        )
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    learned = _merged(counts.ordered(), vocab=vocab, first=[*first, *alphabet])
    core.model = learned.model
    return core, {}


def _single_characters(texts: Iterable[str], *, vocab: int, lowercase: bool) -> tuple[Core, dict[str, str]]:
    seen: Counter[str] = Counter()
    for text in texts:
        seen.update(text.lower() if lowercase else text)
    first = [BEGIN, END, UNKNOWN]
    most = sorted(seen.items(), key=lambda entry: (-entry[1], entry[0]))[: vocab - len(first)]
    pieces = [*first, *sorted(character for character, _ in most)]
    core = Core(models.WordLevel({piece: id for id, piece in enumerate(pieces)}, unk_token=UNKNOWN))
    if lowercase:
        core.normalizer = normalizers.Lowercase()
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    core.decoder = decoders.Fuse()
    return core, {"unk_token": UNKNOWN}


def _framed(core: Core, stated: dict[str, Any], *, closed: bool) -> Tokenizer:
    """A text becomes `<s> text </s>`, a pair `<s> first </s> second </s>`; not closed: without the last."""
    core.add_special_tokens([BEGIN, END, *(name for name in stated.values() if isinstance(name, str))])
    end = f" {END}:0" if closed else ""
    core.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN}:0 $A:0{end}",
        pair=f"{BEGIN}:0 $A:0 {END}:0 $B:0{end}",
        special_tokens=[(BEGIN, core.token_to_id(BEGIN)), (END, core.token_to_id(END))],
    )
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",  # the published name for: all is in tokenizer.json
        "bos_token": BEGIN,
        "eos_token": END,
        "clean_up_tokenization_spaces": False,
        **stated,
    }
    return Tokenizer(core, config)


def _wordpiece(texts: Iterable[str], *, vocab: int, lowercase: bool, stated: Mapping[str, Any]) -> Tokenizer:
    config = {**BERT.defaults, "do_lower_case": lowercase, **stated}
    bare = {token: id for id, token in enumerate(CONTROL)}
    core = Core(models.WordPiece(bare, unk_token="[UNK]"))
    BERT.dress(core, config, rules={})
    longest = core.model.max_input_chars_per_word
    counts = _words(core, texts, longest=longest)
    words = counts.ordered()
    if counts.left:
        found = _left_out(counts, longest=longest, units="characters")
        said = f"{found} left out, each of which WordPiece reads as [UNK]"
        if not words:
            raise DataError(f"{said}: nothing is left to learn from; {BYTES}")
        warnings.warn(f"{said}; {BYTES}", stacklevel=2)
    characters = _characters(core, words, room=(vocab - len(CONTROL)) // 2)
    # The library's trainer for WordPiece numbers the ## pieces in an order that differs between processes. It
    # is its trainer for BPE underneath, which does the same every time once these pieces have their numbers.
    first = [*CONTROL, *sorted(characters), *(f"##{c}" for c in sorted(characters) if characters[c])]
    known = ((word, count) for word, count in words if characters.keys() >= set(word))
    learned = _merged(known, vocab=vocab, first=first, prefix="##")
    core.model = models.WordPiece(learned.get_vocab(), unk_token="[UNK]")
    core.add_special_tokens(list(CONTROL))
    return Tokenizer(core, config)


def _words(core: Core, texts: Iterable[str], *, longest: int | None = None) -> Counts:
    """The words that `core` splits the texts into."""

    def split(text: str) -> Iterator[str]:
        clean = core.normalizer.normalize_str(text) if core.normalizer else text
        return (word for word, _ in core.pre_tokenizer.pre_tokenize_str(clean))

    return count_words(texts, split, longest=longest)


def _left_out(counts: Counts, *, longest: int, units: str) -> str:
    said = f"count {counts.runs:,}, {counts.left / counts.characters:.1%} of the text"
    return f"runs of more than {longest} {units} without a break ({said}) are"


def _characters(core: Core, words: list[tuple[str, int]], *, room: int) -> dict[str, bool]:
    """The most frequent characters that fit, and whether each can stand inside a word (as a ## piece)."""
    seen: Counter[str] = Counter()
    for word, count in words:
        for character in word:
            seen[character] += count
    found: dict[str, bool] = {}
    for character, _ in sorted(seen.items(), key=lambda entry: (-entry[1], entry[0]))[:CHARACTERS]:
        inside = len(core.pre_tokenizer.pre_tokenize_str(f"a{character}")) == 1
        if (room := room - 1 - inside) < 0:
            break
        found[character] = inside
    return found


def _merged(words: Iterable[tuple[str, int]], *, vocab: int, first: list[str], prefix: str = "") -> Core:
    """Merge the pieces that meet most often until there are `vocab`; those of `first` have the first ids."""
    core = Core(models.BPE())
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab, min_frequency=TWICE, special_tokens=first, show_progress=False
    )
    if prefix:
        trainer.continuing_subword_prefix = prefix
    core.train_from_iterator(_repeated(words), trainer)
    return core


def _repeated(words: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Each word as often as it was counted: the library's trainer takes no counts."""
    for word, count in words:
        for done in range(0, count, 1000):
            yield " ".join([word] * min(1000, count - done))
