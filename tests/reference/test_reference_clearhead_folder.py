"""Our own folders, written here by hand: against a few straight lines, and against torch's own encoder."""

import json

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from clearhead.errors import DataError, FolderError
from clearhead.reference import (
    gelu,
    gelu_tanh,
    layer_norm,
    linear,
    read,
    relu,
    sinusoidal_positions,
    softmax,
)

VOCAB, WIDTH, LAYERS, HEADS, HIDDEN, LABELS = 30, 12, 2, 3, 20, 4
IDS = [3, 14, 15, 9, 2, 6]

PRE_NORM = {
    "vocab": VOCAB,
    "width": WIDTH,
    "layers": LAYERS,
    "heads": HEADS,
    "hidden": HIDDEN,
    "positions": {"kind": "sinusoidal"},
    "activation": "relu",
    "norm_first": True,
    "epsilon": 1e-5,
    "segments": 0,
    "embedding_norm": False,
    "scale_embedding": False,
}
POST_NORM = {
    **PRE_NORM,
    "positions": {"kind": "learned", "count": 10},
    "activation": "gelu",
    "norm_first": False,
    "epsilon": 1e-3,
    "segments": 2,
    "embedding_norm": True,
    "scale_embedding": True,
}
MEAN_HEAD = {"pooling": "mean", "dense": False, "labels": LABELS}


def names_and_shapes(facts, head):
    """Every tensor of the folder, spelled out a second time, apart from the code under test."""
    yield "embedding.tokens", (VOCAB, WIDTH), False
    if facts["positions"]["kind"] == "learned":
        yield "embedding.positions", (facts["positions"]["count"], WIDTH), False
    if facts["segments"]:
        yield "embedding.segments", (facts["segments"], WIDTH), False
    if facts["embedding_norm"]:
        yield "embedding.norm", (WIDTH,), True
    for i in range(LAYERS):
        yield f"encoder.blocks.{i}.attention.qkv", (3 * WIDTH, WIDTH), True
        yield f"encoder.blocks.{i}.attention.output", (WIDTH, WIDTH), True
        yield f"encoder.blocks.{i}.attention_norm", (WIDTH,), True
        yield f"encoder.blocks.{i}.feed_forward.expand", (HIDDEN, WIDTH), True
        yield f"encoder.blocks.{i}.feed_forward.contract", (WIDTH, HIDDEN), True
        yield f"encoder.blocks.{i}.feed_forward_norm", (WIDTH,), True
    if facts["norm_first"]:
        yield "encoder.norm", (WIDTH,), True
    if head is not None and head["labels"]:
        yield "head.output", (head["labels"], WIDTH), True
    if head is not None and head["dense"]:
        yield "head.dense", (WIDTH, WIDTH), True


def write(folder, facts, head):
    """A tiny random model folder; its tensors are returned in float64."""
    random = np.random.default_rng(0)
    tensors = {}
    for name, shape, bias in names_and_shapes(facts, head):
        around = 1.0 if "norm" in name else 0.0
        tensors[f"{name}.weight"] = random.normal(around, 0.3, size=shape).astype(np.float32)
        if bias:
            tensors[f"{name}.bias"] = random.normal(0.0, 0.3, size=shape[:1]).astype(np.float32)
    save_file(tensors, folder / "model.safetensors")
    config = {"model_type": "clearhead", "facts": facts, "head": head}
    (folder / "config.json").write_text(json.dumps(config))
    return {name: tensor.astype(np.float64) for name, tensor in tensors.items()}


def both(tensors, name):
    return tensors[f"{name}.weight"], tensors[f"{name}.bias"]


def norm(tensors, name, x, epsilon):
    scale, shift = both(tensors, name)
    return layer_norm(x, epsilon, scale=scale, shift=shift)


