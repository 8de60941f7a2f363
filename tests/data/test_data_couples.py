"""Files of pairs: which columns are taken, and what is refused by row."""

import json

import pytest

from clearhead.data.couples import couples_of
from clearhead.errors import DataError
from clearhead.settings import Pairing

PAIR = {"query": "a", "answer": "b"}


@pytest.fixture
def read(write):
    def read_pairs(*rows):
        path = write("a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        return list(couples_of(path, Pairing()))

    return read_pairs


def test_columns_that_the_first_row_lacks_are_taken(read):
    assert [one.negative for one in read(PAIR, PAIR | {"negative": "c"})] == [None, "c"]
    assert [one.negative for one in read(PAIR | {"negative": None}, PAIR | {"negative": ""})] == [None, None]
    with pytest.raises(DataError, match=r"a\.jsonl, row 1, column 'score': None is not a number"):
        read(PAIR, PAIR | {"score": 1})
    with pytest.raises(DataError, match=r"'negative', 'score' are a text that does not belong and a score"):
        read(PAIR, PAIR | {"score": 1}, PAIR | {"negative": "c"})


def test_a_negative_that_is_no_text_is_refused(read):
    for value in (0, False, []):
        with pytest.raises(DataError, match="row 2, column 'negative': .* is not a text"):
            read(PAIR, PAIR | {"negative": value})


def test_scores_that_no_loss_can_hold_are_refused_by_row(read):
    assert read(PAIR | {"score": -5})[0].score == -5
    for value in (1e308, -1e16, "1e20"):
        with pytest.raises(DataError, match=r"row 1, column 'score': .* is beyond 1e\+15; write scores in"):
            read(PAIR | {"score": value})
