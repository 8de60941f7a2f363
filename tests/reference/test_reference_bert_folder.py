"""Published BERT folders: our reading, in NumPy, against the published implementation, in float64."""

import json

import numpy as np
import pytest
import torch
import transformers
from safetensors.numpy import load_file, save_file

from clearhead.errors import DataError, FolderError
from clearhead.reference import read

IDS = [2, 17, 5, 5, 31, 8, 3]
SEGMENTS = [0, 0, 0, 0, 1, 1, 1]
SMALL = {
    "vocab_size": 40,
    "hidden_size": 12,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 20,
    "max_position_embeddings": 16,
    "num_labels": 3,
}


def save_bert(folder, kind=transformers.BertForSequenceClassification, *, wide=True, **fields):
    """A tiny random model, saved in float32; returned in float64, loaded from the same folder."""
    torch.manual_seed(0)
    model = kind(transformers.BertConfig(**{**SMALL, **fields}))
    if wide:
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.normal_(mean=float(name.endswith("LayerNorm.weight")), std=0.3)
    model.save_pretrained(folder)
    return kind.from_pretrained(folder, attn_implementation="eager").double().eval()


def edit_config(folder, **fields):
    file = folder / "config.json"
    config = {**json.loads(file.read_text()), **fields}
    file.write_text(json.dumps({name: value for name, value in config.items() if value is not ...}))


def edit_tensors(folder, change):
    file = folder / "model.safetensors"
    tensors = load_file(file)
    save_file(change(tensors), file)


def published(model, ids=IDS, segments=SEGMENTS):
    """Hidden vectors, pooled vector and logits by the published implementation."""
    encoder = getattr(model, "bert", model)
    inputs = {"input_ids": torch.tensor([ids]), "token_type_ids": torch.tensor([segments])}
    with torch.no_grad():
        inside = encoder(**inputs)
        logits = model(**inputs).logits[0].numpy() if hasattr(model, "classifier") else None
    pooled = None if inside.pooler_output is None else inside.pooler_output[0].numpy()
    return inside.last_hidden_state[0].numpy(), pooled, logits


def assert_close(found, expected):
    assert found.dtype == expected.dtype == np.float64
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "swish"])
def test_a_bert_folder_gives_the_numbers_of_the_published_implementation(tmp_path, activation, wide):
    model = save_bert(tmp_path, wide=wide, hidden_act=activation)
    hidden, pooled, logits = published(model)
    ours = read(tmp_path)
    assert_close(ours.hidden(IDS, SEGMENTS), hidden)
    assert_close(ours.pooled(IDS, SEGMENTS), pooled)
    assert_close(ours.logits(IDS, SEGMENTS), logits)


def test_epsilon_is_read_from_the_config(tmp_path):
    model = save_bert(tmp_path, layer_norm_eps=0.5)
    assert_close(read(tmp_path).logits(IDS, SEGMENTS), published(model)[2])


def test_a_config_without_epsilon_and_activation_means_the_published_defaults(tmp_path):
    model = save_bert(tmp_path)
    edit_config(tmp_path, layer_norm_eps=..., hidden_act=...)
    assert_close(read(tmp_path).logits(IDS, SEGMENTS), published(model)[2])


def test_epsilon_may_be_a_whole_number_and_the_config_may_begin_with_a_byte_order_mark(tmp_path):
    model = save_bert(tmp_path, layer_norm_eps=1.0)
    edit_config(tmp_path, layer_norm_eps=1)
    file = tmp_path / "config.json"
    file.write_text(file.read_text(), encoding="utf-8-sig")
    assert_close(read(tmp_path).logits(IDS, SEGMENTS), published(model)[2])


def test_no_segments_means_segment_zero(tmp_path):
    model = save_bert(tmp_path)
    assert_close(read(tmp_path).logits(np.array(IDS)), published(model, segments=[0] * len(IDS))[2])


def test_every_length_up_to_the_learned_positions_agrees(tmp_path):
    model = save_bert(tmp_path)
    ours = read(tmp_path)
    for length in range(1, 17):
        ids = [(7 * i) % 40 for i in range(length)]
        assert_close(ours.hidden(ids), published(model, ids, [0] * length)[0])


