"""Files of questions: SQuAD's JSON and flat rows, and what is refused by row."""

import gzip
import json

import pytest

from clearhead.data.questions import Place, questions_of
from clearhead.errors import DataError
from clearhead.settings import Reading

CONTEXT = "Ada wrote the first program. 🙂 Ada liked naïve tables."


def squad(*qas, context=CONTEXT):
    return json.dumps({"data": [{"title": "t", "paragraphs": [{"context": context, "qas": list(qas)}]}]})


def qa(question="Who?", *answers, **more):
    return {
        "id": "q",
        "question": question,
        "answers": [{"text": t, "answer_start": s} for t, s in answers],
        **more,
    }


def refused(path, **options):
    with pytest.raises(DataError) as caught:
        questions_of(path, Reading(), **options)
    return str(caught.value)


def test_squad_files_of_both_versions_are_read_with_places_in_characters(write):
    start = CONTEXT.index("naïve")
    path = write("s.json", squad(qa("What?", ("naïve tables", start)), qa("Why?", is_impossible=True)))
    first, second = questions_of(path, Reading())[0]
    assert (first.text, first.context, first.number, first.extra) == ("What?", CONTEXT, 1, {"id": "q"})
    assert first.answers == (Place(start, start + 12),) and first.right == ("naïve tables",)
    assert second.answers == () and second.right == ()


def test_a_packed_squad_file_is_read(tmp_path):
    path = tmp_path / "s.json.gz"
    path.write_bytes(gzip.compress(squad(qa("Who?", ("Ada", 0))).encode()))
    assert questions_of(str(path), Reading())[0][0].right == ("Ada",)


@pytest.mark.parametrize(
    "line",
    [
        {"question": "Who?", "context": CONTEXT, "answer": "Ada", "start": 31},
        {"question": "Who?", "context": CONTEXT, "answer": "Ada", "answer_start": "31"},
        {"query": "Who?", "passage": CONTEXT, "answers": {"text": ["Ada"], "answer_start": [31]}},
        {"question": "Who?", "context": CONTEXT, "answers": [{"text": "Ada", "answer_start": 31}]},
    ],
)
def test_rows_are_read_in_every_usual_spelling(write, line):
    (question,), bad = questions_of(write("q.jsonl", json.dumps(line) + "\n"), Reading())
    assert question.answers == (Place(31, 34),) and not bad


def test_an_answer_without_a_start_must_stand_there_once(write):
    row = "question\tcontext\tanswer\n"
    (question,), _ = questions_of(write("a.tsv", row + f"What?\t{CONTEXT}\tprogram\n"), Reading())
    assert question.right == ("program",)
    said = refused(write("b.tsv", row + f"Who?\t{CONTEXT}\tAda\n"))
    assert "b.tsv, row 1: the answer 'Ada' stands 2 times in the context; give its start" in said
    said = refused(write("c.tsv", row + f"Who?\t{CONTEXT}\tada\n"))
    assert "stands 0 times in the context; take it from the context, letter for letter" in said


def test_an_empty_answer_says_that_there_is_none(write):
    path = write("q.tsv", f"question\tcontext\tanswer\nWhy?\t{CONTEXT}\t\n")
    assert questions_of(path, Reading())[0][0].answers == ()


@pytest.mark.parametrize("start", [1, -1, 10**9, 1.5, "x", True, None])
def test_an_answer_that_does_not_stand_where_it_says_is_an_error_with_its_row(write, start):
    good = json.dumps({"question": "Who?", "context": CONTEXT, "answer": "program", "start": 20})
    bad = json.dumps({"question": "Who?", "context": CONTEXT, "answer": "Ada", "start": start})
    path = write("q.jsonl", f"{good}\n{bad}\n{good}\n")
    said = refused(path)
    assert "q.jsonl, row 2" in said and "--skip-bad-rows" in said and "'Ada'" in said
    found, count = questions_of(path, Reading(), skip_bad=True)
    assert [question.number for question in found] == [1, 3] and count == 1


