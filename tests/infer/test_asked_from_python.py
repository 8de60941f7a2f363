"""What Python callers may pass: options are held to their types, whatever else is refused by name."""

from pathlib import Path

import numpy as np
import pytest
import torch

import clearhead as ch
from clearhead.errors import ClearheadError, DataError, NotFinite, SettingError
from clearhead.settings import Training, made

RUN = {"data": "texts.csv", "out": "run"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"class_weights": {"a": 1}}, r"class_weights=\{'a': 1\} is not a string"),
        ({"label_smoothing": "0.1"}, "label_smoothing='0.1' is not a number"),
        ({"epochs": 1.5}, "epochs=1.5 is not a whole number"),
        ({"epochs": True}, "epochs=True is not a whole number"),
        ({"epochs": None}, "epochs=None is not a whole number"),
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
