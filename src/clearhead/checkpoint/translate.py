"""Config fields and tensor names as two-way tables."""

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import ClearheadError, FolderError
from clearhead.model.config import Activation, Config, Head

# Fields of published configs that change no number we compute.
HARMLESS = frozenset(
    """
    _name_or_path _num_labels add_cross_attention architectures bos_token_id cls_token_id directionality
    dtype eos_token_id finetuning_task gradient_checkpointing id2label initializer_range
    is_encoder_decoder label2id language model_type name_or_path num_labels output_attentions
    output_hidden_states output_past pad_token_id pooler_fc_size pooler_num_attention_heads
    pooler_num_fc_layers pooler_size_per_head pooler_type problem_type return_dict sep_token_id
    tie_word_embeddings torch_dtype transformers_version use_cache
    """.split()
)


# Names of activations as the published code spells them.
ACTIVATIONS = {
    "gelu": Activation.GELU,
    "gelu_new": Activation.GELU_TANH,
    "gelu_pytorch_tanh": Activation.GELU_TANH,
    "relu": Activation.RELU,
}
SPELLED = {kind: name for name, kind in reversed(ACTIVATIONS.items())} | {Activation.GELU_TANH: "gelu_new"}
OLD_NORMS = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


class Fields:
    """A published config, read field by field: what was not read in the end is named once."""

    def __init__(self, values: Mapping[str, Any], source: str):
        self.values, self.source = values, source
        self.seen: set[str] = set()
        self.last = ""  # the field that was asked for last, to name where facts do not fit

    def __call__(self, name: str, default: Any = ...) -> Any:
        """A field's value; without a default it must be there."""
        self.seen.add(name)
        self.last = name
        if name in self.values:
            return self.values[name]
        if default is ...:
            raise FolderError(f"{self.source}: the field {name!r} is missing")
        return default

    def choice(self, name: str, choices: Mapping[str, Any], *, default: Any = ...) -> Any:
        """A field whose value is one of a few names."""
        value = self(name, default)
        if not isinstance(value, str) or value not in choices:
            known = ", ".join(choices)
            raise FolderError(f"{self.source}: {name}={value!r} is not supported; supported: {known}")
        return choices[value]

    def require(self, **expected: Any) -> None:
        """Refuse any other value of fields that would change the arithmetic."""
        for name, value in expected.items():
            if self(name, value) not in (value, None):
                raise FolderError(
                    f"{self.source}: {name}={self.values[name]!r} is not supported, only {value!r}"
                )

    def skip(self, *names: str) -> None:
        """Fields that change no number here."""
        self.seen.update(names)

    def warn_unread(self) -> None:
        """Name the fields that nothing has read."""
        unread = sorted(set(self.values) - self.seen - HARMLESS)
        if unread:
            warnings.warn(f"{self.source}: fields not known and not used: {', '.join(unread)}", stacklevel=3)


Plain = Mapping[str, tuple[str, Any]]  # a published field: our fact, the published default (...: none)


def read_plain(fields: Fields, table: Plain) -> dict[str, Any]:
    """The facts that stand in a config as they are."""
    return {fact: fields(name, default) for name, (fact, default) in table.items()}


def write_plain(facts: Config | Head, table: Plain) -> dict[str, Any]:
    """The fields of such facts."""
    return {name: getattr(facts, fact) for name, (fact, _) in table.items()}


def rotary_base(fields: Fields, *, kind: str, older: str, default: float) -> float:
    """The base of rotary angles for one kind of block, from rope_parameters or its older field."""
    fields.require(rope_scaling=None)
    usual = fields(older, default)
    table = fields("rope_parameters", None) or {kind: {}}
    stated = table.get(kind) if isinstance(table, dict) else None
    if not isinstance(stated, dict):
        raise FolderError(f"{fields.source}: rope_parameters={table!r} says nothing of {kind!r}")
    for name in ("rope_type", "type"):
        if stated.get(name, "default") != "default":
            raise FolderError(f"{fields.source}: {name}={stated[name]!r} is not supported, only 'default'")
    return float(stated.get("rope_theta", usual))


def global_every(fields: Fields) -> int:
    """Each so-many-th block, from the first, sees the whole text: from layer_types or its older field."""
    every, kinds = fields("global_attn_every_n_layers", 3), fields("layer_types", None)
    if kinds is None:
        return every
    if not isinstance(kinds, list) or len(kinds) != fields("num_hidden_layers"):
        raise FolderError(f"{fields.source}: layer_types={kinds!r} must name num_hidden_layers kinds")
    whole = [place for place, kind in enumerate(kinds) if kind == "full_attention"]
    every = whole[1] if len(whole) > 1 else max(1, len(kinds))
    if kinds != ["sliding_attention" if place % every else "full_attention" for place in range(len(kinds))]:
        raise FolderError(
            f"{fields.source}: layer_types={kinds} has no regular pattern from the first block on"
        )
    return every


def label_count(fields: Fields) -> int:
    """How many outputs a published classification head has."""
    labels = fields("id2label", None)
    # Cross-encoders may put a function over the published score; only "as it is" is what we answer.
    plain = "torch.nn.modules.linear.Identity"
    fields.require(sbert_ce_default_activation_function=plain)
    newer = fields("sentence_transformers", None)
    if isinstance(newer, dict) and newer.get("activation_fn", plain) != plain:
        raise FolderError(
            f"{fields.source}: activation_fn={newer['activation_fn']!r} is not supported, only {plain!r}"
        )
    return len(labels) if labels else fields("num_labels", 2)


