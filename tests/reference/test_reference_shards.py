"""Weights in several files with an index are the same weights."""

import json

import numpy as np
import pytest
from reference_folders import VOCAB, Published, assert_agrees
from safetensors.numpy import load_file, save_file
from transformers import BertConfig, BertForSequenceClassification

from clearhead.errors import FolderError
from clearhead.reference import read

INDEX = "model.safetensors.index.json"


def save(folder):
    config = BertConfig(
        vocab_size=VOCAB,
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=20,
        max_position_embeddings=32,
        num_labels=3,
    )
    return Published(folder, BertForSequenceClassification, config)


def split(folder, parts=3):
    """Distribute the tensors of a folder over several files, in turn."""
    tensors = load_file(folder / "model.safetensors")
    names = sorted(tensors)
    table = {name: f"model-{i % parts + 1:05}-of-{parts:05}.safetensors" for i, name in enumerate(names)}
    for file in set(table.values()):
        save_file({name: tensors[name] for name in names if table[name] == file}, folder / file)
    (folder / "model.safetensors").unlink()
    write_index(folder, table)
    return table


def write_index(folder, table):
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": table}))


def test_weights_in_several_files_give_the_same_numbers(tmp_path):
    theirs = save(tmp_path)
    split(tmp_path)
    assert not (tmp_path / "model.safetensors").exists()
    assert_agrees(theirs, segments=True)


def test_shards_as_the_published_code_writes_them_are_read(tmp_path):
    theirs = save(tmp_path)
    whole = read(tmp_path).logits([5, 6, 7])
    (tmp_path / "model.safetensors").unlink()
    theirs.model.float().save_pretrained(tmp_path, max_shard_size="4KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    np.testing.assert_array_equal(read(tmp_path).logits([5, 6, 7]), whole)


def test_the_single_file_comes_first_where_there_are_both(tmp_path):
    theirs = save(tmp_path)
    write_index(tmp_path, {"bert.anything": "not-there.safetensors"})
    assert_agrees(theirs)


def test_a_shard_that_is_missing_broken_or_incomplete_is_named(tmp_path):
    save(tmp_path)
    table = split(tmp_path)
    name, file = sorted(table.items())[0]
    tensors = load_file(tmp_path / file)
    save_file({other: array for other, array in tensors.items() if other != name}, tmp_path / file)
    with pytest.raises(FolderError, match=rf"{file} lacks {name}, which {INDEX} says is there"):
        read(tmp_path)
    (tmp_path / file).write_bytes(b"cut off")
    with pytest.raises(FolderError, match=f"{file} is not a readable safetensors file"):
        read(tmp_path)
    (tmp_path / file).unlink()
    with pytest.raises(FolderError, match=f"{name} lies in {file}, and no such file is in the folder"):
        read(tmp_path)


def test_one_tensor_in_two_files_is_refused(tmp_path):
    save(tmp_path)
    table = split(tmp_path)
    (name, file), (_, other) = sorted(table.items())[:2]
    array = load_file(tmp_path / file)[name]
    save_file({**load_file(tmp_path / other), name: array}, tmp_path / other)
    with pytest.raises(FolderError, match=rf"{name} lies in .* and in .*; keep one of them"):
        read(tmp_path)


def test_an_index_cannot_lead_out_of_the_folder(tmp_path):
    save(tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").rename(tmp_path / "outside.safetensors")
    write_index(tmp_path / "model", {"bert.anything": "../outside.safetensors"})
    with pytest.raises(FolderError, match="no such file is in the folder"):
        read(tmp_path / "model")


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"weight_map": []}', '{"weight_map": {}}', "\xff"])
def test_an_index_without_a_table_is_refused(tmp_path, text):
    save(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / INDEX).write_bytes(text.encode("latin-1"))
    with pytest.raises(FolderError, match=f"{INDEX} has no weight_map"):
        read(tmp_path)
