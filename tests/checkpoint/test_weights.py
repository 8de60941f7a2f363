"""Weights in several files, in pickles, and what is broken, missing or more than weights."""

import collections
import json
import pickle
import re
import struct
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import clearhead as ch
from clearhead.check.verify import served
from clearhead.checkpoint import tensors
from clearhead.checkpoint.pickled import read_pickle
from clearhead.checkpoint.tensors import INDEX, PICKLE, PICKLE_INDEX, WEIGHTS, read_file
from clearhead.errors import FolderError
from clearhead.reference import stored

TEXTS = ["a good soup", "not very warm, and slow!", "fine"]
SOURCES = Path(ch.__file__).parent
QUERY = "bert.encoder.layer.1.attention.self.query.weight"
SHARDS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]


@pytest.fixture
def sharded(bert_folder):
    """A folder whose weights lie in two files with an index, as large models are published."""
    tensors = load_file(bert_folder / WEIGHTS)
    table = {name: SHARDS[number % 2] for number, name in enumerate(tensors)}
    for shard in SHARDS:
        part = {name: tensor.clone() for name, tensor in tensors.items() if table[name] == shard}
        save_file(part, bert_folder / shard, metadata={"format": "pt"})
    size = sum(tensor.nbytes for tensor in tensors.values())
    (bert_folder / INDEX).write_text(json.dumps({"metadata": {"total_size": size}, "weight_map": table}))
    expected = ch.load(bert_folder).predict(TEXTS)
    (bert_folder / WEIGHTS).unlink()
    return bert_folder, expected


def test_weights_in_several_files_are_read_through_their_index(sharded):
    folder, expected = sharded
    model = ch.load(folder)
    assert model.predict(TEXTS) == expected
    assert [finding.verdict for finding in served(model)] == ["pass"]


def pointer(path):
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")


def cut(path):
    path.write_bytes(path.read_bytes()[:-10])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "is missing, and model.safetensors.index.json names it"),
        (lambda path: path.write_bytes(b""), "is broken or cut short"),
        (cut, "is broken or cut short"),
        (lambda path: path.rename(path.with_name("model-2.safetensors")), "is missing, and .* names it"),
        (
            lambda path: path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n"),
            "is a Git LFS pointer, .* git lfs pull",
        ),
        (lambda path: save_file({"x": torch.zeros(1)}, path), "lacks .*, which model.safetensors.index.json"),
        (
            lambda path: save_file(load_file(path) | {"x": torch.zeros(1)}, path),
            "holds x, which model.safetensors.index.json does not name",
        ),
    ],
)
def test_a_shard_that_is_not_whole_is_refused_by_name(sharded, damage, message):
    """Public report A18."""
    folder, _ = sharded
    damage(folder / SHARDS[1])
    with pytest.raises(FolderError, match=f"{SHARDS[1]} {message}"):
        ch.load(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table | {"bert.extra": SHARDS[0]}, f"{SHARDS[0]} lacks bert.extra"),
        (lambda table: {**table, QUERY: "../model.safetensors"}, "names '../model.safetensors', which"),
        (lambda table: {**table, QUERY: "/etc/passwd"}, "names '/etc/passwd', which is no file"),
        (lambda table: {**table, QUERY: 3}, "has no weight_map of tensor and file names"),
        (lambda table: {}, "has no weight_map"),
    ],
)  # fmt: skip
def test_an_index_that_says_what_is_not_so_is_refused(sharded, change, message):
    folder, _ = sharded
    index = json.loads((folder / INDEX).read_text())
    (folder / INDEX).write_text(json.dumps({"weight_map": change(index["weight_map"])}))
    with pytest.raises(FolderError, match=message):
        ch.load(folder)


def header(change):
    """A header with one tensor changed, before the same numbers."""

    def damage(path):
        content = path.read_bytes()
        (size,) = struct.unpack("<Q", content[:8])
        table = json.loads(content[8 : 8 + size])
        change(table, table[QUERY])
        changed = json.dumps(table).encode()
        path.write_bytes(struct.pack("<Q", len(changed)) + changed + content[8 + size :])

    return damage


@pytest.mark.parametrize(
    "change",
    [
        lambda table, entry: entry["data_offsets"].reverse(),
        lambda table, entry: entry.update(data_offsets=[0, entry["data_offsets"][1]]),
        lambda table, entry: entry.update(data_offsets=[offset + 4 for offset in entry["data_offsets"]]),
        lambda table, entry: entry.update(data_offsets=[2**63, 2**63 + 4]),
        lambda table, entry: entry.update(shape=[24, 25]),
        lambda table, entry: entry.update(shape=[2**40, 2**40]),
        lambda table, entry: entry.update(shape=[-24, -24]),
        lambda table, entry: entry.update(dtype="F64"),
        lambda table, entry: entry.update(dtype="F7"),
        lambda table, entry: entry.update(dtype="I32"),
        lambda table, entry: entry.update(dtype="F4", shape=[24, 192]),
        lambda table, entry: table.pop(QUERY),
    ],
)
def test_a_header_that_lies_is_refused(bert_folder, change):
    header(change)(bert_folder / WEIGHTS)
    with pytest.raises(FolderError, match=str(bert_folder / WEIGHTS)):
        ch.load(bert_folder)


