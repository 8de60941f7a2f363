"""CoNLL and JSONL with tags: what is read, and what is refused with its file, row and line."""

import gzip
import json
import os
from pathlib import Path

import pytest

from clearhead.data.sentences import read_tagged, read_words
from clearhead.errors import DataError
from clearhead.settings import Sentences


def read(path, *, format=None, **reading):
    return read_tagged(path, Sentences(**reading), format=format)


def rows_of(found):
    return [(row.words, row.labels) for row in found.sentences]


@pytest.fixture
def write(tmp_path):
    def write(text, name="a.conll"):
        path = tmp_path / name
        path.write_bytes(text.encode())
        return path

    return write


ADA = [(("Ada", "waits"), ("B-PER", "O")), (("Here",), ("O",))]


@pytest.mark.parametrize(
    "text",
    [
        "Ada\tB-PER\nwaits\tO\n\nHere\tO\n",
        "Ada\tB-PER\nwaits\tO\n\nHere\tO",
        "\n\nAda B-PER\nwaits O\n \n\t\nHere O\n\n",
        "-DOCSTART- -X- -X- O\n\nAda NNP I-NP B-PER\nwaits VBZ I-VP O\n\nHere RB I-ADVP O\n",
        "-DOCSTART-\tO\nAda\tB-PER\nwaits\tO\n-DOCSTART-\tO\nHere\tO\n",
        "\ufeffAda\tB-PER\r\nwaits\tO\r\n\r\nHere\tO\r\n",
        "Ada  B-PER \nwaits   O\n\nHere O\n",
        "Ada\tNNP x\tB-PER\nwaits\t\tO\n\nHere\t\tO\n",
    ],
)
def test_a_word_a_line_however_columns_and_lines_end(write, text):
    found = read(write(text))
    assert rows_of(found) == ADA
    assert (found.scheme, found.skipped) == ("BIO", 0)
    assert [(row.row, row.text) for row in found.sentences] == [(1, "Ada waits"), (2, "Here")]
    assert found.note.endswith("a.conll: 2 sentences, tags in BIO")


def test_a_zipped_file_is_read_and_a_word_may_begin_with_a_hash(tmp_path):
    path = tmp_path / "a.bio.gz"
    path.write_bytes(gzip.compress(b"#fun\tO\n#x\tB-A\n"))
    assert rows_of(read(path)) == [(("#fun", "#x"), ("O", "B-A"))]


def test_jsonl_has_lists_in_columns_that_can_be_named(write):
    lines = [{"tokens": ["Ada", "waits"], "tags": ["B-PER", "O"]}, {"tokens": ["Here"], "tags": ["O"]}]
    assert rows_of(read(write("".join(json.dumps(line) + "\n" for line in lines), "a.jsonl"))) == ADA
    lines = [{"w": line["tokens"], "t": line["tags"], "id": 3} for line in lines]
    path = write("".join(json.dumps(line) + "\n" for line in lines), "b.jsonl")
    assert rows_of(read(path, tokens_column="w", tags_column="t")) == ADA


def test_iob1_is_read_as_bio_and_said(write):
    found = read(write("Ada\tI-PER\nEva\tB-PER\n"))
    assert rows_of(found) == [(("Ada", "Eva"), ("B-PER", "B-PER"))]
    assert found.note.endswith("1 sentence, tags in IOB1, read as BIO")


CONLL = [
    ("Ada\tB-PER\n\nEva\tO\nwaits\tI-PER\n", "row 2, line 4: I-PER follows O, and in BIO an entity begins"),
    ("Ada\tB-PER\nwaits\n", "row 1, line 2: has no tag; write one (in CoNLL: the word, a tab or a space"),
    ("Ada\tB-PER\n\n\twaits\tO\n", "row 2, line 3: the word is empty; write it, or take it out with its tag"),
    ("Ada\xa0B\tB-PER\n", "row 1, line 1: the word 'Ada\\xa0B' holds white space; make it two"),
    ("Ada\tPERSON\n", "row 1, line 1: the tag 'PERSON' is neither O nor a type after one of 'B-', 'I-'"),
    ("Ada\tB-PER\nwaits\t\n", "row 1, line 2: the tag '' is neither O nor"),
]


@pytest.mark.parametrize(("text", "said"), CONLL)
def test_what_cannot_be_used_is_refused_by_row_and_line(write, text, said):
    path = write(text)
    with pytest.raises(DataError) as refused:
        read(path)
    assert str(refused.value).startswith(f"{path}, {said}")


@pytest.mark.parametrize(("text", "said"), CONLL)
def test_or_left_out_and_counted(write, text, said):
    found = read(write(f"good\tO\nEva\tB-PER\n\n{text}"), skip_bad_rows=True)
    assert found.skipped == 1 and found.sentences[0].words == ("good", "Eva")
    assert "left out as unusable: 1" in found.note


