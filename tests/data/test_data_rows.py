"""Which column is the text and which the label, and what a row must have."""

import pytest

from clearhead.data.rows import Row, read_rows
from clearhead.errors import SettingError


def pairs(path, **options):
    return [(row.text, row.label) for row in read_rows(path, **options)]


# Columns.


@pytest.mark.parametrize("text", ["text", "sentence", "review", "Text", "SENTENCE", " review "])
@pytest.mark.parametrize("label", ["label", "sentiment", "Label", " Sentiment"])
def test_usual_column_names_are_found(write, text, label):
    path = write("a.csv", f"id,{label},{text}\n7,good,great bread\n")
    assert read_rows(path) == [Row("great bread", "good", path, 1, {"id": "7"})]


def test_usual_names_are_found_in_json_whatever_their_case(write):
    assert pairs(write("a.jsonl", '{"Text": "a", "LABEL ": "x"}\n')) == [("a", "x")]


def test_named_columns_go_before_usual_ones(write):
    path = write("a.csv", "text,body,label,stars\na,b,c,d\n")
    assert pairs(path, text_column="body", label_column="stars") == [("b", "d")]
    assert pairs(path, text_column="BODY") == [("b", "c")]
    assert read_rows(path, text_column="body")[0].extra == {"text": "a", "stars": "d"}


def test_a_column_can_be_named_exactly_where_two_differ_only_in_case(write, refusal):
    path = write("a.csv", "Text,text,label\na,b,1\n")
    assert pairs(path, text_column="Text") == [("a", "1")]
    assert refusal(path) == "a.csv: 'Text', 'text' could each be the text; choose one with --text-column"
    assert "'Text', 'text' could each be the text" in refusal(path, text_column="TEXT")


def test_two_candidates_are_refused_with_both_names(write, refusal):
    path = write("a.csv", "text,sentence,label,sentiment\na,b,c,d\n")
    assert refusal(path) == "a.csv: 'text', 'sentence' could each be the text; choose one with --text-column"
    said = refusal(path, text_column="text")
    assert said == "a.csv: 'label', 'sentiment' could each be the label; choose one with --label-column"


def test_a_column_used_as_label_is_no_candidate_for_the_text(write):
    path = write("a.csv", "text,review,note\na,5,b\n")
    assert pairs(path, label_column="review") == [("a", "5")]
    path = write("b.csv", "label,sentiment\na,b\n")
    assert pairs(path, text_column="label") == [("a", "b")]


def test_a_missing_column_is_refused_with_those_there(write, refusal):
    said = refusal(write("a.csv", "body,stars\na,1\n"))
    assert said == (
        "a.csv: no column 'text' or 'sentence' or 'review'; found 'body', 'stars'; "
        "choose one with --text-column (the first line of a CSV or TSV file holds the names)"
    )
    said = refusal(write("a.csv", "text,stars\na,1\n"))
    assert "no column 'label' or 'sentiment'; found 'text', 'stars'; choose one with --label-column" in said
    assert "no column 'body'; found 'text', 'stars'" in refusal(
        write("a.csv", "text,stars\na,1\n"), text_column="body"
    )


def test_texts_alone_cannot_be_trained_on(write, refusal):
    said = refusal(write("a.txt", "great\nbad\n"))
    assert said == (
        "a.txt: no column 'label' or 'sentiment'; found 'text'; "
        "plain text holds no labels; where it is a table, say so with --format csv, tsv or jsonl"
    )
    assert "found none" in refusal(write("a.jsonl", "{}\n"))


def test_many_and_long_names_stay_one_readable_line(write, refusal):
    said = refusal(
        write("a.csv", ",".join(["x" * 500, *(f"c{i}" for i in range(30))]) + "\n" + "1," * 30 + "1\n")
    )
    assert "'c8' and 21 more; choose one" in said
    assert len(said) < 400


def test_one_column_cannot_be_both(write):
    with pytest.raises(SettingError, match="--text-column and --label-column are both 'text'"):
        read_rows(write("a.csv", "text\na\n"), text_column="text", label_column="text")


# Texts.


def test_a_text_is_not_trimmed(write):
    assert pairs(write("a.csv", "text,label\n  a  ,1\n")) == [("  a  ", "1")]
    assert pairs(write("a.jsonl", '{"text": "\\n a\\u0000", "label": 1}\n')) == [("\n a\0", "1")]


@pytest.mark.parametrize("text", ["", "  ", "\u00a0\u3000"])
@pytest.mark.parametrize("labelled", [True, False])
def test_an_empty_text_is_refused_with_its_place(write, refusal, text, labelled):
    said = refusal(write("a.csv", f"text,label\na,1\n{text},1\n"), labelled=labelled)
    assert said == (
        "a.csv, row 2, column 'text': holds no text; write one, or go on without it with --empty skip"
    )


