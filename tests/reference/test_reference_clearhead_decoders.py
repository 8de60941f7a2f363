"""Our own folders with the facts of decoders: published tensors under our names give the same numbers.

The published folders are compared with the published implementation elsewhere; here each is rewritten by
hand.
"""

import numpy as np
import pytest
import transformers
from reference_folders import VOCAB, Published, close, renamed, texts, write
from safetensors.numpy import load_file

from clearhead.errors import FolderError
from clearhead.reference import read

SHAPE = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 20}
FACTS = {
    "vocab": VOCAB,
    "width": 24,
    "layers": 3,
    "heads": 4,
    "hidden": 20,
    "segments": 0,
    "norm_first": True,
    "embedding_norm": False,
    "scale_embedding": False,
    "causal": True,
    "language_head": True,
}
LLAMA_FACTS = {
    **FACTS,
    "kv_heads": 2,
    "positions": {"kind": "rotary", "count": 64, "base": 10000.0, "local_base": None},
    "norm": "rms",
    "epsilon": 1e-6,
    "activation": "silu",
    "gated": True,
    "bias": False,
    "tied": False,
}


def published(folder, name, **fields):
    kind = getattr(transformers, name)
    sizes = {"vocab_size": VOCAB, "max_position_embeddings": 64, **SHAPE, **fields}
    Published(folder, kind, kind.config_class(**sizes))
    return load_file(folder / "model.safetensors")


def llama_like(tensors):
    """The tensors of Llama, Mistral and Qwen under our names."""
    table = {
        "model.embed_tokens.": "embedding.tokens.",
        "model.norm.": "encoder.norm.",
        "lm_head.": "language_head.",
    }
    ours = {}
    for i in range(3):
        old, new = f"model.layers.{i}", f"encoder.blocks.{i}"
        for kind in ("weight", "bias"):
            parts = [tensors.get(f"{old}.self_attn.{part}_proj.{kind}") for part in "qkv"]
            if parts[0] is not None:
                ours[f"{new}.attention.qkv.{kind}"] = np.concatenate(parts)
            pair = [tensors.get(f"{old}.mlp.{part}_proj.{kind}") for part in ("gate", "up")]
            if pair[0] is not None:
                ours[f"{new}.feed_forward.expand.{kind}"] = np.concatenate(pair)
        table |= {
            f"{old}.input_layernorm.": f"{new}.attention_norm.",
            f"{old}.self_attn.o_proj.": f"{new}.attention.output.",
            f"{old}.self_attn.q_norm.": f"{new}.attention.query_norm.",
            f"{old}.self_attn.k_norm.": f"{new}.attention.key_norm.",
            f"{old}.post_attention_layernorm.": f"{new}.feed_forward_norm.",
            f"{old}.mlp.down_proj.": f"{new}.feed_forward.contract.",
        }
    return ours | renamed(tensors, table)


def assert_same(one, two):
    for ids in texts():
        close(read(one).hidden(ids), read(two).hidden(ids))
        close(read(one).language_logits(ids), read(two).language_logits(ids))


@pytest.mark.parametrize(
    ("name", "fields", "facts"),
    [
        ("LlamaForCausalLM", {}, {}),
        ("LlamaForCausalLM", {"num_key_value_heads": 4}, {"kv_heads": None}),
        ("LlamaForCausalLM", {"attention_bias": True, "mlp_bias": True}, {"bias": True}),
        ("LlamaForCausalLM", {"attention_bias": True}, {"qkv_bias": True, "output_bias": True}),
        ("LlamaForCausalLM", {"mlp_bias": True}, {"bias": True, "qkv_bias": False, "output_bias": False}),
        ("LlamaForCausalLM", {"head_dim": 10}, {"head_width": 10}),
        ("LlamaForCausalLM", {"tie_word_embeddings": True}, {"tied": True}),
        ("LlamaForCausalLM", {"hidden_act": "gelu_new"}, {"activation": "gelu_tanh"}),
        ("MistralForCausalLM", {"sliding_window": 5}, {"window": 4}),
        ("MistralForCausalLM", {"sliding_window": None}, {"window": None}),
        ("Qwen2ForCausalLM", {}, {"qkv_bias": True, "output_bias": None}),
        ("Qwen3ForCausalLM", {"head_dim": 8}, {"qk_norm": True, "head_width": 8}),
    ],
)
def test_what_llama_and_its_relatives_differ_in_are_facts(tmp_path, name, fields, facts):
    tensors = published(tmp_path / "theirs", name, **{"num_key_value_heads": 2, **fields})
    ours = write(tmp_path / "ours", {**LLAMA_FACTS, **facts}, None, llama_like(tensors))
    assert_same(ours, tmp_path / "theirs")


