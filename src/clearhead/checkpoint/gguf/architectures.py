"""What the tensors of each architecture are called in published folders, and how they lie there.

Source: the names of llama.cpp's converter on one side, those of the published code on the other.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from clearhead.checkpoint.gguf.blocks import Floats
from clearhead.checkpoint.gguf.container import Entry, File
from clearhead.checkpoint.gguf.facts import FACTORS, Facts, decoder_fields, gpt2_fields, llama3_scaling
from clearhead.errors import FolderError

BLOCK = re.compile(r"blk\.\d+\.")


@dataclass(frozen=True)
class Architecture:
    """All that is known of one architecture.

    `names` are the tensors' names, `{i}` a block, with the published ones. Groups of them are `optional`:
    a flag of the config says whether they are there. In those that are `paired`, the two numbers that rotary
    positions turn together stand side by side, and not half a head apart; the field counts their heads.
    Those that are `turned` are published with rows and columns exchanged.
    """

    names: Mapping[str, str]
    config: Callable[[Facts], dict[str, Any]]
    optional: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    paired: Mapping[str, str] = field(default_factory=dict)
    turned: tuple[str, ...] = ()


@dataclass(frozen=True)
class Planned:
    """A tensor of the published folder, and where its numbers come from."""

    name: str
    entry: Entry
    heads: int = 0  # above 0: its rows are paired
    turned: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """As published."""
        return self.entry.shape[::-1] if self.turned else self.entry.shape

    def numbers(self, file: File) -> Floats:
        """Its numbers, float32, as published."""
        numbers = file.numbers(self.entry)
        if self.heads:
            pairs = numbers.reshape(self.heads, -1, 2, *self.shape[1:])
            return pairs.swapaxes(1, 2).reshape(self.shape)
        return numbers.T if self.turned else numbers


def plan(file: File) -> tuple[dict[str, Any], list[Planned]]:
    """The published config, and the tensors of the published folder.

    Every tensor of the file must be known, and none may be missing; `FolderError` names those that are.
    """
    name = file.fact("general.architecture", str)
    if name not in ARCHITECTURES:
        raise FolderError(
            f"{file.path} holds a model of type {name!r:.60}, which is not read; "
            f"read are {', '.join(ARCHITECTURES)}"
        )
    architecture, facts = ARCHITECTURES[name], Facts(file, name)
    if (blocks := facts.count("block_count")) > len(file.entries):
        raise FolderError(f"{file.path} says {blocks} blocks; it has {len(file.entries)} tensors")
    config = architecture.config(facts)
    facts.finish()
    config["tie_word_embeddings"] = "output.weight" not in file.entries
    config |= {flag: f"blk.0.{group[0]}" in file.entries for flag, group in architecture.optional.items()}
    expected = _expected(architecture, config, blocks=blocks)
    if missing := sorted(expected.keys() - file.entries.keys()):
        raise FolderError(f"{file.path} lacks {missing[0]}, which a model of type {name} has; fetch it again")
    if unknown := sorted(file.entries.keys() - expected.keys() - {FACTORS}):
        raise FolderError(
            f"{file.path} holds {unknown[0]!r:.60}, which is not read in a model of type {name}"
        )
    if FACTORS in file.entries:
        config["rope_scaling"] = llama3_scaling(file, config)
    config["vocab_size"] = file.entries["token_embd.weight"].shape[0]
    return config, [
        _planned(file, architecture, config=config, ours=ours, theirs=theirs)
        for ours, theirs in expected.items()
    ]


def _expected(architecture: Architecture, config: Mapping[str, Any], *, blocks: int) -> dict[str, str]:
    """The names a file must have, with the published ones."""
    absent = {"output.weight"} if config["tie_word_embeddings"] else set()
    for flag, group in architecture.optional.items():
        if not config[flag]:
            absent |= {f"blk.{{i}}.{inner}" for inner in group}
    return {
        ours.replace("{i}", str(number)): theirs.replace("{i}", str(number))
        for ours, theirs in architecture.names.items()
        if ours not in absent
        for number in range(blocks if "{i}" in ours else 1)
    }


def _planned(
    file: File, architecture: Architecture, *, config: Mapping[str, Any], ours: str, theirs: str
) -> Planned:
    entry = file.entries[ours]
    inner, _, end = BLOCK.sub("", ours).rpartition(".")
    if inner in architecture.paired:
        heads = config[architecture.paired[inner]]
        if entry.shape[0] % (2 * heads):
            raise FolderError(f"{file.path}: the {entry.shape[0]} rows of {ours} are not {heads} even heads")
        return Planned(theirs, entry, heads=heads)
    return Planned(theirs, entry, turned=inner in architecture.turned and end == "weight")


def _block(ours: str, theirs: str, *, inner: str, ends: str = "weight") -> dict[str, str]:
    """Names within a block: `inner` is a table of two columns."""
    words = inner.split()
    return {
        f"blk.{{i}}.{ours}{word}.{end}": f"{theirs}{other}.{end}"
        for word, other in zip(words[::2], words[1::2], strict=True)
        for end in ends.split()
    }


LAYER = "model.layers.{i}."
QKV = "q q_proj k k_proj v v_proj"
FFN = "gate gate_proj up up_proj down down_proj"
GATED = {
    "token_embd.weight": "model.embed_tokens.weight",
    **_block("attn_", LAYER + "self_attn.", inner=QKV + " output o_proj"),
    **_block("ffn_", LAYER + "mlp.", inner=FFN),
    **_block("", LAYER, inner="attn_norm input_layernorm ffn_norm post_attention_layernorm"),
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
BIASES = _block("attn_", LAYER + "self_attn.", inner=QKV, ends="bias")
MORE_BIASES = {
    **_block("attn_", LAYER + "self_attn.", inner="output o_proj", ends="bias"),
    **_block("ffn_", LAYER + "mlp.", inner=FFN, ends="bias"),
}
QK_NORMS = _block("attn_", LAYER + "self_attn.", inner="q_norm q_norm k_norm k_norm")
GPT2 = {
    "token_embd.weight": "transformer.wte.weight",
    "position_embd.weight": "transformer.wpe.weight",
    **_block(
        "", "transformer.h.{i}.", ends="weight bias",
        inner="""attn_norm ln_1 attn_qkv attn.c_attn attn_output attn.c_proj
        ffn_norm ln_2 ffn_up mlp.c_fc ffn_down mlp.c_proj""",
    ),
    "output_norm.weight": "transformer.ln_f.weight",
    "output_norm.bias": "transformer.ln_f.bias",
    "output.weight": "lm_head.weight",
}  # fmt: skip

ARCHITECTURES = {
    "llama": Architecture(
        names=GATED | BIASES | MORE_BIASES,
        config=lambda facts: decoder_fields(facts, "Llama", any_width=True),
        optional={
            "attention_bias": ("attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_output.bias"),
            "mlp_bias": ("ffn_gate.bias", "ffn_up.bias", "ffn_down.bias"),
        },
        paired={"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"},
    ),
    "qwen2": Architecture(
        names=GATED | BIASES,
        config=lambda facts: decoder_fields(facts, "Qwen2", any_width=False),
    ),
    "qwen3": Architecture(
        names=GATED | QK_NORMS,
        config=lambda facts: decoder_fields(facts, "Qwen3", any_width=True),
    ),
    "gpt2": Architecture(
        names=GPT2,
        config=gpt2_fields,
        turned=("attn_qkv", "attn_output", "ffn_up", "ffn_down"),
    ),
}
