"""Damaged graphs, and graphs of something else, are one clear error: no traceback, nothing written."""

import json
import shutil

import numpy as np
import onnx_files
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from onnx_files import T5, field, model, node, tensor, words

from clearhead.checkpoint.onnx import convert
from clearhead.checkpoint.onnx.graph import read
from clearhead.checkpoint.onnx.weights import weights
from clearhead.errors import FolderError


def one(tmp_path, *parts, nodes=()):
    path = tmp_path / "one.onnx"
    path.write_bytes(model(nodes, parts))
    return read(path)


BYTE = np.ones((2, 2), np.int8)
NUMBERS = {"stored": BYTE, "scale": np.array(0.5, np.float32), "zero": np.array(0, np.int8)}
DAMAGED = {
    "a kind not read": ([tensor("x", np.zeros(2, np.int64))], (), "'x' is stored as INT64, which is"),
    "a kind nobody knows": ([field(2, 99) + field(8, "x")], (), "'x' is stored as type 99"),
    "no kind": ([field(8, "x")], (), "'x' is stored as type 0"),
    "too few bytes": ([tensor("x", BYTE) + field(1, 3)], (), r"shape \(2, 2, 3\) of INT8 and 4 bytes"),
    "a negative axis": ([field(1, -1) + field(2, 3) + field(8, "x")], (), r"has the shape \(-1,\)"),
    "many axes": ([field(1, 1) * 5 + field(2, 3) + field(8, "x")], (), r"has the shape \(1, 1, 1, 1, 1\)"),
    "many packed axes": ([field(1, b"\x01" * 9999) + field(2, 3)], (), r"has the shape \(1, 1, 1, 1, 1\)"),
    "a huge axis": ([field(1, 1 << 62) * 2 + field(2, 3) + field(9, b"12")], (), "and 2 bytes"),
    "another file": ([tensor("x", BYTE) + field(14, 1)], (), "'x' lies in another file"),
    "beyond a byte": ([field(1, 1) + field(2, 3) + field(5, 128)], (), "numbers from -128 to 127"),
    "too few numbers": ([field(1, 2) + field(2, 2) + field(5, 1)], (), "should hold 2 numbers"),
    "twice": ([tensor("x", BYTE), tensor("x", BYTE)], (), "it holds 'x' twice"),
    "a name that is no text": ([field(2, 3) + field(8, b"\xff")], (), "is damaged: 'utf-8'"),
    "a name that is a number": ([field(2, 3) + field(8, 5)], (), "is damaged"),
    "a result twice": ([], [node("A", "", inputs=[], outputs=["y"])] * 2, "two operations make 'y'"),
}  # fmt: skip


@pytest.mark.parametrize("what", DAMAGED)
def test_damage_to_a_tensor_has_its_words(tmp_path, what):
    parts, nodes, message = DAMAGED[what]
    with pytest.raises(FolderError, match=message) as error:
        one(tmp_path, *parts, nodes=nodes)
    assert "one.onnx" in str(error.value) and "\n" not in str(error.value)


def test_what_is_no_graph_is_refused(tmp_path):
    path = tmp_path / "one.onnx"
    for raw, message in (
        (b"", "it holds 0 graphs"),
        (field(7, b"") * 2, "it holds 2 graphs"),
        (field(7, 1), "is damaged"),
        (field(7, field(15, b"")), "a sparse tensor, which is not read"),
        (b"GGUF" + bytes(99), "is damaged"),
    ):
        path.write_bytes(raw)
        with pytest.raises(FolderError, match=message):
            read(path)
    with pytest.raises(FolderError, match=r"none\.onnx cannot be read \(No such file"):
        read(tmp_path / "none.onnx")


def matrix(module="m.lm_head", **changes):
    """A linear layer's operations, with some of its tensors exchanged."""
    return onnx_files.product(module, 1, **NUMBERS | changes)


def looked_up(**changes):
    return onnx_files.table("m.shared.weight", **NUMBERS | changes)


def without(made, name):
    return made[0], [part for part in made[1] if name.encode() not in part]


UNREAD = {
    "numbers that nothing uses": (([], [tensor("x", BYTE)]), "'x' is used by no operation that is read"),
    "no scale": (without(matrix(), "_scale"), "is not followed by a Cast and a Mul with its scale"),
    "no zero point": (without(matrix(), "_zero_point"), "lacks 'onnx::MatMul_1_zero_point'"),
    "no scale of a table": (without(looked_up(), "_scale"), "lacks 'm.shared.weight_scale'"),
    "a zero point of another kind": (matrix(zero=np.zeros((), np.uint8)), "is not of whole numbers"),
    "scales of another count": (matrix(scale=np.ones(3, np.float32)), r"shape \(3,\); .* or one a column$"),
    "scales of a table": (looked_up(scale=np.ones(2, np.float32)), r"shape \(2,\); read is one for all$"),
    "a scale that is none": (matrix(scale=np.array(np.nan, np.float32)), "is no finite number"),
    "no matrix": (matrix(stored=np.ones(2, np.int8)), "is no matrix"),
    "used twice": ((matrix()[0] + matrix(module="m.again")[0], matrix()[1]), "of what others are made of"),
}  # fmt: skip


