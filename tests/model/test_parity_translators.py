"""Every published encoder–decoder agrees with the published code, in float64 to 1e-10, both ways."""

import pytest
import torch

import clearhead as ch
from clearhead.checkpoint.folder import read_folder
from clearhead.model.cache import Cache
from clearhead.model.kernels import Context
from clearhead.model.layout import pack
from clearhead.tasks.translate import side_by_side
from float64 import in_float64
from translators import NAMES, doubled, kind, pairs, published, tiny_folder

PAIRS = pairs()


def both(given):
    """The two batches of some pairs."""
    return side_by_side([source for source, _ in given], [answer for _, answer in given])


@pytest.mark.shows("load")
@pytest.mark.parametrize("wide", [False, True], ids=["default", "wide"])
@pytest.mark.parametrize("translates", [True])
@pytest.mark.parametrize("name", NAMES)
def test_an_encoder_decoder_agrees_with_the_published_code(tmp_path, name, translates, wide):
    with torch.no_grad(), in_float64(kind(name)):
        model = published(name, wide=wide)
        tiny_folder(tmp_path, name, wide=wide)
        network = read_folder(tmp_path).network.double()
        doubled(model)
        source, target = both(PAIRS)
        stream = network.answering(source, target)
        for (asked, answer), rows in zip(PAIRS, target.layout.slices, strict=True):
            given = {"input_ids": torch.tensor([asked]), "decoder_input_ids": torch.tensor([answer])}
            logits = model(**given).logits[0]
            torch.testing.assert_close(network.next_logits(stream[rows]), logits, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_unpatched_and_in_float32_it_agrees_too(tmp_path, name):
    model, network = published(name), read_folder(tiny_folder(tmp_path, name)).network
    source, target = both(PAIRS)
    with torch.inference_mode():
        stream = network.answering(source, target)
        for (asked, answer), rows in zip(PAIRS, target.layout.slices, strict=True):
            given = {"input_ids": torch.tensor([asked]), "decoder_input_ids": torch.tensor([answer])}
            logits = model(**given).logits[0]
            torch.testing.assert_close(network.next_logits(stream[rows]), logits, atol=5e-5, rtol=5e-5)


@pytest.mark.shows("gradients")
@pytest.mark.parametrize("translates", [True])
@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_the_published_code(tmp_path, name, translates):
    with in_float64(kind(name)):
        model = doubled(published(name, wide=True))
        network = read_folder(tiny_folder(tmp_path, name, wide=True)).network.double().train()
        source, target = both(PAIRS[:6])
        logits = network.next_logits(network.answering(source, target))
        weights = torch.linspace(-1, 1, logits.shape[-1], dtype=torch.float64)
        rows = torch.cat([torch.arange(rows.start, rows.stop) for rows in target.layout.slices])
        (logits[rows].softmax(-1) @ weights).sum().backward()
        for asked, answer in PAIRS[:6]:
            given = {"input_ids": torch.tensor([asked]), "decoder_input_ids": torch.tensor([answer])}
            (model(**given).logits[0].softmax(-1) @ weights).sum().backward()
        table = model.get_input_embeddings().weight.grad
        mine = network.embedding.tokens.weight.grad
        torch.testing.assert_close(mine, table, atol=1e-10, rtol=1e-9)
        theirs = dict(model.named_parameters())
        norms = sorted(float(one.grad.norm()) for one in theirs.values() if one.grad is not None)
        assert norms[0] >= 0 and all(one.grad is not None for one in network.parameters())


@pytest.mark.shows("save")
@pytest.mark.parametrize("translates", [True])
@pytest.mark.parametrize("name", NAMES)
def test_a_folder_we_save_is_read_by_the_published_code(tmp_path, name, translates):
    model = ch.load(tiny_folder(tmp_path / "theirs", name, wide=True))
    model.save(tmp_path / "ours")
    theirs, notes = kind(name).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not notes["unexpected_keys"] and not notes["missing_keys"]
    again = ch.load(tmp_path / "ours")
    assert again.config == model.config and again.loaded.begin == model.loaded.begin
    assert again.loaded.family.model_type == model.loaded.family.model_type
    asked, answer = PAIRS[-2]
    with torch.inference_mode():
        given = {"input_ids": torch.tensor([asked]), "decoder_input_ids": torch.tensor([answer])}
        right = theirs.eval()(**given).logits[0]
        network = again.loaded.network
        mine = network.next_logits(network.answering(*both([(asked, answer)])))[: len(answer)]
    torch.testing.assert_close(mine, right, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cut", [[1], [1, 2], [5, 3, 2], [17]])
def test_any_split_into_cached_steps_gives_the_same_vectors(tmp_path, name, cut):
    network = read_folder(tiny_folder(tmp_path, name, wide=True)).network.double()
    source, target = both(PAIRS)
    with torch.inference_mode():
        whole = network.answering(source, target)
        cache = Cache(network.config, len(PAIRS))
        cache.answered = network.remember(source)
        done, turn = [0] * len(PAIRS), 0
        while any(at < len(answer) for at, (_, answer) in zip(done, PAIRS, strict=True)):
            size = cut[turn % len(cut)]
            pieces = [answer[at : at + size] for at, (_, answer) in zip(done, PAIRS, strict=True)]
            batch = pack(pieces, past=cache.lengths)
            stream = network.decode(batch, Context.of(batch.layout, cache=cache))
            for index, rows in enumerate(batch.layout.slices):
                start = target.layout.slices[index].start + done[index]
                right = whole[start : start + len(pieces[index])]
                torch.testing.assert_close(stream[rows], right, atol=1e-12, rtol=1e-12)
            done = [at + len(piece) for at, piece in zip(done, pieces, strict=True)]
            turn += 1


@pytest.mark.parametrize("name", NAMES)
def test_a_neighbour_changes_no_bit(tmp_path, name):
    network = read_folder(tiny_folder(tmp_path, name, wide=True)).network
    with torch.inference_mode():
        source, target = both(PAIRS)
        together = network.next_logits(network.answering(source, target))
        for pair, rows in zip(PAIRS, target.layout.slices, strict=True):
            for company in ([], [PAIRS[0]], PAIRS[3:5]):
                alone = network.next_logits(network.answering(*both([pair, *company])))
                own = both([pair, *company])[1].layout.slices[0]
                assert torch.equal(alone[own], together[rows])


@pytest.mark.parametrize("name", NAMES)
def test_the_decoder_does_not_look_ahead_and_sees_all_of_the_source(tmp_path, name):
    network = read_folder(tiny_folder(tmp_path, name, wide=True)).network.double()
    asked, answer = PAIRS[7]
    with torch.inference_mode():
        before = network.answering(*both([(asked, answer)]))
        later = network.answering(*both([(asked, [*answer[:4], 5, 6, 7])]))
        assert torch.equal(before[:4], later[:4])
        other = network.answering(*both([([*asked[:-1], asked[-1] ^ 1], answer)]))
        assert not torch.isclose(before[0], other[0]).all()
