"""Heads over tokens (tags, spans) agree with the published code and with the NumPy twin, both ways."""

import pytest
import torch
import transformers

import clearhead as ch
from clearhead.checkpoint.folder import read_folder
from clearhead.checkpoint.labels import Problem
from clearhead.model.config import Over
from clearhead.model.layout import pack
from clearhead.reference import folder as reference
from families import NAMES, OVER, over_tokens, texts, write_tokenizer
from float64 import in_float64

PROBLEMS = {"tag": Problem.TAGS, "answer": Problem.SPANS}


def right_logits(model, row):
    """`[tokens, labels]` by the published code."""
    said = model(input_ids=torch.tensor([row]))
    if "logits" in said:
        return said.logits[0]
    return torch.stack([said.start_logits[0], said.end_logits[0]], -1)


@pytest.mark.shows("load")
@pytest.mark.parametrize("wide", [False, True], ids=["default", "wide"])
@pytest.mark.parametrize("over", OVER)
@pytest.mark.parametrize("name", NAMES)
def test_a_head_over_tokens_agrees_with_the_published_code(tmp_path, name, over, wide):
    model = over_tokens(name, over, wide=wide)
    with torch.no_grad(), in_float64(type(model), type(model.base_model)):
        model = over_tokens(name, over, wide=wide)
        model.save_pretrained(tmp_path)
        write_tokenizer(tmp_path, name)
        loaded = read_folder(tmp_path)
        network, ids = loaded.network.double(), texts()
        batch = pack(ids)
        logits = network.classify(batch)
        model.double()
        twin = reference.read(tmp_path)
        for place, row in enumerate(ids):
            mine = logits[batch.layout.slices[place]]
            torch.testing.assert_close(mine, right_logits(model, row), atol=1e-10, rtol=1e-10)
            torch.testing.assert_close(mine, torch.from_numpy(twin.logits(row)), atol=1e-10, rtol=1e-10)
    assert loaded.problem is PROBLEMS[over] and loaded.labels == OVER[over][1]
    assert network.head_facts.over is (Over.TOKENS if over == "tag" else Over.SPANS)


@pytest.mark.shows("save")
@pytest.mark.parametrize("over", OVER)
@pytest.mark.parametrize("name", NAMES)
def test_a_folder_with_a_head_over_tokens_is_read_by_the_published_code(tmp_path, name, over):
    kept = tmp_path / "theirs"
    over_tokens(name, over, wide=True).save_pretrained(kept)
    write_tokenizer(kept, name)
    model = ch.load(kept)
    model.save(tmp_path / "ours")
    auto = getattr(transformers, "AutoModel" + OVER[over][0])
    theirs, notes = auto.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not notes["unexpected_keys"] and not notes["missing_keys"]
    again = ch.load(tmp_path / "ours")
    assert again.config == model.config and again.loaded.network.head_facts == model.loaded.network.head_facts
    assert again.loaded.family.model_type == model.loaded.family.model_type
    row = texts()[4]
    with torch.no_grad():
        right = right_logits(theirs.eval(), row)
    with torch.inference_mode():
        mine = again.loaded.network.classify(pack([row]))[: len(row)]
    torch.testing.assert_close(mine, right, atol=1e-5, rtol=1e-5)


def test_old_taggers_carry_a_pooler_that_nothing_reads(tmp_path):
    model = over_tokens("bert", "tag")
    tensors = model.state_dict() | {
        "bert.pooler.dense.weight": torch.eye(24),
        "bert.pooler.dense.bias": torch.zeros(24),
    }
    model.save_pretrained(tmp_path, state_dict=tensors)
    write_tokenizer(tmp_path, "bert")
    loaded = read_folder(tmp_path)
    assert loaded.labels == OVER["tag"][1] and not loaded.network.head_facts.dense