OFFSETS = st.sampled_from([0, 4, 8, 12, 16, 20, 24, -4, 2**63, 1.0, True, None, "4"])
ENTRY = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "F32", "F32", "F64", "F16", "U8", "F7", None]),
        "shape": st.lists(st.sampled_from([0, 1, 2, 3, 4, -1, 2**40, 1.0, "1"]), max_size=2),
        "data_offsets": st.lists(OFFSETS, min_size=2, max_size=2),
    },
    optional={"more": st.just(1)},
)
HEADERS = st.lists(st.tuples(st.sampled_from("abc"), ENTRY), max_size=3)


@given(
    entries=HEADERS, numbers=st.sampled_from([0, 4, 8, 12, 16, 24]), metadata=st.booleans(), data=st.data()
)
def test_a_header_is_judged_as_the_library_judges_it(tmp_path_factory, entries, numbers, metadata, data):
    path = tmp_path_factory.mktemp("judged") / WEIGHTS
    if data.draw(st.booleans()):  # one after the other, as they should lie
        end = 0
        for _, entry in entries:
            entry |= {"dtype": "F32", "shape": [2], "data_offsets": [end, end := end + 8]}
        numbers = end
    parts = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries]
    table = ", ".join([*parts, *(['"__metadata__": {"format": "pt"}'] if metadata else [])]).encode()
    path.write_bytes(struct.pack("<Q", len(table) + 2) + b"{" + table + b"}" + bytes(range(numbers)))
    try:
        expected = load_file(path)
    except Exception:
        with pytest.raises(FolderError, match=str(path)):
            read_file(path)
    else:
        found = read_file(path)
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


@pytest.mark.parametrize(
    "content", [b"", b"x", bytes(8), struct.pack("<Q", 2) + b"[]", struct.pack("<Q", 2**60)]
)
def test_what_is_no_such_file_is_refused(tmp_path, content):
    (tmp_path / WEIGHTS).write_bytes(content)
    with pytest.raises(FolderError, match=r"is broken or cut short \(.+\); fetch or save the folder again"):
        read_file(tmp_path / WEIGHTS)


def test_a_file_that_is_cut_short_while_it_is_read_is_refused_and_kills_nobody(bert_folder, monkeypatch):
    """A mapped file would: by SIGBUS, which no program can catch as an error."""
    plain, twin = tensors.judged, stored.Tensors(bert_folder)

    def late(file, path):
        found = plain(file, path)
        path.write_bytes(path.read_bytes()[:5000])
        return found

    monkeypatch.setattr(tensors, "judged", late)
    with pytest.raises(FolderError, match=r"is broken or cut short \(.* ends early\)"):
        read_file(bert_folder / WEIGHTS)
    with pytest.raises(FolderError, match="is not a readable safetensors file"):
        twin.take({name: twin.shape(name) for name in twin._stored})


def test_no_model_is_mapped_into_memory():
    mapping = {"mmap", "memmap", "safe_open", "load_file"}
    sources = {file: set(re.findall(r"\w+", file.read_text())) for file in SOURCES.rglob("*.py")}
    found = [file.name for file, words in sources.items() if words & mapping]
    assert found == ["encoded.py"]  # a corpus of one's own, larger than memory


@pytest.fixture
def pickled(bert_folder):
    """A folder as it was published before safetensors."""
    expected = ch.load(bert_folder).predict(TEXTS)
    tensors = collections.OrderedDict(load_file(bert_folder / WEIGHTS))
    tensors._metadata = {"": {"version": 1}}
    (bert_folder / WEIGHTS).unlink()
    return bert_folder, tensors, expected


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "stream"])
def test_a_pickle_is_read_where_it_is_asked_for(pickled, zipped):
    folder, tensors, expected = pickled
    tensors["bert.embeddings.position_ids"] = torch.arange(32)[None]
    tensors[QUERY] = torch.nn.Parameter(tensors[QUERY].t().contiguous().t())
    torch.save(tensors, folder / PICKLE, _use_new_zipfile_serialization=zipped)
    with pytest.raises(FolderError, match=r"only pytorch_model.bin: pickles.*--allow-bin \(allow_bin=True\)"):
        ch.load(folder)
    assert ch.load(folder, allow_bin=True).predict(TEXTS) == expected
    read, right = read_pickle(folder / PICKLE), torch.load(folder / PICKLE, weights_only=True)
    assert all(torch.equal(read[name], right[name]) for name in right)


