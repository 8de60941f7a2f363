"""Read and write model folders: config.json, weights, tokenizer files, fingerprint.

Everything is loaded and computed in float32, whatever the files hold, and saved as float32. The files of a
model take their places together (`files.moved_together`): a reader never meets half a file or half a model.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from clearhead.checkpoint import fingerprint
from clearhead.checkpoint.answering import CONFIG, GENERATION, ROLES, Begin, answers_of, refuse_rowless
from clearhead.checkpoint.embedding import Embedding, read_embedding, write_embedding
from clearhead.checkpoint.families import FAMILIES
from clearhead.checkpoint.family import Family
from clearhead.checkpoint.files import (
    finish_move,
    identity,
    moved_together,
    read_json,
    write_json,
    write_tensors,
)
from clearhead.checkpoint.fingerprint import ADDED, FINGERPRINT
from clearhead.checkpoint.labels import (
    PROBLEMS,
    Problem,
    label_names,
    no_answer_fields,
    no_answer_of,
    problem_of,
)
from clearhead.checkpoint.lock import held
from clearhead.checkpoint.tensors import INDEX, PICKLE, PICKLE_INDEX, WEIGHTS, Stored, read_tensors, source_of
from clearhead.checkpoint.translate import Fields, refuse_packed
from clearhead.data.wording import argument
from clearhead.engine.modes import own_modes
from clearhead.errors import ClearheadError, FolderError
from clearhead.model.config import Config, Head, Learned
from clearhead.model.transformer import Transformer
from clearhead.settings import Opening
from clearhead.text.parts import OLDER
from clearhead.text.reading import panics
from clearhead.text.tokenizer import Tokenizer

Words = TypeVar("Words", Tokenizer, Tokenizer | None)
ADAPTER = "adapter_config.json"
OPENING = Opening()
TRIES = 20  # of reading a folder which others write to
KINDS = (".json", ".safetensors", ".txt", ".jinja", ".bin", ".spm", ".model")  # of what a model is read from
# Files that may be of the model before, and leave with it.
OLD = (*ADDED, INDEX, PICKLE, PICKLE_INDEX, *OLDER, "chat_template.jinja")


@dataclass(frozen=True, eq=False)
class Loaded:
    """What a folder holds: the network, its tokenizer, the labels of its head in order, its family, and what
    the head's outputs mean."""

    network: Transformer
    tokenizer: Tokenizer
    labels: tuple[str, ...]
    family: Family
    folder: Path | None  # where it was read; None for a new model
    problem: Problem = Problem.SINGLE
    new_head: Head = field(default=Head(labels=0))  # what a body gets to be trained with, labels still open
    ends: tuple[int, ...] = ()  # the ids that end an answer of a language model
    adapters: tuple[Any, ...] = ()  # what was put on the network's layers (adapter.Adapted)
    begin: Begin = Begin()  # how the answers of an encoder–decoder begin
    target: Tokenizer | None = None  # of answers, where they have another tokenizer than what is asked
    no_answer_above: float | None = None  # of spans: the margin of none above which there is no answer
    embedding: Embedding | None = None  # how a text becomes a vector, where the folder says it

    @property
    def writer(self) -> Tokenizer:
        """The tokenizer of answers."""
        return self.target or self.tokenizer


