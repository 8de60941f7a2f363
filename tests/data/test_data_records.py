"""What a file says is what its records say, in every format, and what is wrong is said with its place."""

import csv
import gzip
import io
import json
import os
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.read import Record, records
from clearhead.data.rows import read_rows
from clearhead.errors import DataError, SettingError

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)
LABELS = st.sampled_from(["null", "NA", "1", "très bon", "a,b", 'say "x"'])


def values(path, **options):
    return [record.values for record in records(path, **options)]


def pairs(path, **options):
    return [(row.text, row.label) for row in read_rows(path, **options)]


def feed(monkeypatch, content: bytes):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


# What was written is what is read.


@given(written=st.lists(st.tuples(TEXTS, LABELS), min_size=1))
def test_what_the_csv_writer_writes_is_read_back(tmp_path_factory, written):
    path = tmp_path_factory.getbasetemp() / "round.csv"
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *written])
    assert pairs(path) == written


@given(written=st.lists(st.tuples(TEXTS, LABELS), min_size=1), ascii=st.booleans(), packed=st.booleans())
def test_what_json_writes_is_read_back(tmp_path_factory, written, ascii, packed):
    path = tmp_path_factory.getbasetemp() / "round.jsonl"
    lines = [json.dumps({"text": text, "label": label}, ensure_ascii=ascii) for text, label in written]
    content = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(content) if packed else content)
    assert pairs(path) == written


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


# A31: byte-order marks, encodings, gzip.


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_byte_order_mark_is_no_part_of_a_column_name(write, end, encoding, packed):
    def path(name, *lines):
        mark = "\ufeff" if encoding in ("utf-16-le", "utf-16-be") else ""
        content = (mark + "".join(line + end for line in lines)).encode(encoding)
        return write(name, gzip.compress(content) if packed else content)

    table = [{"text": "größe 😀", "label": "1"}, {"text": "b", "label": "2"}]
    assert values(path("a.csv", "text,label", "größe 😀,1", "b,2")) == table
    assert values(path("a.tsv", "text\tlabel", "größe 😀\t1", "b\t2")) == table
    assert values(path("a.jsonl", *(json.dumps(value, ensure_ascii=False) for value in table))) == table
    assert values(path("a.txt", "größe 😀", "b")) == [{"text": "größe 😀"}, {"text": "b"}]


def test_a_mark_before_a_quoted_name_is_removed_too(write):
    assert values(write("a.csv", b'\xef\xbb\xbf"text","label"\nx,1\n')) == [{"text": "x", "label": "1"}]


def test_utf_16_without_its_mark_is_refused(write, refusal):
    said = refusal(write("a.csv", "text,label\nx,1\n".encode("utf-16-le")))
    assert said == "a.csv: looks like UTF-16 without a byte-order mark; save the file as UTF-8"


def test_utf_16_cut_off_is_refused(write, refusal):
    said = refusal(write("a.csv", "text,label\nx,1\n".encode("utf-16") + b"x"))
    assert said == "a.csv: is not utf-16-le (truncated data); save the file as UTF-8"


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("a.csv", b"text,label\nok,1\n\ncaf\xe9,1\n", "a.csv, row 2, column 'text'"),
        ("a.csv", b"text,label\nok,\xe9\n", "a.csv, row 1, column 'label'"),
        ("a.csv", b"text,not\xe9\nok,1\n", "a.csv, header, column 2"),
        ("a.tsv", b"text\tlabel\nok\t1\ncaf\xe9\t1\n", "a.tsv, row 2, column 'text'"),
        ("a.jsonl", b'{"text": "ok"}\n{"label": "1", "text": "caf\xe9"}\n', "a.jsonl, row 2, column 'text'"),
        ("a.jsonl", b'{"text": "ok", "x": ["caf\xe9"]}\n', "a.jsonl, row 1"),
        ("a.jsonl", b'{"text": "ok", "caf\xe9": 1}\n', "a.jsonl, row 1"),
        ("a.jsonl", b'{"text": caf\xe9}\n', "a.jsonl, row 1"),
        ("a.txt", b"ok\n\ncaf\xe9\n", "a.txt, row 3"),
    ],
)
def test_a_byte_that_is_not_utf_8_is_named_with_its_place(write, name, content, place):
    with pytest.raises(DataError) as caught:
        values(write(name, content))
    assert f"{place}: the byte 0xe9 is not UTF-8; save the file as UTF-8" in str(caught.value)


