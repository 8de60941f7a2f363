"""Every published decoder agrees with the published code, in float64 to 1e-10, both ways."""

import pytest
import torch

import clearhead as ch
from clearhead.checkpoint.folder import read_folder
from clearhead.model.kernels import Context
from clearhead.model.layout import pack
from decoders import NAMES, kinds, published, tiny_folder
from families import texts, write_tokenizer
from float64 import in_float64

IDS = [*texts(), [5, 9, 2, 7] * 12]


@pytest.mark.shows("load")
@pytest.mark.parametrize("wide", [False, True], ids=["default", "wide"])
@pytest.mark.parametrize("speaks", [False, True], ids=["body", "head"])
@pytest.mark.parametrize("name", NAMES)
def test_a_decoder_agrees_with_the_published_code(tmp_path, name, speaks, wide):
    with torch.no_grad(), in_float64(*kinds(name)):
        model = published(name, speaks=speaks, wide=wide)
        model.save_pretrained(tmp_path)
        write_tokenizer(tmp_path, name)
        network = read_folder(tmp_path).network.double()
        batch = pack(IDS)
        stream = network(batch, Context.of(batch.layout))
        model.double()
        body = model.base_model
        for rows, ids in zip(batch.layout.slices, IDS, strict=True):
            given = torch.tensor([ids])
            hidden = body(input_ids=given).last_hidden_state[0]
            torch.testing.assert_close(stream[rows], hidden, atol=1e-10, rtol=1e-10)
            if speaks:
                logits = model(input_ids=given).logits[0]
                torch.testing.assert_close(network.next_logits(stream[rows]), logits, atol=1e-10, rtol=1e-10)


@pytest.mark.shows("save")
@pytest.mark.parametrize("speaks", [False, True], ids=["body", "head"])
@pytest.mark.parametrize("name", NAMES)
def test_a_decoder_we_save_is_read_by_the_published_code(tmp_path, name, speaks):
    from transformers import AutoModel, AutoModelForCausalLM

    model = ch.load(tiny_folder(tmp_path / "theirs", name, speaks=speaks, wide=True))
    model.save(tmp_path / "ours")
    kind = AutoModelForCausalLM if speaks else AutoModel
    theirs, notes = kind.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not notes["unexpected_keys"] and not notes["missing_keys"]
    again = ch.load(tmp_path / "ours")
    assert again.config == model.config
    assert again.loaded.family.model_type == model.loaded.family.model_type
    ids = IDS[-1]
    with torch.no_grad():
        right = theirs.eval()(input_ids=torch.tensor([ids]))
    with torch.inference_mode():
        stream = again.loaded.network(pack([ids]))[: len(ids)]
        mine = again.loaded.network.next_logits(stream) if speaks else stream
    expected = right.logits[0] if speaks else right.last_hidden_state[0]
    torch.testing.assert_close(mine, expected, atol=2e-5, rtol=2e-5)
