"""Published Marian folders: our reading, in NumPy, against the published implementation, in float64."""

import numpy as np
import pytest
from reference_folders import add_tensors, edit_config
from safetensors.numpy import load_file
from transformers import MarianConfig, MarianModel, MarianMTModel
from translator_folders import (
    VOCAB,
    Pair,
    assert_sees_its_source_and_nothing_ahead,
    assert_translates,
    translator,
)

from clearhead.errors import FolderError
from clearhead.reference import read, sinusoidal_positions

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
    "pad_token_id": VOCAB - 1,
    "decoder_start_token_id": VOCAB - 1,
    "activation_function": "swish",
    "scale_embedding": True,
}
TWO = {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 30, "pad_token_id": 29}


def save(folder, kind=MarianMTModel, *, wide=True, **fields):
    return Pair(folder, kind, MarianConfig(**{**SMALL, **fields}), wide=wide)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kind", [MarianModel, MarianMTModel])
def test_a_marian_folder_gives_the_numbers_of_the_published_implementation(tmp_path, kind, wide):
    assert_translates(save(tmp_path, kind, wide=wide))


@pytest.mark.parametrize("wide", [False, True])
def test_source_and_target_may_have_words_of_their_own(tmp_path, wide):
    theirs = save(tmp_path, wide=wide, **TWO)
    assert "model.shared.weight" not in load_file(tmp_path / "model.safetensors")
    assert_translates(theirs, target_vocab=30)
    head = load_file(tmp_path / "model.safetensors")["model.decoder.embed_tokens.weight"]
    add_tensors(tmp_path, {"lm_head.weight": head})
    assert_translates(theirs, target_vocab=30)
    add_tensors(tmp_path, {"lm_head.weight": head + np.float32(1.0)})
    with pytest.raises(FolderError, match=r"stores decoder\.embed_tokens\.weight and lm_head\.weight"):
        read(tmp_path)


def test_without_a_number_of_its_own_the_target_has_as_many_words_as_the_source(tmp_path):
    theirs = save(tmp_path, share_encoder_decoder_embeddings=False)
    edit_config(tmp_path, decoder_vocab_size=None)
    assert_translates(theirs)


@pytest.mark.parametrize("activation", ["gelu", "relu", "silu"])
@pytest.mark.parametrize("scaled", [False, True])
def test_activation_and_scale_are_read_from_the_config(tmp_path, activation, scaled):
    assert_translates(save(tmp_path, activation_function=activation, scale_embedding=scaled))


def test_an_odd_width_has_one_sine_more(tmp_path):
    assert_translates(
        save(tmp_path, d_model=15, encoder_attention_heads=3, decoder_attention_heads=5, encoder_layers=1)
    )


def test_missing_fields_are_the_published_defaults(tmp_path):
    theirs = save(tmp_path, activation_function="gelu", scale_embedding=False)
    names = (
        "activation_function",
        "scale_embedding",
        "tie_word_embeddings",
        "share_encoder_decoder_embeddings",
        "decoder_vocab_size",
        "is_encoder_decoder",
        "is_decoder",
    )
    edit_config(tmp_path, **dict.fromkeys(names, ...))
    assert_translates(theirs)


def test_old_folders_hold_everything_several_times_and_the_fixed_positions(tmp_path):
    theirs = save(tmp_path)
    edit_config(
        tmp_path,
        add_bias_logits=False,
        add_final_layer_norm=False,
        normalize_before=False,
        normalize_embedding=False,
        num_hidden_layers=3,
        static_position_embeddings=True,
    )
    shared = load_file(tmp_path / "model.safetensors")["model.shared.weight"]
    tables = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
    fixed = sinusoidal_positions(32, 12, halves=True).astype(np.float16)
    places = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
    add_tensors(tmp_path, {**dict.fromkeys(tables, shared), **dict.fromkeys(places, fixed)})
    assert_translates(theirs)
    add_tensors(tmp_path, {places[1]: sinusoidal_positions(32, 12).astype(np.float16)})
    with pytest.raises(FolderError, match=r"stores decoder\.embed_positions\.weight with other numbers"):
        read(tmp_path)


def test_without_a_bias_of_the_head_it_is_zero(tmp_path):
    save(tmp_path, MarianModel)
    assert translator(tmp_path).bias is None


def test_positions_have_no_end(tmp_path):
    save(tmp_path)
    assert translator(tmp_path).logits([5] * 40, [6] * 35).shape == (35, VOCAB)


def test_a_target_sees_all_of_its_source_and_nothing_to_its_right(tmp_path):
    save(tmp_path)
    assert_sees_its_source_and_nothing_ahead(tmp_path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"normalize_before": True}, "normalize_before=True; only normalize_before=False"),
        ({"normalize_embedding": True}, "normalize_embedding=True"),
        ({"add_final_layer_norm": True}, "add_final_layer_norm=True"),
        ({"static_position_embeddings": False}, "static_position_embeddings=False"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings=False"),
        ({"is_decoder": True}, "is_decoder=True"),
        ({"is_encoder_decoder": False}, "is_encoder_decoder=False"),
        ({"activation_function": "mish"}, "activation_function='mish'; this can be gelu, gelu_new"),
        ({"decoder_attention_heads": 5}, "width 12 and 5 heads; heads must divide the width"),
        ({"d_model": ...}, "lacks the field 'd_model'"),
        ({"encoder_ffn_dim": 28}, r"encoder\.layers\.0\.fc1\.weight is \(20, 12\), not \(28, 12\)"),
        ({"encoder_layers": 2}, r"does not explain: encoder\.layers\.2\."),
        ({"decoder_layers": 3}, r"lacks decoder\.layers\.2\."),
        ({"decoder_vocab_size": 30}, "decoder_vocab_size=30; only decoder_vocab_size=40"),
        ({"share_encoder_decoder_embeddings": False}, r"lacks encoder\.embed_tokens\.weight"),
        ({"vocab_size": 41, "decoder_vocab_size": 41}, r"shared\.weight is \(40, 12\), not \(41, 12\)"),
    ],
)
def test_a_config_that_means_other_arithmetic_is_refused_by_name(tmp_path, fields, message):
    save(tmp_path)
    edit_config(tmp_path, **fields)
    with pytest.raises(FolderError, match=message):
        read(tmp_path)
