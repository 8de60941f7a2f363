"""A tagger in an ONNX graph of 4-bit blocks: what its numbers stand for, what is refused, and a real one."""

import json

import numpy as np
import pytest
import torch
from onnx_files import model, node, tensor
from safetensors.torch import load_file

import clearhead as ch
from clearhead.checkpoint import catalog
from clearhead.checkpoint.onnx import convert_encoder
from clearhead.checkpoint.onnx.blocks import Blocks
from clearhead.errors import FolderError
from families import over_tokens, write_tokenizer

WIDE = {"hidden_size": 32, "intermediate_size": 64}


def test_a_number_of_a_block_is_its_half_byte_less_8_times_the_scale():
    stored = np.arange(2 * 1 * 16, dtype=np.uint8).reshape(2, 1, 16) * 7
    scale = np.array([[0.5], [2.0]], np.float32)
    found = Blocks(stored, scale).numbers()
    assert found.shape == Blocks(stored, scale).shape == (2, 32) and found.dtype == np.float32
    for row in range(2):
        for column in range(32):
            byte = int(stored[row, 0, column // 2])
            half = byte >> 4 if column % 2 else byte & 15
            assert found[row, column] == (half - 8) * scale[row, 0]


def in_blocks(weight, chance):
    """Stored bytes and scales, and the matrix that they stand for."""
    rows, columns = weight.shape
    whole = chance.integers(0, 16, (rows, columns))
    scale = chance.uniform(0.01, 0.1, (rows, columns // 32)).astype(np.float32)
    stored = (whole[:, ::2] | whole[:, 1::2] << 4).astype(np.uint8).reshape(rows, columns // 32, 16)
    return stored, scale, ((whole - 8).astype(np.float32) * np.repeat(scale, 32, axis=1)).astype(np.float32)


def graph_of(published, *, change=lambda name, parts: parts):
    """The bytes of a graph as the quantiser of the real one leaves it, and the tensors that it stands for."""
    chance, nodes, tensors, right = np.random.default_rng(0), [], [], {}
    for count, (name, given) in enumerate(published.state_dict().items()):
        weight = given.numpy()
        if name.endswith("embeddings.weight"):
            whole, low = chance.integers(0, 256, weight.shape).astype(np.uint8), np.uint8(100)
            size = np.float32(0.02)
            own = "/" + name.removesuffix(".weight").replace(".", "/") + "/Gather"
            parts = [f"{own}_quantized", f"{name}_scale", f"{name}_zero_point"]
            nodes.append(node("Gather", own, inputs=[f"{name}_quantized", "ids"], outputs=parts[:1]))
            nodes.append(node("DequantizeLinear", f"{own}_D", inputs=parts, outputs=[own]))
            tensors.append(tensor(f"{name}_quantized", whole))
            tensors += [tensor(parts[1], np.array(size)), tensor(parts[2], np.array(low))]
            right[name] = (whole.astype(np.int16) - low).astype(np.float32) * size
        elif weight.ndim == 2:
            stored, scale, right[name] = in_blocks(weight, chance)
            stored, scale, more = change(name, (stored, scale, []))
            own = "/" + name.removesuffix(".weight").replace(".", "/") + "/MatMul_Q4"
            inputs = ["x", f"onnx::{count}_Q4", f"onnx::{count}_scales", *more]
            nodes.append(node("MatMulNBits", own, inputs=inputs, outputs=[f"{own}_out"]))
            tensors += [tensor(inputs[1], stored), tensor(inputs[2], scale)]
        else:
            tensors.append(tensor(name, weight))
            right[name] = weight
    return model(nodes, tensors), right


def source_of(place, published, raw):
    place.mkdir()
    published.save_pretrained(place)
    (place / "model.safetensors").unlink()
    write_tokenizer(place, "modernbert")
    (place / "LICENSE").write_text("free\n")
    (place / "graph.onnx").write_bytes(raw)
    return place


def test_a_graph_becomes_the_folder_that_it_stands_for(tmp_path):
    published = over_tokens("bert", "tag", **WIDE)
    raw, right = graph_of(published)
    convert_encoder(source_of(tmp_path / "in", published, raw), tmp_path / "out", graph="graph.onnx")
    stored = load_file(tmp_path / "out" / "model.safetensors")
    assert stored.keys() == right.keys()
    for name, tensor_ in stored.items():
        assert torch.equal(tensor_, torch.from_numpy(np.asarray(right[name]))), name
    assert (tmp_path / "out" / "LICENSE").read_text() == "free\n"
    tagger = ch.load(tmp_path / "out")
    assert tagger.tags and len(tagger.predict(["a good soup"])[0].words) == 3
    assert not [finding for finding in ch.verify(tagger) if finding.verdict == "fail"]


BAD = {
    "has zero points or more, which is not read": lambda name, p: (p[0], p[1], ["zeros"]),
    "read are blocks of 32 numbers of 4 bits": lambda name, p: (p[0].reshape(len(p[0]), -1, 8), p[1], p[2]),
    "a scale of .* is no finite number": lambda name, p: (p[0], p[1] * np.float32("nan"), p[2]),
}


@pytest.mark.parametrize("said", BAD)
def test_blocks_of_another_kind_are_refused_and_leave_nothing(tmp_path, said):
    published = over_tokens("bert", "tag", **WIDE)
    raw, _ = graph_of(published, change=BAD[said])
    source = source_of(tmp_path / "in", published, raw)
    with pytest.raises(FolderError, match=said):
        convert_encoder(source, tmp_path / "out", graph="graph.onnx")
    assert not (tmp_path / "out").exists() or not any((tmp_path / "out").iterdir())


def test_a_graph_that_does_not_fit_its_config_is_refused(tmp_path):
    published = over_tokens("bert", "tag", **WIDE)
    raw, _ = graph_of(published)
    source = source_of(tmp_path / "in", published, raw)
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | {"intermediate_size": 96}))
    with pytest.raises(FolderError, match="intermediate"):
        convert_encoder(source, tmp_path / "out", graph="graph.onnx")
    assert not (tmp_path / "out").exists() or not any((tmp_path / "out").iterdir())


@pytest.mark.slow
def test_the_real_one_finds_what_it_is_for_and_agrees_with_the_published_code():
    """Fetched with `clearhead get rampart`."""
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    folder = catalog.place_of("rampart")
    if not (folder / "model.safetensors").is_file():
        pytest.skip("rampart is not in the cache; fetch it: clearhead get rampart")
    tagger = ch.load(folder)
    text = "My name is Maria Gonzalez, 42 Maple Street, Springfield; call (217) 555-0142."
    (found,) = tagger.predict([text])
    assert [(one.label, one.text) for one in found.entities] == [
        ("GIVEN_NAME", "Maria"), ("SURNAME", "Gonzalez"), ("BUILDING_NUMBER", "42"),
        ("STREET_NAME", "Maple Street"), ("CITY", "Springfield"), ("PHONE", "(217) 555-0142"),
    ]  # fmt: skip
    theirs = AutoModelForTokenClassification.from_pretrained(folder).eval()
    inputs = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    with torch.no_grad():
        best = theirs(**inputs).logits[0].softmax(-1)
    for word in found.words:
        row = best[inputs.char_to_token(word.start)]
        assert word.tag == theirs.config.id2label[int(row.argmax())]
        assert word.score == pytest.approx(float(row.max()), abs=1e-5)
    assert not [finding for finding in ch.verify(tagger) if finding.verdict == "fail"]
