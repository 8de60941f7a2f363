"""Models from the hub: fetched through its library, and held to be whole before they are kept."""

import shutil
from pathlib import Path

from clearhead.errors import DownloadError, FolderError, MissingExtra
from clearhead.text.parts import OLDER, RULES

CONFIG = "config.json"
FETCHED = (
    *("*.json", "model*.safetensors", "*.txt", "*.jinja", "*.model", "*.spm", "README.md"),
    "*/config.json",
)
OTHERS = (".bin", ".h5", ".msgpack", ".ot", ".gguf", ".onnx", ".safetensors")  # kinds of weights


def lacking(folder: Path) -> str | None:
    """What a fetched folder lacks to be read as a model, in words; None for a whole one. Of its weights only
    the headers are read."""
    from clearhead.checkpoint.tensors import check_files

    if not (folder / CONFIG).is_file():
        return f"it has no {CONFIG}; it is not a model folder"
    try:
        check_files(folder)
    except FolderError as error:
        return str(error).replace(f"{folder}/", "")
    if not any((folder / name).is_file() for name in (RULES, *OLDER)):
        return f"it has no {RULES}, nor any other file that a tokenizer is read from"
    return None


def from_hub(name: str, folder: Path) -> None:
    """Fetch a repository's model into a folder.

    Raises `DownloadError` where the hub or the network fails, or what came is no whole model; `MissingExtra`
    without the hub's library.
    """
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise MissingExtra("fetching from the hub", "hub") from error
    try:
        snapshot_download(name, local_dir=folder, allow_patterns=list(FETCHED))
    except Exception as error:  # its own, those of whatever carries it, and what it trips over in odd answers
        raise DownloadError(f"the hub did not give {name}: {_said(error)}") from error
    shutil.rmtree(folder / ".cache", ignore_errors=True)
    if why := lacking(folder):
        raise DownloadError(_instead(name, folder) or f"{name} cannot be used: {why}")


def _said(error: Exception) -> str:
    """The first line of an error, with its kind where the words alone say little."""
    lines = str(error).strip().splitlines()
    if lines and isinstance(error, OSError | ValueError):
        return lines[0]
    said = ": ".join([type(error).__name__, *lines[:1]])
    return f"{said} (is there a network, and does no proxy or sign-in page answer for the hub?)"


def _instead(name: str, folder: Path) -> str | None:
    """The weights that a repository has instead of those that are fetched, if it has others alone."""
    from clearhead.checkpoint.tensors import source_of

    if not (folder / CONFIG).is_file() or source_of(folder):
        return None
    try:
        from huggingface_hub import list_repo_files

        files = [file for file in list_repo_files(name) if file.endswith(OTHERS)]
    except Exception:  # then it is only said what is lacking
        return None
    if not files:
        return f"{name} holds no weights; it is not a model"
    found = f"{name} has no model.safetensors, only {', '.join(sorted(files)[:8])}, which is not fetched"
    if not any(file.startswith("pytorch_model") for file in files):
        return found
    return f"{found}: download its files yourself, and give their folder with --allow-bin"
