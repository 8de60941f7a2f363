"""How a folder's model turns a text into one vector: the files of sentence-transformers, read and written.

`modules.json` names the steps behind one another: a transformer (the folder itself), a pooling (its facts lie
in a folder of their own), and a norm. What we cannot compute exactly is refused by name.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clearhead.checkpoint.files import read_json, read_list, write_json
from clearhead.errors import FolderError
from clearhead.model.config import Pooling
from clearhead.text.words import LONE_SURROGATE

MODULES, SENTENCES, FACTS = "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"
POOLING, NORM = "1_Pooling", "2_Normalize"  # folders, as they are published
FILES = (MODULES, SENTENCES, FACTS, f"{POOLING}/config.json")
MODES = {"cls": Pooling.CLS, "mean": Pooling.MEAN, "max": Pooling.MAX, "lasttoken": Pooling.LAST}
FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "lasttoken",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
}
SIMILARITIES = {
    "cosine": "cosine",
    "dot": "dot",
    "dot_product": "dot",
    "euclidean": "euclidean",
    "manhattan": "manhattan",
}
# What the model's own file may say; the last two change no vector.
SAID = (
    "prompts", "default_prompt_name", "similarity_fn_name", "truncate_dim", "model_type", "__version__",
    "requirements",
)  # fmt: skip
# What the transformer's own file may say without changing a number; None stands for any value.
HARMLESS = {
    "transformer_task": "feature-extraction",
    "module_output_name": "token_embeddings",
    "method": "forward",
    "method_output_name": "last_hidden_state",
}


@dataclass(frozen=True, kw_only=True)
class Embedding:
    """What is done with the last block's vectors of a text, and with the text before. `limit` is the most
    tokens that are read; `prompts` are texts to put before others, by name, and `default` is the name of the
    one that is put before every text. `included` says whether a prompt's own tokens are pooled too, and
    `dimensions` how many numbers of a vector are kept, which as published is cut behind the norm."""

    pooling: Pooling = Pooling.MEAN
    normalise: bool = False
    limit: int | None = None
    lowercase: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict)
    default: str | None = None
    included: bool = True
    similarity: str = "cosine"
    dimensions: int | None = None

    def prompt(self, *names: str) -> str:
        """The first of these prompts that there is; else the one for every text, or none."""
        for name in (*names, self.default):
            if name is not None and name in self.prompts:
                return self.prompts[name]
        return ""


def read_embedding(folder: Path, *, width: int) -> Embedding | None:
    """The facts of a folder; None where it says nothing of vectors.

    Raises `FolderError` naming the module, field and value that cannot be reproduced.
    """
    if not (folder / MODULES).is_file():
        return None
    kinds = list[str]()
    pooling, included, normalise = Pooling.MEAN, True, False
    for number, module in enumerate(read_list(folder / MODULES)):
        said, path = (str(module.get(name, "")) for name in ("type", "path"))
        kind = said.rpartition(".")[2]
        if number == 0 and kind == "Transformer" and not path.strip("/."):
            kinds.append(kind)
            continue
        place = folder / path
        if not path or "\0" in path or not place.resolve().is_relative_to(folder.resolve()):
            raise _refused(folder / MODULES, f"module {number} ({said}) at path {path!r}")
        if number == 1 and kind == "Pooling":
            pooling, included = _pooling(place / "config.json", width=width)
        elif number == 2 and kind == "Normalize":
            normalise = _norm(place / "config.json")
        else:
            raise _refused(folder / MODULES, f"module {number} ({said})")
        kinds.append(kind)
    if kinds[:2] != ["Transformer", "Pooling"]:
        raise _refused(folder / MODULES, f"the modules {', '.join(kinds) or 'none'}")
    reading, facts = _reading(folder / SENTENCES), _facts(folder / FACTS)
    return Embedding(pooling=pooling, normalise=normalise, included=included, **reading, **facts)


def _refused(path: Path, what: str) -> FolderError:
    return FolderError(
        f"{path}: {what} cannot be reproduced here; a transformer in the folder itself, one pooling (cls, "
        "mean, max or lasttoken) and a Normalize can be. To use the model alone, remove that file"
    )


def _pooling(path: Path, *, width: int) -> tuple[Pooling, bool]:
    values = read_json(path)
    known = {*FLAGS, "pooling_mode", "include_prompt", "word_embedding_dimension", "embedding_dimension"}
    _refuse_unknown(values, known, path=path)
    flagged = [mode for name, mode in FLAGS.items() if _flag(values, name, usual=False, path=path)]
    said = values.get("pooling_mode")
    modes = (flagged or ["mean"]) if said is None else said if isinstance(said, list) else [said]
    if len(modes) != 1 or not isinstance(modes[0], str) or modes[0] not in MODES:
        mode = " + ".join(map(str, modes))
        raise FolderError(f"{path}: pooling_mode {mode} is not supported; one of {', '.join(MODES)} is")
    size = values.get("embedding_dimension", values.get("word_embedding_dimension", width))
    if size != width:
        raise FolderError(f"{path}: word_embedding_dimension={size!r}, and the model is {width} wide")
    return MODES[modes[0]], _flag(values, "include_prompt", usual=True, path=path)


def _refuse_unknown(values: Mapping[str, Any], known: Collection[str], *, path: Path) -> None:
    for name, value in values.items():
        if name not in known:
            raise FolderError(f"{path}: {name}={value!r} is not known; remove it if it is idle")


def _flag(values: Mapping[str, Any], name: str, *, usual: bool, path: Path) -> bool:
    said = values.get(name, usual)
    if not isinstance(said, bool):
        raise FolderError(f"{path}: {name}={said!r} is not true or false")
    return said


def _count(values: Mapping[str, Any], name: str, *, path: Path) -> int | None:
    said = values.get(name)
    if said is not None and (isinstance(said, bool) or not isinstance(said, int) or not 0 < said < 2**63):
        raise FolderError(f"{path}: {name}={said!r:.60} must be a whole number above 0, or null")
    return said


def _norm(path: Path) -> bool:
    values = read_json(path) if path.is_file() else {}
    for name, value in values.items():
        if value != "sentence_embedding":
            raise FolderError(f"{path}: {name}={value!r} is not supported; only 'sentence_embedding' is")
    return True


def _reading(path: Path) -> dict[str, Any]:
    """The longest text, and whether it is lower-cased first."""
    values = read_json(path) if path.is_file() else {}
    limit = _count(values, "max_seq_length", path=path)
    lowercase = _flag(values, "do_lower_case", usual=False, path=path)
    for name, value in _flat(values):
        if value != HARMLESS.get(name) and not (name in ("model_args", "config_args") and not value):
            raise FolderError(f"{path}: {name}={value!r} is not supported; remove it if it is idle")
    return {"limit": limit, "lowercase": lowercase}


def _flat(values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Names and values of what is not read; of what is said about texts, those inside."""
    found = list[tuple[str, Any]]()
    for name, value in values.items():
        if name in ("max_seq_length", "do_lower_case"):
            continue
        inner = value.get("text") if name == "modality_config" and isinstance(value, dict) else None
        found += inner.items() if isinstance(inner, dict) and len(value) == 1 else [(name, value)]
    return found


