"""Published ModernBERT folders: our reading, in NumPy, against the published implementation, in float64."""

import numpy as np
import pytest
import torch
from reference_folders import VOCAB, Published, assert_agrees, texts
from transformers import (
    ModernBertConfig,
    ModernBertForSequenceClassification,
)

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
