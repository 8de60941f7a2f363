"""A saved folder knows what it is: every change is named, or changes nothing."""

import json
import random
import shutil
import warnings
from contextlib import suppress
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import clearhead as ch
from clearhead.checkpoint.fingerprint import FINGERPRINT, answers, digest, sample
from clearhead.checkpoint.fresh import with_head
from clearhead.checkpoint.tensors import WEIGHTS
from clearhead.errors import ClearheadError, FolderError, NotFinite
from clearhead.model.config import Head, Pooling
from published_folders import build, descriptions
from tiny import tiny_bert

TEXTS = ["a good soup", "not very warm, and slow!", "fine"]


@pytest.fixture
def saved(bert_folder, tmp_path):
    """A folder that we wrote, with its fingerprint."""
    ch.load(bert_folder).save(tmp_path / "saved")
    return tmp_path / "saved"


def edit(path, change):
    values = json.loads(path.read_text())
    path.write_text(json.dumps(change(values) or values))


def test_a_saved_folder_says_what_it_answers(saved):
    said = json.loads((saved / FINGERPRINT).read_text())
    assert said["labels"] == ["bad", "fine", "good"]
    assert set(said["files"]) == {path.name for path in saved.iterdir()} - {FINGERPRINT}
    model = ch.load(saved)
    assert list(model.tokenizer.encode([said["text"]])[0].ids) == said["text_ids"]
    ids, segments = sample(model.loaded.network)
    assert answers(model.loaded.network, ids, segments=segments) == said["answers"]


def test_the_answers_are_those_of_a_float64_network(saved):
    network = ch.load(saved).loaded.network
    ids, segments = sample(network)
    single = torch.tensor(answers(network, ids, segments=segments), dtype=torch.float64)
    assert {parameter.dtype for parameter in network.parameters()} == {torch.float32}
    double = torch.tensor(answers(network.double(), ids, segments=segments), dtype=torch.float64)
    torch.testing.assert_close(single, double, atol=1e-12, rtol=1e-12)


def test_a_published_folder_without_a_fingerprint_is_loaded_as_it_is(bert_folder):
    assert not (bert_folder / FINGERPRINT).exists()
    assert ch.load(bert_folder).predict(TEXTS)


def nudge(folder):
    tensors = load_file(folder / WEIGHTS)
    tensors["classifier.bias"] = tensors["classifier.bias"] + 1e-4
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


def swap_labels(folder):
    edit(folder / "config.json", lambda values: values["id2label"].update({"0": "good", "2": "bad"}))


def other_words(folder):
    def change(values):
        vocab = values["model"]["vocab"]
        vocab["the"], vocab["a"] = vocab["a"], vocab["the"]

    edit(folder / "tokenizer.json", change)


def keep_case(folder):
    edit(folder / "tokenizer_config.json", lambda values: values.update(do_lower_case=False))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (nudge, r"changed since: model.safetensors \(weights\)"),
        (swap_labels, r"changed since: config.json \(facts and labels\); the labels were bad, fine, good"),
        (keep_case, "changed since: tokenizer_config.json"),
        (other_words, r"changed since: tokenizer.json \(tokenizer\)"),
        (lambda folder: edit(folder / FINGERPRINT, lambda values: values.pop("ids") and None), "is broken"),
        (lambda folder: edit(folder / FINGERPRINT, lambda values: {"files": {}}), "is broken"),
        (lambda folder: (folder / FINGERPRINT).write_text("{"), "is not valid JSON"),
        (lambda folder: (folder / "tokenizer_config.json").unlink(), "changed since: tokenizer_config.json"),
    ],
)
def test_what_differs_is_named_and_may_be_meant(saved, change, message):
    change(saved)
    with pytest.raises(FolderError, match=f"{FINGERPRINT}.*{message}"):
        ch.load(saved)
    assert ch.load(saved, fingerprint=False).predict(TEXTS)
    ch.load(saved, fingerprint=False).save(saved, overwrite=True)  # renews it
    assert ch.load(saved).predict(TEXTS)


def resealed(folder, path):
    """The fingerprint speaks of a file as it is now: what is left are the labels, the ids and the answers."""
    edit(folder / FINGERPRINT, lambda values: values["files"].update({path: digest(folder / path)}))


@pytest.mark.parametrize(
    ("change", "path", "message"),
    [
        (nudge, WEIGHTS, r"the answers to the sample differ by \S+ of the largest"),
        (swap_labels, "config.json", "labels good, fine, bad, not bad, fine, good"),
        (keep_case, "tokenizer_config.json", "the tokenizer gives other ids for the sample text"),
    ],
)
def test_a_program_that_makes_something_else_of_the_same_files_is_seen(saved, change, path, message):
    change(saved)
    resealed(saved, path)
    with pytest.raises(FolderError, match=f"{FINGERPRINT}.*{message}"):
        ch.load(saved)


def test_fine_tuning_elsewhere_is_not_hindered(saved, tmp_path):
    """Saved by the published code into a new folder there is no fingerprint; over ours it is set aside."""
    model = AutoModelForSequenceClassification.from_pretrained(saved)
    with torch.no_grad():
        model.classifier.bias += 1
    for folder in (tmp_path / "new", saved):
        model.save_pretrained(folder)
        AutoTokenizer.from_pretrained(saved).save_pretrained(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ch.load(tmp_path / "new")
    with pytest.warns(UserWarning, match=r"fingerprint.json is older than the model, which transformers"):
        ch.load(saved)


def test_a_model_that_answers_no_numbers_is_not_saved(bert_folder, tmp_path):
    model = ch.load(bert_folder)
    with torch.no_grad():
        model.loaded.network.head.output.weight.fill_(float("inf"))
    with pytest.raises(NotFinite, match="not finite numbers.*it is not saved"):
        model.save(tmp_path / "out")
    assert not (tmp_path / "out" / WEIGHTS).exists()


def bit(content, chance):
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)