def _facts(path: Path) -> dict[str, Any]:
    """Prompts, the name of the one for every text, how vectors are compared, how many numbers are kept."""
    values = read_json(path) if path.is_file() else {}
    _refuse_unknown(values, SAID, path=path)
    prompts, default = values.get("prompts"), values.get("default_prompt_name")
    prompts = {} if prompts is None else prompts
    if not isinstance(prompts, dict) or not all(isinstance(text, str) for text in prompts.values()):
        raise FolderError(f"{path}: prompts={prompts!r} must give texts their names")
    if half := [one for one in (*prompts, *prompts.values()) if LONE_SURROGATE.search(one)]:
        raise FolderError(f"{path}: prompts hold half a character ({half[0]!r}); write the prompt anew")
    if default is not None and (not isinstance(default, str) or default not in prompts):
        raise FolderError(
            f"{path}: default_prompt_name={default!r} is none of {', '.join(prompts) or 'none'}"
        )
    said = values.get("similarity_fn_name")
    said = "cosine" if said is None else said
    if not isinstance(said, str) or said not in SIMILARITIES:
        raise FolderError(f"{path}: similarity_fn_name={said!r} is not one of {', '.join(SIMILARITIES)}")
    if values.get("model_type", "SentenceTransformer") != "SentenceTransformer":
        raise FolderError(f"{path}: model_type={values['model_type']!r} is not supported")
    dimensions = _count(values, "truncate_dim", path=path)
    return {
        "prompts": prompts, "default": default, "similarity": SIMILARITIES[said], "dimensions": dimensions,
    }  # fmt: skip


def write_embedding(folder: Path, embedding: Embedding, *, width: int) -> None:
    """Write the files, in the words that all versions of sentence-transformers read."""
    kind = "sentence_transformers.models"
    steps = [("", "Transformer"), (POOLING, "Pooling")] + [(NORM, "Normalize")] * embedding.normalise
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"{kind}.{name}"}
        for number, (path, name) in enumerate(steps)
    ]
    write_json(folder / MODULES, modules)
    usual = list(FLAGS)[:3]  # the first versions know these, and no others
    flags = {
        name: MODES[FLAGS[name]] is embedding.pooling
        for name in FLAGS
        if name in usual or MODES.get(FLAGS[name]) is embedding.pooling
    }
    pooling: dict[str, Any] = {"word_embedding_dimension": width, **flags}
    if not embedding.included:
        pooling["include_prompt"] = False
    (folder / POOLING).mkdir()
    write_json(folder / POOLING / "config.json", pooling)
    reading = {"max_seq_length": embedding.limit, "do_lower_case": embedding.lowercase}
    write_json(folder / SENTENCES, reading)
    facts: dict[str, Any] = {
        "prompts": dict(embedding.prompts),
        "default_prompt_name": embedding.default,
        "similarity_fn_name": embedding.similarity,
    }
    if embedding.dimensions is not None:
        facts["truncate_dim"] = embedding.dimensions
    write_json(folder / FACTS, facts)
