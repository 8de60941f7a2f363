"""The benchmarks measure what they say; no figure is tested."""

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from statistics import median
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

import embed
import encoder
import engines
import figure
import measuring
import neighbours
import pairs as texts
import plain_translator
import rotten_tomatoes
import shapes
import train_classify
import train_fill
from clearhead.learn.schedule import Schedule
from sentences import plain_vectors, sentence_folder

FOLDER = Path(__file__).parent.parent / "benchmarks"
SCRIPTS = sorted(path for path in FOLDER.glob("*.py") if "__main__" in path.read_text())
TINY = shapes.Shape(layers=1, width=16, heads=2, hidden=32, vocab=50)


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("model"))
    job = {"folder": folder, "shape": asdict(TINY), "texts": 40, "cores": torch.get_num_threads()}
    train_classify.prepare(job)
    return job | {"sgemm": 64}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_tells_its_flags_without_the_peers(path):
    done = subprocess.run([sys.executable, path, "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout


@pytest.mark.parametrize("count", [128, 512, 2000])
def test_lengths_are_as_skewed_as_stated(count):
    lengths = shapes.skewed_lengths(count)
    assert median(lengths) == 24
    assert sum(length > 120 for length in lengths) == pytest.approx(count / 20, abs=1)
    assert min(lengths) >= 3 and max(lengths) <= 512
    assert lengths == shapes.skewed_lengths(count) != sorted(lengths)


def test_texts_have_their_lengths_and_stay_in_the_vocabulary():
    lengths = shapes.skewed_lengths(50)
    texts = shapes.random_texts(lengths, vocab=60)
    assert [len(ids) for ids in texts] == lengths
    assert {id for ids in texts for id in ids[1:-1]} <= set(range(shapes.FIRST, 60))
    assert all(ids[0] == shapes.CLS and ids[-1] == shapes.SEP for ids in texts)


def test_multiply_adds_are_those_that_torch_counts(job):
    from torch.utils.flop_counter import FlopCounterMode
    from transformers import BertForSequenceClassification

    model = BertForSequenceClassification.from_pretrained(job["folder"], attn_implementation="eager")
    texts = shapes.random_texts([3, 8, 13], vocab=TINY.vocab)
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        for ids in texts:
            model(input_ids=torch.tensor([ids]))
    head = 2 * TINY.width * len(texts)  # two outputs a text, which are left out
    assert counter.get_total_flops() == 2 * (shapes.multiply_adds(TINY, [3, 8, 13]) + head)


@pytest.mark.parametrize("way", encoder.WAYS.values())
def test_every_way_to_make_batches_holds_each_text_once(way):
    lengths = shapes.skewed_lengths(100)
    assert sorted(index for batch in way(lengths) for index in batch) == list(range(100))


def test_padding_is_counted():
    assert shapes.padded_tokens([1, 4, 2], [[0, 1], [2]]) == 10
    lengths = shapes.skewed_lengths(512)
    for batch in shapes.by_budget(lengths, budget=600):
        assert shapes.padded_tokens(lengths, [batch]) <= 600


def test_a_ratio_is_taken_within_rounds():
    peer = [{"seconds": 4.0}, {"seconds": 40.0}, {"seconds": 6.0}]
    ours = [{"seconds": 2.0}, {"seconds": 20.0}, {"seconds": 2.0}]
    assert measuring.ratio(peer, ours) == 2.0


def test_peers_inherit_no_setting_of_ours(monkeypatch):
    monkeypatch.setenv("MKL_CBWR", "AUTO,STRICT")
    monkeypatch.setenv("OPENBLAS_CORETYPE", "HASWELL")
    found = measuring.clean(2)
    assert not {"MKL_CBWR", "OPENBLAS_CORETYPE"} & found.keys()
    assert found["OMP_NUM_THREADS"] == "2"


def test_the_sides_of_the_encoder_benchmark_do_the_same_work(job):
    here = [side for side in encoder.MEASURE if side.startswith(("clearhead", "transformers"))]
    results = {side: encoder.MEASURE[side](job) for side in here}
    for result in results.values():
        assert encoder.largest_difference(result, results["clearhead"]) < 1e-6
        assert result["peak_mb"] >= result["working_mb"] > 0
    rows = encoder.rows_of({side: [one] for side, one in results.items()}, [3], shape=TINY)
    assert encoder.table(rows).count("\n") == 1 + len(here)
    lengths = shapes.skewed_lengths(40)
    assert sum(lengths) <= results["clearhead"]["rows"] < sum(lengths) + 8


def test_the_sides_of_the_training_benchmark_take_the_same_steps(job):
    here = {side: measure for side, measure in train_classify.MEASURE.items() if side.endswith("0.1")}
    found = {side: [measure(job)] for side, measure in here.items()}
    assert {one["steps"] for (one,) in found.values()} == {2}
    assert all(one["loss"] == pytest.approx(0.7, abs=0.1) for (one,) in found.values())
    assert train_classify.table(train_classify.rows_of(found, texts=40, shape=TINY)).count("\n") == 4


def test_the_sides_of_the_masked_benchmark_take_the_same_steps(tmp_path):
    job = {"folder": str(tmp_path), "shape": asdict(TINY), "texts": 40, "cores": 1, "sgemm": 64}
    train_fill.prepare(job)
    here = {side: measure for side, measure in train_fill.MEASURE.items() if side.endswith("0.1")}
    found = {side: [measure(job)] for side, measure in here.items()}
    assert {one["steps"] for (one,) in found.values()} == {2}
    assert all(one["loss"] == pytest.approx(np.log(TINY.vocab), abs=0.2) for (one,) in found.values())
    assert train_classify.table(train_fill.rows_of(found, texts=40, shape=TINY)).count("\n") == 4


def test_the_side_of_the_vectors_benchmark_embeds_reviews_as_the_published_code_does(tmp_path):
    file = tmp_path / "reviews.csv"
    file.write_text("text,label\n" + "".join(f"a good soup {number},good\n" for number in range(40)))
    model = str(sentence_folder(tmp_path / "model"))
    job = {"folder": str(tmp_path), "model": model, "texts": 20, "cores": 1, "reviews": str(file)}
    result = embed.MEASURE[embed.OURS](job)
    texts = embed.reviews(str(file), count=20)
    assert texts[:3] == ["a good soup 0", "a good soup 2", "a good soup 4"]
    right = plain_vectors(Path(model), texts, pooling="mean", normalise=True, limit=20)
    np.save(tmp_path / f"{embed.PEER}.npy", right)
    assert embed.largest_difference(tmp_path, list(embed.ENGINES)) < 1e-5
    found = {embed.OURS: [result], embed.PEER: [result | {"seconds": 2 * result["seconds"]}]}
    assert "2.00 ×" in embed.table(found, texts=20)


def test_a_neighbour_that_changes_a_bit_is_seen(job):
    def faithful(folder, *, cores):
        return lambda batch: np.array([[sum(ids), 1] for ids in batch], dtype=np.float32) / 1000

    def moved(folder, *, cores):
        score = faithful(folder, cores=cores)
        return lambda batch: score(batch) + np.float32(1e-3 * (len(batch) - 1))[..., None] * [[1, 0]]

    job = job | {"texts": 12}
    assert neighbours.compare(job, engine=faithful)["changed_in_any"] == 0
    assert neighbours.compare(job, engine=moved)["changed_in_any"] == 12
    assert neighbours.compare(job, engine=engines.clearhead)["changed_in_any"] == 0


def test_the_figure_is_well_formed_and_tells_every_number():
    row = {"precision": "float32", "largest_change": 1e-9}
    rows = [
        row | {"engine": "clearhead", "changed_in_any": 0},
        row | {"engine": "a & b", "changed_in_any": 7},
    ]
    drawn = ElementTree.fromstring(figure.neighbours(rows, texts=9, notes=["1 < 2"]))
    told = " ".join(drawn.itertext())
    assert all(words in told for words in ("0 of 9", "7 of 9", "a & b", "< 0.001 points", "1 < 2"))


def test_the_plain_loops_schedule_is_the_librarys():
    ours = Schedule.of(1.0, 40, warmup=0.1)
    for step in range(1, 41):
        assert rotten_tomatoes.share_of_peak(step, steps=40) == pytest.approx(ours(step))


def test_accuracies_are_told_with_their_difference():
    found = {"clearhead": [{"accuracy": 0.85}, {"accuracy": 0.86}]}
    found["plain loop"] = [{"accuracy": 0.84}, {"accuracy": 0.865}]
    assert "+1.00 | -0.50 | +0.25" in rotten_tomatoes.table(found, [0, 1])


def test_pairs_are_batched_by_tokens_each_once():
    chance = np.random.default_rng(0)
    pairs = [([5] * int(chance.integers(1, 20)), [6] * int(chance.integers(1, 20))) for _ in range(100)]
    for batches in (texts.by_tokens(pairs, budget=200), texts.shuffled(pairs, size=16)):
        assert sorted(index for batch in batches for index in batch) == list(range(100))
    assert all(texts.rectangle(batch, pairs) <= 200 for batch in texts.by_tokens(pairs, budget=200))


def test_a_plain_translator_finds_the_likeliest_answer():
    torch.manual_seed(3)
    model = plain_translator.Translator(plain_translator.Size(1, 16, 2, 32, 6, dropout=0.0))
    source = [[2, 3, 1], [4, 1]]
    found = plain_translator.answers(model, source, beams=30, most=3)
    for read, ids in zip(source, found, strict=True):
        scores = {}
        for said in [[], *[[a] for a in (0, 2, 3, 4)], *[[a, b] for a in (0, 2, 3, 4) for b in (0, 2, 3, 4)]]:
            logits = model(torch.tensor([read]), torch.tensor([[5, *said]]))[0].log_softmax(-1)
            total = sum(float(logits[place, id].detach()) for place, id in enumerate([*said, 1]))
            scores[tuple(said)] = total / (len(said) + 1)
        assert tuple(ids) == max(scores, key=scores.__getitem__)
