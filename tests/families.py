"""Tiny random models of every published family, made with the published code."""

import random
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import processors
from tokenizers.implementations import BertWordPieceTokenizer
from transformers.utils.logging import disable_progress_bar

from tiny import SPECIAL, WORDS, write_vocab

disable_progress_bar()

VOCAB = len(SPECIAL + WORDS)
BERT = dict(  # noqa: C408
    vocab_size=VOCAB, hidden_size=24, num_hidden_layers=3, num_attention_heads=4, intermediate_size=40,
    max_position_embeddings=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
)  # fmt: skip
ROBERTA = BERT | dict(max_position_embeddings=34, type_vocab_size=1, pad_token_id=1)  # noqa: C408
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("Bert", BERT),
    "roberta": ("Roberta", ROBERTA),
    "xlm-roberta": ("XLMRoberta", ROBERTA),
    "camembert": ("Camembert", ROBERTA),
    "distilbert": (
        "DistilBert",
        dict(  # noqa: C408
            vocab_size=VOCAB, dim=24, n_layers=3, n_heads=4, hidden_dim=40, max_position_embeddings=32,
            dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0,
        ),
    ),
    "electra": ("Electra", BERT | {"embedding_size": 16}),
    "electra-wide": ("Electra", BERT | {"embedding_size": 24}),
    "modernbert": (
        "ModernBert",
        dict(  # noqa: C408
            vocab_size=VOCAB, hidden_size=24, num_hidden_layers=4, num_attention_heads=2,
            intermediate_size=40, max_position_embeddings=32, local_attention=8, global_attn_every_n_layers=3,
            classifier_pooling="mean", pad_token_id=0, bos_token_id=2, eos_token_id=3, cls_token_id=2,
            sep_token_id=3,
        ),
    ),
}  # fmt: skip
NAMES = tuple(CONFIGS)
LENGTHS = (1, 2, 2, 5, 9, 17, 31, 32, 5)
WITH_VOCAB = ("bert", "distilbert", "electra", "electra-wide")


def texts() -> list[list[int]]:
    """Random ids, without special ones, up to the longest text."""
    chance = random.Random(1)
    return [[chance.randrange(2, VOCAB) for _ in range(length)] for length in LENGTHS]


def kinds(name: str) -> list[type]:
    """The published model classes of a family."""
    stem = CONFIGS[name][0]
    return [getattr(transformers, f"{stem}{kind}") for kind in ("Model", "ForSequenceClassification")]


def published(name: str, labels: tuple[str, ...] = (), *, wide: bool = False, **changes: Any) -> Any:
    """The published code with random weights; wide: standard deviation 0.3, which shows small mistakes."""
    stem, facts = CONFIGS[name]
    names = {"id2label": dict(enumerate(labels)), "label2id": {label: n for n, label in enumerate(labels)}}
    config = getattr(transformers, f"{stem}Config")(**(facts | (names if labels else {}) | changes))
    torch.manual_seed(0)
    model = kinds(name)[bool(labels)](config)
    if wide:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn_like(parameter) * 0.3)
    return model.eval()


def tiny_folder(folder: Path, name: str, labels: tuple[str, ...] = (), **changes: Any) -> Path:
    """A folder saved by the published code, with a tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    published(name, labels, **changes).save_pretrained(folder)
    write_tokenizer(folder, name)
    return folder


def write_tokenizer(folder: Path, name: str) -> None:
    """A vocab.txt where the family has one, else a tokenizer.json of the same words."""
    if name in WITH_VOCAB:
        write_vocab(folder)
        return
    swapped = CONFIGS[name][1].get("pad_token_id") == 1 if name in CONFIGS else False
    unknown, padding = ("[UNK]", "[PAD]") if swapped else ("[PAD]", "[UNK]")
    words = [unknown, padding, *SPECIAL[2:], *WORDS]
    core = BertWordPieceTokenizer(vocab={word: number for number, word in enumerate(words)})
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:0 [SEP]:0",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    core.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "PreTrainedTokenizerFast", "cls_token": "[CLS]", "sep_token": "[SEP]", '
        '"pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]", "model_max_length": 32}'
    )


# What a head over tokens is for: how its published class ends, and the labels it has here.
OVER = {
    "tag": ("ForTokenClassification", ("O", "B-FOOD", "I-FOOD")),
    "answer": ("ForQuestionAnswering", ("start", "end")),
}


def over_tokens(name: str, task: str, *, wide: bool = False, **changes: Any) -> Any:
    """The published code's model with a head over tokens, with random weights."""
    (stem, facts), (ending, labels) = CONFIGS[name], OVER[task]
    names = {"id2label": dict(enumerate(labels)), "label2id": {label: n for n, label in enumerate(labels)}}
    config = getattr(transformers, f"{stem}Config")(**(facts | names | changes))
    torch.manual_seed(0)
    model = getattr(transformers, stem + ending)(config)
    if wide:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn_like(parameter) * 0.3)
    return model.eval()


def filler(name: str, *, wide: bool = False, **changes: Any) -> Any:
    """The published code's model for masked tokens, with random weights, biases among them."""
    stem, facts = CONFIGS[name]
    config = getattr(transformers, f"{stem}Config")(**(facts | changes))
    torch.manual_seed(0)
    model = getattr(transformers, f"{stem}ForMaskedLM")(config)
    if wide:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn_like(parameter) * 0.3)
    return model.eval()
