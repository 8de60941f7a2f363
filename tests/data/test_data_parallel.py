"""Files of pairs: two of lines, or one table."""

import gzip

import pytest

from clearhead.data.parallel import pairs_of
from clearhead.errors import DataError
from clearhead.settings import Parallel


def read(*paths, **options):
    columns = {name: options.pop(name) for name in ("source_column", "target_column") if name in options}
    return [
        (pair.source, pair.target)
        for pair in pairs_of([str(path) for path in paths], Parallel(**columns), **options)
    ]


def write(path, text):
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def test_two_files_are_read_line_by_line_whatever_they_are_called(tmp_path):
    one = write(tmp_path / "train.en", "A dog.\n\n two \u2028 words \nlast")
    other = write(tmp_path / "train.de.gz", "Ein Hund.\nleer\n\nletzte\n")
    right = [("A dog.", "Ein Hund."), ("", "leer"), (" two \u2028 words ", ""), ("last", "letzte")]
    assert read(one, other) == right


@pytest.mark.parametrize(("lines", "named"), [("a\nb\n", "en, row 3"), ("a\nb\nc\nd\n", "de, row 4")])
def test_the_first_line_without_a_partner_is_named(tmp_path, lines, named):
    one, other = write(tmp_path / "x.en", "a\nb\nc\n"), write(tmp_path / "x.de", lines)
    with pytest.raises(DataError, match=f"{named}: has no partner: .* ends after row"):
        read(one, other)


def test_tables_have_a_column_for_each_side(tmp_path):
    table = write(tmp_path / "x.tsv", "id\tsource\ttarget\n1\ta\tb\n2\tc\td\n")
    assert read(table) == [("a", "b"), ("c", "d")]
    rows = write(tmp_path / "x.jsonl", '{"en": "a", "de": "b"}\n{"en": "c", "de": "d"}\n')
    assert read(rows, source_column="en", target_column="de") == [("a", "b"), ("c", "d")]
    with pytest.raises(DataError, match="no column 'source' or 'src' or 'text'; .*--source-column"):
        read(rows)
    summary = write(tmp_path / "s.csv", 'text,summary\n"long, long",short\n')
    assert read(summary) == [("long, long", "short")]


def test_what_is_no_file_of_pairs_is_refused_by_name(tmp_path):
    lines, table = write(tmp_path / "x.txt", "a\n"), write(tmp_path / "x.tsv", "source\ttarget\na\tb\n")
    for one in (lines, write(tmp_path / "x.en", "a\n")):
        with pytest.raises(DataError, match="holds one text a line; give a second file"):
            read(one)
    with pytest.raises(DataError, match=r"x.tsv is a table \(tsv\); give it alone"):
        read(lines, table)
    nothing = write(tmp_path / "n.jsonl", '{"source": "a", "target": null}\n')
    with pytest.raises(DataError, match="row 1.*'target'.*holds null"):
        read(nothing)
