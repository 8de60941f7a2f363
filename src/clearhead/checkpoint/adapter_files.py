"""Folders of adapters in the published format (as the package `peft` stores LoRA): read and written."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead.checkpoint import fingerprint
from clearhead.checkpoint.adapter import Adapted, Place, meant, places, put_on, targets_of
from clearhead.checkpoint.catalog import CATALOG, locate, published_name
from clearhead.checkpoint.files import moved_together, read_json, write_json, write_tensors
from clearhead.checkpoint.fingerprint import FINGERPRINT
from clearhead.checkpoint.folder import ADAPTER, CONFIG, Loaded, read_folder
from clearhead.checkpoint.low_rank import Change
from clearhead.checkpoint.tensors import read_file
from clearhead.checkpoint.translate import Fields
from clearhead.errors import ClearheadError, FolderError
from clearhead.model.linear import Linear
from clearhead.settings import Loading

WEIGHTS, PICKLE = "adapter_model.safetensors", "adapter_model.bin"
MEANT = {ADAPTER: "its facts", WEIGHTS: "its weights"}
ROOT = "base_model.model."
NAME = re.compile(r"(.+)\.lora_([AB])\.weight")
# What says how one was made, or which layers have one.
MADE = frozenset(
    """
    auto_mapping base_model_name_or_path corda_config ensure_weight_tying eva_config exclude_modules
    fan_in_fan_out inference_mode layers_pattern layers_to_transform loftq_config
    lora_dropout lora_ga_config megatron_core peft_version qalora_group_size revision runtime_config
    target_modules task_type
    """.split()
)
# Beginnings of the factors that leave the base as it is; the others (PiSSA, OLoRA, CorDA, LoftQ, LoRA-GA)
# take something out of it, and would have to again when they are read.
PLAIN_BEGINNINGS = (True, False, None, "gaussian", "orthogonal", "eva")
UNSET: tuple[Any, ...] = (None, False, "none", [], {})


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter and no model of its own."""
    return (folder / ADAPTER).is_file() and not (folder / CONFIG).is_file()


def open_model(folder: Path, loading: Loading) -> Loaded:
    """A model folder, or the base of an adapter's folder, with the adapters that are asked for on it.

    Raises `FolderError` for an adapter of another base, or whose base is not here.
    """
    given = [locate(one) for one in loading.adapter or []]
    own = is_adapter(folder)
    base = base_of(folder) if own else folder
    sources = [folder, *given] if own else given
    loaded = read_folder(base, loading)
    if sources:
        loaded = with_adapters(loaded, sources, loading=loading)
    return replace(loaded, folder=folder) if own else loaded


def base_of(folder: Path) -> Path:
    """The folder of the model that an adapter was made for."""
    name = read_json(folder / ADAPTER).get("base_model_name_or_path")
    known = {source.published: source.name for source in CATALOG.values() if source.published}
    for way in (known.get(name, name), folder / str(name)) if isinstance(name, str) and name else ():
        try:
            return locate(way)
        except ClearheadError:
            continue
    raise FolderError(
        f"{folder / ADAPTER}: its base {name!r} is not here; fetch it, or name the base and the adapter: "
        f"BASE --adapter {folder}"
    )


def with_adapters(loaded: Loaded, sources: Sequence[Path], *, loading: Loading) -> Loaded:
    """A model that shares the base's tensors and adds what these folders hold."""
    changes: dict[str, list[Change]] = {}
    facts, known, alone = [], places(loaded), loaded
    for source in sources:
        path = source / FINGERPRINT
        fields = Fields(read_json(source / ADAPTER), str(source / ADAPTER))
        said = fingerprint.read(source, fields.values, meant=MEANT) if loading.fingerprint else None
        found, adapted = read_adapter(source, fields, known=known, loaded=loaded, loading=loading)
        own: dict[str, list[Change]] = {}
        for layer, change in found:
            own.setdefault(layer, []).append(change)
            changes.setdefault(layer, []).append(change)
        facts.append(adapted)
        alone = put_on(loaded, own, facts=[adapted])  # in company it would answer something else
        if not said:
            continue
        try:
            fingerprint.check(said, alone.network, tokenizer=alone.tokenizer, labels=alone.labels, path=path)
        except FolderError as error:
            raise FolderError(f"{error}; is {loaded.folder} the base that it was made for?") from error
    return alone if len(sources) == 1 else put_on(loaded, changes, facts=facts)