def test_a_folder_without_prefix_and_head_has_hidden_and_pooled_and_no_logits(tmp_path):
    model = save_bert(tmp_path, transformers.BertModel)
    assert not any(name.startswith("bert.") for name in load_file(tmp_path / "model.safetensors"))
    hidden, pooled, _ = published(model)
    ours = read(tmp_path)
    assert_close(ours.hidden(IDS, SEGMENTS), hidden)
    assert_close(ours.pooled(IDS, SEGMENTS), pooled)
    with pytest.raises(FolderError, match="no classification head"):
        ours.logits(IDS)


def test_the_old_names_of_a_norm_and_the_old_position_table_are_read(tmp_path):
    model = save_bert(tmp_path)

    def age(tensors):
        old = {
            name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
                "LayerNorm.bias", "LayerNorm.beta"
            ): value
            for name, value in tensors.items()
        }
        return {**old, "bert.embeddings.position_ids": np.arange(16)[None]}

    edit_tensors(tmp_path, age)
    assert_close(read(tmp_path).logits(IDS, SEGMENTS), published(model)[2])


def test_a_pretraining_folder_is_read_without_its_heads_over_tokens(tmp_path):
    model = save_bert(tmp_path, transformers.BertForPreTraining)
    assert any(name.startswith("cls.") for name in load_file(tmp_path / "model.safetensors"))
    hidden, pooled, _ = published(model)
    ours = read(tmp_path)
    assert_close(ours.hidden(IDS, SEGMENTS), hidden)
    assert_close(ours.pooled(IDS, SEGMENTS), pooled)


def test_the_classifier_of_a_tagger_reads_each_token_and_old_poolers_are_left_out(tmp_path):
    model = save_bert(tmp_path, transformers.BertForTokenClassification)
    pooler = {"bert.pooler.dense.weight": np.eye(12), "bert.pooler.dense.bias": np.zeros(12)}
    edit_tensors(tmp_path, lambda tensors: {**tensors, **pooler})
    ours = read(tmp_path)
    assert_close(ours.hidden(IDS, SEGMENTS), published_hidden(model))
    with torch.no_grad():
        inputs = {"input_ids": torch.tensor([IDS]), "token_type_ids": torch.tensor([SEGMENTS])}
        right = model(**inputs).logits[0].numpy()
    assert_close(ours.logits(IDS, SEGMENTS), right)


def published_hidden(model):
    with torch.no_grad():
        inputs = {"input_ids": torch.tensor([IDS]), "token_type_ids": torch.tensor([SEGMENTS])}
        return model.bert(**inputs).last_hidden_state[0].numpy()


def test_float16_tensors_are_read_exactly(tmp_path):
    save_bert(tmp_path)
    edit_tensors(tmp_path, lambda tensors: {name: x.astype(np.float16) for name, x in tensors.items()})
    half = read(tmp_path).logits(IDS)
    edit_tensors(tmp_path, lambda tensors: {name: x.astype(np.float64) for name, x in tensors.items()})
    np.testing.assert_array_equal(half, read(tmp_path).logits(IDS))


def test_bfloat16_is_read_although_numpy_has_no_such_numbers(tmp_path):
    model = save_bert(tmp_path)
    model.to(torch.bfloat16).save_pretrained(tmp_path)
    halves = read(tmp_path)
    model.float().save_pretrained(tmp_path)
    assert np.array_equal(halves.hidden([5, 6, 7]), read(tmp_path).hidden([5, 6, 7]))


def without(*names):
    return lambda tensors: {name: x for name, x in tensors.items() if name not in names}


def test_missing_tensors_are_named_all_at_once(tmp_path):
    save_bert(tmp_path)
    query, norm = "bert.encoder.layer.1.attention.self.query.bias", "bert.embeddings.LayerNorm.weight"
    edit_tensors(tmp_path, without(query, norm))
    with pytest.raises(
        FolderError, match=r"lacks embeddings\.LayerNorm\.weight, encoder\.layer\.1.*query\.bias$"
    ):
        read(tmp_path)


