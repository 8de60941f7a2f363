"""Folders exchange both ways with the published code, strictly by name."""

import json
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertForSequenceClassification,
    BertModel,
)

import clearhead as ch
from clearhead.checkpoint.files import NEXT
from clearhead.checkpoint.folder import CONFIG, read_folder, write_folder
from clearhead.checkpoint.fresh import with_head
from clearhead.checkpoint.tensors import WEIGHTS
from clearhead.errors import FolderError
from clearhead.model.config import Head, Pooling
from families import NAMES, tiny_folder
from tiny import published, tiny_bert

TEXTS = ["a good soup", "not very warm, and slow!", "fine"]


def edit_config(folder, **changes):
    values = json.loads((folder / CONFIG).read_text())
    for name, value in changes.items():
        values.pop(name, None)
        if value is not ...:
            values[name] = value
    (folder / CONFIG).write_text(json.dumps(values))


def edit_tensors(folder, change):
    tensors = load_file(folder / WEIGHTS)
    save_file(change(tensors), folder / WEIGHTS, metadata={"format": "pt"})


def published_logits(folder, texts):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        return model(**tokenizer(texts, padding=True, return_tensors="pt")).logits


def test_a_published_folder_gives_the_published_logits(bert_folder):
    model = ch.load(bert_folder)
    ours = model.logits(model.encode(TEXTS))
    torch.testing.assert_close(ours, published_logits(bert_folder, TEXTS), atol=1e-5, rtol=1e-5)


def test_the_published_code_reads_our_folder_alike(bert_folder, tmp_path):
    model = ch.load(bert_folder)
    model.save(tmp_path / "ours")
    ours = model.logits(model.encode(TEXTS))
    torch.testing.assert_close(ours, published_logits(tmp_path / "ours", TEXTS), atol=1e-5, rtol=1e-5)
    config = json.loads((tmp_path / "ours" / CONFIG).read_text())
    assert config["id2label"] == {"0": "bad", "1": "fine", "2": "good"}
    assert config["label2id"] == {"bad": 0, "fine": 1, "good": 2}


def test_a_body_keeps_its_pooler(body_folder, tmp_path):
    ch.load(body_folder).save(tmp_path / "ours")
    before, after = load_file(body_folder / WEIGHTS), load_file(tmp_path / "ours" / WEIGHTS)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert isinstance(BertModel.from_pretrained(tmp_path / "ours"), BertModel)


def test_a_new_head_starts_from_the_pooler_as_the_published_code_does(body_folder):
    loaded = read_folder(body_folder)
    pooler = loaded.network.head.dense.weight.clone()
    with_head(loaded.network, Head(labels=2), seed=0)
    assert torch.equal(loaded.network.head.dense.weight, pooler)


def test_what_the_published_code_could_not_say_is_saved_as_our_own_folder(body_folder, tmp_path):
    loaded = read_folder(body_folder)
    with_head(loaded.network, Head(2, Pooling.MEAN, dense=False), seed=0)
    loaded = replace(loaded, labels=("no", "yes"))
    write_folder(tmp_path / "mean", loaded)
    again = ch.load(tmp_path / "mean")
    assert json.loads((tmp_path / "mean" / CONFIG).read_text())["model_type"] == "clearhead"
    assert again.loaded.network.head_facts == Head(2, Pooling.MEAN, dense=False)
    before = ch.Model(loaded)
    assert torch.equal(before.logits(before.encode(TEXTS)), again.logits(again.encode(TEXTS)))


@pytest.mark.parametrize("prefix", [True, False], ids=["prefixed", "bare"])
def test_old_spellings_prefixes_and_buffers_are_read(bert_folder, prefix):
    expected = ch.load(bert_folder).predict(TEXTS)

    def old(tensors):
        found = {"embeddings.position_ids": torch.arange(32)[None]}
        found |= {"cls.predictions.bias": torch.zeros(3)}
        for name, tensor in tensors.items():
            name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
                "LayerNorm.bias", "LayerNorm.beta"
            )
            found[name if prefix else name.removeprefix("bert.")] = tensor.clone()
        return found

    edit_tensors(bert_folder, old)
    assert ch.load(bert_folder).predict(TEXTS) == expected


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_files_are_computed_in_float32(bert_folder, dtype):
    edit_tensors(bert_folder, lambda tensors: {name: tensor.to(dtype) for name, tensor in tensors.items()})
    network = ch.load(bert_folder).loaded.network
    assert {parameter.dtype for parameter in network.parameters()} == {torch.float32}


def without(name):
    return lambda tensors: {key: tensor for key, tensor in tensors.items() if key != name}


