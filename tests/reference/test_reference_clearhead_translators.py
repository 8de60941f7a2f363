"""Our own folders with an encoder and a decoder: published tensors under our names give the same numbers.

The published folders are compared with the published implementation elsewhere; here each is rewritten by
hand.
"""

import numpy as np
import pytest
import transformers
from reference_folders import write
from safetensors.numpy import load_file
from translator_folders import FACTS, VOCAB, Pair, assert_same

BART = {
    "vocab_size": VOCAB,
    "d_model": 12,
    "max_position_embeddings": 32,
    "encoder_layers": 3,
    "encoder_attention_heads": 3,
    "encoder_ffn_dim": 20,
    "decoder_layers": 2,
    "decoder_attention_heads": 3,
    "decoder_ffn_dim": 20,
}
T5 = {
    "vocab_size": VOCAB,
    "d_model": 12,
    "d_kv": 5,
    "d_ff": 20,
    "num_layers": 3,
    "num_decoder_layers": 2,
    "num_heads": 3,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 20,
}
T5_FACTS = {
    **FACTS,
    "positions": {"kind": "relative", "buckets": 8, "distance": 20},
    "norm": "rms",
    "norm_first": True,
    "epsilon": 1e-6,
    "head_width": 5,
    "bias": False,
    "scale_embedding": False,
    "scale_scores": False,
}


def published(folder, name, **fields):
    kind = getattr(transformers, name)
    Pair(folder, kind, kind.config_class(**fields))
    tensors = load_file(folder / "model.safetensors")
    return {name.removeprefix("model."): array for name, array in tensors.items()}


def stacked(tensors, names):
    """The layers of these names one below the other, weights and biases."""
    kinds = [kind for kind in ("weight", "bias") if f"{names[0]}.{kind}" in tensors]
    return {kind: np.concatenate([tensors[f"{name}.{kind}"] for name in names]) for kind in kinds}


def laid_out(tensors, table):
    """Every layer of the table {ours: names of theirs}."""
    return {
        f"{ours}.{kind}": array
        for ours, theirs in table.items()
        for kind, array in stacked(tensors, theirs).items()
    }


def bart_like(tensors):
    """The blocks and norms of BART and Marian under our names."""
    table = {}
    for stack, layers in (("encoder", 3), ("decoder", 2)):
        for i in range(layers):
            old, new = f"{stack}.layers.{i}", f"{stack}.blocks.{i}"
            table |= {
                f"{new}.attention.qkv": [f"{old}.self_attn.{part}_proj" for part in "qkv"],
                f"{new}.attention.output": [f"{old}.self_attn.out_proj"],
                f"{new}.attention_norm": [f"{old}.self_attn_layer_norm"],
                f"{new}.feed_forward.expand": [f"{old}.fc1"],
                f"{new}.feed_forward.contract": [f"{old}.fc2"],
                f"{new}.feed_forward_norm": [f"{old}.final_layer_norm"],
            }
            if stack == "decoder":
                table |= {
                    f"{new}.recall.query": [f"{old}.encoder_attn.q_proj"],
                    f"{new}.recall.memory": [f"{old}.encoder_attn.{part}_proj" for part in "kv"],
                    f"{new}.recall.output": [f"{old}.encoder_attn.out_proj"],
                    f"{new}.recall_norm": [f"{old}.encoder_attn_layer_norm"],
                }
    return laid_out(tensors, table) | {"language_bias": tensors["final_logits_bias"][0]}