def test_a_pre_norm_folder_is_a_few_straight_lines(tmp_path):
    tensors = write(tmp_path, PRE_NORM, MEAN_HEAD)
    x = tensors["embedding.tokens.weight"][IDS] + sinusoidal_positions(len(IDS), WIDTH)
    for i in range(LAYERS):
        block = f"encoder.blocks.{i}"
        qkv = linear(
            norm(tensors, f"{block}.attention_norm", x, 1e-5), *both(tensors, f"{block}.attention.qkv")
        )
        # [tokens, 3 · width] → [3, heads, tokens, head_width]
        q, k, v = qkv.reshape(len(IDS), 3, HEADS, -1).transpose(1, 2, 0, 3)
        heads = softmax(q @ k.transpose(0, 2, 1) / np.sqrt(WIDTH / HEADS)) @ v
        together = heads.transpose(1, 0, 2).reshape(len(IDS), WIDTH)
        x = x + linear(together, *both(tensors, f"{block}.attention.output"))
        y = norm(tensors, f"{block}.feed_forward_norm", x, 1e-5)
        y = relu(linear(y, *both(tensors, f"{block}.feed_forward.expand")))
        x = x + linear(y, *both(tensors, f"{block}.feed_forward.contract"))
    x = norm(tensors, "encoder.norm", x, 1e-5)

    ours = read(tmp_path)
    np.testing.assert_allclose(ours.hidden(IDS), x, rtol=0, atol=1e-12)
    np.testing.assert_allclose(ours.pooled(IDS), x.mean(axis=0), rtol=0, atol=1e-12)
    logits = linear(x.mean(axis=0), *both(tensors, "head.output"))
    assert logits.shape == (LABELS,)
    np.testing.assert_allclose(ours.logits(IDS), logits, rtol=0, atol=1e-12)


def torch_block(tensors, facts, i):
    layer = torch.nn.TransformerEncoderLayer(
        WIDTH,
        HEADS,
        dim_feedforward=HIDDEN,
        dropout=0.0,
        activation=facts["activation"],
        layer_norm_eps=facts["epsilon"],
        batch_first=True,
        norm_first=facts["norm_first"],
        dtype=torch.float64,
    )
    theirs = {
        "self_attn.in_proj_": "attention.qkv.",
        "self_attn.out_proj.": "attention.output.",
        "norm1.": "attention_norm.",
        "linear1.": "feed_forward.expand.",
        "linear2.": "feed_forward.contract.",
        "norm2.": "feed_forward_norm.",
    }
    layer.load_state_dict(
        {
            their + kind: torch.from_numpy(tensors[f"encoder.blocks.{i}.{our}{kind}"])
            for their, our in theirs.items()
            for kind in ("weight", "bias")
        }
    )
    return layer.train()  # without dropout the same numbers, and never torch's fused path


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_blocks_agree_with_torchs_own_encoder_layer(tmp_path, norm_first, activation):
    facts = {**POST_NORM, "norm_first": norm_first, "activation": activation}
    tensors = write(tmp_path, facts, None)
    segments = [0, 1, 1, 0, 0, 1]
    x = np.sqrt(WIDTH) * tensors["embedding.tokens.weight"][IDS]
    x = x + tensors["embedding.positions.weight"][: len(IDS)] + tensors["embedding.segments.weight"][segments]
    y = torch.from_numpy(norm(tensors, "embedding.norm", x, 1e-3))[None]
    with torch.no_grad():
        for i in range(LAYERS):
            y = torch_block(tensors, facts, i)(y)
    expected = norm(tensors, "encoder.norm", y[0].numpy(), 1e-3) if norm_first else y[0].numpy()
    np.testing.assert_allclose(read(tmp_path).hidden(IDS, segments), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("pooling", "pool"),
    [("cls", lambda x: x[0]), ("mean", lambda x: x.mean(axis=0)), ("max", lambda x: x.max(axis=0))],
)
@pytest.mark.parametrize("dense", [False, True])
def test_a_head_pools_then_may_be_dense_then_gives_logits(tmp_path, pooling, pool, dense):
    tensors = write(tmp_path, POST_NORM, {"pooling": pooling, "dense": dense, "labels": LABELS})
    ours = read(tmp_path)
    pooled = pool(ours.hidden(IDS))
    if dense:
        pooled = np.tanh(linear(pooled, *both(tensors, "head.dense")))
    np.testing.assert_allclose(ours.pooled(IDS), pooled, rtol=0, atol=1e-13)
    np.testing.assert_allclose(
        ours.logits(IDS), linear(pooled, *both(tensors, "head.output")), rtol=0, atol=1e-13
    )


def test_a_head_without_labels_ends_at_the_pooled_vector(tmp_path):
    write(tmp_path, PRE_NORM, {**MEAN_HEAD, "labels": 0})
    ours = read(tmp_path)
    np.testing.assert_allclose(ours.pooled(IDS), ours.hidden(IDS).mean(axis=0), rtol=0, atol=1e-13)
    with pytest.raises(FolderError, match="no classification head"):
        ours.logits(IDS)