def has_classifier(fields: Fields, names: set[str], *, marker: str, architecture: str) -> bool:
    """Whether a folder holds the published classification head; any other head is refused by name."""
    if not any(name.startswith("classifier.") for name in names):
        return False
    stated = fields("architectures", None)
    if marker not in names or architecture not in (stated or []):
        raise FolderError(f"{fields.source}: the head of {stated} is not supported, only {architecture}")
    return True


@dataclass(frozen=True)
class Rule:
    """One line of a table: our name, the published name (several where they are stacked), with {i} and {p}
    open."""

    ours: str
    published: tuple[str, ...]


def same(published: str, ours: str) -> Rule:
    """The tensor is stored as we hold it."""
    return Rule(ours, (published,))


def stacked(published: Sequence[str], ours: str) -> Rule:
    """Several published tensors are one of ours, stacked along the first axis."""
    return Rule(ours, tuple(published))


def _pattern(template: str) -> re.Pattern[str]:
    escaped = re.escape(template).replace(r"\{i\}", r"(?P<i>\d+)").replace(r"\{p\}", r"(?P<p>weight|bias)")
    return re.compile(escaped)


@dataclass(frozen=True)
class Family:
    """All that is known of one family of published models.

    `prefix` may or may not stand before the names of the body; `spellings` are older endings; `ignored` are
    patterns of tensors that hold nothing learned or belong to heads that are not read.
    `fields` need not judge: whether a family can say what a model computes is found by reading it back.
    """

    model_type: str
    config: Callable[[Fields], Config]
    head: Callable[[Fields, set[str]], Head | None]
    fields: Callable[[Config, Head | None], dict[str, Any]]
    rules: tuple[Rule, ...]
    new_head: Callable[[Fields], Head]  # the head that a body without one gets, its labels still open
    prefix: str = ""
    bare: tuple[str, ...] = ()  # beginnings of names that never carry the prefix
    spellings: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()

    def says(self, config: Config, head: Head | None, *, names: Iterable[str]) -> dict[str, Any] | None:
        """The published fields of a model; None where, read back, they would be another's.

        `names` are those of our tensors.
        """
        try:
            parts = {part for name in names for part in self.published(name)}
            values = self.fields(config, head)
            given = dict(values)
            if head and head.labels:
                given |= {"num_labels": head.labels}
            again = Fields(given, self.model_type)
            same = self.config(again) == config and self.head(again, parts) == head
        except (ClearheadError, AttributeError):  # a fact of another kind, or no name for it
            return None
        return values if same else None

    def plain(self, name: str) -> str:
        """A published name without prefix, in today's spelling."""
        for old, new in self.spellings.items():
            if name.endswith(old):
                name = name.removesuffix(old) + new
        return name.removeprefix(self.prefix)

    def published(self, ours: str) -> tuple[str, ...]:
        """The published names, without prefix, of one of our tensors."""
        for rule in self.rules:
            if found := _pattern(rule.ours).fullmatch(ours):
                return tuple(name.format_map(found.groupdict()) for name in rule.published)
        raise FolderError(f"the family {self.model_type} has no name for {ours}")

    def to_ours(
        self, tensors: dict[str, Tensor], wanted: Mapping[str, Tensor], *, source: str
    ) -> dict[str, Tensor]:
        """Our tensors, shaped as those of `wanted`, from published ones, which are taken over.

        Missing, unknown or misshapen tensors are an error that lists their names.
        """
        given = {self.plain(name): tensor for name, tensor in tensors.items()}
        if len(given) < len(tensors):
            twice = [name for name in tensors if name != self.plain(name) and self.plain(name) in tensors]
            raise FolderError(f"{source}: tensors are there under two names: {_some(twice or list(tensors))}")
        tensors.clear()  # what is stacked is let go at once, so that no second copy of all comes to be
        names, used = list(given), set[str]()
        missing: list[str] = []
        misshapen: list[str] = []
        strange: list[str] = []
        ours: dict[str, Tensor] = {}
        for name, like in wanted.items():
            parts = self.published(name)
            used.update(parts)
            shape = [like.shape[0] // len(parts), *like.shape[1:]]
            missing += [part for part in parts if part not in given]
            found = {part: given.pop(part) for part in parts if part in given}
            misshapen += [
                f"{part} is {list(tensor.shape)}, config.json says {shape}"
                for part, tensor in found.items()
                if list(tensor.shape) != shape
            ]
            strange += [
                f"{part} ({tensor.dtype})" for part, tensor in found.items() if not tensor.is_floating_point()
            ]
            if not missing and not misshapen:
                ours[name] = torch.cat(list(found.values())) if len(parts) > 1 else found[parts[0]]
        unknown = [name for name in names if name not in used and not self.ignores(name)]
        faults = {
            "missing": missing,
            "unknown": unknown,
            "of another shape": misshapen,
            "of no floating-point kind": strange,
        }
        for what, faulty in faults.items():
            if faulty:
                raise FolderError(f"{source}: {counted(len(faulty))} {what}: {_some(faulty)}")
        return ours

    def to_published(self, ours: Mapping[str, Tensor], *, prefixed: bool) -> dict[str, Tensor]:
        """Published tensors from ours."""
        published = {}
        for name, tensor in ours.items():
            parts = self.published(name)
            for part, piece in zip(parts, tensor.chunk(len(parts)), strict=True):
                bare = not prefixed or part.startswith(self.bare)
                published[part if bare else self.prefix + part] = piece.contiguous()
        return published

    def ignores(self, name: str) -> bool:
        """Whether a name, without prefix, is left out on purpose."""
        return any(re.fullmatch(pattern, name) for pattern in self.ignored)


def counted(tensors: int) -> str:
    """A number of tensors as the beginning of a sentence."""
    return "1 tensor is" if tensors == 1 else f"{tensors} tensors are"


def _some(names: Sequence[str], most: int = 6) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(sorted(names)[:most]) + rest