def renamed(old, new):
    return lambda tensors: {new if key == old else key: tensor for key, tensor in tensors.items()}


QUERY = "bert.encoder.layer.1.attention.self.query.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            without("bert.embeddings.word_embeddings.weight"),
            "1 tensor is missing: embeddings.word_embeddings.weight",
        ),
        (without(QUERY), "1 tensor is missing: encoder.layer.1.attention.self.query.weight"),
        (renamed(QUERY, QUERY + "2"), "missing: encoder.layer.1.attention.self.query.weight"),
        (lambda tensors: tensors | {"bert.extra": torch.zeros(1)}, "1 tensor is unknown: extra"),
        (
            lambda tensors: tensors | {QUERY: torch.zeros(3, 3)},
            r"1 tensor is of another shape: \S+query.weight is \[3, 3\]",
        ),
        (
            lambda tensors: tensors | {"classifier.bias": torch.zeros(5)},
            r"classifier.bias is \[5\], config.json says \[3\]",
        ),
    ],
)
def test_a_tensor_that_is_missing_unknown_or_misshapen_is_named(bert_folder, change, message):
    edit_tensors(bert_folder, change)
    with pytest.raises(FolderError, match=message):
        read_folder(bert_folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "llamabert"}, "model_type 'llamabert' is not supported; supported: bert, roberta"),
        ({"hidden_act": "mish"}, "hidden_act='mish' is not supported; supported: gelu"),
        (
            {"position_embedding_type": "relative_key"},
            "position_embedding_type='relative_key' is not supported",
        ),
        ({"is_decoder": True}, "is_decoder=True is not supported"),
        ({"hidden_size": ...}, "the field 'hidden_size' is missing"),
        ({"num_attention_heads": 5}, "hidden_size=24 cannot be shared by num_attention_heads=5 evenly"),
        ({"hidden_size": "wide"}, "config.json"),
        ({"architectures": ["BertForMultipleChoice"]}, "BertForMultipleChoice.* is not supported"),
        ({"id2label": {"0": "a", "1": "b", "9": "c"}}, "id2label has no entry '2'"),
        ({"id2label": {"0": "a", "1": "a", "2": "c"}}, "id2label gives two labels one name: a, a, c"),
        ({"id2label": ["a", "b", "c"]}, "id2label is list, not a table of names"),
        ({"problem_type": "ranking"}, "problem_type='ranking' is not known"),
        ({"num_hidden_layers": 3.0}, "layers=3.0 must be a whole number of at least 1"),
        ({"layer_norm_eps": "1e-12"}, "layer_norm_eps='1e-12' must be a number of at least 0"),
        ({"max_position_embeddings": -1}, "max_position_embeddings=-1 must be a whole number of at least 1"),
        ({"num_hidden_layers": 4}, "16 tensors are missing"),
        ({"num_hidden_layers": 2}, "16 tensors are unknown"),
    ],
)
def test_a_field_that_cannot_be_honoured_is_refused_by_name(bert_folder, changes, message):
    edit_config(bert_folder, **changes)
    with pytest.raises(FolderError, match=message):
        read_folder(bert_folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensor: tensor * float("nan"), "holds numbers that are not finite"),
        (
            lambda tensor: tensor.to(torch.int32),
            r"no floating-point kind: \S+query.weight \(torch.int32\)",
        ),
    ],
)
def test_weights_that_are_no_finite_fractions_are_refused(bert_folder, change, message):
    edit_tensors(bert_folder, lambda tensors: tensors | {QUERY: change(tensors[QUERY])})
    with pytest.raises(FolderError, match=message):
        read_folder(bert_folder)


def test_a_tensor_under_two_names_is_refused(bert_folder):
    plain = QUERY.removeprefix("bert.")
    edit_tensors(bert_folder, lambda tensors: tensors | {plain: tensors[QUERY].clone()})
    with pytest.raises(FolderError, match="tensors are there under two names"):
        read_folder(bert_folder)


def test_a_loaded_model_is_its_own_whatever_happens_to_the_file(bert_folder):
    model = ch.load(bert_folder)
    before = model.predict(TEXTS)
    with (bert_folder / WEIGHTS).open("rb+") as file:
        file.seek(2000)
        file.write(bytes(20000))
    assert model.predict(TEXTS) == before


def test_an_unknown_field_is_named_once_and_harmless_ones_are_not(bert_folder):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_folder(bert_folder)
    edit_config(bert_folder, mystery_field=3)
    with pytest.warns(UserWarning, match="fields not known and not used: mystery_field"):
        read_folder(bert_folder)


