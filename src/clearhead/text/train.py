"""Learn a vocabulary from texts: byte-level byte-pair encoding, the same from the same texts."""

from collections.abc import Iterable, Iterator

from tokenizers import Tokenizer as Core
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from clearhead.errors import DataError, SettingError
from clearhead.text.tokenizer import LONE_SURROGATE, Tokenizer

BEGIN, END = "<s>", "</s>"
MINIMUM = 256 + 2  # every byte, so that any text can be written, and the two special tokens


def train_tokenizer(texts: Iterable[str], *, vocab: int, lowercase: bool = False) -> Tokenizer:
    """Byte-level BPE of at most `vocab` tokens (Sennrich et al. 2016; bytes as in Radford et al. 2019).

    Two pieces are merged only if they meet twice, so few texts give fewer tokens than asked for. Lossless
    unless `lowercase`. A text becomes `<s> text </s>`, a pair `<s> first </s> second </s>`, all in segment 0;
    `<s>` is id 0, `</s>` id 1. The same texts give a byte-identical tokenizer.json in every process. Raises
    SettingError if `vocab` cannot hold the 256 bytes and the special tokens.
    """
    if vocab < MINIMUM:
        raise SettingError(
            f"vocab={vocab} is too small; make it at least {MINIMUM}, for 256 bytes and {BEGIN} and {END}"
        )
    if isinstance(texts, str):
        raise DataError("train_tokenizer takes a list of texts and was given one string; put it into a list")
    core = Core(models.BPE())
    if lowercase:
        core.normalizer = normalizers.Lowercase()
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        min_frequency=2,
        special_tokens=[BEGIN, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(_clean(texts), trainer)
    core.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN}:0 $A:0 {END}:0",
        pair=f"{BEGIN}:0 $A:0 {END}:0 $B:0 {END}:0",
        special_tokens=[(BEGIN, core.token_to_id(BEGIN)), (END, core.token_to_id(END))],
    )
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",  # the published name for: all is in tokenizer.json
        "bos_token": BEGIN,
        "eos_token": END,
        "clean_up_tokenization_spaces": False,
    }
    return Tokenizer(core, config)


def _clean(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield LONE_SURROGATE.sub("\ufffd", text)