def digit(content, chance):
    """Another digit where there is one: what stays valid is the hardest to see."""
    places = [place for place, byte in enumerate(content) if chr(byte).isdigit()]
    content[chance.choice(places or [0])] = ord(chance.choice("0123456789"))


def letter(content, chance):
    places = [place for place, byte in enumerate(content) if chr(byte).isalpha() and byte < 128]
    content[chance.choice(places or [0])] = ord(chance.choice("abcdefgABCDEF_."))


def header(content, chance):
    content[chance.randrange(min(len(content), 2000))] = chance.randrange(256)


def cut(content, chance):
    del content[chance.randrange(len(content)) :]


def longer(content, chance):
    content += bytes(chance.randrange(256) for _ in range(chance.randrange(1, 20)))


def exchange(content, chance):
    """Two stretches of the file change places: nothing else does."""
    if len(content) < 64:
        return bit(content, chance)
    one, two = sorted(chance.sample(range(0, len(content) - 16, 8), 2))
    content[one : one + 8], content[two : two + 8] = content[two : two + 8], content[one : one + 8]


def swap_names(content, chance):
    """Two names of equal length change places everywhere."""
    pairs = 'query.weight value.weight|layer.0 layer.1|blocks.0 blocks.1|"0" "1"|"bad" "good"'
    one, two = chance.choice(pairs.split("|")).encode().split()
    content[:] = bytes(content).replace(one, b"\0\1").replace(two, one).replace(b"\0\1", two)


CHANGES = (bit, digit, letter, header, cut, longer, exchange, swap_names)


def everything(model):
    """All that a model is, as bytes and names."""
    weights = {name: tensor.numpy().tobytes() for name, tensor in model.loaded.network.state_dict().items()}
    encoded = [(encoding.ids, encoding.segments) for encoding in model.encode(TEXTS)]
    network = model.loaded.network
    ids, segments = sample(network)
    said = model.embed(TEXTS).numpy().tobytes(), answers(network, ids, segments=segments)
    return weights, encoded, model.loaded.labels, model.loaded.problem, said, model.config, network.head_facts


def damaged(whole, seed, *, at):
    """A copy of a folder with one thing changed; returns what was changed."""
    shutil.rmtree(at, ignore_errors=True)
    shutil.copytree(whole, at)
    chance = random.Random(seed)
    path = chance.choice(sorted(at.iterdir()))
    if chance.random() < 0.1:
        path.rename(path.with_name(path.name + chance.choice("x~")))
        return f"{path.name} renamed"
    change = chance.choice(CHANGES)
    content = bytearray(path.read_bytes())
    change(content, chance)
    path.write_bytes(content)
    return f"{change.__name__} in {path.name}"


def kinds(bert_folder, tmp_path):
    """Models of every kind that is written: BERT's with a head, a body, our own, and what is published."""
    yield ch.load(bert_folder)
    yield ch.load(tiny_bert(tmp_path / "body"))
    loaded = ch.load(bert_folder).loaded
    with_head(loaded.network, Head(3, Pooling.MEAN, dense=False), seed=0)
    yield ch.Model(replace(loaded))
    for description in descriptions():
        folder = build(description, tmp_path / description["repository"].replace("/", "--"))
        with suppress(FolderError):  # refused as a whole; that is another test's business
            yield ch.load(folder, allow_bin=True)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("count", [3, pytest.param(60, marks=pytest.mark.slow)])
def test_a_damaged_folder_is_refused_by_name_or_is_the_same_to_the_bit(bert_folder, tmp_path, count):
    at = tmp_path / "damaged"
    for number, model in enumerate(kinds(bert_folder, tmp_path)):
        whole = tmp_path / f"whole{number}"
        model.save(whole)
        right = everything(ch.load(whole))
        for seed in range(count):
            what = damaged(whole, 1000 * number + seed, at=at)
            try:
                again = ch.load(at)
            except ClearheadError as error:
                assert str(at) in str(error), f"{what}: {error}"  # noqa: PT017
            else:
                assert everything(again) == right, f"{what} (model {number}, seed {seed})"


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("count", [3, pytest.param(60, marks=pytest.mark.slow)])
def test_a_damaged_published_folder_is_never_a_traceback(tmp_path, count):
    """Without a fingerprint another weight is just another weight; nothing but our errors may come."""
    at = tmp_path / "damaged"
    for number, description in enumerate(descriptions()):
        whole = build(description, tmp_path / f"whole{number}")
        for seed in range(count):
            damaged(whole, 1000 * number + seed, at=at)
            with suppress(ClearheadError):
                everything(ch.load(at, allow_bin=True))


def test_a_tokenizer_file_that_is_added_later_is_seen(bert_folder, tmp_path):
    ch.load(bert_folder).save(tmp_path / "saved")
    (tmp_path / "saved" / "special_tokens_map.json").write_text('{"mask_token": "soup"}')
    with pytest.raises(FolderError, match="changed since: special_tokens_map"):
        ch.load(tmp_path / "saved")
