"""The names of the classes and their order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.data.labels import check_known, label_names, numbers
from clearhead.data.rows import Row, read_rows
from clearhead.errors import DataError


def labelled(*labels):
    return [Row(f"text {i}", label, "reviews.csv", i, {}) for i, label in enumerate(labels, start=1)]


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (("yes", "no", "maybe"), ("maybe", "no", "yes")),
        (("4", "2", "1", "3"), ("1", "2", "3", "4")),
        (("10", "9", "-1", "0"), ("-1", "0", "9", "10")),
        (("5", "0", "2"), ("0", "2", "5")),
        (("1", "01", "2", "0001", "001"), ("0001", "001", "01", "1", "2")),
        (("true", "false"), ("false", "true")),
        (("10", "9", "x"), ("10", "9", "x")),
        (("1.0", "0.0"), ("0.0", "1.0")),
        (("é", "z", "Z"), ("Z", "z", "é")),
        (("9" * 5000, "1"), ("1", "9" * 5000)),
    ],
)
def test_classes_are_named_in_a_documented_order(labels, names):
    assert label_names(labelled(*labels, *labels)) == names


@settings(deadline=None)  # a busy machine is no failure
@given(labels=st.lists(st.text(min_size=1), min_size=2, unique=True), data=st.data())
def test_the_order_of_classes_does_not_depend_on_the_order_of_rows(labels, data):
    assert label_names(labelled(*labels)) == label_names(labelled(*data.draw(st.permutations(labels))))


def test_the_class_na_is_listed_among_the_labels(write):
    rows = read_rows(write("a.csv", "text,label\nnull,NA\nNA,nan\nNone,null\n-,N/A\n"))
    assert label_names(rows) == ("N/A", "NA", "nan", "null")


def test_one_class_is_refused_with_its_name():
    with pytest.raises(DataError) as caught:
        label_names(labelled("good", "good"))
    assert (
        str(caught.value) == "reviews.csv: every row has the label 'good'; give rows of at least two classes"
    )


def test_no_rows_have_no_classes():
    with pytest.raises(DataError, match="there are no rows"):
        label_names([])


def test_a_row_without_a_label_is_named():
    with pytest.raises(DataError, match=r"reviews\.csv, row 2: holds no label"):
        label_names(labelled("good", None))
    with pytest.raises(DataError, match=r"reviews\.csv, row 2: holds no label"):
        check_known(labelled("good", None), ["good"])


def test_known_labels_pass():
    check_known(labelled("good", "bad", "good"), ("bad", "good", "mixed"))


def test_an_unseen_label_is_named_with_its_row_and_the_closest_one():
    with pytest.raises(DataError) as caught:
        check_known(labelled("negative", "Positve"), ("negative", "positive"))
    assert str(caught.value) == (
        "reviews.csv, row 2: the label 'Positve' is not one the model was trained on "
        "(did you mean 'positive'?); known are 'negative', 'positive'"
    )


def test_a_label_that_differs_in_case_alone_is_not_taken_silently():
    with pytest.raises(DataError, match="did you mean 'POS'"):
        check_known(labelled("pos"), ("NEG", "POS"))
    with pytest.raises(DataError, match="did you mean 'pos'"):
        check_known(labelled("POS"), ("neg", "pos"))


def test_nothing_is_suggested_where_nothing_is_close():
    with pytest.raises(DataError) as caught:
        check_known(labelled("3"), ("0", "1", *(f"class {i}" for i in range(50))))
    assert "did you mean" not in str(caught.value)
    assert str(caught.value).endswith("'class 7' and 42 more")


@pytest.mark.parametrize("number", ["1e300", "-1e39", "1.1e15"])
def test_a_number_whose_square_float32_cannot_hold_is_refused_with_its_row(row, number):
    with pytest.raises(DataError, match=r"reviews\.csv, row 7: the label .* is beyond 1e\+15"):
        numbers([row("a", "1e15"), row("b", number, 7)])


def test_rows_that_were_left_out_are_told_where_one_label_is_left():
    with pytest.raises(DataError, match=r"every row has the label 'a' \(2 rows left out: their texts are"):
        label_names(labelled("a", "a"), left_out=2)
