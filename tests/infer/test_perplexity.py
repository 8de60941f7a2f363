"""How well a language model knows texts: as the published code says, whatever the pieces and batches."""

import json

import pytest
import torch
from transformers import AutoModelForCausalLM

import clearhead as ch
from clearhead.app.cli import main
from clearhead.errors import ClearheadError
from decoders import tiny_folder

TEXT = "good bread and cold soup , a story of the table and the film . " * 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_folder(tmp_path_factory.mktemp("llama"), "llama", wide=True)


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    return tmp_path / "text.txt"


def test_loss_and_bits_are_those_of_the_published_code_over_the_whole_text(folder, text):
    model = ch.load(folder)
    found = ch.evaluate(model, text, context=32)
    ids = list(
        model.tokenizer.encode([TEXT])[0].ids[:-1]
    )  # as a prompt begins; [SEP] is no end of a document
    published, nats = AutoModelForCausalLM.from_pretrained(folder).eval(), 0.0
    for start in range(0, len(ids) - 1, 32):
        row = torch.tensor(ids[start : start + 33])
        with torch.no_grad():
            logits = published(row[None, :-1]).logits[0]
        nats += float(torch.nn.functional.cross_entropy(logits, row[1:], reduction="sum"))
    scores = found.metrics
    assert scores.tokens == len(ids) - 1 and scores.bytes == len(TEXT) and scores.texts == 1
    assert scores.loss == pytest.approx(nats / (len(ids) - 1), rel=1e-5)
    assert scores.bits_per_byte == pytest.approx(nats / 0.69314718 / len(TEXT), rel=1e-5)


@pytest.mark.parametrize("stride", [1, 5, 16, 32])
def test_with_a_stride_each_token_counts_once_after_as_much_as_fits(folder, text, stride):
    """Sliding window: the loss of each token is that of a window of its own."""
    model = ch.load(folder)
    scores = ch.evaluate(model, text, context=32, stride=stride).metrics
    plain = ch.evaluate(model, text, context=32).metrics
    assert scores.tokens == plain.tokens
    if stride == 32:
        assert scores == plain
    if stride == 1:
        ids = list(model.tokenizer.encode([TEXT])[0].ids[:-1])
        published, nats = AutoModelForCausalLM.from_pretrained(folder).eval(), 0.0
        for place in range(1, len(ids)):
            row = torch.tensor(ids[max(0, place - 32) : place])
            with torch.no_grad():
                nats -= float(published(row[None]).logits[0, -1].log_softmax(-1)[ids[place]])
        assert scores.loss == pytest.approx(nats / (len(ids) - 1), rel=1e-5)


def test_the_command_prints_one_object_and_refuses_what_does_not_fit(folder, text, capsys):
    with pytest.raises(SystemExit) as left:
        main(["evaluate", str(folder), "--data", str(text), "--context", "32"])
    told = json.loads(capsys.readouterr().out)
    assert left.value.code == 0 and told["context"] == 32 and told["perplexity"] > 1
    for words, said in (
        (["--context", "33"], "--context 33 is more than"),
        (["--context", "8", "--stride", "9"], "--stride 9 is more than the 8 tokens of the context"),
        (["--stride", "0"], "--stride 0 must be at least 1"),
        (["--abstain-below", "0.5"], "--abstain-below is for labels"),
    ):
        with pytest.raises(SystemExit) as left:
            main(["evaluate", str(folder), "--data", str(text), *words])
        assert left.value.code == 2 and said in capsys.readouterr().err


def test_texts_without_a_second_token_are_named(folder, tmp_path):
    (tmp_path / "empty.txt").write_text(" \n")
    with pytest.raises(ClearheadError, match="holds no text"):
        ch.evaluate(ch.load(folder), tmp_path / "empty.txt")