def test_a_broken_or_incomplete_folder_is_named_with_its_fix(bert_folder, tmp_path):
    with pytest.raises(FolderError, match="is not a folder"):
        read_folder(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FolderError, match=r"has no config.json; is it a model folder\?"):
        read_folder(tmp_path / "empty")
    whole = (bert_folder / WEIGHTS).read_bytes()
    (bert_folder / WEIGHTS).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FolderError, match="is broken or cut short"):
        read_folder(bert_folder)
    (bert_folder / WEIGHTS).unlink()
    (bert_folder / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(
        FolderError, match=r"has no model.safetensors, only pytorch_model.bin: pickles, .* --allow-bin"
    ):
        read_folder(bert_folder)
    (bert_folder / CONFIG).write_text("{")
    with pytest.raises(FolderError, match="is not valid JSON"):
        read_folder(bert_folder)


def test_a_tokenizer_of_another_model_is_refused(bert_folder):
    with (bert_folder / "vocab.txt").open("a") as file:
        file.write("one\nmore\n")
    with pytest.raises(FolderError, match="the files belong to different models"):
        read_folder(bert_folder)


def test_a_crash_while_saving_leaves_the_old_model_and_nothing_beside_it(bert_folder, tmp_path, monkeypatch):
    model = ch.load(bert_folder)
    model.save(tmp_path / "out")
    before = contents(tmp_path / "out")

    def crash(path, values):
        path.write_text("half")
        raise OSError("disk full")

    monkeypatch.setattr("clearhead.checkpoint.folder.write_json", crash)
    with pytest.raises(ch.ClearheadError, match="out cannot be written.*disk full"):
        model.save(tmp_path / "out", overwrite=True)
    assert contents(tmp_path / "out") == before


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*")}


@pytest.mark.parametrize("moved", range(5))
def test_files_of_two_models_never_stay_side_by_side(bert_folder, tmp_path, monkeypatch, moved):
    """Killed after some of the files reached their places, the next reader moves the rest."""
    out = tmp_path / "out"
    tiny_bert(tmp_path / "other", labels=("no", "yes"), intermediate_size=24)
    ch.load(tmp_path / "other").save(out)
    model = ch.load(bert_folder)
    model.save(tmp_path / "whole")
    before, steps = Path.replace, iter(range(9))

    def killed(self, target):
        if self.parent.name == NEXT and next(steps) == moved:
            raise KeyboardInterrupt
        return before(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            model.save(out, overwrite=True)
    assert ch.load(out).predict(TEXTS) == model.predict(TEXTS)
    assert contents(out) == contents(tmp_path / "whole")


def test_labels_without_names_are_numbered_as_published(tmp_path):
    folder = tiny_bert(tmp_path / "bert", labels=("a", "b"))
    edit_config(folder, id2label=..., label2id=..., num_labels=2)
    assert ch.load(folder).loaded.labels == ("LABEL_0", "LABEL_1")
    assert not [finding for finding in ch.verify(ch.load(folder)) if finding.verdict == "fail"]
    assert isinstance(published(("a", "b")), BertForSequenceClassification)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"rope_parameters": {"full_attention": {"type": "linear"}, "sliding_attention": {}}},
            "type='linear'",
        ),
        ({"rope_parameters": {"rope_type": "linear", "factor": 4}}, "says nothing of 'full_attention'"),
        ({"rope_parameters": "x"}, "rope_parameters='x' says nothing"),
        ({"sliding_window": 3}, "sliding_window=3 is not supported, only 4"),
        ({"layer_types": ["full_attention"]}, "must name num_hidden_layers kinds"),
        ({"attention_bias": True}, "attention_bias and mlp_bias differ"),
        ({"local_attention": None}, "local_attention=None must be a whole number of at least 2"),
        ({"local_attention": 0}, "local_attention=0 must be a whole number of at least 2"),
        ({"local_rope_theta": None, "rope_parameters": None}, "local_rope_theta=None must be a number"),
        ({"global_attn_every_n_layers": 0, "layer_types": None}, "global_attn_every_n_layers=0 must be"),
        ({"classifier_dropout": 1.0}, "dropout of the head=1.0 must be at least 0 and below 1"),
        ({"classifier_dropout": "0.1"}, "dropout of the head='0.1' must be a number"),
        ({"mlp_dropout": None}, "mlp_dropout=None must be a number"),
        ({"hidden_activation": ["gelu"]}, r"hidden_activation=\['gelu'\] is not supported"),
        ({"architectures": 3}, "architectures=3 cannot be used"),
        ({"quantization_config": {"bits": 4}}, "quantization_config is not supported"),
        ({"num_hidden_layers": 100000, "layer_types": None}, "says 100000 blocks"),
    ],
)
def test_fields_of_another_family_that_change_numbers_are_refused_by_name(tmp_path, changes, message):
    folder = tiny_folder(tmp_path, "modernbert", ("a", "b"))
    values = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(values | changes))
    with pytest.raises(FolderError, match=message):
        read_folder(folder)


