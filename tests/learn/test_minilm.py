"""A real model on real reviews: fetched with `get`, compared with the published code."""

import csv

import pytest
import torch
from test_training import plain_losses
from transformers import AutoModel

import clearhead as ch
from clearhead.app.demo import film_reviews
from clearhead.check.finding import Verdict
from clearhead.learn.run import Run
from clearhead.settings import Training

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def minilm():
    return ch.get("minilm")


@pytest.fixture
def films(tmp_path):
    path = tmp_path / "films.csv"
    rows = film_reviews()
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows([row.text, row.label] for row in rows[::8])
    return path


def test_minilm_agrees_with_the_published_code_in_float64(minilm):
    model = ch.load(minilm)
    texts = ["Good.", "The bread was warm and the soup was not.", "slow " * 90]
    network = model.loaded.network.double()
    published = AutoModel.from_pretrained(minilm).double().eval()
    from clearhead.infer.batches import packed

    batch = packed(model.encode(texts))
    with torch.no_grad():
        stream = network(batch)
        for rows, encoding in zip(batch.layout.slices, model.encode(texts), strict=True):
            right = published(torch.tensor([encoding.ids])).last_hidden_state[0]
            torch.testing.assert_close(stream[rows], right, atol=1e-10, rtol=1e-10)


def test_minilm_keeps_every_promise(minilm):
    assert [finding for finding in ch.verify(ch.load(minilm)) if finding.verdict is Verdict.FAIL] == []


def test_the_first_twenty_losses_on_real_reviews_are_those_of_a_plain_loop(minilm, films, tmp_path):
    settings = Training(
        data=str(films), base=str(minilm), out=str(tmp_path / "run"), dropout=0.0, batch_tokens=512
    )
    run = Run(settings)
    plain = plain_losses(run, tmp_path / "start")
    ours = [step.loss for step, _ in zip(run.trainer.run(), plain, strict=False)]
    assert len(ours) == 20
    assert ours == pytest.approx(plain, abs=1e-4)
