"""Which column is what: a flag that cannot take effect is refused, and what a run was trained on is known."""

import json

import pytest

from clearhead.app.cli import main
from tiny import tiny_bert


@pytest.fixture
def said(capsys):
    """Run a command; its status, stdout and stderr."""

    def said(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        return left.value.code, *capsys.readouterr()

    return said


@pytest.fixture
def pairs(tmp_path):
    data = tmp_path / "pairs.csv"
    data.write_text("text,other,label\nfine,soup,good\nbad,film,bad\n")
    return data


def test_a_column_that_has_a_role_already_is_named(said, bert_folder, pairs):
    for arguments, line in {
        ("predict", bert_folder, pairs, "--pair-column", "text"): "the column 'text' is the pair already",
        ("predict", bert_folder, pairs, "--pair-column", "TEXT"): "the column 'text' is the text already",
        ("evaluate", bert_folder, "--data", pairs, "--text-column", "label"): "'label' is the text already",
        ("evaluate", bert_folder, "--data", pairs, "--label-column", "text"): "'text' is the label already",
    }.items():
        status, _, err = said(*arguments)
        assert status == 2 and line in err


def test_a_model_of_pairs_says_that_it_needs_the_second_text(said, bert_folder, pairs):
    values = {"task": "classify", "settings": {"pair_column": "other"}, "resolved": {}}
    (bert_folder / "settings.json").write_text(json.dumps(values))
    for command in (["predict", bert_folder, pairs], ["evaluate", bert_folder, "--data", pairs]):
        status, out, err = said(*command)
        assert status == 2 and not out and "--pair-column (in training: other)" in err
        assert said(*command, "--pair-column", "other")[0] == 0
    status, _, err = said("predict", bert_folder, "--text", "fine")
    assert status == 0 and "note:" in err and "was trained on pairs of texts (other)" in err


@pytest.mark.parametrize("name", ["--pair-column", "--text-column", "--label-column", "--format"])
def test_a_flag_about_files_is_refused_beside_texts(said, bert_folder, name):
    status, _, err = said("predict", bert_folder, "--text", "fine", name, "csv")
    assert status == 2 and f"{name} is for a file" in err


def test_a_separator_of_labels_is_refused_where_a_text_has_one(said, bert_folder, pairs, tmp_path):
    train = ("train", "classify", "--data", pairs, "--out", tmp_path / "run", "--from", bert_folder)
    more = ((), ("--problem", "single"))
    commands = [*((*train, *some) for some in more), ("evaluate", bert_folder, "--data", pairs)]
    for command in commands:
        status, _, err = said(*command, "--label-separator", ";")
        assert status == 2 and "--label-separator ; is for several labels" in err


def test_lists_of_labels_may_stand_in_a_file_to_predict(said, tmp_path):
    folder = tiny_bert(tmp_path / "multi", labels=("a", "b"), problem_type="multi_label_classification")
    data = tmp_path / "texts.jsonl"
    data.write_text('{"text": "fine", "label": ["a", "b"]}\n{"text": "bad", "label": []}\n')
    for more in ((), ("--label-column", "label")):
        status, out, err = said("predict", folder, data, *more)
        assert status == 0, err
        assert [json.loads(line)["label"] for line in out.splitlines()] == [["a", "b"], []]
