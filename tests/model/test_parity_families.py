"""Every published family agrees with the published code, in float64 to 1e-10, both ways."""

import pytest
import torch

import clearhead as ch
from clearhead.checkpoint.folder import read_folder
from clearhead.model.kernels import Context
from clearhead.model.layout import pack
from families import NAMES, kinds, published, texts, tiny_folder, write_tokenizer
from float64 import in_float64

TEXTS = [
    "good bread .",
    "the film was not so good , and the soup was cold",
    "slow",
    "1 2 3 4 5 6 7 8 9 0 " * 3,
]


@pytest.mark.shows("load")
@pytest.mark.parametrize("wide", [False, True], ids=["default", "wide"])
@pytest.mark.parametrize("labels", [(), ("a", "b", "c")], ids=["body", "head"])
@pytest.mark.parametrize("name", NAMES)
def test_a_family_agrees_with_the_published_code(tmp_path, name, labels, wide):
    with torch.no_grad(), in_float64(*kinds(name)):
        model = published(name, labels, wide=wide)
        model.save_pretrained(tmp_path)
        write_tokenizer(tmp_path, name)
        ids = texts()
        network = read_folder(tmp_path).network.double()
        batch = pack(ids)
        context = Context.of(batch.layout)
        stream = network(batch, context)
        model.double()
        body = model.base_model
        for place, row in enumerate(ids):
            hidden = body(input_ids=torch.tensor([row])).last_hidden_state[0]
            mine = stream[batch.layout.slices[place]]
            torch.testing.assert_close(mine, hidden, atol=1e-10, rtol=1e-10)
        if labels:
            right = [model(input_ids=torch.tensor([row])).logits[0] for row in ids]
            torch.testing.assert_close(
                network.head(stream, context), torch.stack(right), atol=1e-10, rtol=1e-10
            )


@pytest.mark.shows("save")
@pytest.mark.parametrize("labels", [(), ("a", "b", "c")], ids=["body", "head"])
@pytest.mark.parametrize("name", NAMES)
def test_a_folder_we_save_is_read_by_the_published_code(tmp_path, name, labels):
    from transformers import AutoModel, AutoModelForSequenceClassification

    model = ch.load(tiny_folder(tmp_path / "theirs", name, labels, wide=True))
    model.save(tmp_path / "ours")
    kind = AutoModelForSequenceClassification if labels else AutoModel
    theirs, notes = kind.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not notes["unexpected_keys"] and all("pooler" in key for key in notes["missing_keys"])
    again = ch.load(tmp_path / "ours")
    assert again.config == model.config and again.loaded.network.head_facts == model.loaded.network.head_facts
    assert again.loaded.family.model_type == model.loaded.family.model_type
    row = texts()[4]
    with torch.no_grad():
        right = theirs.eval()(input_ids=torch.tensor([row]))
    batch = pack([row])
    with torch.inference_mode():
        mine = again.loaded.network.classify(batch) if labels else again.loaded.network(batch)[: len(row)]
    expected = right.logits if labels else right.last_hidden_state[0]
    torch.testing.assert_close(mine, expected, atol=1e-5, rtol=1e-5)
