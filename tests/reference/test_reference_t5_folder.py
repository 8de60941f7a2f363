"""Published T5 folders: our reading, in NumPy, against the published implementation, in float64."""

import numpy as np
import pytest
import torch
from reference_folders import add_tensors, edit_config
from safetensors.numpy import load_file, save_file
from transformers import T5Config, T5EncoderModel, T5ForConditionalGeneration, T5Model
from translator_folders import (
    VOCAB,
    Pair,
    assert_sees_its_source_and_nothing_ahead,
    assert_translates,
    translator,
)

from clearhead.errors import DataError, FolderError
from clearhead.reference import read

SMALL = {
    "vocab_size": VOCAB,
    "d_model": 12,
    "d_kv": 5,
    "d_ff": 20,
    "num_layers": 3,
    "num_decoder_layers": 2,
    "num_heads": 3,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 20,
    "decoder_start_token_id": 0,
}
NEWER = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
STRAY = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"


def save(folder, kind=T5ForConditionalGeneration, *, wide=True, **fields):
    return Pair(folder, kind, T5Config(**{**SMALL, **fields}), wide=wide)


def own_head(folder, **fields):
    """As version 1.1 was published: a head of its own, and the fields of that time."""
    theirs = save(folder, **{**NEWER, **fields})
    head = np.random.default_rng(2).normal(0.0, 0.3, (VOCAB, 12)).astype(np.float32)
    add_tensors(folder, {"lm_head.weight": head})
    edit_config(folder, tie_word_embeddings=False, scale_decoder_outputs=...)
    theirs.model.lm_head.weight = torch.nn.Parameter(torch.from_numpy(head.astype(np.float64)))
    return theirs


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kind", [T5Model, T5ForConditionalGeneration])
def test_a_t5_folder_gives_the_numbers_of_the_published_implementation(tmp_path, kind, wide):
    assert_translates(save(tmp_path, kind, wide=wide))


@pytest.mark.parametrize("projection", ["relu", "gelu", "gated-gelu", "gated-silu", "gated-relu", "silu"])
def test_the_feed_forward_network_is_the_one_that_is_named(tmp_path, projection):
    assert_translates(save(tmp_path, feed_forward_proj=projection, layer_norm_epsilon=0.3))


def test_version_1_1_has_a_gate_and_a_head_of_its_own_which_is_not_scaled(tmp_path):
    theirs = own_head(tmp_path)
    assert_translates(theirs)
    assert translator(tmp_path).scale == 1.0
    # As newer versions save it.
    edit_config(tmp_path, tie_word_embeddings=True, scale_decoder_outputs=False)
    assert_translates(theirs)


def test_a_shared_table_without_scale_is_what_newer_versions_save(tmp_path):
    theirs = save(tmp_path, **NEWER)
    assert "lm_head.weight" not in load_file(tmp_path / "model.safetensors")
    assert_translates(theirs)
    edit_config(tmp_path, tie_word_embeddings=False, scale_decoder_outputs=...)
    with pytest.raises(FolderError, match=r"lacks lm_head\.weight"):
        read(tmp_path)


def test_missing_fields_are_the_published_defaults(tmp_path):
    theirs = save(
        tmp_path,
        num_decoder_layers=None,
        relative_attention_num_buckets=32,
        relative_attention_max_distance=128,
    )
    names = [
        "num_decoder_layers",
        "relative_attention_num_buckets",
        "relative_attention_max_distance",
        "layer_norm_epsilon",
        "feed_forward_proj",
        "is_gated_act",
        "dense_act_fn",
        "tie_word_embeddings",
        "scale_decoder_outputs",
        "is_encoder_decoder",
    ]
    edit_config(tmp_path, **dict.fromkeys(names, ...))
    assert_translates(theirs)


def test_old_files_hold_the_table_several_times_and_a_stray_one(tmp_path):
    theirs = save(tmp_path)
    shared = load_file(tmp_path / "model.safetensors")["shared.weight"]
    names = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
    add_tensors(tmp_path, {**dict.fromkeys(names, shared), STRAY: np.ones((8, 3), np.float32)})
    assert_translates(theirs)
    for name in names:
        add_tensors(tmp_path, {**dict.fromkeys(names, shared), name: shared + np.float32(1.0)})
        with pytest.raises(FolderError, match=f"stores shared.weight and {name}.* differ; keep the one"):
            read(tmp_path)


def test_the_table_may_lie_under_its_second_name_alone(tmp_path):
    theirs = save(tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    tensors["decoder.embed_tokens.weight"] = tensors.pop("shared.weight")
    save_file(tensors, file)
    assert_translates(theirs)
    save_file({name: value for name, value in tensors.items() if "embed_tokens" not in name}, file)
    with pytest.raises(FolderError, match=r"lacks shared\.weight"):
        read(tmp_path)


def test_a_target_sees_all_of_its_source_and_nothing_to_its_right(tmp_path):
    save(tmp_path)
    assert_sees_its_source_and_nothing_ahead(tmp_path)


def test_texts_without_tokens_and_ids_outside_the_vocabulary_are_refused(tmp_path):
    save(tmp_path)
    ours = translator(tmp_path)
    with pytest.raises(DataError, match="at least one token"):
        ours.encode([])
    with pytest.raises(DataError, match="at least one token"):
        ours.logits([1], [])
    with pytest.raises(DataError, match="a source without tokens"):
        ours.decode(np.zeros((0, 12)), [1])
    with pytest.raises(DataError, match="token id 40 is outside the model's 40"):
        ours.logits([1], [VOCAB])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"feed_forward_proj": "gated-mish"}, "feed_forward_proj='gated-mish'; this can be gelu, gelu_new"),
        ({"is_gated_act": True}, "is_gated_act=True; only is_gated_act=False"),
        ({"dense_act_fn": "gelu"}, "dense_act_fn='gelu'; only dense_act_fn='relu'"),
        ({"is_decoder": True}, "is_decoder=True"),
        ({"is_encoder_decoder": False}, "is_encoder_decoder=False"),
        ({"d_model": ...}, "lacks the field 'd_model'"),
        ({"d_kv": 4}, r"SelfAttention\.q\.weight is \(15, 12\), not \(12, 12\)"),
        ({"d_ff": 24}, r"wi\.weight is \(20, 12\), not \(24, 12\)"),
        ({"num_layers": 2}, r"does not explain: encoder\.block\.2\."),
        ({"num_decoder_layers": 3}, r"lacks decoder\.block\.2\."),
        ({"relative_attention_num_buckets": 16}, r"is \(8, 3\), not \(16, 3\)"),
        ({"relative_attention_num_buckets": 3}, "3 buckets .* at least 4 buckets"),
        ({"relative_attention_max_distance": 4}, "distances up to 4 .* a distance above 4"),
        ({"tie_word_embeddings": None}, "tie_word_embeddings=None; it must be of type bool"),
        ({"feed_forward_proj": "gated-gelu", "is_gated_act": ..., "dense_act_fn": ...}, r"lacks .*wi_0"),
    ],
)
def test_a_config_that_means_other_arithmetic_is_refused_by_name(tmp_path, fields, message):
    save(tmp_path)
    edit_config(tmp_path, **fields)
    with pytest.raises(FolderError, match=message):
        read(tmp_path)


def test_an_encoder_alone_is_refused(tmp_path):
    T5EncoderModel(T5Config(**SMALL)).save_pretrained(tmp_path)
    with pytest.raises(FolderError, match="is_encoder_decoder=False"):
        read(tmp_path)
