"""Tiny random encoder–decoders of every published family, made with the published code."""

import random
from pathlib import Path
from typing import Any

import torch
import transformers

from families import VOCAB, write_tokenizer

T5 = dict(  # noqa: C408
    vocab_size=VOCAB, d_model=24, d_kv=8, d_ff=40, num_layers=3, num_decoder_layers=2, num_heads=4,
    relative_attention_num_buckets=8, relative_attention_max_distance=20, decoder_start_token_id=1,
    pad_token_id=1, eos_token_id=3, dropout_rate=0.0,
)  # fmt: skip
BART = dict(  # noqa: C408
    vocab_size=VOCAB, d_model=24, encoder_layers=3, decoder_layers=2, encoder_ffn_dim=40, decoder_ffn_dim=40,
    encoder_attention_heads=4, decoder_attention_heads=4, max_position_embeddings=40, pad_token_id=1,
    bos_token_id=2, eos_token_id=3, forced_eos_token_id=None, decoder_start_token_id=3, dropout=0.0,
)  # fmt: skip
MARIAN = BART | {"activation_function": "swish", "scale_embedding": True, "decoder_start_token_id": 1}
MARIAN |= {"bos_token_id": None, "bad_words_ids": [[1]]}
GATED = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "t5": ("T5", T5),
    "t5-gated": ("T5", T5 | GATED),
    "bart": ("Bart", BART),
    "bart-scaled": ("Bart", BART | {"scale_embedding": True, "activation_function": "relu"}),
    "marian": ("Marian", MARIAN),
}
CLASSES = {
    "T5": "T5ForConditionalGeneration",
    "Bart": "BartForConditionalGeneration",
    "Marian": "MarianMTModel",
}
NAMES = tuple(CONFIGS)


def pairs() -> list[tuple[list[int], list[int]]]:
    """Random ids of texts and of answers to them, of many lengths, some of them alike."""
    chance = random.Random(2)
    lengths = [(1, 1), (5, 3), (5, 3), (9, 3), (31, 7), (2, 33), (32, 1), (7, 7), (40, 12), (5, 4)]
    return [tuple([chance.randrange(4, VOCAB) for _ in range(one)] for one in both) for both in lengths]


def kind(name: str) -> type:
    """The published model class of a family."""
    return getattr(transformers, CLASSES[CONFIGS[name][0]])


def published(name: str, *, wide: bool = False, **changes: Any) -> Any:
    """The published code with random weights, biases among them; wide: standard deviation 0.3, which shows
    small mistakes."""
    stem, facts = CONFIGS[name]
    config = getattr(transformers, f"{stem}Config")(**(facts | changes), attn_implementation="eager")
    torch.manual_seed(0)
    model = kind(name)(config)
    with torch.no_grad():
        if name == "t5-gated":  # the published code ties what was published apart
            model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight) * 0.05)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.copy_(torch.randn_like(model.final_logits_bias) * 0.1)
        if wide:
            for parameter in model.parameters():
                if parameter.requires_grad:  # not Marian's sines
                    parameter.copy_(torch.randn_like(parameter) * 0.3)
    return model.eval()


def doubled(model: Any) -> Any:
    """The published code in float64, Marian's sines among it, which it computes so and keeps as float32."""
    model.double()
    for name, table in model.named_parameters():
        if name.endswith("embed_positions.weight") and not table.requires_grad:
            count, width = table.shape
            rates = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
            angles = torch.arange(count, dtype=torch.float64)[:, None] * rates
            table.data = torch.cat([angles.sin(), angles.cos()], dim=1)
    return model


def tiny_folder(folder: Path, name: str, **changes: Any) -> Path:
    """A folder saved by the published code, with a tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    published(name, **changes).save_pretrained(folder)
    write_tokenizer(folder, "roberta")  # whose padding id is 1, too
    return folder
