"""One table of tokens under several names, of encoder–decoders: loaded as the published code does, or refused
by its name."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

import clearhead as ch
from clearhead.errors import FolderError
from clearhead.infer.generate import tokens
from clearhead.reference import folder as reference
from clearhead.settings import Generating
from translators import kind, tiny_folder

TABLES = ("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")


def rewritten(folder, change, **fields):
    """The folder with other tensors: `change` is given those of the tables by bare name."""
    path = folder / "model.safetensors"
    found = load_file(path)
    bare = {name.removeprefix("model."): name for name in found}
    tables = {name: found.pop(bare[name]) for name in TABLES if name in bare}
    prefix = "model." if any(name.startswith("model.") for name in bare.values()) else ""
    for name, tensor in change(tables).items():
        found[name if name.startswith("lm_head") else prefix + name] = tensor.clone()
    save_file(found, path, metadata={"format": "pt"})
    facts = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(facts | fields))
    return folder


@pytest.mark.parametrize("name", ["t5", "bart", "marian"])
@pytest.mark.parametrize("only", TABLES)
def test_a_table_under_any_one_of_its_names_is_all_of_them(tmp_path, name, only):
    folder = tiny_folder(tmp_path / name, name, wide=True)
    right = ch.load(folder).loaded.network.state_dict()
    rewritten(folder, lambda tables: {only: tables["shared.weight"]})
    model = ch.load(folder)
    found = model.loaded.network.state_dict()
    assert found.keys() == right.keys() and all(torch.equal(found[key], right[key]) for key in right)
    reference.read(folder)
    source = [7, 9, 12, 30]
    given = {"max_new_tokens": 5, "do_sample": False}
    theirs = kind(name).from_pretrained(folder).generate(torch.tensor([source]), **given)[0, 1:].tolist()
    assert [token.id for token in tokens(model, [source], settings=Generating(max_new_tokens=5))] == theirs


@pytest.mark.parametrize("shared", TABLES[:2])
def test_a_t5_with_a_head_of_its_own_has_its_table_under_any_name(tmp_path, shared):
    folder = tiny_folder(tmp_path / "t5", "t5", wide=True)
    rewritten(folder, lambda tables: {shared: tables["shared.weight"], TABLES[3]: -tables["shared.weight"]})
    network = ch.load(folder).loaded.network
    assert not network.config.tied
    assert torch.equal(network.language_head.weight, -network.embedding.tokens.weight)


@pytest.mark.parametrize("name", ["t5", "bart", "marian"])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("side", TABLES[1:3])
def test_a_table_of_one_sides_own_is_refused_by_name(tmp_path, name, tied, side):
    folder = tiny_folder(tmp_path / name, name, wide=True)
    own = {"tie_word_embeddings": tied}
    rewritten(
        folder,
        lambda tables: dict.fromkeys(TABLES, tables["shared.weight"]) | {side: -tables["shared.weight"]},
        **own,
    )
    said = f"{side} and shared.weight differ, and a side's own table of tokens is not supported$"
    with pytest.raises(FolderError, match=said):
        ch.load(folder)


def test_a_head_that_differs_though_tied_is_told_how_to_be_its_own(tmp_path):
    folder = tiny_folder(tmp_path / "bart", "bart", wide=True)
    both = lambda tables: {TABLES[0]: tables["shared.weight"], TABLES[3]: -tables["shared.weight"]}  # noqa: E731
    rewritten(folder, both)
    with pytest.raises(FolderError, match='if both are meant, write "tie_word_embeddings": false'):
        ch.load(folder)
    rewritten(folder, lambda tables: tables, tie_word_embeddings=False)
    assert not ch.load(folder).config.tied


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_stored_sines_are_sines_or_refused(tmp_path, dtype):
    folder = tiny_folder(tmp_path / "marian", "marian", wide=True)
    path, name = folder / "model.safetensors", "model.encoder.embed_positions.weight"
    sines = kind("marian").from_pretrained(folder).model.encoder.embed_positions.weight.data
    found = load_file(path) | {name: sines.to(dtype)}
    save_file(found, path, metadata={"format": "pt"})
    ch.load(folder)
    save_file(found | {name: sines.to(dtype) * 1.1}, path, metadata={"format": "pt"})
    with pytest.raises(FolderError, match="encoder.embed_positions.weight holds other numbers than sines"):
        ch.load(folder)
