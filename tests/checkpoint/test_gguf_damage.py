"""A damaged GGUF file is one clear error: no traceback, no memory, no time."""

import struct
import tracemalloc

import pytest
from gguf_files import byte_level_facts, decoder, gguf, ones, text, value_of
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from clearhead.checkpoint.gguf import convert
from clearhead.checkpoint.gguf.container import read
from clearhead.errors import FolderError


@pytest.fixture(scope="module")
def whole():
    """A file, and where its numbers begin."""
    facts, tensors = decoder(words=byte_level_facts(size=270), width=32)
    raw = gguf(facts, tensors)
    return raw, len(raw) - sum(len(data) + -len(data) % 32 for _, _, data in tensors.values())


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("damaged")


def attempt(raw, place):
    """Convert it; whether that worked. Whatever else comes out than a FolderError fails the test."""
    path = place / "broken.gguf"
    path.write_bytes(raw)
    said = "broken.gguf"
    try:
        convert(path, place / "folder")
    except FolderError as error:
        said = str(error)
    assert "\n" not in said and "broken.gguf" in said
    return said == "broken.gguf"


QUICK = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def test_the_whole_file_is_read(whole, place):
    assert attempt(whole[0], place)


@QUICK
@given(share=st.floats(0, 1, exclude_max=True))
@example(share=0.0)
def test_a_file_that_ends_anywhere_is_refused(whole, place, share):
    raw, _ = whole
    assert not attempt(raw[: int(share * (len(raw) - 32))], place)


@QUICK
@given(data=st.data())
@pytest.mark.filterwarnings("ignore:.*facts not known")
def test_bytes_of_the_header_that_are_changed_are_refused_or_read(whole, place, data):
    raw, header = whole
    changed = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 4))):
        where = data.draw(st.integers(0, header - 1) | st.integers(0, 2000))
        changed[where] = data.draw(st.sampled_from([0, 1, 9, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    attempt(bytes(changed), place)


def header(*parts, tensors=0, pairs=None):
    """The parts are facts, or else rows of the table."""
    if pairs is None:
        pairs = 0 if tensors else len(parts)
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, pairs) + b"".join(parts)


def entry(name="x", shape=(32,), kind=0, offset=0):
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


FILES = {
    "no bytes": (b"", "is not a GGUF file: it begins with b'', not b'GGUF'"),
    "another format": (b"PK\3\4" + bytes(99), "is not a GGUF file: it begins with b'PK"),
    "version 1": (b"GGUF" + struct.pack("<I", 1) + bytes(99), "of version 1; read are versions 2 and 3"),
    "big-endian": (b"GGUF" + struct.pack(">I", 3) + bytes(99), "is a GGUF file in big-endian order"),
    "a long text": (header(struct.pack("<Q", 1 << 60), pairs=1), "it ends early, after"),
    "facts without end": (header(pairs=1 << 62), "it ends early, after"),
    "tensors without end": (header(tensors=1 << 62), "a table of .* tensors is longer than the file"),
    "a long list": (
        header(text("a") + struct.pack("<IIQ", 9, 4, 1 << 61)), "it ends early, after",
    ),
    "a long list of texts": (
        header(text("a") + struct.pack("<IIQ", 9, 8, 1 << 61)), "a list of .* texts is longer than the file",
    ),
    "a list of lists": (header(text("a") + struct.pack("<IIQ", 9, 9, 1)), "a list is of type 9"),
    "a type": (header(text("a") + struct.pack("<I", 13)), "a fact is of type 13, which is not known"),
    "no text": (header(struct.pack("<Q", 2) + b"\xff\xfe", pairs=1), "is no text"),
    "twice": (header(text("a") + value_of(1), text("a") + value_of(1)), "it says 'a' twice"),
    "many axes": (header(entry(shape=(1,) * 9), tensors=1) + bytes(99), "'x' has 9 axes"),
    "no axes": (header(entry(shape=()), tensors=1) + bytes(99), "'x' has 0 axes"),
    "an empty axis": (header(entry(shape=(0, 1 << 63)), tensors=1) + bytes(99), "which F32 cannot hold"),
    "a huge shape": (header(entry(shape=(1 << 62,) * 2), tensors=1) + bytes(99), "ends early, within 'x'"),
    "half a block": (header(entry(shape=(33,), kind=2), tensors=1) + bytes(99), r"shape \(33,\), which Q4_0"),
    "beyond the end": (header(entry(offset=1 << 62), tensors=1) + bytes(999), "ends early, within 'x'"),
    "the same name": (header(entry(), entry(offset=128), tensors=2) + bytes(999), "holds 'x' twice"),
    "the same bytes": (header(entry(), entry("y", offset=64), tensors=2) + bytes(999), "'y' overlap"),
}  # fmt: skip


@pytest.mark.parametrize("what", FILES)
def test_each_kind_of_damage_has_its_words_and_costs_no_memory(tmp_path, what):
    raw, message = FILES[what]
    path = tmp_path / "broken.gguf"
    path.write_bytes(raw)
    tracemalloc.start()
    try:
        with pytest.raises(FolderError, match=message):
            read(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 200_000


def test_a_header_without_end_in_a_large_file_is_refused(tmp_path):
    path = tmp_path / "large.gguf"
    with path.open("wb") as file:
        file.write(header(text("a") + struct.pack("<IQ", 8, 1 << 27)))
        file.truncate(1 << 28)
    with pytest.raises(FolderError, match="its header would be longer than 64 MiB"):
        read(path)


def test_a_folder_or_nothing_is_no_file(tmp_path):
    with pytest.raises(FolderError, match=r"cannot be read \(Is a directory\)"):
        read(tmp_path)
    with pytest.raises(FolderError, match=r"cannot be read \(No such file"):
        read(tmp_path / "none.gguf")


def test_version_2_and_another_alignment_are_read(tmp_path):
    raw = gguf({"general.alignment": 256}, {"x": ones(32), "y": ones(40)}, version=2)
    path = tmp_path / "small.gguf"
    path.write_bytes(raw)
    file = read(path)
    assert file.numbers(file.entries["y"]).tobytes() == ones(40)[2]
    assert file.entries["x"].start % 256 == 0