def test_null_and_a_missing_key_are_no_text(write, refusal):
    assert "row 1, column 'text': holds no text" in refusal(write("a.jsonl", '{"text": null, "label": 1}\n'))
    path = write("a.jsonl", '{"text": "a", "label": 1}\n{"label": 1}\n')
    assert "row 2, column 'text': holds no text" in refusal(path)


def test_skipping_leaves_empty_texts_out_of_training_and_keeps_numbers(write):
    path = write("a.csv", "text,label\na,1\n ,1\n,\nb,2\n")
    assert [(row.text, row.row) for row in read_rows(path, empty="skip")] == [("a", 1), ("b", 4)]


def test_skipping_keeps_empty_texts_where_each_row_needs_an_answer(write):
    path = write("a.csv", "text,label\na,1\n ,1\n,\nb,2\n")
    found = read_rows(path, empty="skip", labelled=False)
    assert [(row.text, row.row) for row in found] == [("a", 1), (" ", 2), ("", 3), ("b", 4)]
    assert pairs(write("a.jsonl", '{"text": null}\n'), empty="skip", labelled=False) == [("", None)]


def test_a_file_of_empty_texts_is_refused(write, refusal):
    said = refusal(write("a.csv", "text,label\n ,1\n"), empty="skip")
    assert said == "a.csv: holds no rows with text in column 'text'; write at least one"


def test_an_unknown_way_with_empty_texts_is_refused(write):
    with pytest.raises(SettingError, match="--empty 'drop' is not one of error, skip"):
        read_rows(write("a.csv", "text\nx\n"), empty="drop")


@pytest.mark.parametrize("value", ["1", "1.5", "true", "[1]", '{"a": 1}'])
def test_a_text_must_be_a_json_string(write, refusal, value):
    said = refusal(write("a.jsonl", f'{{"text": {value}, "label": 1}}\n'))
    assert said == f"a.jsonl, row 1, column 'text': {value} is not a text; write it as a string, in quotes"


# Labels (A33: any type, mapped by name).


def test_labels_of_any_json_type_become_names(write):
    lines = ['"yes"', "1", "-2", "1.0", "true", "false", '"null"']
    path = write("a.jsonl", "".join(f'{{"text": "a", "label": {value}}}\n' for value in lines))
    assert [row.label for row in read_rows(path)] == ["yes", "1", "-2", "1.0", "true", "false", "null"]


def test_a_label_loses_the_space_around_it(write):
    assert pairs(write("a.csv", "text, label\na, good\n")) == [("a", "good")]


@pytest.mark.parametrize("cell", ["", "  "])
def test_an_empty_label_is_refused_with_its_place(write, refusal, cell):
    said = refusal(write("a.csv", f"text,label\na,1\nb,{cell}\n"))
    assert said == "a.csv, row 2, column 'label': holds no label; write one, or take the row out"


def test_null_and_a_missing_key_are_no_label(write, refusal):
    path = write("a.jsonl", '{"text": "a", "label": 1}\n{"text": "b", "label": null}\n')
    assert "row 2, column 'label': holds no label" in refusal(path)
    path = write("a.jsonl", '{"text": "a", "label": 1}\n{"text": "b"}\n')
    assert "row 2, column 'label': holds no label" in refusal(path)


def test_a_nested_label_is_refused_where_a_label_is_asked_for(write, refusal):
    path = write("a.jsonl", '{"text": "a", "label": ["x"]}\n')
    said = refusal(path)
    assert said == "a.jsonl, row 1, column 'label': [\"x\"] is not a label; write one name or number"
    assert "is not a label" in refusal(path, labelled=False, label_column="label")
    assert pairs(path, labelled=False) == [("a", None)]


def test_prediction_takes_a_label_where_there_is_one(write, refusal):
    path = write("a.csv", "text,label\na,1\nb,\n")
    assert pairs(path, labelled=False) == [("a", "1"), ("b", None)]
    assert pairs(write("b.csv", "text,id\na,1\n"), labelled=False) == [("a", None)]
    path = write("c.csv", "text,label,sentiment\na,1,2\n")
    assert read_rows(path, labelled=False) == [Row("a", None, path, 1, {"label": "1", "sentiment": "2"})]
    assert "no column 'stars'" in refusal(path, labelled=False, label_column="stars")


def test_other_columns_come_along_as_the_file_states_them(write):
    path = write("a.jsonl", '{"text": "a", "label": "x", "id": 7, "ok": true, "no": null, "tags": ["é"]}\n')
    others = {"id": 7, "ok": True, "no": None, "tags": ["é"]}
    assert read_rows(path)[0].extra == others
    assert read_rows(path, labelled=False)[0].extra == {"label": "x", **others}


def test_a_label_that_the_first_row_lacks_is_taken_for_prediction_too(write):
    path = write("a.jsonl", '{"text": "a"}\n{"text": "b", "label": "good"}\n')
    assert [row.label for row in read_rows(path, labelled=False)] == [None, "good"]
