"""What Python callers may pass: options are held to their types, whatever else is refused by name."""

import json
from collections import UserDict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import clearhead as ch
from clearhead.errors import ClearheadError, DataError, NotFinite, SettingError
from clearhead.settings import Training, made
from families import tiny_folder

RUN = {"data": "texts.csv", "out": "run"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"class_weights": {"a": 1}}, r"class_weights=\{'a': 1\} is not a string"),
        ({"label_smoothing": "0.1"}, "label_smoothing='0.1' is not a number"),
        ({"epochs": 1.5}, "epochs=1.5 is not a whole number"),
        ({"epochs": True}, "epochs=True is not a whole number"),
        ({"batch_tokens": None}, "batch_tokens=None is not a whole number"),
        ({"seed": torch.zeros(2)}, "seed=tensor.* is not a whole number"),
        ({"learning_rate": [1e-3]}, "learning_rate=.* is not a number"),
        ({"freeze": "yes"}, "freeze='yes' is not True or False"),
        ({"freeze": 1}, "freeze=1 is not True or False"),
        ({"data": None}, "data=None is not a string"),
        ({"pair_column": 5}, "pair_column=5 is not a string"),
        ({"problem": 3}, "problem=3 is not a string"),
        ({"problem": "many"}, "--problem 'many' is not one of single, multi, regression"),
        ({"label_smoothing": float("nan")}, "--label-smoothing nan"),
    ],
)
def test_an_option_of_another_type_is_refused_by_name(options, said):
    with pytest.raises(SettingError, match=said):
        ch.train("classify", **(RUN | options))


def test_numbers_of_other_libraries_and_paths_are_taken():
    found = made(
        Training,
        RUN
        | {"out": Path("run"), "epochs": np.int64(2), "warmup": np.float32(0.5), "weight_decay": 1}
        | {"seed": torch.tensor(7), "baseline": np.bool_(False), "metric": None, "dropout": 0},
    )
    assert (found.out, found.epochs, found.warmup, found.seed) == ("run", 2, 0.5, 7)
    assert type(found.epochs) is type(found.seed) is int and found.baseline is False


@pytest.mark.parametrize(
    "options",
    [
        {"abstain_below": float("nan")}, {"abstain_below": 2}, {"abstain_below": -1}, {"abstain_below": "x"},
        {"batch_tokens": 0}, {"batch_tokens": "a"}, {"batch_tokens": 1.5}, {"long": "cut"}, {"long": None},
    ],
)  # fmt: skip
def test_a_model_asked_with_a_wrong_option_names_it(bert_folder, options):
    (name,) = options
    with pytest.raises(SettingError, match=f"{name}|--{name.replace('_', '-')}"):
        ch.load(bert_folder).predict(["fine"], **options)


def test_no_texts_and_no_file_are_named(bert_folder):
    model = ch.load(bert_folder)
    for texts in (None, 3):
        with pytest.raises(DataError, match="was given where a list of texts is needed"):
            model.predict(texts)
    for data in (None, 3):
        with pytest.raises(ClearheadError, match=f"{data} is no file of texts"):
            ch.evaluate(model, data)


def test_answers_that_are_not_finite_are_refused_by_text_and_by_row(bert_folder, tmp_path):
    model = ch.load(bert_folder)
    id = model.tokenizer.vocabulary()["soup"]
    with torch.no_grad():
        model.loaded.network.embedding.tokens.weight[id] = float("nan")
    for ask in (model.predict, model.embed):
        with pytest.raises(NotFinite, match="text 2: the model computes numbers that are not finite"):
            ask(["good", "bad", "good soup"])
    file = tmp_path / "texts.csv"
    file.write_text("text,label\ngood,good\nsoup,bad\n")
    with pytest.raises(NotFinite, match=r"texts.csv, row 2: the model computes numbers that are not finite"):
        ch.evaluate(model, file)