def read_adapter(
    folder: Path, fields: Fields, *, known: Mapping[str, Place], loaded: Loaded, loading: Loading
) -> tuple[list[tuple[str, Change]], Adapted]:
    """The changes of one adapter, each with the layer of ours that it is for."""
    if fields("peft_type", None) != "LORA":
        raise FolderError(
            f"{fields.source}: peft_type {fields('peft_type', None)!r} is not supported, only LORA"
        )
    rank, alpha = number(fields, "r"), number(fields, "lora_alpha")
    ranks, alphas = patterns(fields, "rank_pattern"), patterns(fields, "alpha_pattern")
    root = sqrt if fields("use_rslora", False) else float
    if (began := fields("init_lora_weights", None)) not in PLAIN_BEGINNINGS:
        raise FolderError(
            f"{fields.source}: init_lora_weights={began!r} changes the base too, which is not supported; "
            "save it as a plain one (save_pretrained with path_initial_model_for_weight_conversion)"
        )
    for name, value in fields.values.items():
        if name not in fields.seen | MADE and value not in UNSET:  # it may change what is computed
            raise FolderError(f"{fields.source}: {name}={value!r} is not supported")
    path = folder / WEIGHTS
    if not path.is_file() and (folder / PICKLE).is_file() and loading.allow_bin:
        path = folder / PICKLE
    if not path.is_file():
        pickled = f", only {PICKLE}, which is read with --allow-bin" if (folder / PICKLE).is_file() else ""
        raise FolderError(f"{folder} has no {WEIGHTS}{pickled}; fetch or save the adapter again")
    pairs: dict[str, dict[str, Tensor]] = {}
    for name, tensor in read_file(path).items():
        match = NAME.fullmatch(name.removeprefix(ROOT))
        layer = loaded.family.plain(match[1]) if match else ""
        if not match or layer not in known:
            raise FolderError(
                f"{path}: {name} is for no linear layer of a block of {loaded.folder}; is that its base?"
            )
        if not tensor.is_floating_point():
            raise FolderError(f"{path}: {name} is {tensor.dtype}, no kind of float; save the adapter again")
        tensor = tensor.to(torch.float32)
        if not tensor.isfinite().all():
            raise FolderError(f"{path}: {name} holds numbers that are not finite; save the adapter again")
        if match[2] in pairs.setdefault(layer, {}):
            raise FolderError(f"{path}: there are two of {layer}.lora_{match[2]}; save the adapter again")
        pairs[layer][match[2]] = tensor
    missing = sorted(wanted(fields, known, prefix=loaded.family.prefix) - pairs.keys())
    if missing or not pairs:
        which = missing[0] if missing else "any layer"
        raise FolderError(f"{path} has no tensors for {which}; fetch or save the adapter again")
    found = []
    for layer, pair in pairs.items():
        place = known[layer]
        whole = f"{loaded.family.prefix}{layer}"  # as the published code knows it
        own = matching(ranks, whole, otherwise=rank)
        shapes = {"A": [own, place.inputs], "B": [place.outputs, own]}
        for kind, shape in shapes.items():
            if kind not in pair or list(pair[kind].shape) != shape:
                given = list(pair[kind].shape) if kind in pair else "missing"
                raise FolderError(
                    f"{path}: {layer}.lora_{kind} is {given}; rank {own} on {loaded.folder} makes {shape}"
                )
        up = place.form.into([pair["B"]], loaded.network.config) if place.form.shuffled else pair["B"]
        scale = matching(alphas, whole, otherwise=alpha) / root(own)
        found.append((place.layer, Change(place.rows, pair["A"], up, scale)))
    return found, Adapted(int(rank), alpha, 0.0, targets_of(pairs, loaded), str(loaded.folder))


def wanted(fields: Fields, known: Mapping[str, Place], *, prefix: str) -> set[str]:
    """The layers that a config names, or whose ends it names; none where it does so by a pattern, or leaves
    some out."""
    targets = fields.values.get("target_modules")
    unclear = any(fields.values.get(name) for name in ("exclude_modules", "layers_to_transform"))
    if unclear or not isinstance(targets, list):
        return set()
    return {layer for layer in known for target in targets if meant(target, prefix + layer)}


def number(fields: Fields, name: str) -> Any:
    """A number above 0."""
    return above_0(fields(name), f"{fields.source}: {name}")


def above_0(value: Any, what: str) -> Any:
    """A number above 0; FolderError, beginning with `what`, for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 2**31:
        raise FolderError(f"{what}={value!r} must be a number above 0")
    return value


def patterns(fields: Fields, name: str) -> dict[re.Pattern[str], Any]:
    """A table of patterns for the ends of layers' names, each with a number above 0."""
    table = fields(name, None) or {}
    if not isinstance(table, dict):
        raise FolderError(f"{fields.source}: {name}={table!r} is no table of patterns and numbers")
    found = {}
    for pattern, value in table.items():
        try:
            ending = re.compile(rf"(.*\.)?({pattern})")
        except re.error as error:
            raise FolderError(f"{fields.source}: {name}: {pattern!r} is no pattern ({error})") from error
        found[ending] = above_0(value, f"{fields.source}: {name}: {pattern}")
    return found


def matching(table: Mapping[re.Pattern[str], Any], layer: str, *, otherwise: Any) -> Any:
    """What a table of patterns says of a layer: the first that its name ends in."""
    return next((value for ending, value in table.items() if ending.fullmatch(layer)), otherwise)


def write_adapter(folder: Path, loaded: Loaded) -> None:
    """Write the only adapter of a model as the published code reads it; the base is named, not written."""
    (facts,) = loaded.adapters
    tensors = {}
    for name, place in places(loaded).items():
        layer = loaded.network.get_submodule(place.layer)
        adapter = layer.adapter if isinstance(layer, Linear) else None
        for rows, down, up in zip(adapter.rows, adapter.downs, adapter.ups, strict=True) if adapter else ():
            if rows == place.rows:
                up = place.form.back(up, loaded.network.config)[0] if place.form.shuffled else up
                whole = f"{ROOT}{loaded.family.prefix}{name}"
                tensors[f"{whole}.lora_A.weight"] = down.detach().contiguous()
                tensors[f"{whole}.lora_B.weight"] = up.detach().contiguous()
    flipped = any(place.form.flipped for place in places(loaded).values())
    values = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM",
        "base_model_name_or_path": published_name(facts.base) or facts.base, "r": facts.rank,
        "lora_alpha": facts.alpha, "lora_dropout": facts.dropout, "target_modules": list(facts.targets),
        "fan_in_fan_out": flipped, "bias": "none", "use_rslora": False, "use_dora": False,
        "modules_to_save": None, "init_lora_weights": True, "inference_mode": True,
    }  # fmt: skip
    with moved_together(folder) as place_:
        write_tensors(place_ / WEIGHTS, tensors)
        write_json(place_ / ADAPTER, values)
        made = fingerprint.of_model(loaded.network, loaded.tokenizer, labels=loaded.labels, place=place_)
        write_json(place_ / FINGERPRINT, made)
