"""Documents of files and folders, whole; what is no text is named with its place."""

import gzip

import pytest

from clearhead.data.documents import documents
from clearhead.errors import DataError


def test_a_file_is_a_document_or_each_of_its_lines(tmp_path):
    file = tmp_path / "a.txt"
    file.write_bytes("one\r\ntwo\n\n  \nthrée".encode())
    assert list(documents([str(file)])) == ["one\r\ntwo\n\n  \nthrée"]
    assert list(documents([str(file)], whole=False)) == ["one", "two", "thrée"]


def test_folders_are_read_by_name_with_all_inside_them(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "z.md").write_text("last")
    (tmp_path / "a.txt").write_text("first")
    (tmp_path / "aa.jsonl").write_text('{"text": "second"}\n{"text": " "}\n')
    (tmp_path / "ab.txt.gz").write_bytes(gzip.compress(b"third"))
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8")
    assert list(documents([str(tmp_path)])) == ["first", "second", "third", "last"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("ab\u00e9".encode() + b"\xff", r"a.txt: the byte 0xff at offset 4 is not UTF-8 text; convert it"),
        (b"ab\0c", r"a.txt: a null byte at offset 2 is not UTF-8 text; is this a file of text\?"),
    ],
)
def test_what_is_no_text_is_named_with_its_offset(tmp_path, content, said):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(DataError, match=said):
        list(documents([str(tmp_path / "a.txt")]))


def test_a_folder_without_texts_is_named(tmp_path):
    with pytest.raises(DataError, match=r"no file in this folder ends in \.txt"):
        list(documents([str(tmp_path)]))


@pytest.mark.parametrize(("row", "said"), [('{"text": null}', "holds null"), ('{"id": 1}', "is missing")])
def test_a_row_of_json_without_a_text_is_named(tmp_path, row, said):
    (tmp_path / "a.jsonl").write_text(f'{{"text": ""}}\n{{"text": "one"}}\n{row}\n')
    with pytest.raises(DataError, match=f"a.jsonl, row 3, column 'text': {said}; write a text, or take"):
        list(documents([str(tmp_path / "a.jsonl")]))


def test_an_empty_cell_is_an_empty_text(tmp_path):
    (tmp_path / "a.csv").write_text('text,id\n,1\none,2\n"",3\n')
    assert list(documents([str(tmp_path / "a.csv")])) == ["one"]


def test_conversations_where_texts_are_asked_for_are_called_so(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"messages": [{"role": "user", "content": "hi"}]}\n')
    with pytest.raises(DataError, match="conversations, which train language alone reads: from a file, not"):
        list(documents([str(tmp_path / "a.jsonl")]))


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.csv"])
def test_bytes_that_are_no_text_are_refused_replaced_or_left_out(tmp_path, name):
    lines = {"a.txt": b"b\xffc", "a.jsonl": b'{"text": "b\xffc"}\n', "a.csv": b"text\nb\xffc\n"}
    (tmp_path / name).write_bytes(lines[name])
    path = [str(tmp_path / name)]
    with pytest.raises(DataError, match="0xff"):
        list(documents(path))
    assert list(documents(path, errors="replace")) == ["b\ufffdc"]
    assert list(documents(path, errors="ignore")) == ["bc"]