@pytest.mark.parametrize(
    ("table", "scaling"),
    [
        ({"rope_type": "default"}, None),
        ({"rope_type": "linear", "factor": 3.0}, {"kind": "linear", "factor": 3}),
        (
            {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 0.25,
                "high_freq_factor": 1.5,
                "original_max_position_embeddings": 16,
            },
            {"kind": "llama3", "factor": 8.0, "low": 0.25, "high": 1.5, "original": 16},
        ),
    ],
)
def test_the_scaling_of_rotary_positions_is_a_fact(tmp_path, table, scaling):
    tensors = published(
        tmp_path / "theirs",
        "LlamaForCausalLM",
        num_key_value_heads=2,
        rope_parameters={**table, "rope_theta": 500.0},
    )
    positions = {"kind": "rotary", "count": 64, "base": 500.0, "share": 1.0, "scaling": scaling}
    ours = write(tmp_path / "ours", {**LLAMA_FACTS, "positions": positions}, None, llama_like(tensors))
    assert_same(ours, tmp_path / "theirs")


@pytest.mark.parametrize("parallel", [False, True])
def test_a_part_of_each_head_turns_and_attention_stands_beside_feed_forward(tmp_path, parallel):
    tensors = published(
        tmp_path / "theirs",
        "GPTNeoXForCausalLM",
        num_attention_heads=3,
        use_parallel_residual=parallel,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5},
    )
    table = {
        "gpt_neox.embed_in.": "embedding.tokens.",
        "gpt_neox.final_layer_norm.": "encoder.norm.",
        "embed_out.": "language_head.",
        "lm_head.": "language_head.",
    }
    ours = {}
    for i in range(3):
        old, new = f"gpt_neox.layers.{i}", f"encoder.blocks.{i}"
        for kind in ("weight", "bias"):
            fused = tensors[f"{old}.attention.query_key_value.{kind}"]
            by_head = fused.reshape(3, 3, 8, -1).swapaxes(0, 1)
            ours[f"{new}.attention.qkv.{kind}"] = by_head.reshape(fused.shape)
        table |= {
            f"{old}.input_layernorm.": f"{new}.attention_norm.",
            f"{old}.attention.dense.": f"{new}.attention.output.",
            f"{old}.post_attention_layernorm.": f"{new}.feed_forward_norm.",
            f"{old}.mlp.dense_h_to_4h.": f"{new}.feed_forward.expand.",
            f"{old}.mlp.dense_4h_to_h.": f"{new}.feed_forward.contract.",
        }
    facts = {
        **FACTS,
        "heads": 3,
        "positions": {"kind": "rotary", "count": 64, "base": 500.0, "share": 0.5, "scaling": None},
        "activation": "gelu",
        "epsilon": 1e-5,
        "parallel": parallel,
        "tied": False,
    }
    folder = write(tmp_path / "ours", facts, None, ours | renamed(tensors, table))
    assert_same(folder, tmp_path / "theirs")