def test_a_character_cut_off_by_the_end_of_the_file_is_named(write, refusal):
    assert "row 1: the byte 0xc3 is not UTF-8" in refusal(write("a.txt", b"caf\xc3"), labelled=False)


def test_half_a_character_written_as_an_escape_is_refused(write, refusal):
    said = refusal(write("a.jsonl", '{"text": "half \\ud83d here"}\n'), labelled=False)
    assert said == (
        "a.jsonl, row 1, column 'text': \\ud83d is half a character (a lone surrogate); "
        "write both halves or neither"
    )
    assert "\\udc80 is half" in refusal(write("b.jsonl", '{"text": "\\udc80"}\n'), labelled=False)
    assert pairs(write("c.jsonl", '{"text": "\\ud83d\\ude00"}\n'), labelled=False) == [("😀", None)]


def test_gzip_is_known_by_its_bytes_not_by_its_name(write):
    content = b"text,label\nx,1\n"
    assert pairs(write("a.csv", gzip.compress(content))) == [("x", "1")]
    assert pairs(write("a.csv.gz", content)) == [("x", "1")]
    assert pairs(write("A.CSV.GZ", gzip.compress(content))) == [("x", "1")]


def test_damaged_gzip_is_refused(write, refusal):
    packed = gzip.compress(os.urandom(1000).hex().encode())
    assert "a.txt.gz: cannot be unpacked" in refusal(write("a.txt.gz", packed[:300]), labelled=False)
    spoilt = packed[:100] + bytes(50) + packed[150:]
    assert "this gzip file is damaged" in refusal(write("b.txt.gz", spoilt), labelled=False)
    assert "this gzip file is damaged" in refusal(write("c.txt.gz", b"\x1f\x8b no"), labelled=False)


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


def test_stdin_is_one_text_a_line(monkeypatch):
    feed(monkeypatch, b"\xef\xbb\xbfa, b\nc\n")
    assert list(records("-")) == [
        Record({"text": "a, b"}, "standard input", 1),
        Record({"text": "c"}, "standard input", 2),
    ]
    assert not sys.stdin.closed


def test_stdin_may_be_packed_and_in_any_format(monkeypatch):
    feed(monkeypatch, gzip.compress(b"text,label\nx,1\n"))
    assert pairs("-", format="csv") == [("x", "1")]


def test_a_mistake_on_stdin_is_named(monkeypatch, refusal):
    feed(monkeypatch, b"a\n\xff\n")
    assert refusal("-", labelled=False).startswith("standard input, row 2: the byte 0xff is not UTF-8")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are a thing of POSIX")
def test_a_pipe_is_read_although_it_cannot_be_rewound(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(gzip.compress(b"text\nx\n")))
    writer.start()
    assert values(pipe, format="csv") == [{"text": "x"}]
    writer.join()


# Files that are not there.


def test_a_missing_file_is_named_with_the_folder_searched(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError) as caught:
        read_rows("reviews.csv")
    assert str(caught.value) == f"reviews.csv: there is no such file in {tmp_path}; check the path"


def test_a_folder_is_refused(tmp_path):
    folder = tmp_path / "a.csv"
    folder.mkdir()
    with pytest.raises(DataError, match=r"a\.csv: is a folder; give a file in it"):
        read_rows(folder)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_refused(write, refusal):
    path = write("a.csv", "text\nx\n")
    os.chmod(path, 0)
    assert "a.csv: cannot be opened (Permission denied); make it a readable file" in refusal(path)


def test_a_path_through_a_file_is_refused(write, refusal):
    assert "cannot be opened (Not a directory)" in refusal(write("a", "") + "/b.csv")


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.txt"])
@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", gzip.compress(b"")])
def test_an_empty_file_holds_no_rows(write, refusal, name, content):
    assert refusal(write(name, content)) == f"{name}: holds no rows; give a file with at least one"


def test_a_header_alone_holds_no_rows(write, refusal):
    assert "holds no rows" in refusal(write("a.csv", "text,label"))
    assert "holds no rows" in refusal(write("a.tsv", "text\tlabel\n\n"))
    assert "holds no rows" in refusal(write("a.jsonl", "\n  \r\n"))


def test_files_are_read_without_torch_and_numpy():
    code = (
        "import sys, clearhead.data.labels, clearhead.data.split\n"
        "sys.exit(bool({'torch', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


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
    assert pairs(write("a.tsv", f"text\tlabel\n{odd}\rg\t1\n")) == [(f"{odd}\rg", "1")]
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