def test_a_classifier_over_texts_without_its_pooler_is_refused(tmp_path):
    save_bert(tmp_path)
    edit_tensors(tmp_path, without("bert.pooler.dense.weight", "bert.pooler.dense.bias"))
    with pytest.raises(FolderError, match=r"lacks pooler\.dense\.weight, pooler\.dense\.bias"):
        read(tmp_path)


def test_a_tensor_that_nobody_asked_for_is_refused(tmp_path):
    save_bert(tmp_path)
    edit_config(tmp_path, num_hidden_layers=2)
    with pytest.raises(FolderError, match=r"does not explain: encoder\.layer\.2.* and 8 more"):
        read(tmp_path)


def test_two_spellings_of_one_tensor_are_refused(tmp_path):
    save_bert(tmp_path)
    edit_tensors(tmp_path, lambda tensors: {**tensors, "bert.embeddings.LayerNorm.gamma": np.ones(12)})
    with pytest.raises(FolderError, match="two names for one tensor"):
        read(tmp_path)


def test_a_tensor_of_another_shape_is_refused(tmp_path):
    save_bert(tmp_path)
    edit_config(tmp_path, vocab_size=41)
    with pytest.raises(FolderError, match=r"word_embeddings\.weight is \(40, 12\), not \(41, 12\)"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"model_type": "opt"},
            r"model_type='opt'; this can be bart, bert, camembert, clearhead, distilbert",
        ),
        ({"model_type": ...}, r"model_type=None; this can be bart, bert, camembert, clearhead, distilbert"),
        ({"hidden_act": "mish"}, r"hidden_act='mish'; this can be gelu, gelu_new, gelu_pytorch_tanh, relu"),
        ({"position_embedding_type": "relative_key"}, "relative_key.*only 'absolute'"),
        ({"is_decoder": True}, "is_decoder"),
        ({"num_attention_heads": 5}, "width 12 and 5 heads; heads must divide the width"),
        ({"num_attention_heads": 0}, "0 heads"),
        ({"hidden_size": ...}, "lacks the field 'hidden_size'"),
        ({"intermediate_size": "20"}, "intermediate_size='20'; it must be of type int"),
        ({"layer_norm_eps": None}, "layer_norm_eps=None; it must be of type float"),
    ],
)
def test_a_config_that_means_other_arithmetic_is_refused_by_name(tmp_path, fields, message):
    save_bert(tmp_path)
    edit_config(tmp_path, **fields)
    with pytest.raises(FolderError, match=message):
        read(tmp_path)


def test_missing_and_broken_files_are_named(tmp_path):
    with pytest.raises(FolderError, match=r"has no config\.json"):
        read(tmp_path)
    save_bert(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"cut off")
    with pytest.raises(FolderError, match=r"model\.safetensors is not a readable safetensors file"):
        read(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(FolderError, match=r"has no model\.safetensors"):
        read(tmp_path)
    for content, message in (("{", "is not JSON"), ("[]", "holds a JSON list")):
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(FolderError, match=message):
            read(tmp_path)


@pytest.mark.parametrize(
    ("ids", "segments", "message"),
    [
        ([], None, "at least one token"),
        ([1, -1], None, r"token id -1 is outside the model's 40 \(0 to 39\)"),
        ([40], None, "token id 40 is outside"),
        ([[1, 2]], None, r"shape \(1, 2\)"),
        ([1.5], None, "float64"),
        ([1] * 17, None, "17 tokens is longer than the 16 learned positions"),
        ([1, 2], [0], "1 segments for 2 tokens"),
        ([1, 2], [0, 2], r"segment 2 is outside the model's 2 \(0 to 1\)"),
    ],
)
def test_a_text_that_the_model_cannot_take_is_refused(tmp_path, ids, segments, message):
    save_bert(tmp_path)
    with pytest.raises(DataError, match=message):
        read(tmp_path).hidden(ids, segments)