def test_pickles_with_an_index_are_read_alike(pickled):
    folder, tensors, expected = pickled
    names = list(tensors)
    parts = {"one.bin": names[::2], "two.bin": names[1::2]}
    for file, some in parts.items():
        torch.save({name: tensors[name] for name in some}, folder / file)
    table = {name: file for file, some in parts.items() for name in some}
    (folder / PICKLE_INDEX).write_text(json.dumps({"weight_map": table}))
    assert ch.load(folder, allow_bin=True).predict(TEXTS) == expected


@pytest.mark.parametrize("kind", "float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool".split())
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "stream"])
def test_every_kind_of_number_is_read_from_a_pickle(tmp_path, kind, zipped):
    whole = torch.arange(24).to(getattr(torch, kind)).reshape(4, 6)
    tensors = {"all": whole, "part": whole[1:3, ::2], "none": whole[:0], "one": whole[3, 3]}
    torch.save(tensors, tmp_path / "x.bin", _use_new_zipfile_serialization=zipped)
    read = read_pickle(tmp_path / "x.bin")
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())


class Marking:
    """Unpickled by an unrestricted reader, it would make a file."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return open, (str(self.marker), "w")


def zipped(path, program):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", program)


def streamed(path, program):
    parts = [pickle.dumps(part, 2) for part in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})]
    path.write_bytes(b"".join(parts) + program)


def bare(path, program):
    path.write_bytes(program)


@pytest.mark.parametrize("way", [zipped, streamed, bare])
def test_a_pickle_with_a_program_is_refused_and_not_run(pickled, tmp_path, way):
    """Public report A20."""
    folder, tensors, _ = pickled
    marker = tmp_path / "marker"
    for protocol in range(6):
        program = pickle.dumps({"weight": Marking(marker)}, protocol)
        way(folder / PICKLE, program)
        with pytest.raises(FolderError, match=PICKLE):
            ch.load(folder, allow_bin=True)
    torch.save(tensors, folder / PICKLE)
    for name in ("tokenizer.json", WEIGHTS, "config.json"):
        way(folder / name, program)
        with pytest.raises(FolderError, match=name):
            ch.load(folder, allow_bin=True)
    assert not marker.exists()
    pickle.loads(program)["weight"].close()
    assert marker.exists()  # it would have


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ({"state_dict": {"a": torch.zeros(1)}}, "holds 'state_dict', which is no tensor"),
        ({"a": torch.zeros(1), "epoch": 3}, "holds 'epoch', which is no tensor"),
        ([torch.zeros(1)], "holds a list"),
        ({"a": torch.zeros(1).to_sparse()}, r"asks for torch._utils._rebuild_sparse_tensor"),
        ({"a": torch.device("cpu")}, "asks for torch.device"),
    ],
)
def test_a_pickle_of_more_than_tensors_is_refused_by_name(tmp_path, what, message):
    torch.save(what, tmp_path / "x.bin")
    with pytest.raises(FolderError, match=f"x.bin {message}.*nothing in it was run"):
        read_pickle(tmp_path / "x.bin")


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(
    "tensor", [torch._neg_view(torch.ones(2)), torch.ones(2)], ids=["a negative view", "as it stands"]
)
def test_what_a_pickle_says_of_a_tensor_beside_its_numbers_is_refused(tmp_path, tensor, zipped):
    torch.save({"a": tensor}, tmp_path / "x.bin", _use_new_zipfile_serialization=zipped)
    if tensor.is_neg():
        with pytest.raises(FolderError, match="x.bin says of a tensor {'neg': True}"):
            read_pickle(tmp_path / "x.bin")
    else:
        assert torch.equal(read_pickle(tmp_path / "x.bin")["a"], tensor)


def test_a_pickle_that_is_cut_or_changed_gives_its_numbers_or_a_named_error(tmp_path):
    """Two storages a file, so that a change can mix them up."""
    import random

    tensors = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(3).half()}
    path = tmp_path / "x.bin"
    refused = 0
    for zip_layout in (True, False):
        torch.save(tensors, path, _use_new_zipfile_serialization=zip_layout)
        whole = path.read_bytes()
        for seed in range(300):
            chance = random.Random(seed)
            content = bytearray(whole)
            if chance.random() < 0.2:
                content = content[: chance.randrange(len(content))]
            else:
                content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
            path.write_bytes(content)
            with suppress(FolderError):
                read_pickle(path)
                refused -= 1
            refused += 1
    assert refused > 200
