"""Published ELECTRA folders: our reading, in NumPy, against the published implementation, in float64."""

import numpy as np
import pytest
from reference_folders import VOCAB, Published, add_tensors, assert_agrees, close, edit_config, texts
from transformers import (
    ElectraConfig,
    ElectraForPreTraining,
    ElectraForSequenceClassification,
    ElectraModel,
)

from clearhead.errors import FolderError
from clearhead.reference import read

SMALL = {
    "vocab_size": VOCAB,
    "embedding_size": 8,
    "hidden_size": 12,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 20,
    "max_position_embeddings": 32,
    "num_labels": 3,
}


def save(folder, kind=ElectraForSequenceClassification, *, wide=True, **fields):
    return Published(folder, kind, ElectraConfig(**{**SMALL, **fields}), wide=wide)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kind", [ElectraModel, ElectraForSequenceClassification])
@pytest.mark.parametrize("narrow", [8, 12])
def test_an_electra_folder_gives_the_numbers_of_the_published_implementation(tmp_path, narrow, kind, wide):
    assert_agrees(save(tmp_path, kind, wide=wide, embedding_size=narrow), segments=True)


def test_the_head_has_its_own_gelu_whatever_the_blocks_use(tmp_path):
    assert_agrees(save(tmp_path, hidden_act="relu"))


def test_an_embedding_as_wide_as_the_stream_has_no_layer_to_widen_it(tmp_path):
    save(tmp_path, embedding_size=12)
    layer = {"electra.embeddings_project.weight": np.eye(12), "electra.embeddings_project.bias": np.ones(12)}
    add_tensors(tmp_path, layer)
    with pytest.raises(FolderError, match=r"does not explain: embeddings_project\.(weight|bias)"):
        read(tmp_path)


def test_an_embedding_of_another_width_than_the_config_says_is_refused(tmp_path):
    save(tmp_path)
    edit_config(tmp_path, embedding_size=6)
    with pytest.raises(FolderError, match=r"word_embeddings\.weight is \(40, 8\), not \(40, 6\)"):
        read(tmp_path)


def test_heads_over_tokens_are_left_out(tmp_path):
    for kind in (ElectraForPreTraining,):
        folder = tmp_path / kind.__name__
        theirs = save(folder, kind)
        ours = read(folder)
        for ids in texts():
            close(ours.hidden(ids), theirs.says(ids)[0])
        assert ours.head is None
