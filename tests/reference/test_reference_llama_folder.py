"""Published Llama folders: our reading, in NumPy, against the published implementation, in float64."""

import numpy as np
import pytest
import torch
from reference_folders import (
    VOCAB,
    Published,
    add_tensors,
    assert_speaks,
    close,
    edit_config,
    rename_tensors,
    texts,
)
from safetensors.numpy import load_file
from transformers import LlamaConfig, LlamaForCausalLM, LlamaModel

from clearhead.errors import FolderError
from clearhead.reference import read

SMALL = {
    "vocab_size": VOCAB,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 20,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def save(folder, kind=LlamaForCausalLM, *, wide=True, **fields):
    return Published(folder, kind, LlamaConfig(**{**SMALL, **fields}), wide=wide)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kind", [LlamaModel, LlamaForCausalLM])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_a_llama_folder_gives_the_numbers_of_the_published_implementation(tmp_path, kv_heads, kind, wide):
    assert_speaks(save(tmp_path, kind, wide=wide, num_key_value_heads=kv_heads))


def test_without_float64_the_published_code_is_further_away_than_a_small_mistake_may_be(tmp_path):
    theirs = save(tmp_path)
    ids = texts()[-1]
    expected = theirs.says(ids)[1]
    rounded = LlamaForCausalLM.from_pretrained(tmp_path, attn_implementation="eager").double().eval()
    with torch.no_grad():
        unpatched = rounded(torch.tensor([ids])).logits[0].numpy()
    assert 1e-9 < np.abs(unpatched - expected).max() < 1e-3
    close(read(tmp_path).language_logits(ids), expected)


def test_biases_are_read_where_the_config_says_that_there_are_some(tmp_path):
    both = {"attention_bias": True, "mlp_bias": True}
    assert_speaks(save(tmp_path, **both))
    for name in both:
        edit_config(tmp_path, **{**both, name: False})
        with pytest.raises(FolderError, match="does not explain"):
            read(tmp_path)


@pytest.mark.parametrize("head_dim", [2, 10])
def test_heads_may_be_wider_or_narrower_than_an_even_share(tmp_path, head_dim):
    assert_speaks(save(tmp_path, head_dim=head_dim))


def test_missing_fields_are_the_published_defaults(tmp_path):
    theirs = save(tmp_path, num_key_value_heads=4)
    edit_config(
        tmp_path,
        num_key_value_heads=...,
        head_dim=...,
        hidden_act=...,
        rms_norm_eps=...,
        attention_bias=...,
        mlp_bias=...,
        tie_word_embeddings=...,
        rope_parameters=...,
    )
    assert_speaks(theirs)
    edit_config(tmp_path, num_key_value_heads=None, head_dim=None)
    assert_speaks(theirs)


def test_epsilon_and_activation_are_read_from_the_config(tmp_path):
    assert_speaks(save(tmp_path, rms_norm_eps=0.5, hidden_act="gelu"))


def test_a_tied_head_is_the_embedding_and_may_be_stored_twice(tmp_path):
    theirs = save(tmp_path, tie_word_embeddings=True)
    assert_speaks(theirs)
    embedding = load_file(tmp_path / "model.safetensors")["model.embed_tokens.weight"]
    add_tensors(tmp_path, {"lm_head.weight": embedding})
    assert_speaks(theirs)
    add_tensors(tmp_path, {"lm_head.weight": np.zeros_like(embedding)})
    with pytest.raises(
        FolderError, match="tie_word_embeddings=true, but stores a language head that differs"
    ):
        read(tmp_path)


def test_a_missing_head_of_its_own_is_an_error_unless_the_folder_is_of_a_body(tmp_path):
    save(tmp_path, LlamaModel)
    with pytest.raises(FolderError, match="no language head"):
        read(tmp_path).next_logits([5])
    for classes in (["LlamaForCausalLM"], None):
        edit_config(tmp_path, architectures=classes)
        with pytest.raises(FolderError, match=r"lacks lm_head\.weight"):
            read(tmp_path)


def test_names_may_lack_their_prefix_and_old_buffers_are_left_out(tmp_path):
    theirs = save(tmp_path)
    speeds = np.arange(3, dtype=np.float32)
    add_tensors(tmp_path, {f"model.layers.{i}.self_attn.rotary_emb.inv_freq": speeds for i in range(3)})
    assert_speaks(theirs)
    rename_tensors(tmp_path, "model.", "")
    assert_speaks(theirs)


def test_a_token_sees_nothing_to_its_right_and_texts_have_no_longest(tmp_path):
    save(tmp_path)
    ours = read(tmp_path)
    ids = texts()[-1] * 4
    for cut in (1, 40, 127):
        np.testing.assert_allclose(ours.hidden(ids)[:cut], ours.hidden(ids[:cut]), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hidden_act": "mish"}, "hidden_act='mish'; this can be gelu, .*, silu, swish"),
        ({"num_key_value_heads": 3}, "4 heads and 3 of keys and values; the first must be a multiple"),
        ({"num_key_value_heads": 0}, "4 heads and 0 of keys and values"),
        ({"num_key_value_heads": 4}, r"k_proj\.weight is \(12, 24\), not \(24, 24\)"),
        ({"head_dim": 5}, "heads of width 5, of which 1.0 turns; 5 columns cannot be turned in pairs"),
        ({"head_dim": None, "num_attention_heads": 5}, "heads must divide the width"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor=0.5; only partial_rotary_factor=1.0"),
        ({"layer_types": ["sliding_attention"] * 3}, "only 'full_attention' for each of the 3 blocks"),
        ({"is_causal": False}, "is_causal=False"),
        ({"rms_norm_eps": "small"}, "rms_norm_eps='small'; it must be of type float"),
        ({"num_hidden_layers": 2}, r"does not explain: layers\.2\."),
    ],
)
def test_a_config_that_means_other_arithmetic_is_refused_by_name(tmp_path, fields, message):
    save(tmp_path)
    edit_config(tmp_path, **fields)
    with pytest.raises(FolderError, match=message):
        read(tmp_path)
