"""Published RoBERTa, XLM-RoBERTa and CamemBERT folders: our reading against the published implementation."""

import numpy as np
import pytest
import transformers
from reference_folders import (
    VOCAB,
    Published,
    add_tensors,
    assert_agrees,
    close,
    edit_config,
    rename_tensors,
    texts,
)

from clearhead.errors import DataError, FolderError
from clearhead.reference import read

# 34 rows of positions less the two before the first position: texts of 32 tokens.
SMALL = {
    "vocab_size": VOCAB,
    "hidden_size": 12,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 20,
    "max_position_embeddings": 34,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "pad_token_id": 1,
    "num_labels": 3,
}


def save(folder, kind=transformers.RobertaForSequenceClassification, *, wide=True, **fields):
    return Published(folder, kind, kind.config_class(**{**SMALL, **fields}), wide=wide)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kind", ["RobertaModel", "RobertaForSequenceClassification"])
def test_a_roberta_folder_gives_the_numbers_of_the_published_implementation(tmp_path, kind, wide):
    assert_agrees(save(tmp_path, getattr(transformers, kind), wide=wide))


@pytest.mark.parametrize("name", ["XLMRoberta", "Camembert"])
def test_its_multilingual_and_french_children_are_the_same(tmp_path, name):
    assert_agrees(save(tmp_path, getattr(transformers, f"{name}ForSequenceClassification")))


def test_positions_start_behind_the_pad_id_wherever_that_is(tmp_path):
    theirs = save(tmp_path, pad_token_id=0, max_position_embeddings=33, type_vocab_size=2)
    assert_agrees(theirs, segments=True)
    with pytest.raises(DataError, match="33 tokens is longer than the 32 learned positions"):
        read(tmp_path).hidden([5] * 33)


def test_the_pad_id_is_1_where_the_config_says_nothing(tmp_path):
    theirs = save(tmp_path)
    edit_config(tmp_path, pad_token_id=...)
    assert_agrees(theirs)


def test_a_pad_id_that_leaves_no_position_is_refused(tmp_path):
    save(tmp_path)
    edit_config(tmp_path, pad_token_id=33)
    with pytest.raises(FolderError, match="pad_token_id=33 and max_position_embeddings=34"):
        read(tmp_path)


def test_a_pooler_beside_the_classifier_is_not_used(tmp_path):
    theirs = save(tmp_path)
    pooler = {"roberta.pooler.dense.weight": np.ones((12, 12)), "roberta.pooler.dense.bias": np.ones(12)}
    add_tensors(tmp_path, pooler)
    assert_agrees(theirs)


def test_the_old_spelling_of_norms_is_read(tmp_path):
    theirs = save(tmp_path)
    rename_tensors(tmp_path, "LayerNorm.weight", "LayerNorm.gamma")
    rename_tensors(tmp_path, "LayerNorm.bias", "LayerNorm.beta")
    assert_agrees(theirs)


def test_heads_over_tokens_are_left_out(tmp_path):
    for kind in (transformers.RobertaForMaskedLM,):
        folder = tmp_path / kind.__name__
        theirs = save(folder, kind)
        ours = read(folder)
        for ids in texts():
            close(ours.hidden(ids), theirs.says(ids)[0])
        with pytest.raises(FolderError, match="no pooler and no head"):
            ours.pooled([5])


def test_a_classifier_without_its_dense_layer_is_refused(tmp_path):
    save(tmp_path)
    rename_tensors(tmp_path, "classifier.dense", "classifier.sparse")
    with pytest.raises(FolderError, match=r"lacks classifier\.dense\.weight, classifier\.dense\.bias"):
        read(tmp_path)
