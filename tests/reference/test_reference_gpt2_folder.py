"""Published GPT-2 folders: our reading, in NumPy, against the published implementation, in float64."""

import numpy as np
import pytest
from reference_folders import (
    VOCAB,
    Published,
    add_tensors,
    assert_speaks,
    edit_config,
    rename_tensors,
    texts,
)
from safetensors.numpy import load_file
from transformers import GPT2Config, GPT2LMHeadModel, GPT2Model

from clearhead.errors import DataError, FolderError
from clearhead.reference import read

SMALL = {"vocab_size": VOCAB, "n_embd": 12, "n_layer": 3, "n_head": 3, "n_inner": 20, "n_positions": 32}


def save(folder, kind=GPT2LMHeadModel, *, wide=True, **fields):
    return Published(folder, kind, GPT2Config(**{**SMALL, **fields}), wide=wide)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kind", [GPT2Model, GPT2LMHeadModel])
def test_a_gpt2_folder_gives_the_numbers_of_the_published_implementation(tmp_path, kind, wide):
    assert_speaks(save(tmp_path, kind, wide=wide))


@pytest.mark.parametrize("activation", ["gelu", "gelu_pytorch_tanh", "relu", "silu"])
def test_activation_and_epsilon_are_read_from_the_config(tmp_path, activation):
    assert_speaks(save(tmp_path, activation_function=activation, layer_norm_epsilon=0.3))


def test_missing_fields_are_the_published_defaults(tmp_path):
    theirs = save(tmp_path, n_inner=None)
    edit_config(
        tmp_path,
        n_inner=...,
        activation_function=...,
        layer_norm_epsilon=...,
        scale_attn_weights=...,
        scale_attn_by_inverse_layer_idx=...,
        add_cross_attention=...,
        tie_word_embeddings=...,
    )
    assert_speaks(theirs)


def test_old_folders_have_no_prefix_and_the_masks_of_attention(tmp_path):
    theirs = save(tmp_path)
    rename_tensors(tmp_path, "transformer.", "")
    for i in range(3):
        masks = {"bias": np.tril(np.ones((1, 1, 32, 32), np.uint8)), "masked_bias": np.float32(-1e4)}
        add_tensors(tmp_path, {f"h.{i}.attn.{name}": np.asarray(mask) for name, mask in masks.items()})
    assert_speaks(theirs)


def test_a_tied_matrix_may_be_stored_twice_if_both_are_equal(tmp_path):
    theirs = save(tmp_path)
    assert "lm_head.weight" not in load_file(tmp_path / "model.safetensors")
    embedding = load_file(tmp_path / "model.safetensors")["transformer.wte.weight"]
    add_tensors(tmp_path, {"lm_head.weight": embedding})
    assert_speaks(theirs)
    add_tensors(tmp_path, {"lm_head.weight": embedding + np.float32(1.0)})
    with pytest.raises(
        FolderError, match="tie_word_embeddings=true, but stores a language head that differs"
    ):
        read(tmp_path)


def test_a_head_of_its_own_is_read_and_must_be_there(tmp_path):
    assert_speaks(save(tmp_path / "head", tie_word_embeddings=False))
    save(tmp_path / "none")
    edit_config(tmp_path / "none", tie_word_embeddings=False)
    with pytest.raises(FolderError, match=r"lacks lm_head\.weight"):
        read(tmp_path / "none")


def test_a_body_without_a_head_of_its_own_has_hidden_vectors_only(tmp_path):
    theirs = save(tmp_path, GPT2Model, tie_word_embeddings=False)
    assert_speaks(theirs)
    for answer in (read(tmp_path).language_logits, read(tmp_path).next_logits):
        with pytest.raises(FolderError, match="no language head"):
            answer([5])
    with pytest.raises(FolderError, match=r"only hidden\(\) is defined"):
        read(tmp_path).pooled([5])


def test_a_token_sees_nothing_to_its_right(tmp_path):
    save(tmp_path)
    ours = read(tmp_path)
    ids = texts()[-1]
    for cut in (1, 7, 31):
        np.testing.assert_allclose(ours.hidden(ids)[:cut], ours.hidden(ids[:cut]), rtol=0, atol=1e-12)
    changed = [*ids[:-1], (ids[-1] + 1) % VOCAB]
    np.testing.assert_array_equal(ours.hidden(ids)[:-1], ours.hidden(changed)[:-1])


def test_positions_end(tmp_path):
    save(tmp_path)
    with pytest.raises(DataError, match="33 tokens is longer than the 32 learned positions"):
        read(tmp_path).next_logits([5] * 33)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"scale_attn_weights": False}, "scale_attn_weights=False; only scale_attn_weights=True"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx=True"),
        ({"add_cross_attention": True}, "add_cross_attention=True"),
        ({"is_causal": False}, "is_causal=False"),
        ({"activation_function": "mish"}, "activation_function='mish'; this can be gelu, gelu_new"),
        ({"n_head": 5}, "width 12 and 5 heads; heads must divide the width"),
        ({"n_embd": ...}, "lacks the field 'n_embd'"),
        ({"n_inner": 24}, r"c_fc\.weight is \(12, 20\), not \(12, 24\)"),
        ({"n_layer": 2}, r"does not explain: h\.2\."),
        ({"n_layer": 4}, r"lacks h\.3\."),
        ({"tie_word_embeddings": None}, "tie_word_embeddings=None; it must be of type bool"),
    ],
)
def test_a_config_that_means_other_arithmetic_is_refused_by_name(tmp_path, fields, message):
    save(tmp_path)
    edit_config(tmp_path, **fields)
    with pytest.raises(FolderError, match=message):
        read(tmp_path)
