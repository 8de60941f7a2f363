"""Every published head for masked tokens agrees with the published code, in float64 to 1e-10, both ways."""

import pytest
import torch

import clearhead as ch
from clearhead.checkpoint.folder import read_folder
from clearhead.model.layout import pack
from families import NAMES, filler, kinds, texts, write_tokenizer
from float64 import in_float64


@pytest.mark.shows("load")
@pytest.mark.parametrize("fills", [True])
@pytest.mark.parametrize("wide", [False, True], ids=["default", "wide"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("name", NAMES)
def test_a_head_for_masked_tokens_agrees_with_the_published_code(tmp_path, name, fills, wide, tied):
    with torch.no_grad(), in_float64(*kinds(name)):
        model = filler(name, wide=wide, tie_word_embeddings=tied)
        model.save_pretrained(tmp_path)
        write_tokenizer(tmp_path, name)
        network = read_folder(tmp_path).network.double()
        assert network.config.fill.tied == tied
        ids = texts()
        batch = pack(ids)
        logits = network.fill_logits(network(batch))
        model.double()
        for place, row in enumerate(ids):
            right = model(input_ids=torch.tensor([row])).logits[0]
            mine = logits[batch.layout.slices[place]]
            torch.testing.assert_close(mine, right, atol=1e-10, rtol=1e-10)


@pytest.mark.shows("save")
@pytest.mark.parametrize("fills", [True])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("name", NAMES)
def test_a_folder_we_save_is_read_by_the_published_code(tmp_path, name, fills, tied):
    from transformers import AutoModelForMaskedLM

    filler(name, wide=True, tie_word_embeddings=tied).save_pretrained(tmp_path / "theirs")
    write_tokenizer(tmp_path / "theirs", name)
    model = ch.load(tmp_path / "theirs")
    model.save(tmp_path / "ours")
    theirs, notes = AutoModelForMaskedLM.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not notes["unexpected_keys"] and not notes["missing_keys"]
    again = ch.load(tmp_path / "ours")
    assert again.config == model.config and again.loaded.network.head_facts is None
    assert again.loaded.family.model_type == model.loaded.family.model_type
    row = texts()[4]
    with torch.no_grad():
        right = theirs.eval()(input_ids=torch.tensor([row])).logits[0]
    with torch.inference_mode():
        network = again.loaded.network
        mine = network.fill_logits(network(pack([row])))[: len(row)]
    torch.testing.assert_close(mine, right, atol=1e-5, rtol=1e-5)