def t5_like(tensors, *, expand=("wi",)):
    """T5's tensors under our names."""
    relative = "block.0.layer.0.SelfAttention.relative_attention_bias"
    table = {"embedding.tokens": ["shared"]}
    for stack, layers, last in (("encoder", 3, 1), ("decoder", 2, 2)):
        table |= {
            f"{stack}.norm": [f"{stack}.final_layer_norm"],
            f"{stack}.relative": [f"{stack}.{relative}"],
        }
        for i in range(layers):
            old, new = f"{stack}.block.{i}.layer", f"{stack}.blocks.{i}"
            table |= {
                f"{new}.attention.qkv": [f"{old}.0.SelfAttention.{part}" for part in "qkv"],
                f"{new}.attention.output": [f"{old}.0.SelfAttention.o"],
                f"{new}.attention_norm": [f"{old}.0.layer_norm"],
                f"{new}.feed_forward.expand": [f"{old}.{last}.DenseReluDense.{part}" for part in expand],
                f"{new}.feed_forward.contract": [f"{old}.{last}.DenseReluDense.wo"],
                f"{new}.feed_forward_norm": [f"{old}.{last}.layer_norm"],
            }
            if stack == "decoder":
                table |= {
                    f"{new}.recall.query": [f"{old}.1.EncDecAttention.q"],
                    f"{new}.recall.memory": [f"{old}.1.EncDecAttention.{part}" for part in "kv"],
                    f"{new}.recall.output": [f"{old}.1.EncDecAttention.o"],
                    f"{new}.recall_norm": [f"{old}.1.layer_norm"],
                }
    return laid_out(tensors, table)


def test_what_bart_differs_in_are_facts(tmp_path):
    theirs = published(tmp_path / "theirs", "BartForConditionalGeneration", **BART)
    table = {"embedding.tokens": ["shared"]}
    for stack, ours in (("encoder", "embedding"), ("decoder", "decoder_embedding")):
        table[f"{ours}.positions"] = [f"{stack}.embed_positions"]
        table[f"{ours}.norm"] = [f"{stack}.layernorm_embedding"]
    facts = {
        **FACTS,
        "positions": {"kind": "learned", "count": 32, "offset": 2},
        "activation": "gelu",
        "embedding_norm": True,
        "scale_embedding": False,
        "language_bias": True,
    }
    ours = write(tmp_path / "ours", facts, None, bart_like(theirs) | laid_out(theirs, table))
    assert_same(ours, tmp_path / "theirs")


@pytest.mark.parametrize("target_vocab", [None, 30])
def test_what_marian_differs_in_are_facts(tmp_path, target_vocab):
    fields = {"scale_embedding": True, "activation_function": "swish", "pad_token_id": 29}
    if target_vocab:
        fields |= {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": target_vocab}
    theirs = published(tmp_path / "theirs", "MarianMTModel", **BART, **fields)
    table = {"embedding.tokens": ["shared"]}
    if target_vocab:
        table = {
            "embedding.tokens": ["encoder.embed_tokens"],
            "decoder_embedding.tokens": ["decoder.embed_tokens"],
        }
    facts = {
        **FACTS,
        "positions": {"kind": "sinusoidal", "halves": True},
        "activation": "silu",
        "language_bias": True,
        "target_vocab": target_vocab,
    }
    ours = write(tmp_path / "ours", facts, None, bart_like(theirs) | laid_out(theirs, table))
    assert_same(ours, tmp_path / "theirs", target_vocab=target_vocab or VOCAB)


def test_what_t5_differs_in_are_facts(tmp_path):
    theirs = published(tmp_path / "theirs", "T5ForConditionalGeneration", **T5)
    ours = write(tmp_path / "ours", {**T5_FACTS, "scale_output": True}, None, t5_like(theirs))
    assert_same(ours, tmp_path / "theirs")


def test_what_version_1_1_of_t5_differs_in_are_facts(tmp_path):
    fields = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
    theirs = published(tmp_path / "theirs", "T5ForConditionalGeneration", **T5, **fields)
    facts = {**T5_FACTS, "gated": True, "activation": "gelu_tanh"}
    tensors = t5_like(theirs, expand=("wi_0", "wi_1"))
    assert_same(write(tmp_path / "ours", facts, None, tensors), tmp_path / "theirs")
    # The same with a head of its own, which is the embedding's by chance.
    tensors["language_head.weight"] = tensors["embedding.tokens.weight"]
    assert_same(write(tmp_path / "own", {**facts, "tied": False}, None, tensors), tmp_path / "theirs")