def test_learned_positions_and_a_tied_head_are_those_of_gpt2(tmp_path):
    tensors = published(tmp_path / "theirs", "GPT2LMHeadModel", n_inner=20)
    table = {
        "transformer.wte.": "embedding.tokens.",
        "transformer.wpe.": "embedding.positions.",
        "transformer.ln_f.": "encoder.norm.",
    }
    ours = {}
    for i in range(3):
        old, new = f"transformer.h.{i}", f"encoder.blocks.{i}"
        table |= {f"{old}.ln_1.": f"{new}.attention_norm.", f"{old}.ln_2.": f"{new}.feed_forward_norm."}
        for theirs, name in {
            "attn.c_attn": "attention.qkv",
            "attn.c_proj": "attention.output",
            "mlp.c_fc": "feed_forward.expand",
            "mlp.c_proj": "feed_forward.contract",
        }.items():
            ours[f"{new}.{name}.weight"] = tensors[f"{old}.{theirs}.weight"].T
            ours[f"{new}.{name}.bias"] = tensors[f"{old}.{theirs}.bias"]
    facts = {
        **FACTS,
        "positions": {"kind": "learned", "count": 64},
        "activation": "gelu_tanh",
        "epsilon": 1e-5,
        "tied": True,
    }
    assert_same(write(tmp_path / "ours", facts, None, ours | renamed(tensors, table)), tmp_path / "theirs")


def test_a_body_without_language_head_says_so(tmp_path):
    tensors = published(tmp_path / "theirs", "LlamaForCausalLM", num_key_value_heads=2)
    ours = llama_like(tensors)
    del ours["language_head.weight"]
    folder = write(tmp_path / "ours", {**LLAMA_FACTS, "language_head": False}, None, ours)
    close(read(folder).hidden([5, 6]), read(tmp_path / "theirs").hidden([5, 6]))
    with pytest.raises(FolderError, match="no language head"):
        read(folder).next_logits([5])


def positions(**fields):
    return {"positions": {**LLAMA_FACTS["positions"], **fields}}


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"kv_heads": 3}, "4 heads and 3 of keys and values; the first must be a multiple"),
        ({"kv_heads": 0}, "kv_heads=0; it must be null or at least 1"),
        ({"kv_heads": 4}, r"attention\.qkv\.weight is \(48, 24\), not \(72, 24\)"),
        ({"head_width": 4.0}, r"head_width=4\.0; it must be of type int"),
        ({"causal": "yes"}, "causal='yes'; it must be of type bool"),
        ({"norm": "batch"}, "norm='batch'; this can be layer, rms"),
        ({"norm": "layer"}, r"lacks .*norm\.bias"),
        ({"norm_first": False, "parallel": True}, "parallel=true with norm_first=false"),
        ({"qk_norm": True}, r"lacks encoder\.blocks\.0\.attention\.query_norm\.weight"),
        ({"output_bias": True}, r"lacks encoder\.blocks\.0\.attention\.output\.bias"),
        ({"qkv_bias": "yes"}, "qkv_bias='yes'; it must be of type bool"),
        ({"tied": True}, r"does not explain: language_head\.weight"),
        ({"tied": True, "embedding_width": 8}, "tied=true with embedding_width"),
        ({"decoder_layers": 2}, "decoder_layers=2"),
        (positions(share=0.5), "heads of width 6, of which 0.5 turns, cannot be turned in pairs"),
        (positions(share=2.0), "of which 2.0 turns"),
        (
            positions(scaling={"kind": "yarn", "factor": 2.0}),
            r"scaling\.kind='yarn'; this can be linear, llama3",
        ),
        (positions(scaling={"kind": "linear"}), "lacks the field 'factor'"),
        (positions(scaling={"kind": "linear", "factor": -1.0}), "factor=-1.0; it must be above 0"),
        (positions(scaling="linear"), "scaling='linear'; it must be of type dict"),
        (
            positions(scaling={"kind": "llama3", "factor": 8.0, "low": 4.0, "high": 1.0, "original": 16}),
            "low=4.0 and high=1.0; the second must be larger",
        ),
    ],
)
def test_facts_that_do_not_fit_are_refused_by_name(tmp_path, facts, message):
    tensors = published(tmp_path / "theirs", "LlamaForCausalLM", num_key_value_heads=2)
    folder = write(tmp_path / "ours", {**LLAMA_FACTS, **facts}, None, llama_like(tensors))
    with pytest.raises(FolderError, match=message):
        read(folder)
