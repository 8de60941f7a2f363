"""Published BART folders: our reading, in NumPy, against the published implementation, in float64."""

import numpy as np
import pytest
from reference_folders import add_tensors, edit_config, rename_tensors
from safetensors.numpy import load_file, save_file
from transformers import BartConfig, BartForConditionalGeneration, BartForSequenceClassification, BartModel
from translator_folders import (
    VOCAB,
    Pair,
    assert_sees_its_source_and_nothing_ahead,
    assert_translates,
    pairs,
    translator,
)

from clearhead.errors import DataError, FolderError
from clearhead.reference import read

SMALL = {
    "vocab_size": VOCAB,
    "d_model": 12,
    "max_position_embeddings": 32,
    "encoder_layers": 3,
    "encoder_attention_heads": 3,
    "encoder_ffn_dim": 20,
    "decoder_layers": 2,
    "decoder_attention_heads": 2,
    "decoder_ffn_dim": 28,
}


def save(folder, kind=BartForConditionalGeneration, *, wide=True, **fields):
    return Pair(folder, kind, BartConfig(**{**SMALL, **fields}), wide=wide)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kind", [BartModel, BartForConditionalGeneration])
def test_a_bart_folder_gives_the_numbers_of_the_published_implementation(tmp_path, kind, wide):
    assert_translates(save(tmp_path, kind, wide=wide))


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu", "silu"])
@pytest.mark.parametrize("scaled", [False, True])
def test_activation_and_scale_are_read_from_the_config(tmp_path, activation, scaled):
    assert_translates(save(tmp_path, activation_function=activation, scale_embedding=scaled))


def test_missing_fields_are_the_published_defaults(tmp_path):
    theirs = save(tmp_path)
    names = (
        "activation_function",
        "scale_embedding",
        "tie_word_embeddings",
        "is_encoder_decoder",
        "is_decoder",
    )
    edit_config(tmp_path, **dict.fromkeys(names, ...))
    assert_translates(theirs)


def test_old_configs_have_more_fields_which_say_what_is_computed_anyway(tmp_path):
    theirs = save(tmp_path)
    edit_config(
        tmp_path,
        add_bias_logits=False,
        add_final_layer_norm=False,
        classif_dropout=0.0,
        extra_pos_embeddings=0,
        normalize_before=False,
        normalize_embedding=True,
        static_position_embeddings=False,
    )
    assert_translates(theirs)


def test_a_body_alone_has_the_head_that_its_embedding_is(tmp_path):
    save(tmp_path / "body", BartModel)
    save(tmp_path / "whole")
    tensors = load_file(tmp_path / "whole" / "model.safetensors")
    tensors.pop("final_logits_bias", None)
    body = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}
    save_file(body, tmp_path / "body" / "model.safetensors")
    ours = translator(tmp_path / "body")
    assert ours.bias is None
    source, target = pairs()[3]
    expected = translator(tmp_path / "whole").decode(ours.encode(source), target)
    logits = expected @ body["shared.weight"].T.astype(np.float64)
    np.testing.assert_allclose(ours.logits(source, target), logits, rtol=0, atol=1e-12)


def test_old_files_hold_the_table_several_times(tmp_path):
    theirs = save(tmp_path)
    shared = load_file(tmp_path / "model.safetensors")["model.shared.weight"]
    names = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
    version = {
        "model.encoder.version": np.ones(1, np.float32),
        "model.decoder.version": np.ones(1, np.float32),
    }
    add_tensors(tmp_path, {**dict.fromkeys(names, shared), **version})
    assert_translates(theirs)
    for name in names:
        add_tensors(tmp_path, {**dict.fromkeys(names, shared), name: shared + np.float32(1.0)})
        message = f"stores shared.weight and {name.removeprefix('model.')}.* differ"
        with pytest.raises(FolderError, match=message):
            read(tmp_path)


def test_a_target_sees_all_of_its_source_and_nothing_to_its_right(tmp_path):
    save(tmp_path)
    assert_sees_its_source_and_nothing_ahead(tmp_path)


def test_positions_end_in_the_source_and_in_the_target(tmp_path):
    save(tmp_path)
    ours = translator(tmp_path)
    for source, target in (([5] * 33, [5]), ([5], [5] * 33)):
        with pytest.raises(DataError, match="33 tokens is longer than the 32 learned positions"):
            ours.logits(source, target)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"normalize_before": True}, "normalize_before=True; only normalize_before=False"),
        ({"normalize_embedding": False}, "normalize_embedding=False"),
        ({"add_final_layer_norm": True}, "add_final_layer_norm=True"),
        ({"static_position_embeddings": True}, "static_position_embeddings=True"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings=False"),
        ({"is_decoder": True}, "is_decoder=True"),
        ({"is_encoder_decoder": False}, "is_encoder_decoder=False"),
        ({"activation_function": "mish"}, "activation_function='mish'; this can be gelu, gelu_new"),
        ({"encoder_attention_heads": 5}, "width 12 and 5 heads; heads must divide the width"),
        ({"decoder_attention_heads": 5}, "width 12 and 5 heads; heads must divide the width"),
        ({"d_model": ...}, "lacks the field 'd_model'"),
        ({"decoder_layers": ...}, "lacks the field 'decoder_layers'"),
        ({"decoder_ffn_dim": 20}, r"decoder\.layers\.0\.fc1\.weight is \(28, 12\), not \(20, 12\)"),
        ({"encoder_layers": 2}, r"does not explain: encoder\.layers\.2\."),
        ({"decoder_layers": 3}, r"lacks decoder\.layers\.2\."),
        ({"max_position_embeddings": 34}, r"embed_positions\.weight is \(34, 12\), not \(36, 12\)"),
        ({"vocab_size": 41}, r"shared\.weight is \(40, 12\), not \(41, 12\)"),
        ({"scale_embedding": None}, "scale_embedding=None; it must be of type bool"),
    ],
)
def test_a_config_that_means_other_arithmetic_is_refused_by_name(tmp_path, fields, message):
    save(tmp_path)
    edit_config(tmp_path, **fields)
    with pytest.raises(FolderError, match=message):
        read(tmp_path)


def test_wrong_names_are_refused_by_name(tmp_path):
    save(tmp_path)
    rename_tensors(tmp_path, "encoder_attn_layer_norm", "cross_norm")
    with pytest.raises(FolderError, match=r"lacks decoder\.layers\.0\.encoder_attn_layer_norm\.weight"):
        read(tmp_path)


def test_a_head_over_texts_is_refused_by_name(tmp_path):
    save(tmp_path, BartForSequenceClassification)
    with pytest.raises(FolderError, match=r"does not explain: classification_head\.dense\."):
        read(tmp_path)