def test_the_activation_is_the_one_the_facts_name(tmp_path):
    for name, function in (("relu", relu), ("gelu", gelu), ("gelu_tanh", gelu_tanh)):
        write(tmp_path, {**PRE_NORM, "activation": name}, None)
        assert read(tmp_path).facts.activation is function


def test_a_folder_without_head_has_hidden_vectors_only(tmp_path):
    write(tmp_path, PRE_NORM, None)
    ours = read(tmp_path)
    assert ours.hidden(IDS).shape == (len(IDS), WIDTH)
    with pytest.raises(FolderError, match="no pooler and no head"):
        ours.pooled(IDS)
    with pytest.raises(FolderError, match="no classification head"):
        ours.logits(IDS)


def test_a_whole_model_is_blind_to_order_until_positions_are_added(tmp_path):
    order = [4, 2, 0, 5, 1, 3]
    permuted = [IDS[i] for i in order]
    tensors = write(tmp_path, {**POST_NORM, "positions": {"kind": "learned", "count": 10}}, None)
    with_positions = read(tmp_path)
    assert np.abs(with_positions.hidden(permuted) - with_positions.hidden(IDS)[order]).max() > 0.1
    tensors["embedding.positions.weight"][:] = 0.0
    save_file(tensors, tmp_path / "model.safetensors")
    without_positions = read(tmp_path)
    np.testing.assert_allclose(
        without_positions.hidden(permuted), without_positions.hidden(IDS)[order], rtol=0, atol=1e-12
    )


def test_sinusoids_take_texts_of_any_length_and_learned_positions_end(tmp_path):
    longer = [1] * 11
    write(tmp_path, PRE_NORM, None)
    assert read(tmp_path).hidden(longer).shape == (11, WIDTH)
    write(tmp_path, POST_NORM, None)
    with pytest.raises(DataError, match="11 tokens is longer than the 10 learned positions"):
        read(tmp_path).hidden(longer)


def test_segments_are_refused_where_none_were_learned(tmp_path):
    write(tmp_path, PRE_NORM, None)
    ours = read(tmp_path)
    np.testing.assert_array_equal(ours.hidden([1, 2], [0, 0]), ours.hidden([1, 2]))
    with pytest.raises(DataError, match="knows no segments"):
        ours.hidden([1, 2], [0, 1])


@pytest.mark.parametrize(
    ("facts", "head", "message"),
    [
        (
            {"positions": {"kind": "relative"}},
            None,
            r"positions\.kind='relative'; this can be sinusoidal, learned, rotary",
        ),
        ({"positions": {"kind": "learned"}}, None, "lacks the field 'count'"),
        ({"activation": "swish"}, None, "activation='swish'; this can be relu, gelu, gelu_tanh"),
        ({"norm_first": 1}, None, "norm_first=1; it must be of type bool"),
        ({"heads": 5}, None, "heads must divide the width"),
        ({"gated": 1}, None, "gated=1; it must be of type bool"),
        ({"first_norm": False, "norm_first": False}, None, "first_norm=false with norm_first=false"),
        ({"decoder_layers": 2}, None, "decoder_layers=2"),
        ({"norm_first": False}, None, r"does not explain: encoder\.norm\.(weight|bias)"),
        ({"embedding_norm": True}, None, r"lacks embedding\.norm\.weight, embedding\.norm\.bias"),
        ({}, {**MEAN_HEAD, "pooling": "first"}, r"head\.pooling='first'; this can be cls, mean, max, last"),
        ({}, {**MEAN_HEAD, "dense": True}, r"lacks head\.dense\.weight, head\.dense\.bias"),
    ],
)
def test_facts_that_do_not_fit_are_refused_by_name(tmp_path, facts, head, message):
    write(tmp_path, PRE_NORM, None if head is None else MEAN_HEAD)
    config = {"model_type": "clearhead", "facts": {**PRE_NORM, **facts}, "head": head}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(FolderError, match=message):
        read(tmp_path)


def test_a_config_says_so_when_there_is_no_head(tmp_path):
    write(tmp_path, PRE_NORM, None)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "clearhead", "facts": PRE_NORM}))
    with pytest.raises(FolderError, match="'head'; it is null"):
        read(tmp_path)