def read_folder(folder: str | Path, opening: Opening = OPENING) -> Loaded:
    """Read a model folder, strictly by name; all of it as one save has left it.

    Raises `FolderError` naming the file, field or tensor that is missing, unknown or does not fit.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FolderError(f"{folder} is not a folder; give a model folder, or a name from `clearhead get`")
    if (folder / ADAPTER).is_file() and not (folder / CONFIG).is_file():
        raise FolderError(
            f"{folder} holds an adapter and no model; make one of it and its base: clearhead merge "
            f"{argument(folder)} --out FOLDER"
        )
    for _ in range(TRIES):
        finish_move(folder)
        before = state_of(folder)
        try:
            with held(folder, shared=True):
                loaded = _read(folder, opening)
        except (FolderError, FileNotFoundError):
            if state_of(folder) == before:
                raise
        else:
            if state_of(folder) == before:
                return loaded
    raise FolderError(f"{folder} is written to again and again while it is read; try again, or copy it first")


def holds_model(folder: Path) -> bool:
    """Whether a folder holds a model of a known family, with weights."""
    try:
        family_of(read_json(folder / CONFIG), folder / CONFIG)
    except FolderError:
        return False
    return source_of(folder) is not None


def state_of(folder: Path) -> dict[str, list[int]]:
    """The files of a model in a folder, each told from another of its name."""
    found = {}
    for file in (*folder.iterdir(), *folder.glob("*/config.json")):
        with suppress(FileNotFoundError):  # a rename that is under way
            if file.suffix in KINDS and file.is_file():
                found[str(file)] = identity(file)
    return found


@own_modes(learning=True)
def _read(folder: Path, opening: Opening) -> Loaded:
    values = read_json(folder / CONFIG)
    family = family_of(values, folder / CONFIG)
    fields = Fields(values, str(folder / CONFIG))
    refuse_packed(fields)
    said = fingerprint.read(folder, values) if opening.fingerprint else None
    config = _facts(lambda: family.config(fields), fields)  # before gigabytes are read
    fields.require(is_causal=config.causal)
    stored = read_tensors(folder, allow_bin=opening.allow_bin)
    given = {family.plain(name): tensor for name, tensor in stored.tensors.items()}
    config, head = _facts(lambda: family.heads(config, fields, given=given), fields)
    family, named = family.suited(config, head), len(given)
    given.clear()
    new_head = _facts(lambda: family.new_head(fields), fields)
    fields.warn_unread()
    if config.layers > named:
        raise FolderError(f"{fields.source} says {config.layers} blocks; {stored.source} has {named} tensors")
    with torch.device("meta"):
        network = Transformer(config, head)
    ours = family.to_ours(stored.tensors, network.state_dict(), config=config, source=str(stored.source))
    network.load_state_dict(_own(ours, family, stored=stored), assign=True)
    tokenizer = _tokenizer(folder)
    refuse_rowless(folder, tokenizer, vocab=config.vocab, spare=config.translates)
    refuse_pad(config, tokenizer, source=fields.source)
    probe = tokenizer.encode(["a"])[0]
    if max(probe.ids, default=0) >= config.vocab or max(probe.segments, default=0) >= max(1, config.segments):
        raise FolderError(f"{folder}: the tokenizer's ids or segments go beyond the model's tables")
    labels = label_names(values, head, source=fields.source) if head else ()
    if said:
        fingerprint.check(said, network, tokenizer=tokenizer, labels=labels, path=folder / FINGERPRINT)
    problem = problem_of(values, head, source=fields.source)
    loaded = Loaded(network.eval(), tokenizer, labels, family, folder, problem, new_head)
    threshold = no_answer_of(values, problem, source=fields.source)
    embedding = read_embedding(folder, width=config.width)
    loaded = replace(loaded, no_answer_above=threshold, embedding=embedding)
    if not config.language_head:
        return loaded
    loaded = replace(loaded, target=_target(folder) if config.translates else None)
    ends, begin = answers_of(folder, values, tokenizer=loaded.writer, config=config)
    return replace(loaded, ends=ends, begin=begin)


def refuse_pad(config: Config, tokenizer: Tokenizer, *, source: str) -> None:
    """Where positions are counted from the padding id on, the published code takes that id for no token."""
    counted = isinstance(config.positions, Learned) and not config.translates
    pad = getattr(config.positions, "offset", 0) - 1 if counted else -1
    if 0 <= pad < tokenizer.vocab_size and pad not in tokenizer.control_ids:
        raise FolderError(
            f"{source}: pad_token_id={pad} is the token {tokenizer.name(pad)!r}, which texts may hold"
        )
    if pad in tokenizer.framing_ids:
        raise FolderError(
            f"{source}: pad_token_id={pad} is the token {tokenizer.name(pad)!r}, which the tokenizer puts "
            "around texts; write the id of its padding token"
        )


def _tokenizer(folder: Path) -> Tokenizer:
    return _panicking(folder, Tokenizer.read)


def _target(folder: Path) -> Tokenizer | None:
    return _panicking(folder, Tokenizer.read_target)


def _panicking(folder: Path, read: Callable[[Path], Words]) -> Words:
    with panics(f"{folder}: the tokenizer's files do not fit together"):
        return read(folder)


def _facts(read: Any, fields: Fields) -> Any:
    """Facts that do not fit together are the folder's fault here, not an option's."""
    try:
        return read()
    except FolderError:
        raise
    except ClearheadError as error:
        raise FolderError(f"{fields.source}: {fields.worded(str(error))}") from error
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
        value = fields.values.get(fields.last)
        raise FolderError(f"{fields.source}: {fields.last}={value!r} cannot be used ({error})") from error


def family_of(values: dict[str, Any], path: Path) -> Family:
    """The family a config names."""
    if "model_type" not in values:
        raise FolderError(
            f"{path} has no model_type; write the family into it, if you know it: {', '.join(FAMILIES)}"
        )
    name = str(values["model_type"])
    if name not in FAMILIES:
        raise FolderError(f"{path}: model_type {name!r} is not supported; supported: {', '.join(FAMILIES)}")
    return FAMILIES[name]


def _own(ours: dict[str, Tensor], family: Family, *, stored: Stored) -> dict[str, Tensor]:
    """The tensors in float32, finite."""
    files = {family.plain(name): path for name, path in stored.files.items()}
    own = {name: tensor.to(torch.float32) for name, tensor in ours.items()}
    for name, tensor in own.items():
        if tensor.numel() and not torch.stack(tensor.aminmax()).isfinite().all():
            parts = family.published(name)
            which = f"{files[parts[0]]}: {' + '.join(parts)}"
            raise FolderError(f"{which} holds numbers that are not finite; fetch or save the folder again")
    return own


def in_float32(network: Transformer) -> Transformer:
    """The network that is read again from what is saved of this one: itself, unless held in another kind."""
    state = network.state_dict()
    if all(tensor.dtype == torch.float32 for tensor in state.values()):
        return network
    with torch.device("meta"):
        made = Transformer(network.config, network.head_facts)
    made.load_state_dict({name: tensor.float() for name, tensor in state.items()}, assign=True)
    return made.eval()


def write_folder(folder: str | Path, loaded: Loaded, *, instead: Iterable[str] = ()) -> None:
    """Write a model folder that we and, where the family can say it, the published code read alike; files
    named in `instead` leave with the model before."""
    folder = Path(folder)
    network = loaded.network
    facts, state = (network.config, network.head_facts), network.state_dict()
    family, values = loaded.family, loaded.family.says(*facts, names=state)
    if values is None:
        family = FAMILIES["clearhead"]
        values = family.fields(*facts)
    if loaded.labels:
        values["id2label"] = {str(number): label for number, label in enumerate(loaded.labels)}
        values["label2id"] = {label: number for number, label in enumerate(loaded.labels)}
        values |= no_answer_fields(loaded.no_answer_above)
        if loaded.problem in PROBLEMS:  # the published code knows no others
            values["problem_type"] = str(loaded.problem)
    if family is not FAMILIES["clearhead"]:
        for role in ROLES:  # the published code's defaults may lie beyond the vocabulary
            values.setdefault(f"{role}_id", loaded.tokenizer.roles.get(role))
    values["dtype"] = "float32"
    answers = loaded.begin.fields() | ({"eos_token_id": list(loaded.ends)} if loaded.ends else {})
    values |= answers
    ours, config = {name: tensor.float() for name, tensor in state.items()}, network.config
    headed = bool(loaded.labels) or config.language_head or config.fill is not None
    tensors = family.to_published(ours, prefixed=headed, config=config, head=network.head_facts)
    with moved_together(folder, instead=instead) as place:
        loaded.tokenizer.write(place)
        if loaded.target:
            loaded.target.write(place, part="target")
        write_tensors(place / WEIGHTS, tensors)
        write_json(place / CONFIG, values)
        if answers:
            write_json(place / GENERATION, answers)
        if loaded.embedding:
            write_embedding(place, loaded.embedding, width=config.width)
        made = fingerprint.of_model(in_float32(network), loaded.tokenizer, labels=loaded.labels, place=place)
        write_json(place / FINGERPRINT, made)
