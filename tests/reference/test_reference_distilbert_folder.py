"""Published DistilBERT folders: our reading, in NumPy, against the published implementation, in float64."""

import pytest
from reference_folders import VOCAB, Published, assert_agrees, close, edit_config, texts
from transformers import (
    DistilBertConfig,
    DistilBertForMaskedLM,
    DistilBertForSequenceClassification,
    DistilBertModel,
)

from clearhead.errors import DataError, FolderError
from clearhead.reference import read

SMALL = {
    "vocab_size": VOCAB,
    "dim": 12,
    "n_layers": 3,
    "n_heads": 4,
    "hidden_dim": 20,
    "max_position_embeddings": 32,
    "num_labels": 3,
}


def save(folder, kind=DistilBertForSequenceClassification, *, wide=True, **fields):
    return Published(folder, kind, DistilBertConfig(**{**SMALL, **fields}), wide=wide)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kind", [DistilBertModel, DistilBertForSequenceClassification])
def test_a_distilbert_folder_gives_the_numbers_of_the_published_implementation(tmp_path, kind, wide):
    assert_agrees(save(tmp_path, kind, wide=wide))


def test_the_activation_of_blocks_is_not_that_of_the_head(tmp_path):
    assert_agrees(save(tmp_path, activation="relu"))
    edit_config(tmp_path, activation="mish")
    with pytest.raises(FolderError, match="activation='mish'; this can be gelu"):
        read(tmp_path)


def test_sinusoidal_positions_are_stored_like_learned_ones(tmp_path):
    assert_agrees(save(tmp_path, sinusoidal_pos_embds=True, wide=False))


def test_it_knows_no_segments_and_no_longer_texts(tmp_path):
    save(tmp_path)
    with pytest.raises(DataError, match="knows no segments"):
        read(tmp_path).hidden([5, 6], [0, 1])
    with pytest.raises(DataError, match="33 tokens is longer than the 32 learned positions"):
        read(tmp_path).hidden([5] * 33)


def test_heads_over_tokens_are_left_out(tmp_path):
    for kind in (DistilBertForMaskedLM,):
        folder = tmp_path / kind.__name__
        theirs = save(folder, kind)
        ours = read(folder)
        for ids in texts():
            close(ours.hidden(ids), theirs.says(ids)[0])
        assert ours.head is None
