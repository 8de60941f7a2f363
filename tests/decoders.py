"""Tiny random decoders of every published family, made with the published code."""

from pathlib import Path
from typing import Any

import torch
import transformers

from families import VOCAB, write_tokenizer

GPT2 = dict(vocab_size=VOCAB, n_embd=24, n_layer=3, n_head=4, n_positions=64, resid_pdrop=0.0)  # noqa: C408
GPT2 |= dict(embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=2, eos_token_id=3)  # noqa: C408
LLAMA = dict(  # noqa: C408
    vocab_size=VOCAB, hidden_size=24, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
    intermediate_size=40, max_position_embeddings=64, bos_token_id=2, eos_token_id=3,
)  # fmt: skip
NEOX = dict(  # noqa: C408
    vocab_size=VOCAB, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=40,
    max_position_embeddings=64, bos_token_id=2, eos_token_id=3,
)  # fmt: skip
SLOW = {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}
BANDS = {
    "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 16,
}  # fmt: skip
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2", GPT2),
    "gpt2-untied": ("GPT2", GPT2 | {"tie_word_embeddings": False, "n_inner": 36}),
    "llama": ("Llama", LLAMA),
    "llama-tied": ("Llama", LLAMA | {"tie_word_embeddings": True, "num_key_value_heads": 4}),
    "llama-biases": ("Llama", LLAMA | {"attention_bias": True, "mlp_bias": True, "head_dim": 8}),
    "llama-linear": ("Llama", LLAMA | {"rope_parameters": SLOW}),
    "llama-llama3": ("Llama", LLAMA | {"rope_parameters": BANDS}),
    "mistral": ("Mistral", LLAMA | {"sliding_window": 6}),
    "mistral-whole": ("Mistral", LLAMA | {"sliding_window": None}),
    "qwen2": ("Qwen2", LLAMA),
    "qwen3": ("Qwen3", LLAMA | {"head_dim": 8, "tie_word_embeddings": True}),
    "gpt_neox": ("GPTNeoX", NEOX),
    "gpt_neox-serial": ("GPTNeoX", NEOX | {"use_parallel_residual": False, "attention_bias": False}),
}
NAMES = tuple(CONFIGS)
SPEAKERS = {"GPT2": "GPT2LMHeadModel"}


def kinds(name: str) -> list[type]:
    """The published model classes of a family: the body, and with its language head."""
    stem = CONFIGS[name][0]
    return [
        getattr(transformers, kind) for kind in (f"{stem}Model", SPEAKERS.get(stem, f"{stem}ForCausalLM"))
    ]


def published(name: str, *, speaks: bool = True, wide: bool = False, **changes: Any) -> Any:
    """The published code with random weights; wide: standard deviation 0.3, which shows small mistakes."""
    stem, facts = CONFIGS[name]
    config = getattr(transformers, f"{stem}Config")(**(facts | changes), attn_implementation="eager")
    torch.manual_seed(0)
    model = kinds(name)[speaks](config)
    if wide:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn_like(parameter) * 0.3)
    return model.eval()


def tiny_folder(folder: Path, name: str, **changes: Any) -> Path:
    """A folder saved by the published code, with a tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    published(name, **changes).save_pretrained(folder)
    write_tokenizer(folder, name)
    return folder