def test_a_padding_id_that_texts_may_hold_is_refused_where_positions_begin_after_it(tmp_path):
    folder = tiny_folder(tmp_path, "roberta")
    values = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(values | {"pad_token_id": 0}))
    with pytest.raises(FolderError, match=r"pad_token_id=0 is the token '\[UNK\]'"):
        read_folder(folder)


def test_a_padding_id_that_stands_around_texts_is_refused_where_positions_begin_after_it(tmp_path):
    folder = tiny_folder(tmp_path, "roberta")
    values = json.loads((folder / CONFIG).read_text())
    for id in read_folder(folder).tokenizer.encode([""])[0].ids:
        (folder / CONFIG).write_text(json.dumps(values | {"pad_token_id": id}))
        said = rf"pad_token_id={id} is the token '\[(CLS|SEP)\]', which the tokenizer puts around texts"
        with pytest.raises(FolderError, match=said):
            read_folder(folder)


@pytest.mark.parametrize(
    ("pad", "said"), [(60, "=60 leaves no position of max_position_embeddings=34"), (None, "=None must be a")]
)
def test_a_padding_id_that_no_position_can_be_counted_from_is_named(tmp_path, pad, said):
    folder = tiny_folder(tmp_path, "roberta")
    values = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(values | {"pad_token_id": pad}))
    with pytest.raises(FolderError, match=f"pad_token_id{said}"):
        read_folder(folder)


@pytest.mark.parametrize("name", NAMES)
def test_an_encoder_that_sees_only_what_was_before_is_refused(tmp_path, name):
    folder = tiny_folder(tmp_path, name)
    values = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(values | {"is_causal": True}))
    with pytest.raises(FolderError, match="is_causal=True is not supported, only False"):
        read_folder(folder)
    (folder / CONFIG).write_text(json.dumps(values | {"is_causal": False}))
    read_folder(folder)


@pytest.mark.parametrize(
    ("name", "other"),
    [("dim", "hidden_size"), ("n_heads", "num_attention_heads"), ("n_layers", "num_hidden_layers")],
)
def test_two_names_of_a_field_that_contradict_each_other_are_refused(tmp_path, name, other):
    folder = tiny_folder(tmp_path, "distilbert")
    values = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(values | {other: 2}))
    with pytest.raises(FolderError, match=f"{name}={values[name]} and {other}=2 are one field"):
        read_folder(folder)
    (folder / CONFIG).write_text(json.dumps(values | {other: values[name]}))
    read_folder(folder)


def test_names_of_labels_that_are_no_strings_are_named_as_in_data(bert_folder):
    edit_config(bert_folder, id2label={"0": True, "1": None, "2": 1.0})
    assert read_folder(bert_folder).labels == ("true", "null", "1.0")


def test_space_around_a_label_is_no_part_of_its_name(bert_folder, tmp_path):
    """Labels of a file of texts are read without it, and could never be those of the model."""
    edit_config(bert_folder, id2label={"0": " good", "1": "bad\t", "2": "so so"})
    model, data = ch.load(bert_folder), tmp_path / "data.csv"
    data.write_text("text,label\nsoup,good\nfilm, bad\nfine,so so\n")
    assert model.loaded.labels == ("good", "bad", "so so")
    assert ch.evaluate(model, data).metrics.texts == 3
    model.save(tmp_path / "ours")
    said = json.loads((tmp_path / "ours" / CONFIG).read_text())
    assert said["id2label"] == {"0": "good", "1": "bad", "2": "so so"}
    edit_config(bert_folder, id2label={"0": "good", "1": "good ", "2": "c"})
    with pytest.raises(
        FolderError, match=r"two labels one name: good, good, c \(space around a name does not"
    ):
        ch.load(bert_folder)


def test_a_folder_that_was_saved_with_space_around_labels_still_loads(bert_folder, tmp_path):
    model = ch.load(bert_folder)
    write_folder(tmp_path / "old", replace(model.loaded, labels=(" bad", "fine ", "good")))
    assert ch.load(tmp_path / "old").loaded.labels == ("bad", "fine", "good")
