"""Published Mistral, Qwen 2 and Qwen 3 folders: our reading against the published code, in float64."""

import numpy as np
import pytest
from reference_folders import VOCAB, Published, assert_speaks, edit_config, rename_tensors, texts
from transformers import (
    MistralConfig,
    MistralForCausalLM,
    MistralModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2Model,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3Model,
)

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
CONFIGS = {
    MistralForCausalLM: MistralConfig,
    MistralModel: MistralConfig,
    Qwen2ForCausalLM: Qwen2Config,
    Qwen2Model: Qwen2Config,
    Qwen3ForCausalLM: Qwen3Config,
    Qwen3Model: Qwen3Config,
}
SPEAKING = [MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM]


def save(folder, kind, *, wide=True, **fields):
    sizes = {**SMALL, "head_dim": 10} if CONFIGS[kind] is Qwen3Config else SMALL
    return Published(folder, kind, CONFIGS[kind](**{**sizes, **fields}), wide=wide)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kind", CONFIGS)
def test_a_folder_gives_the_numbers_of_the_published_implementation(tmp_path, kind, wide):
    assert_speaks(save(tmp_path, kind, wide=wide))


@pytest.mark.parametrize("kind", SPEAKING)
def test_tied_heads_missing_prefixes_and_wider_heads_are_as_in_llama(tmp_path, kind):
    theirs = save(tmp_path, kind, tie_word_embeddings=True, head_dim=8)
    assert_speaks(theirs)
    rename_tensors(tmp_path, "model.", "")
    assert_speaks(theirs)


@pytest.mark.parametrize("kind", SPEAKING)
def test_rotary_positions_are_read_in_both_spellings(tmp_path, kind):
    theirs = save(tmp_path, kind, rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 99.0})
    assert_speaks(theirs)
    edit_config(
        tmp_path, rope_parameters=..., rope_theta=99.0, rope_scaling={"type": "linear", "factor": 2.0}
    )
    assert_speaks(theirs)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (MistralForCausalLM, {"num_attention_heads": 8, "num_key_value_heads": 8, "hidden_size": 16}),
        (Qwen2ForCausalLM, {"num_attention_heads": 32, "num_key_value_heads": 32, "hidden_size": 64}),
        (
            Qwen3ForCausalLM,
            {"num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128, "hidden_size": 16},
        ),
    ],
)
def test_missing_fields_are_the_published_defaults(tmp_path, kind, fields):
    theirs = save(tmp_path, kind, num_hidden_layers=1, **fields)
    edit_config(
        tmp_path,
        num_key_value_heads=...,
        head_dim=...,
        hidden_act=...,
        rms_norm_eps=...,
        tie_word_embeddings=...,
        rope_parameters=...,
        attention_bias=...,
        use_sliding_window=...,
        sliding_window=...,
        layer_types=...,
    )
    assert_speaks(theirs)


@pytest.mark.parametrize("window", [1, 2, 5, 31, 32, None])
def test_a_token_of_mistral_sees_as_many_tokens_as_the_window_with_itself(tmp_path, window):
    assert_speaks(save(tmp_path, MistralForCausalLM, sliding_window=window))


def test_a_token_before_all_windows_cannot_be_seen(tmp_path):
    save(tmp_path, MistralModel, sliding_window=5)
    ours = read(tmp_path)
    ids = [5] * 32
    gap = np.abs(ours.hidden(ids) - ours.hidden([6, *ids[1:]])).max(axis=1)
    # Three blocks of four more tokens each carry news over 12 places.
    assert gap[:13].min() > 0
    assert gap[13:].max() == 0


def test_all_of_attention_may_have_biases_in_qwen3(tmp_path):
    assert_speaks(save(tmp_path, Qwen3ForCausalLM, attention_bias=True))


def test_the_norms_of_queries_and_keys_use_the_epsilon_of_the_others(tmp_path):
    assert_speaks(save(tmp_path, Qwen3ForCausalLM, rms_norm_eps=0.5))


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (MistralModel, {"sliding_window": 0}, "sliding_window=0; it must be null or at least 1"),
        (MistralModel, {"sliding_window": 4.0}, "sliding_window=4.0; it must be of type int"),
        (MistralModel, {"layer_types": ["full_attention"] * 3}, "only 'sliding_attention' for each of the 3"),
        (Qwen2Model, {"use_sliding_window": True}, "use_sliding_window=True; only use_sliding_window=False"),
        (Qwen3Model, {"use_sliding_window": True}, "use_sliding_window=True"),
        (Qwen2Model, {"layer_types": ["sliding_attention"] * 3}, "only 'full_attention' for each of the 3"),
        (Qwen3Model, {"layer_types": ["full_attention"] * 2}, "only 'full_attention' for each of the 3"),
        (Qwen3Model, {"head_dim": None}, "head_dim=None; it must be of type int"),
        (Qwen3Model, {"attention_bias": True}, r"lacks layers\.0\.self_attn\.q_proj\.bias"),
        (Qwen2Model, {"num_key_value_heads": 3}, "4 heads and 3 of keys and values"),
    ],
)
def test_a_config_that_means_other_arithmetic_is_refused_by_name(tmp_path, kind, fields, message):
    save(tmp_path, kind)
    edit_config(tmp_path, **fields)
    with pytest.raises(FolderError, match=message):
        read(tmp_path)


def test_a_shorter_text_is_the_start_of_a_longer_one(tmp_path):
    for kind in (MistralModel, Qwen2Model, Qwen3Model):
        save(tmp_path / kind.__name__, kind)
        ours = read(tmp_path / kind.__name__)
        ids = texts()[-1]
        np.testing.assert_allclose(ours.hidden(ids)[:9], ours.hidden(ids[:9]), rtol=0, atol=1e-12)
