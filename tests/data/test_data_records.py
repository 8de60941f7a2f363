"""What a file says is what its records say, in every format, and what is wrong is said with its place."""

import csv
import gzip
import json
import os
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.data.read import Record, records
from clearhead.data.rows import read_rows
from clearhead.errors import SettingError

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)
LABELS = st.sampled_from(["null", "NA", "1", "très bon", "a,b", 'say "x"'])


def values(path, **options):
    return [record.values for record in records(path, **options)]


def pairs(path, **options):
    return [(row.text, row.label) for row in read_rows(path, **options)]


# What was written is what is read.


@settings(deadline=None)  # a busy machine is no failure
@given(written=st.lists(st.tuples(TEXTS, LABELS), min_size=1))
def test_what_the_csv_writer_writes_is_read_back(tmp_path_factory, written):
    path = tmp_path_factory.getbasetemp() / "round.csv"
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *written])
    assert pairs(path) == written


@settings(deadline=None)  # a busy machine is no failure
@given(written=st.lists(st.tuples(TEXTS, LABELS), min_size=1), ascii=st.booleans(), packed=st.booleans())
def test_what_json_writes_is_read_back(tmp_path_factory, written, ascii, packed):
    path = tmp_path_factory.getbasetemp() / "round.jsonl"
    lines = [json.dumps({"text": text, "label": label}, ensure_ascii=ascii) for text, label in written]
    content = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(content) if packed else content)
    assert pairs(path) == written


@settings(deadline=None)  # a busy machine is no failure
@given(written=st.lists(TEXTS.filter(lambda text: not set("\n\r") & set(text)), min_size=1))
def test_plain_texts_are_read_back_one_a_line(tmp_path_factory, written):
    path = tmp_path_factory.getbasetemp() / "round.txt"
    path.write_bytes("".join(f"{text}\r\n" for text in ["first", *written]).encode())
    assert values(path) == [{"text": text} for text in ["first", *written]]


def test_a_record_knows_its_file_as_the_user_wrote_it_and_its_row(write, monkeypatch):
    path = write("a.csv", "text,label\nx,1\n\ny,2\n")
    monkeypatch.chdir(os.path.dirname(path))
    assert list(records("./a.csv")) == [
        Record({"text": "x", "label": "1"}, "./a.csv", 1),
        Record({"text": "y", "label": "2"}, "./a.csv", 2),
    ]


# A30: words that look like missing values.


@pytest.mark.parametrize(
    "word", ["null", "NULL", "NA", "N/A", "None", "nan", "NaN", "-", "true", "1.0", "#N/A"]
)
@pytest.mark.parametrize(("name", "separator"), [("a.csv", ","), ("a.tsv", "\t")])
def test_the_word_null_stays_a_word(write, word, name, separator):
    path = write(name, f"text{separator}label\n{word}{separator}{word}\n")
    assert pairs(path) == [(word, word)]


def test_the_word_null_stays_a_word_in_json_and_plain_text(write):
    assert pairs(write("a.jsonl", '{"text": "null", "label": "NA"}\n')) == [("null", "NA")]
    assert pairs(write("a.txt", "null\nNA\n"), labelled=False) == [("null", None), ("NA", None)]


def test_an_empty_cell_is_an_empty_string(write):
    assert values(write("a.csv", "text,note\nx,\n")) == [{"text": "x", "note": ""}]
    assert values(write("a.tsv", "text\tnote\nx\t\n")) == [{"text": "x", "note": ""}]


# Which format.


def test_the_ending_says_what_a_file_is(write):
    assert values(write("a.ndjson", '{"a": 1}\n')) == [{"a": 1}]
    assert values(write("a.JSONL.gz", '{"a": 1}\n')) == [{"a": 1}]
    assert values(write("a.b.txt", "x,y\n")) == [{"text": "x,y"}]


def test_an_unknown_ending_is_refused_with_those_known(write, refusal):
    said = refusal(write("a.xlsx", "x"))
    assert "a.xlsx: the ending '.xlsx' is not known; known are .csv .tsv .jsonl .ndjson .txt" in said
    assert "--format csv|tsv|jsonl|text" in said
    assert "the ending '' is not known" in refusal(write("reviews", "x"))
    assert "the ending '.json' is not known" in refusal(write("a.json", "{}"))


