"""Facts of a file → fields of the published config."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from clearhead.checkpoint.gguf.container import File
from clearhead.errors import FolderError

LARGEST = 1 << 31
# Facts that would change the arithmetic, and the values that do not.
FIXED = {
    "attention.causal": True, "attention.clamp_kqv": 0.0, "attention.max_alibi_bias": 0.0,
    "attention.scale": 0.0, "attn_logit_softcapping": 0.0, "embedding_scale": 1.0, "expert_count": 0,
    "final_logit_softcapping": 0.0, "logit_scale": 1.0, "residual_scale": 1.0, "use_parallel_residual": False,
}  # fmt: skip
# Facts that change nothing here, or that something else says as well.
HARMLESS = frozenset(
    "expert_used_count rope.scaling.finetuned rope.scaling.original_context_length tensor_data_layout "
    "vocab_size".split()
)
# The published values of Llama 3's scaling; a file holds only the factors that come of them.
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
FACTORS = "rope_freqs.weight"


class Facts:
    """The facts under an architecture's name, read one by one: what was not read in the end is named once."""

    def __init__(self, file: File, name: str):
        self.file, self.name = file, name
        self.seen: set[str] = set(HARMLESS)

    def __call__(self, key: str, kind: type, *, default: Any = ...) -> Any:
        """A fact; without a default it must be there."""
        self.seen.add(key)
        return self.file.fact(f"{self.name}.{key}", kind, default=default)

    def count(self, key: str, *, default: int | None = None) -> int:
        """A fact that counts something."""
        value: int = self(key, int, default=... if default is None else default)
        if not 0 < value < LARGEST:
            raise self.wrong(key, value, only="a number above 0")
        return value

    def wrong(self, key: str, value: Any, *, only: str) -> FolderError:
        return FolderError(f"{self.file.path}: {self.name}.{key}={value!r:.60} is not supported, only {only}")

    def finish(self) -> None:
        """Refuse what would change the arithmetic, and name what is not known."""
        for key, usual in FIXED.items():
            if (value := self(key, type(usual), default=usual)) != usual:
                raise self.wrong(key, value, only=repr(usual))
        stem = f"{self.name}."
        own = {key.removeprefix(stem) for key in self.file.facts if key.startswith(stem)}
        if unread := sorted(own - self.seen):
            warnings.warn(
                f"{self.file.path}: facts not known and not used: {', '.join(unread)}", stacklevel=3
            )


def decoder_fields(facts: Facts, class_name: str, *, any_width: bool) -> dict[str, Any]:
    """The fields of Llama and its kin; `any_width`: the heads together need not be as wide as the stream."""
    width, heads = facts.count("embedding_length"), facts.count("attention.head_count")
    head_width = facts.count("attention.key_length", default=max(1, width // heads))
    if (other := facts.count("attention.value_length", default=head_width)) != head_width:
        raise facts.wrong("attention.value_length", other, only=f"that of keys ({head_width})")
    if not any_width and head_width * heads != width:
        raise facts.wrong("attention.key_length", head_width, only=f"{width} / {heads}")
    length = facts.count("context_length")
    if 0 < (window := facts("attention.sliding_window", int, default=0)) < length:
        raise facts.wrong("attention.sliding_window", window, only="0")
    return {
        "architectures": [f"{class_name}ForCausalLM"],
        "model_type": class_name.lower(),
        "hidden_size": width,
        "intermediate_size": facts.count("feed_forward_length"),
        "num_hidden_layers": facts.count("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": facts.count("attention.head_count_kv", default=heads),
        **({"head_dim": head_width} if any_width else {}),
        "hidden_act": "silu",
        "max_position_embeddings": length,
        "rms_norm_eps": facts("attention.layer_norm_rms_epsilon", float),
        **_rotary(facts, head_width),
    }


def _rotary(facts: Facts, width: int) -> dict[str, Any]:
    """Whole heads are turned, by the usual angles or by those divided by one factor."""
    if (turned := facts("rope.dimension_count", int, default=width)) != width:
        raise facts.wrong("rope.dimension_count", turned, only=f"whole heads ({width})")
    for name in ("rope.freq_scale", "rope.scaling.attn_factor", "attention.temperature_scale"):
        if (scale := facts(name, float, default=1.0)) != 1:
            raise facts.wrong(name, scale, only="1.0")
    kind = facts("rope.scaling.type", str, default="linear")
    older = facts("rope.scale_linear", float, default=1.0)
    factor = facts("rope.scaling.factor", float, default=older)
    if kind not in ("none", "linear"):
        raise facts.wrong("rope.scaling.type", kind, only="'none' and 'linear'")
    scaled = kind == "linear" and factor not in (0.0, 1.0)
    return {
        "rope_theta": facts("rope.freq_base", float, default=10000.0),
        "rope_scaling": {"rope_type": "linear", "type": "linear", "factor": factor} if scaled else None,
    }


def llama3_scaling(file: File, config: Mapping[str, Any]) -> dict[str, Any]:
    """The scaling of Llama 3.1 and later, found again in the factors by which it slows each angle down."""
    found = file.numbers(file.entries[FACTORS])
    width, base, factor = config.get("head_dim", 0), config.get("rope_theta", 1.0), float(found.max())
    low, high, original = LLAMA3.values()
    with np.errstate(all="ignore"):  # what is not finite agrees with nothing
        lengths = 2 * np.pi * base ** (np.arange(0, width, 2) / max(width, 1))
        between = np.clip((original / lengths - low) / (high - low), 0, 1)
        right = 1 / ((1 - between) / factor + between)
        same = found.shape == right.shape and np.allclose(found, right, rtol=1e-4)
    if not same or config.get("rope_scaling"):
        raise FolderError(
            f"{file.path}: {FACTORS} holds other factors than Llama 3's, which are not supported"
        )
    return {"rope_type": "llama3", "factor": factor, **LLAMA3}


def gpt2_fields(facts: Facts) -> dict[str, Any]:
    """The fields of GPT-2."""
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "n_embd": facts.count("embedding_length"),
        "n_inner": facts.count("feed_forward_length"),
        "n_layer": facts.count("block_count"),
        "n_head": facts.count("attention.head_count"),
        "n_positions": facts.count("context_length"),
        "layer_norm_epsilon": facts("attention.layer_norm_epsilon", float),
        "activation_function": "gelu_new",
    }
