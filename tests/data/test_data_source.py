"""Where the bytes come from and how they become text: encodings, gzip, stdin, files that are not there."""

import gzip
import io
import json
import os
import subprocess
import sys
import threading

import pytest

from clearhead.data.read import Record, records
from clearhead.data.rows import read_rows
from clearhead.errors import DataError


def values(path, **options):
    return [record.values for record in records(path, **options)]


def pairs(path, **options):
    return [(row.text, row.label) for row in read_rows(path, **options)]


def feed(monkeypatch, content: bytes):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


# A31: byte-order marks, encodings, gzip.


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_byte_order_mark_is_no_part_of_a_column_name(write, end, encoding, packed):
    def path(name, *lines):
        mark = "\ufeff" if encoding.endswith(("-le", "-be")) else ""
        content = (mark + "".join(line + end for line in lines)).encode(encoding)
        return write(name, gzip.compress(content) if packed else content)

    table = [{"text": "größe 😀", "label": "1"}, {"text": "b", "label": "2"}]
    assert values(path("a.csv", "text,label", "größe 😀,1", "b,2")) == table
    assert values(path("a.tsv", "text\tlabel", "größe 😀\t1", "b\t2")) == table
    assert values(path("a.jsonl", *(json.dumps(value, ensure_ascii=False) for value in table))) == table
    assert values(path("a.txt", "größe 😀", "b")) == [{"text": "größe 😀"}, {"text": "b"}]


def test_a_mark_before_a_quoted_name_is_removed_too(write):
    assert values(write("a.csv", b'\xef\xbb\xbf"text","label"\nx,1\n')) == [{"text": "x", "label": "1"}]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_what_is_wider_than_utf_8_is_refused_without_its_mark(write, refusal, encoding):
    said = refusal(write("a.csv", "text,label\nx,1\n".encode(encoding)))
    assert said == "a.csv: looks like UTF-16 or UTF-32 without a byte-order mark; save the file as UTF-8"


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
        ("a.jsonl", b'{"text": "ok", "x": ["caf\xe9"]}\n', "a.jsonl, row 1, column 'x'"),
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


# Stdin and pipes.


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


def test_files_are_read_without_torch_and_numpy():
    code = (
        "import sys, clearhead.data.labels, clearhead.data.split\n"
        "sys.exit(bool({'torch', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