def test_a_stated_format_goes_before_the_ending(write):
    assert values(write("data.bin", "text,label\nx,1\n"), format="csv") == [{"text": "x", "label": "1"}]
    assert values(write("a.csv", "x,y\n"), format="text") == [{"text": "x,y"}]


def test_an_unknown_format_is_refused(write):
    with pytest.raises(SettingError, match="--format xml is not known; use one of csv, tsv, jsonl, text"):
        values(write("a.csv", "text\nx\n"), format="xml")


# Nothing in it.


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.txt"])
@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", gzip.compress(b"", mtime=0)])
def test_an_empty_file_holds_no_rows(write, refusal, name, content):
    assert refusal(write(name, content)) == f"{name}: holds no rows; give a file with at least one"


def test_a_header_alone_holds_no_rows(write, refusal):
    assert "holds no rows" in refusal(write("a.csv", "text,label"))
    assert "holds no rows" in refusal(write("a.tsv", "text\tlabel\n\n"))
    assert "holds no rows" in refusal(write("a.jsonl", "\n  \r\n"))


# CSV.


def test_a_quoted_newline_is_kept_and_starts_no_row(write):
    path = write("a.csv", 'text,label\r\n"two\r\nlines, ""so""",1\r\nx,2\r\n')
    assert [(r.values["text"], r.row) for r in records(path)] == [('two\r\nlines, "so"', 1), ("x", 2)]


def test_blank_lines_in_a_table_are_skipped_and_not_counted(write):
    path = write("a.csv", "\n\ntext,label\n\na,1\n\r\nb,2\n\n")
    assert [(r.values["text"], r.row) for r in records(path)] == [("a", 1), ("b", 2)]


def test_a_text_may_be_huge(write):
    text = "word " * 100_000
    assert pairs(write("a.csv", f"text,label\n{text},1\n")) == [(text, "1")]
    assert pairs(write("b.csv", f'text,label\n"{text}",1\n')) == [(text, "1")]


def test_space_around_names_goes_and_around_values_stays(write):
    assert values(write("a.csv", " text ,label\n a , 1\n")) == [{"text": " a ", "label": " 1"}]


def test_an_open_quote_is_named_where_it_starts(write, refusal):
    said = refusal(write("a.csv", 'text,label\n"a\nb",1\n"open,2\nc,3\n'))
    assert said == (
        "a.csv, row 2, from line 4 on: quotes do not match (unexpected end of data); "
        'close the quote, and write a " inside a quoted text twice'
    )


def test_a_quote_that_ends_too_early_is_named(write, refusal):
    assert "a.csv, row 1, from line 2 on: quotes do not match" in refusal(
        write("a.csv", 'text,label\n"say "x" now",1\n')
    )
    assert "a.csv, header, from line 1 on: quotes do not match" in refusal(write("a.csv", '"text,label\n'))


def test_a_ragged_row_is_named_with_its_counts(write, refusal):
    said = refusal(write("a.csv", "text,label\nfine,1\ngood, really,1\n"))
    assert said == (
        "a.csv, row 2: 3 fields, but the header names 2 columns; "
        'put "quotes" around a text with a comma in it'
    )
    assert "a.csv, row 1: 1 field, but the header names 2 columns" in refusal(
        write("a.csv", "text,label\nx\n")
    )
    assert "take tabs out of the texts" in refusal(write("a.tsv", "text\tlabel\na\tb\t1\n"))


def test_two_columns_of_one_name_are_refused(write, refusal):
    said = refusal(write("a.csv", "text,label, text\na,1,b\n"))
    assert said == "a.csv, header, column 3: is named 'text' like column 1; rename one"


def test_a_column_without_a_name_is_refused(write, refusal):
    said = refusal(write("a.csv", ",text,label\n0,a,1\n"))
    assert (
        said == "a.csv, header, column 1: has no name; give it one (pandas leaves it out unless index=False)"
    )


@pytest.mark.parametrize("line", ["a;1", '"a, b";1', "a, b;1"])
def test_semicolons_between_columns_are_suspected_aloud(write, refusal, line):
    said = refusal(write("a.csv", f"text;label\n{line}\n"))
    assert "the header is a single name with ';' in it" in said
    assert "save the file separated by commas or tabs" in said