def test_where_it_stands_instead_is_told(write):
    row = json.dumps({"question": "What?", "context": CONTEXT, "answer": "program", "start": 3})
    assert "has ' wrote '" in refused(write("q.jsonl", row)) and "it stands at 20" in refused(
        write("r.jsonl", row)
    )


def test_a_file_of_bad_rows_alone_is_refused(write):
    row = json.dumps({"question": "Who?", "context": CONTEXT, "answer": "Eve", "start": 0})
    assert "holds no questions that can be used" in refused(write("q.jsonl", row), skip_bad=True)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"data": 3}', '{"data": [{"paragraphs": [{"qas": [{}]}]}]}', "null"]
)
def test_a_json_file_of_another_kind_is_refused_by_name(write, text):
    said = refused(write("q.json", text))
    assert "is not SQuAD's JSON" in said and "rows go into .jsonl" in said


def test_for_prediction_nothing_is_made_of_answers(write):
    row = json.dumps({"question": "Who?", "context": CONTEXT, "answer": "Eve", "start": 0, "n": 7})
    (question,), _ = questions_of(write("q.jsonl", row), Reading(), answered=False)
    assert question.answers is None and question.extra == {"answer": "Eve", "start": 0, "n": 7}


def test_lines_of_a_context_stay_as_they_are(write):
    context = "One\r\ntwo\u2028three"
    path = write("s.json", squad(qa("Q?", ("two\u2028three", 5)), context=context))
    assert questions_of(path, Reading())[0][0].context == context


def test_a_start_that_the_first_row_lacks_is_read(write):
    rows = [
        {"question": "Why?", "context": CONTEXT, "answer": ""},
        {"question": "Who?", "context": CONTEXT, "answer": "Ada", "start": 31},
    ]
    path = write("q.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert [one.answers for one in questions_of(path, Reading())[0]] == [(), (Place(31, 34),)]
    both = json.dumps(rows[1] | {"answer_start": 31})
    assert "'start', 'answer_start' could each be where answers start" in refused(write("b.jsonl", both))


def test_only_an_empty_answer_says_that_there_is_none(write):
    row = {"question": "Who?", "context": CONTEXT}
    for none in (None, "", " ", []):
        path = write("q.jsonl", json.dumps(row | {"answers": none}) + "\n")
        assert questions_of(path, Reading())[0][0].answers == ()
    lines = json.dumps(row | {"answer": "program"}) + "\n" + json.dumps(row) + "\n"
    path = write("r.jsonl", lines)
    assert "r.jsonl, row 2: says nothing of an answer; write answers or" in refused(path)
    assert questions_of(path, Reading(), skip_bad=True)[1] == 1
    for said in ({}, {"answers": None}):
        one = {"id": "q", "question": "Why?", **said}
        path = write("s.json", squad(qa("Who?", ("Ada", 0)), one))
        assert "s.json, row 2: says nothing of an answer" in refused(path)
        assert len(questions_of(path, Reading(), answered=False)[0]) == 2
    path = write("t.json", squad({"question": "Why?", "is_impossible": True}))
    assert questions_of(path, Reading())[0][0].answers == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (squad(qa(), qa() | {"id": float("nan")}), 'NaN is not JSON: write null or "NaN")'),
        (squad(qa(), qa() | {"id": [float("inf")]}), 'Infinity is not JSON: write null or "Infinity")'),
        (squad(qa(), {"id": "q"}), "s.json, at question 2: is not SQuAD's JSON (KeyError: 'question')"),
        (squad(qa(), qa() | {"id": ["\ud800"]}), "s.json, row 2: \\ud800 is half a character"),
        (squad(qa(), context="The \ud800"), "s.json, row 1: \\ud800 is half a character"),
        (squad(qa()).replace('"q"', "1e999"), "s.json, row 1: holds a number too large for a float"),
        ('{"data": [], "data": []}', "the key 'data' is there more than once"),
    ],
)
def test_a_squad_file_keeps_the_rules_of_json(write, text, said):
    assert said in refused(write("s.json", text), answered=False)
