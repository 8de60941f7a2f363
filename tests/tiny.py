"""Tiny random models in published folders, made with the published code."""

from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification, BertModel
from transformers.utils.logging import disable_progress_bar

disable_progress_bar()

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [
    *("the a of and is was it not very so").split(),
    *("good bad fine soup bread table film story cold warm slow kind place food end left right").split(),
    *(". , ! ? ' - 0 1 2 3 4 5 6 7 8 9 ##0 ##1 ##2 ##3 ##4 ##5 ##6 ##7 ##8 ##9 ##s ##ly").split(),
]


def write_vocab(folder: Path) -> None:
    """A vocab.txt as BERT publishes it, and its tokenizer_config.json."""
    (folder / "vocab.txt").write_text("\n".join(SPECIAL + WORDS) + "\n")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true, "model_max_length": 32}')


def bert_config(**changes: object) -> BertConfig:
    """Small, with every size different, so that a swapped one is noticed."""
    facts: dict[str, object] = dict(  # noqa: C408
        vocab_size=len(SPECIAL + WORDS), hidden_size=24, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=40, max_position_embeddings=32, type_vocab_size=2, hidden_act="gelu",
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return BertConfig(**(facts | changes))


def published(
    labels: tuple[str, ...] = (), *, wide: bool = False, seed: int = 0, **changes: object
) -> BertModel | BertForSequenceClassification:
    """The published code with random weights; wide: standard deviation 0.3, which shows small mistakes."""
    torch.manual_seed(seed)
    names = {"id2label": dict(enumerate(labels)), "label2id": {label: n for n, label in enumerate(labels)}}
    config = bert_config(**changes, **(names if labels else {}))
    model = BertForSequenceClassification(config) if labels else BertModel(config)
    if wide:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn_like(parameter) * 0.3)
    return model.eval()


def tiny_bert(folder: Path, labels: tuple[str, ...] = (), **changes: object) -> Path:
    """A folder saved by the published code, with a vocab.txt."""
    folder.mkdir(parents=True, exist_ok=True)
    published(labels, **changes).save_pretrained(folder)
    write_vocab(folder)
    return folder
