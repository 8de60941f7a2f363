"""Published ModernBERT folders: our reading, in NumPy, against the published implementation, in float64."""

import numpy as np
import pytest
import torch
from reference_folders import VOCAB, Published, assert_agrees, close, edit_config, texts
from transformers import (
    ModernBertConfig,
    ModernBertForMaskedLM,
    ModernBertForSequenceClassification,
    ModernBertModel,
)

from clearhead.errors import FolderError
from clearhead.reference import read

# Blocks 0 and 3 see the whole text, blocks 1 and 2 four tokens to either side.
SMALL = {
    "vocab_size": VOCAB,
    "hidden_size": 12,
    "num_hidden_layers": 4,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 64,
    "local_attention": 8,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "cls_token_id": 1,
    "sep_token_id": 2,
    "num_labels": 3,
}


def save(folder, kind=ModernBertForSequenceClassification, *, wide=True, **fields):
    return Published(folder, kind, ModernBertConfig(**{**SMALL, **fields}), wide=wide)


def test_without_float64_the_published_code_is_further_away_than_a_small_mistake_may_be(tmp_path):
    theirs = save(tmp_path)
    ids = texts()[-1]
    expected = theirs.says(ids)[1]
    rounded = ModernBertForSequenceClassification.from_pretrained(tmp_path, attn_implementation="eager")
    with torch.no_grad():
        unpatched = rounded.double().eval()(torch.tensor([ids])).logits[0].numpy()
    assert 1e-10 < np.abs(unpatched - expected).max() < 1e-4
    assert np.abs(read(tmp_path).logits(ids) - expected).max() < 1e-10


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_a_modernbert_folder_gives_the_numbers_of_the_published_implementation(tmp_path, pooling, wide):
    assert_agrees(save(tmp_path, wide=wide, classifier_pooling=pooling))


def test_a_body_without_head_has_hidden_vectors_only(tmp_path):
    assert_agrees(save(tmp_path, ModernBertModel))
    with pytest.raises(FolderError, match="no pooler and no head"):
        read(tmp_path).pooled([5])


def test_biases_are_read_where_the_config_says_that_there_are_some(tmp_path):
    biases = ("attention_bias", "mlp_bias", "norm_bias", "classifier_bias")
    assert_agrees(save(tmp_path, **dict.fromkeys(biases, True)))
    for name in biases:
        edit_config(tmp_path, **{**dict.fromkeys(biases, True), name: False})
        with pytest.raises(FolderError, match="does not explain"):
            read(tmp_path)


def test_the_head_and_the_blocks_may_have_different_activations(tmp_path):
    assert_agrees(save(tmp_path, hidden_activation="gelu_pytorch_tanh", classifier_activation="relu"))
    assert_agrees(save(tmp_path, hidden_activation="silu", classifier_activation="silu"))


def test_layers_may_be_listed_one_by_one(tmp_path):
    kinds = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
    assert_agrees(save(tmp_path, layer_types=kinds))


def test_an_odd_width_of_the_window_is_rounded_down_to_each_side(tmp_path):
    assert_agrees(save(tmp_path, local_attention=9))


def test_bases_are_read_as_version_5_writes_them(tmp_path):
    bases = {
        "full_attention": {"rope_type": "default", "rope_theta": 777.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 33.0},
    }
    assert_agrees(save(tmp_path, rope_parameters=bases))


def age(folder, **fields):
    """What version 4 of the published code wrote instead."""
    old = {"global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0}
    edit_config(folder, layer_types=..., rope_parameters=..., **{**old, **fields})


def test_windows_and_bases_are_read_as_version_4_wrote_them(tmp_path):
    theirs = save(
        tmp_path,
        global_attn_every_n_layers=2,
        global_rope_theta=500.0,
        local_rope_theta=20.0,
        norm_eps=1e-3,
    )
    age(tmp_path, global_attn_every_n_layers=2, global_rope_theta=500, local_rope_theta=20.0)
    assert_agrees(theirs)


def test_missing_fields_are_the_published_defaults_and_a_null_local_base_is_the_global_one(tmp_path):
    theirs = save(tmp_path)
    defaults = (
        "global_attn_every_n_layers",
        "global_rope_theta",
        "local_rope_theta",
        "norm_eps",
        "norm_bias",
    )
    age(tmp_path, **dict.fromkeys(defaults, ...))
    assert_agrees(theirs)
    age(tmp_path, global_rope_theta=500.0, local_rope_theta=None)
    null = read(tmp_path).logits([7, 8, 9])
    age(tmp_path, global_rope_theta=500.0, local_rope_theta=500.0)
    np.testing.assert_array_equal(null, read(tmp_path).logits([7, 8, 9]))


def test_a_language_model_ends_at_the_layer_that_a_classifier_begins_with(tmp_path):
    theirs = save(tmp_path, ModernBertForMaskedLM)
    ours = read(tmp_path)
    for ids in texts():
        hidden = theirs.says(ids)[0]
        close(ours.hidden(ids), hidden)
        with torch.no_grad():
            first = theirs.model.head(torch.from_numpy(hidden[:1]))[0].numpy()
        close(ours.pooled(ids), first)
    with pytest.raises(FolderError, match="no classification head"):
        ours.logits([5])


def test_a_token_outside_all_windows_cannot_be_seen(tmp_path):
    save(tmp_path, ModernBertModel, layer_types=["sliding_attention"] * 4)
    ours = read(tmp_path)
    ids = [5] * 32
    changed = [6, *ids[1:]]
    gap = np.abs(ours.hidden(ids) - ours.hidden(changed)).max(axis=1)
    # Four blocks of four tokens each carry news over 16 places.
    assert gap[:17].min() > 0
    assert gap[17:].max() == 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hidden_activation": "mish"}, "hidden_activation='mish'; this can be gelu"),
        ({"classifier_pooling": "max"}, "classifier_pooling='max'; this can be cls, mean"),
        ({"layer_types": ["full_attention"]}, "a list of 4 words"),
        ({"layer_types": ["chunked"] * 4}, "layer_types='chunked'; this can be full_attention, sliding"),
        ({"layer_types": ..., "global_attn_every_n_layers": 0}, "global_attn_every_n_layers=0"),
        ({"rope_scaling": {"type": "linear", "factor": 2}}, "rope_scaling="),
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "rope_type='yarn'; only 'default'"),
        ({"rope_parameters": {"rope_theta": 9.0}}, "full_attention"),
        ({"num_attention_heads": 4}, "heads of width 3 cannot be turned in pairs"),
        ({"norm_eps": "small"}, "norm_eps='small'; it must be of type float"),
    ],
)
def test_a_config_that_means_other_arithmetic_is_refused_by_name(tmp_path, fields, message):
    save(tmp_path)
    edit_config(tmp_path, **fields)
    with pytest.raises(FolderError, match=message):
        read(tmp_path)