def test_the_other_separator_is_suspected_aloud(write, refusal):
    assert "with '\\t' in it: if that separates columns, read it with --format tsv" in refusal(
        write("a.csv", "text\tlabel\na\t1\n")
    )
    assert "read it with --format csv" in refusal(write("a.tsv", "text,label\na,1\n"))


# TSV.


def test_a_stray_quote_in_tsv_is_a_character(write):
    path = write("a.tsv", 'sentence\tlabel\n"a quote never closed\t1\r\nit \'s " fine\t0\n')
    assert pairs(path) == [('"a quote never closed', "1"), ("it 's \" fine", "0")]


def test_only_a_newline_ends_a_line(write):
    odd = "a\u2028b\x0bc\x0cd\x85e\x1cf"
    assert pairs(write("a.tsv", f"text\tlabel\n{odd}\t1\n")) == [(odd, "1")]
    assert values(write("a.txt", f"{odd}\n")) == [{"text": odd}]
    assert values(write("a.jsonl", f'{{"text": "{odd[:3]}"}}\n')) == [{"text": odd[:3]}]
    assert pairs(write("a.csv", f"text,label\n{odd},1\n")) == [(odd, "1")]


# JSONL.


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("[1, 2]", "holds [1, 2], not a JSON object"),
        ('"text"', 'holds "text", not a JSON object'),
        ("null", "holds null, not a JSON object"),
        ("{'text': 1}", "is not usable JSON (Expecting property name"),
        ('{"text": "a"} {"text": "b"}', "is not usable JSON (Extra data"),
        ('{"text": "tab\there"}', "is not usable JSON (Invalid control character"),
        ('{"text": "a", "text": "b"}', "is not usable JSON (the key 'text' is there more than once)"),
        ('{"text": "a", "x": NaN}', 'is not usable JSON (NaN is not JSON: write null or "NaN")'),
        ('{"x": ' + "9" * 5000 + "}", "is not usable JSON (Exceeds the limit"),
        ("[" * 10_000 + "]" * 10_000, "is not usable JSON (maximum recursion depth"),
    ],
)
def test_a_line_that_is_no_object_is_named(write, refusal, line, what):
    said = refusal(write("a.jsonl", f'{{"text": "fine", "label": "1"}}\n\n{line}\n'))
    assert said.startswith(f"a.jsonl, row 2: {what}")
    assert len(said) < 300


def test_json_values_keep_their_type(write):
    found = values(write("a.jsonl", '{"a": 1, "b": "1", "c": 1.0, "d": true, "e": null, "f": [1]}\n'))
    assert found == [{"a": 1, "b": "1", "c": 1.0, "d": True, "e": None, "f": [1]}]
    assert [type(value) for value in found[0].values()] == [int, str, float, bool, type(None), list]


# Plain text.


def test_a_blank_line_of_plain_text_is_an_empty_text(write):
    assert values(write("a.txt", "a\n\nb")) == [{"text": "a"}, {"text": ""}, {"text": "b"}]


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("a.txt", "good soup\rbad bread\r", 1), ("a.tsv", "text\tlabel\rgood\ta\rbad\tb", 1),
        ("a.jsonl", '{"text": "good"}\r{"text": "bad"}\r', 1), ("a.txt", "a\nb\rc\nd\n", 2),
        ("a.tsv", "text\tlabel\r\na\t1\rb\t2\r\n", 2), ("a.jsonl", '{"text": "a"}\n{"text":\r"b"}\n', 2),
        ("a.txt", "a\r\r\nb\n", 1),
    ],
)  # fmt: skip
def test_a_carriage_return_that_ends_no_line_is_refused_with_its_line(write, refusal, name, content, line):
    said = refusal(write(name, content), labelled=False)
    assert re.search(rf"{name}, line {line}: a carriage return \(CR\) .*as LF: tr", said)


@pytest.mark.parametrize("format", [None, "text"])
def test_a_file_without_a_name_is_refused(format):
    with pytest.raises(SettingError, match="the file of texts has an empty name; give its path"):
        list(records("", format=format))


def test_a_path_begins_at_the_users_folder_where_it_says_so(write, monkeypatch):
    monkeypatch.setenv("HOME", os.path.dirname(write("a.txt", "good soup\n")))
    assert [record.values["text"] for record in records("~/a.txt")] == ["good soup"]