@dataclass
class Frame:
    """What a table of a data library looks like from here."""

    columns: tuple[str, ...] = ("text",)

    def __iter__(self):
        return iter(self.columns)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (np.array("good"), "ndarray was given where a list of texts"),
        (torch.tensor(1.0), "Tensor was given where a list of texts"),
        (UserDict(a="good"), "a UserDict was given, which is no list of texts; write a list"),
        (Frame(), "a Frame was given, which is no list of texts"),
        ({"good"}, "a set was given, which is no list of texts"),
        (np.array([["good", "bad"]]), "text 0 is ndarray"),
    ],
)
def test_what_is_no_list_of_texts_is_refused(bert_folder, texts, said):
    with pytest.raises(DataError, match=said):
        ch.load(bert_folder).predict(texts)


def test_arrays_of_texts_are_texts(bert_folder):
    model = ch.load(bert_folder)
    assert model.predict(np.array(["good", "bad soup"])) == model.predict(["good", "bad soup"])


@pytest.mark.parametrize("pooling", [np.array(["mean", "cls"]), ["mean"], "", 1, {}])
def test_a_pooling_of_another_type_is_refused(bert_folder, pooling):
    with pytest.raises(SettingError, match="pooling=.* is not one of cls, mean, max"):
        ch.load(bert_folder).embed(["good"], pooling=pooling)


@pytest.mark.parametrize(
    ("encodings", "said"),
    [
        (["good"], "text 0 is str; encode it first"), ([[1, 2]], "text 0 is list; encode it first"),
        ("good", "str was given where a list"), (torch.zeros(1, 2), "Tensor was given where a list"),
    ],
)  # fmt: skip
def test_logits_are_of_encoded_texts(bert_folder, encodings, said):
    model = ch.load(bert_folder)
    with pytest.raises(DataError, match=said):
        model.logits(encodings)
    with pytest.raises(SettingError, match="--batch-tokens 0"):
        model.logits(model.encode(["good"]), batch_tokens=0)


def test_a_model_may_be_the_key_of_a_table(bert_folder):
    one, other = ch.load(bert_folder), ch.load(bert_folder)
    assert {one: 1, other: 2}[one] == 1 and one != other


def test_pairs_are_refused_where_a_model_has_one_kind_of_segment(tmp_path, capsys):
    folder = tiny_folder(tmp_path / "roberta", "roberta", ("a", "b"))
    file = folder / "tokenizer.json"
    rules = json.loads(file.read_text())
    rules["post_processor"] |= {
        "pair": [
            {"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}},
            {"SpecialToken": {"id": "[SEP]", "type_id": 1}},
        ]
    }  # fmt: skip
    file.write_text(json.dumps(rules))
    assert ch.load(folder).predict([("good", "bad")])  # the class gives a model no segments unless asked to
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    model = ch.load(folder)
    assert model.predict(["good"])
    said = "marks second texts as segment 1, and the model has 1 kind of segment: .* no pairs"
    for ask in (model.predict, model.embed):
        with pytest.raises(DataError, match=said):
            ask([("good", "bad")])
    data = tmp_path / "pairs.csv"
    data.write_text("text,b,label\ngood,bad,a\nthe,a,b\nsoup,good,a\n")
    with pytest.raises(DataError, match=said):
        ch.evaluate(model, data, pair_column="b")
    files = {"data": data, "validation": data, "base": folder, "out": tmp_path / "run"}
    with pytest.raises(DataError, match=said):
        ch.train("classify", pair_column="b", **files)


@pytest.mark.parametrize(
    "name", ["data", "out", "base", "validation", "text_column", "label_separator", "class_weights"]
)
def test_an_empty_string_is_refused_by_the_name_of_its_flag(name):
    flag = {"base": "--from"}.get(name, f"--{name.replace('_', '-')}")
    with pytest.raises(SettingError, match=f"{flag} is empty; give a value"):
        made(Training, RUN | {name: ""})


def test_paths_begin_at_the_users_folder_where_they_say_so(bert_folder, monkeypatch):
    monkeypatch.setenv("HOME", str(bert_folder.parent))
    found = made(Training, RUN | {"out": "~/run", "base": "~/bert", "validation": "~/v.csv"})
    home = bert_folder.parent
    assert (found.out, found.base, found.validation) == (f"{home}/run", f"{home}/bert", f"{home}/v.csv")
    assert found.data == RUN["data"]
    model = ch.load("~/bert")
    model.save("~/copy")
    assert ch.load(home / "copy").predict(["good"]) == model.predict(["good"])
