"""Quantised graphs of a T5 become a published folder: each number as ONNX's operators say, by its name."""

import json

import numpy as np
import pytest
import torch
from onnx_files import T5, field, floats, model, tensor
from safetensors.numpy import load_file
from transformers import T5ForConditionalGeneration

import clearhead as ch
from clearhead.checkpoint.onnx import convert
from clearhead.checkpoint.onnx.graph import read
from clearhead.checkpoint.onnx.weights import weights
from clearhead.infer.generate import tokens
from clearhead.settings import Generating

COLUMNS = pytest.mark.parametrize("columns", [False, True], ids=["one scale", "a scale a column"])


@COLUMNS
def test_every_number_is_the_one_that_the_operators_compute(tmp_path, columns):
    made = T5(columns=columns)
    convert(made.write(tmp_path / "graphs"), tmp_path / "folder")
    found = load_file(tmp_path / "folder" / "model.safetensors")
    assert found.keys() == made.right.keys()
    for name, numbers in found.items():
        assert numbers.dtype == np.float32 and np.array_equal(numbers, made.right[name]), name


def test_the_folder_is_a_published_one_with_sizes_from_the_tensors(tmp_path):
    convert(T5().write(tmp_path / "graphs"), tmp_path / "folder")
    config = json.loads((tmp_path / "folder" / "config.json").read_text())
    assert config == config | {
        "model_type": "t5", "vocab_size": 24, "d_model": 16, "d_kv": 8, "num_heads": 3, "d_ff": 20,
        "num_layers": 2, "num_decoder_layers": 1, "relative_attention_num_buckets": 8,
        "feed_forward_proj": "gated-gelu", "decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0,
    }  # fmt: skip
    _, report = T5ForConditionalGeneration.from_pretrained(tmp_path / "folder", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]


def test_its_answers_are_those_of_the_published_code(tmp_path):
    convert(T5().write(tmp_path / "graphs"), tmp_path / "folder")
    model, theirs = (
        ch.load(tmp_path / "folder"),
        T5ForConditionalGeneration.from_pretrained(tmp_path / "folder"),
    )
    prompts = [encoding.ids for encoding in model.tokenizer.encode(["a good soup", "soup"])]
    found = [[], []]
    for token in tokens(model, prompts, settings=Generating(max_new_tokens=8)):
        found[token.text].append(token.id)
    for prompt, answer in zip(prompts, found, strict=True):
        right = theirs.eval().generate(torch.tensor([list(prompt)]), max_new_tokens=8, do_sample=False)
        assert right[0, 1:].tolist() == answer


def test_texts_are_neither_cut_short_nor_padded(tmp_path):
    convert(T5().write(tmp_path / "graphs"), tmp_path / "folder")
    tokenizer = ch.load(tmp_path / "folder").tokenizer
    long, short = tokenizer.encode(["a good soup a good soup", "soup"])
    assert len(long.ids) == 7 and len(short.ids) == 2 and long.ids[-1] == 1
    assert tokenizer.limit == 512 and tokenizer.roles["pad_token"] == 0
    rules = json.loads((tmp_path / "folder" / "tokenizer.json").read_text())
    assert rules["truncation"] is None and rules["padding"] is None


def test_the_formats_own_library_reads_the_same_numbers(tmp_path):
    onnx = pytest.importorskip("onnx")
    T5(columns=True).write(tmp_path)
    for name in ("encoder.onnx", "decoder.onnx"):
        theirs, ours = onnx.load(tmp_path / name).graph, read(tmp_path / name)
        assert [one.name for one in theirs.initializer] == list(ours.tensors)
        for one in theirs.initializer:
            right = onnx.numpy_helper.to_array(one)
            assert right.dtype == ours.tensors[one.name].dtype
            assert np.array_equal(right, ours.tensors[one.name])
        assert [(one.op_type, one.name, *one.input, *one.output) for one in theirs.node] == [
            (one.op, one.name, *one.inputs, *one.outputs) for one in ours.nodes
        ]


def test_the_formats_own_library_computes_the_same_float32(tmp_path):
    onnx = pytest.importorskip("onnx")
    evaluators = pytest.importorskip("onnx.reference")
    T5(columns=True).write(tmp_path)
    graph = read(tmp_path / "decoder.onnx")
    for weight in weights(graph).values():
        if weight.scale is None:
            continue
        parts = {"axis": 1} if weight.scale.ndim else {}
        operator = onnx.helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"], **parts)
        evaluator = evaluators.ReferenceEvaluator(operator)
        (right,) = evaluator.run(None, {"x": weight.stored, "s": weight.scale, "z": weight.zero})
        assert np.array_equal(right.T if weight.turned else right, weight.numbers())


def one(tmp_path, *parts, nodes=()):
    path = tmp_path / "one.onnx"
    path.write_bytes(model(nodes, parts))
    return read(path)


def test_numbers_may_lie_as_bytes_packed_or_one_by_one(tmp_path):
    numbers = np.array([[1.5, -2.0], [0.0, 3.25]], np.float32)
    loose = field(1, b"\x02\x02") + field(2, 1) + field(8, "c") + floats(numbers.reshape(-1))
    whole = field(1, 3) + field(2, 3) + field(8, "d") + field(5, -128) + field(5, 127) + field(5, -1)
    found = one(tmp_path, tensor("a", numbers), tensor("b", numbers, small=True), loose, whole).tensors
    assert all(np.array_equal(found[name], numbers) for name in "abc")
    assert found["d"].tolist() == [-128, 127, -1] and found["d"].dtype == np.int8
