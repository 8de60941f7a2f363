"""Encoder–decoders made here are saved as our own folders, and read again as they were, also by the twin."""

from dataclasses import replace

import pytest
import torch

import clearhead as ch
from clearhead.check.finding import Verdict
from clearhead.checkpoint.answering import Begin
from clearhead.checkpoint.families import FAMILIES
from clearhead.checkpoint.folder import Loaded, read_folder, write_folder
from clearhead.checkpoint.fresh import new_transformer
from clearhead.errors import FolderError
from clearhead.infer.model import Model
from clearhead.model.config import (
    Activation,
    Config,
    Learned,
    LinearScaling,
    Norm,
    Relative,
    Rotary,
    Sinusoidal,
)
from clearhead.reference import folder as reference
from clearhead.tasks.translate import side_by_side
from clearhead.text.tokenizer import Tokenizer
from families import write_tokenizer

PLAIN = Config(
    vocab=60, width=24, layers=3, decoder_layers=2, heads=4, hidden=40, positions=Sinusoidal(),
    activation=Activation.RELU, scale_embedding=True, language_head=True,
)  # fmt: skip
CONFIGS = {
    "of-2017": PLAIN,
    "shared-keys": replace(PLAIN, kv_heads=2, head_width=8, norm_first=True, gated=True, initial_std=0.3),
    "two-vocabularies": replace(PLAIN, target_vocab=70, language_bias=True, positions=Sinusoidal(True, 50)),
    "untied": replace(PLAIN, target_vocab=70, tied=False, qkv_bias=True, bias=False, output_bias=True),
    "learned": replace(PLAIN, positions=Learned(50, offset=2), embedding_norm=True, norm_bias=False),
    "rotary": replace(PLAIN, positions=Rotary(50, 1e3, share=0.67, scaling=LinearScaling(2.0))),
    "relative": replace(
        PLAIN, positions=Relative(8, 20), norm=Norm.RMS, norm_first=True, scale_scores=False, bias=False,
        scale_output=True, final_dropout=0.1,
    ),
}  # fmt: skip
PAIRS = [([5, 9, 4], [7]), ([6], [8, 5, 9, 4, 12]), ([7, 5, 8, 9] * 6, [4] * 20), ([9, 9, 5, 6, 20], [30, 3])]


@pytest.fixture
def tokenizer(tmp_path):
    (tmp_path / "words").mkdir()
    write_tokenizer(tmp_path / "words", "roberta")
    return Tokenizer.read(tmp_path / "words")


def made(name, tokenizer):
    """A new model, its vectors and biases drawn as well."""
    network = new_transformer(CONFIGS[name], None, seed=3)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.2)
    begin = Begin(start=1, never=(1,))
    target = tokenizer if CONFIGS[name].target_vocab else None
    return Loaded(network, tokenizer, (), FAMILIES["clearhead"], None, ends=(3,), begin=begin, target=target)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_folder_of_ours_is_read_as_it_was_saved_and_equals_the_twin(name, tokenizer, tmp_path):
    loaded = made(name, tokenizer)
    write_folder(tmp_path / "ours", loaded)
    again, whole = read_folder(tmp_path / "ours"), reference.read(tmp_path / "ours")
    assert again.family.model_type == "clearhead" and again.network.config == CONFIGS[name]
    assert (again.begin, again.ends) == (loaded.begin, loaded.ends)
    assert (again.target is None) == (loaded.target is None)
    state = again.network.state_dict()
    assert all(torch.equal(tensor, state.pop(key)) for key, tensor in loaded.network.state_dict().items())
    assert not state
    network, (sources, answers) = again.network.double(), zip(*PAIRS, strict=True)
    source, target = side_by_side(sources, answers)
    with torch.inference_mode():
        stream = network.answering(source, target)
        for source, answer, rows in zip(sources, answers, target.layout.slices, strict=True):
            right = torch.from_numpy(whole.logits(source, answer))
            torch.testing.assert_close(network.next_logits(stream[rows]), right, atol=1e-10, rtol=1e-10)


def test_a_model_made_here_keeps_its_promises(tokenizer):
    model = Model(made("two-vocabularies", tokenizer))
    assert [finding for finding in ch.verify(model) if finding.verdict is Verdict.FAIL] == []


def test_answers_with_more_tokens_than_the_decoder_has_are_refused(tokenizer, tmp_path):
    loaded = made("two-vocabularies", tokenizer)
    few = new_transformer(replace(CONFIGS["two-vocabularies"], target_vocab=20), None, seed=3)
    write_folder(tmp_path / "ours", replace(loaded, network=few))
    with pytest.raises(FolderError, match="tokens, the model only 20; the files belong to different models"):
        read_folder(tmp_path / "ours")