@pytest.mark.parametrize("what", UNREAD)
def test_numbers_that_the_operations_do_not_explain_are_refused(tmp_path, what):
    (nodes, parts), message = UNREAD[what]
    with pytest.raises(FolderError, match=message):
        weights(one(tmp_path, *parts, nodes=nodes))


def changed(tmp_path, change):
    """The tiny model with something changed in it, converted."""
    made = T5()
    change(made)
    convert(made.write(tmp_path / "graphs"), tmp_path / "folder")


def less(name):
    def change(made):
        for _, parts in made.parts.values():
            parts[:] = [part for part in parts if name.encode() not in part]

    return change


def more(name, numbers):
    return lambda made: made.parts["decoder"][1].append(tensor(name, numbers))


def other_vectors(made):
    stored = next(part for part in made.parts["encoder"][1] if b"embed_tokens.weight_quantized" in part)
    place = made.parts["encoder"][1].index(stored)
    made.parts["encoder"][1][place] = stored[:-1] + bytes([stored[-1] ^ 1])


ONES = np.ones(16, np.float32)
LAST = "m.decoder.final_layer_norm.weight"


def shorter(made):
    less(LAST)(made)
    more(LAST, ONES[:8])(made)


WRONG = {
    "a norm is missing": (less(LAST), "lack decoder.final_layer_norm.weight"),
    "a block lacks a norm": (less("enc.block.1.layer.1.layer_norm"), "lack encoder.block.1.layer.1"),
    "one too many": (more("m.decoder.block.0.more.weight", ONES), "holds 'decoder.block.0.more.weight'"),
    "of no module": (more("other.weight", ONES), "holds 'other.weight', which T5 does not have"),
    "another shape": (shorter, r"final_layer_norm.weight has the shape \(8,\) where \(16,\) belongs"),
    "other vectors": (other_vectors, "have other token vectors; they are not of one model"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_model_that_is_not_whole_is_refused_and_nothing_is_written(tmp_path, what):
    change, message = WRONG[what]
    with pytest.raises(FolderError, match=message):
        changed(tmp_path, change)
    assert not (tmp_path / "folder").exists()


def test_a_tokenizer_of_another_model_is_refused(tmp_path):
    folder = T5().write(tmp_path / "graphs")
    (folder / "tokenizer.json").write_bytes(words().replace(b"<pad>", b"<not>"))
    with pytest.raises(FolderError, match=r"tokenizer\.json lacks <pad>, which T5's has"):
        convert(folder, tmp_path / "folder")
    rules = json.loads(words())
    rules["model"]["vocab"] += [[f"x{number}", -9.0] for number in range(9)]
    (folder / "tokenizer.json").write_text(json.dumps(rules))
    with pytest.raises(FolderError, match=r"tokenizer\.json has 27 tokens and vectors for 24"):
        convert(folder, tmp_path / "folder")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(FolderError, match=r"tokenizer\.json"):
        convert(folder, tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    return T5().write(tmp_path_factory.mktemp("graphs"))


def attempt(raw, graphs):
    """Convert with another decoder.onnx; whether that worked. Any other error than a FolderError fails."""
    whole = (graphs / "decoder.onnx").read_bytes()
    (graphs / "decoder.onnx").write_bytes(raw)
    said = str(graphs)
    try:
        convert(graphs, graphs / "folder")
    except FolderError as error:
        said = str(error)
    finally:
        (graphs / "decoder.onnx").write_bytes(whole)
        shutil.rmtree(graphs / "folder", ignore_errors=True)
    assert "\n" not in said and str(graphs) in said
    return said == str(graphs)


QUICK = settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICK
@given(share=st.floats(0, 1, exclude_max=True))
@example(share=0.0)
def test_a_file_that_ends_anywhere_is_refused(graphs, share):
    raw = (graphs / "decoder.onnx").read_bytes()
    assert not attempt(raw[: int(share * (len(raw) - 6))], graphs)


@QUICK
@given(data=st.data())
def test_bytes_that_are_changed_are_refused_or_read(graphs, data):
    changed = bytearray((graphs / "decoder.onnx").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        where = data.draw(st.integers(0, len(changed) - 1) | st.integers(0, 2000))
        changed[where] = data.draw(st.sampled_from([0, 1, 9, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    attempt(bytes(changed), graphs)