JSONL = [
    ('{"tokens": ["a", "b"], "tags": ["O"]}', "row 1: 2 words and 1 tag; give each word one tag"),
    ('{"tokens": [], "tags": []}', "row 1: holds no words; write at least one, or take the row out"),
    ('{"tokens": ["a", ""], "tags": ["O", "O"]}', "row 1, word 2: the word is empty"),
    ('{"tokens": ["a b"], "tags": ["O"]}', "row 1, word 1: the word 'a b' holds white space"),
    ('{"tokens": ["a", 7], "tags": ["O", "O"]}', "row 1, word 2: 7 is not a word; write it as a string"),
    ('{"tokens": ["a"], "tags": [3]}', "row 1, word 1: the tag 3 is no name; write names, such as B-PERSON"),
    ('{"tokens": ["a"], "tags": [null]}', "row 1, word 1: has no tag"),
    ('{"tokens": ["a"], "tags": ["B-A"]}\n{"tokens": ["a"], "tags": ["I-A"]}', "row 2, word 1: I-A follows"),
]


@pytest.mark.parametrize(("text", "said"), JSONL)
def test_rows_of_jsonl_are_refused_by_row_and_word(write, text, said):
    path = write(text, "a.jsonl")
    with pytest.raises(DataError) as refused:
        read(path)
    assert str(refused.value).startswith(f"{path}, {said}")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.jsonl", '{"tokens": "a b", "tags": ["O"]}', "column 'tokens': holds a b, not a list; write"),
        ("a.jsonl", '{"tokens": ["a"], "tags": "O"}', "column 'tags': holds O, not a list"),
        (
            "a.jsonl",
            '{"text": "a"}',
            "no column 'tokens' or 'words'; found 'text'; choose one with",
        ),
        (
            "a.csv",
            "a,b\n",
            "are read from CoNLL (.conll .conll03 .iob .iob2 .bio) and .jsonl files",
        ),
        ("a.txt", "a\tO\n", "say which with --format conll or jsonl"),
        ("a.conll", "\n\n", "holds no tagged sentence; give a file with at least one"),
        ("a.conll", "-DOCSTART- O\n", "holds no tagged sentence"),
    ],
)
def test_files_that_hold_no_tags_are_refused(write, name, text, said):
    with pytest.raises(DataError) as refused:
        read(write(text, name))
    assert said in str(refused.value)


@pytest.mark.parametrize(("text", "line"), [("Ada\tB-PER\rwaits\tO\r", 1), ("a\tO\nb\tO\rc\tO\n", 2)])
def test_a_carriage_return_loses_no_words(write, text, line):
    for how in (read, lambda path: read_words(path, Sentences())):
        with pytest.raises(DataError, match=rf"a\.conll, line {line}: a carriage return \(CR\)"):
            how(write(text))


def test_space_around_a_tag_is_none_of_it_in_either_format(write):
    rows = [
        {"tokens": ["Ada", "waits"], "tags": [" B-PER ", "O\u00a0"]},
        {"tokens": ["Here"], "tags": ["O "]},
    ]
    assert rows_of(read(write("".join(json.dumps(row) + "\n" for row in rows), "a.jsonl"))) == ADA
    assert rows_of(read(write("Ada\t B-PER \nwaits\tO\xa0\n\nHere\tO\n"))) == ADA


def test_a_byte_that_is_not_utf8_is_named_by_its_line(tmp_path):
    path = tmp_path / "a.conll"
    path.write_bytes(b"Ada\tO\ncaf\xe9\tO\n")
    with pytest.raises(DataError, match="row 1, line 2: the byte 0xe9 is not UTF-8"):
        read(path)


def test_any_name_is_read_where_the_format_is_said(write):
    assert rows_of(read(write("Ada\tB-PER\nwaits\tO\n\nHere\tO\n", "a.txt"), format="conll")) == ADA


def test_words_to_be_tagged_need_no_tags_and_keep_what_else_there_is(write):
    bare = read_words(write("Ada\nwaits\n"), Sentences())
    assert [(row.words, row.labels, row.extra) for row in bare] == [(("Ada", "waits"), None, {})]
    more = read_words(write("Ada\tx\tB-PER\nwaits\ty\tO\n"), Sentences())
    assert more[0].extra == {"tags": ["B-PER", "O"]}
    rows = '{"id": 3, "tokens": ["Ada"], "tags": ["any", "thing"]}\n{"id": 4, "tokens": []}\n'
    path = write(rows, "a.jsonl")
    with pytest.raises(DataError, match="row 2: holds no words; .* or go on without it with --empty skip"):
        read_words(path, Sentences())
    some = read_words(path, Sentences(), empty="skip")
    assert [(row.words, row.extra) for row in some] == [
        (("Ada",), {"id": 3, "tags": ["any", "thing"]}), ((), {"id": 4}),
    ]  # fmt: skip
    assert some[1].blank


def test_the_public_files_are_read_whole():
    folder = Path(os.environ.get("CLEARHEAD_SHARED", "nowhere"))
    if not (folder / "data/wnut17.train.conll").is_file():
        pytest.skip("needs the shared data")
    found = [read(folder / f"data/wnut17.{part}.conll") for part in ("train", "dev")]
    assert [len(one.sentences) for one in found] == [3394, 1009] and {one.scheme for one in found} == {"BIO"}
