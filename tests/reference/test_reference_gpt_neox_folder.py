"""Published GPT-NeoX folders: our reading, in NumPy, against the published implementation, in float64."""

import numpy as np
import pytest
from reference_folders import (
    VOCAB,
    Published,
    add_tensors,
    assert_speaks,
    edit_config,
    rename_tensors,
)
from safetensors.numpy import load_file
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, GPTNeoXModel

from clearhead.errors import FolderError
from clearhead.reference import read

SMALL = {
    "vocab_size": VOCAB,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 64,
}


def save(folder, kind=GPTNeoXForCausalLM, *, wide=True, **fields):
    return Published(folder, kind, GPTNeoXConfig(**{**SMALL, **fields}), wide=wide)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kind", [GPTNeoXModel, GPTNeoXForCausalLM])
@pytest.mark.parametrize("parallel", [False, True])
def test_a_gpt_neox_folder_gives_the_numbers_of_the_published_implementation(tmp_path, parallel, kind, wide):
    assert_speaks(save(tmp_path, kind, wide=wide, use_parallel_residual=parallel))


def test_attention_may_have_no_biases(tmp_path):
    assert_speaks(save(tmp_path, attention_bias=False))


def test_the_head_has_an_older_and_a_newer_name(tmp_path):
    theirs = save(tmp_path)
    names = load_file(tmp_path / "model.safetensors")
    old, new = "embed_out.", "lm_head."
    rename_tensors(tmp_path, *((old, new) if "embed_out.weight" in names else (new, old)))
    assert_speaks(theirs)


def test_a_tied_head_is_the_embedding(tmp_path):
    assert_speaks(save(tmp_path, tie_word_embeddings=True))


def test_missing_fields_are_the_published_defaults(tmp_path):
    theirs = save(tmp_path)
    edit_config(
        tmp_path,
        hidden_act=...,
        layer_norm_eps=...,
        use_parallel_residual=...,
        attention_bias=...,
        tie_word_embeddings=...,
        rope_parameters=...,
    )
    assert_speaks(theirs)


def test_epsilon_and_activation_are_read_from_the_config(tmp_path):
    assert_speaks(save(tmp_path, layer_norm_eps=0.5, hidden_act="gelu_new"))


def test_names_may_lack_their_prefix_and_old_buffers_are_left_out(tmp_path):
    theirs = save(tmp_path)
    rename_tensors(tmp_path, "gpt_neox.", "")
    for i in range(3):
        masks = {
            "bias": np.tril(np.ones((1, 1, 64, 64), bool)),
            "masked_bias": np.array(-1e9, np.float32),
            "rotary_emb.inv_freq": np.ones(1, np.float32),
        }
        add_tensors(tmp_path, {f"layers.{i}.attention.{name}": mask for name, mask in masks.items()})
    assert_speaks(theirs)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hidden_act": "mish"}, "hidden_act='mish'; this can be gelu"),
        ({"num_attention_heads": 5}, "heads must divide the width"),
        (
            {"attention_bias": False},
            r"does not explain: layers\.\d\.attention\.(dense|query_key_value)\.bias",
        ),
        ({"use_parallel_residual": 1}, "use_parallel_residual=1; it must be of type bool"),
        ({"is_causal": False}, "is_causal=False"),
        ({"rotary_pct": "all", "rope_parameters": ...}, "rotary_pct='all'; it must be of type float"),
    ],
)
def test_a_config_that_means_other_arithmetic_is_refused_by_name(tmp_path, fields, message):
    save(tmp_path)
    edit_config(tmp_path, **fields)
    with pytest.raises(FolderError, match=message):
        read(tmp_path)
