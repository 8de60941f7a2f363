"""Tensor names as two-way tables, and what is known of one family of published models."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from clearhead.checkpoint.translate import Fields
from clearhead.errors import ClearheadError, FolderError
from clearhead.model.config import Config, Fill, Head, Over

FILLING = ("ForMaskedLM", "BertForPreTraining")  # how classes with a head for masked tokens end
Shape = list[int]


@dataclass(frozen=True)
class Form:
    """How published tensors and one of ours become each other: the shapes of the published ones, from the
    shape of ours; the way in; the way back. `flipped`: stored as [inputs, outputs]; `shuffled`: in another
    order of rows."""

    shapes: Callable[[Shape, Config], list[Shape]]
    into: Callable[[list[Tensor], Config], Tensor]
    back: Callable[[Tensor, Config], list[Tensor]]
    flipped: bool = False
    shuffled: bool = False


def swapped(tensor: Tensor, first: int, *, second: int) -> Tensor:
    """The rows as `first` groups of `second` groups become `second` groups of `first`."""
    return tensor.unflatten(0, (first, second, -1)).transpose(0, 1).flatten(0, 2)


PLAIN = Form(lambda shape, _: [shape], lambda parts, _: parts[0], lambda tensor, _: [tensor])
HALVES = Form(
    lambda shape, _: [[shape[0] // 2, *shape[1:]]] * 2,
    lambda parts, _: torch.cat(parts),
    lambda tensor, _: list(tensor.chunk(2)),
)
PROJECTIONS = Form(
    lambda shape, config: [[size, *shape[1:]] for size in config.projected],
    lambda parts, _: torch.cat(parts),
    lambda tensor, config: list(tensor.split(config.projected)),
)
TRANSPOSED = Form(
    lambda shape, _: [shape[::-1]],
    lambda parts, _: parts[0].t().contiguous(),
    lambda tensor, _: [tensor.t()],
    flipped=True,
)
BY_HEAD = Form(
    lambda shape, _: [shape],
    lambda parts, config: swapped(parts[0], config.heads, second=3),
    lambda tensor, config: [swapped(tensor, 3, second=config.heads)],
    shuffled=True,
)
ROW = Form(
    lambda shape, _: [[1, *shape]],
    lambda parts, _: parts[0][0],
    lambda tensor, _: [tensor[None]],
)


@dataclass(frozen=True)
class Rule:
    """One line of a table: our name, the published name (several where they are stacked), with {i} and {p}
    open, and how the one becomes the other."""

    ours: str
    published: tuple[str, ...]
    form: Form = PLAIN


def same(published: str, ours: str) -> Rule:
    """The tensor is stored as we hold it."""
    return Rule(ours, (published,))


def projections(published: Sequence[str], ours: str) -> Rule:
    """Published queries, keys and values are one of ours, stacked along the first axis."""
    return Rule(ours, tuple(published), PROJECTIONS)


def halves(published: Sequence[str], ours: str) -> Rule:
    """Two published tensors of one shape are one of ours, stacked along the first axis."""
    return Rule(ours, tuple(published), HALVES)


def transposed(published: str, ours: str) -> Rule:
    """Matrices are stored as [inputs, outputs]."""
    return Rule(ours, (published,), TRANSPOSED)


def as_row(published: str, ours: str) -> Rule:
    """A vector is stored as a matrix of one row."""
    return Rule(ours, (published,), ROW)


def by_head(published: str, ours: str) -> Rule:
    """Queries, keys and values lie head by head."""
    return Rule(ours, (published,), BY_HEAD)


def _pattern(template: str) -> re.Pattern[str]:
    escaped = re.escape(template).replace(r"\{i\}", r"(?P<i>\d+)").replace(r"\{p\}", r"(?P<p>weight|bias)")
    return re.compile(escaped)


TAGS, ANSWERS = (same(f"{name}.{{p}}", "head.output.{p}") for name in ("classifier", "qa_outputs"))
OVER_TOKENS = {Over.TOKENS: (TAGS,), Over.SPANS: (ANSWERS,)}  # as most families name them


@dataclass(frozen=True)
class Family:
    """All that is known of one family of published models.

    `prefix` may or may not stand before the names of the body; `spellings` are older endings; `ignored` are
    patterns of tensors that hold nothing learned or belong to heads that are not read. Where a language head
    is tied, `tied` names its matrix and the one it is: a file may hold it twice. `fill` are the facts of the
    published head for masked tokens, whose bias a file may also hold under two names, `twin_bias`.
    `twins` are names under which a file may hold a tensor again. `gates` are rules of networks with gates,
    before the others, `over` those of heads over tokens. `settled` are the facts that the tensors themselves
    say (None: there, not looked at).
    Whether `fields` can say what a model computes is found by reading them back."""

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
    tied: tuple[str, str] = ("", "")
    scaled: bool = False  # whether new weights of layers that add to the stream are scaled (new_transformer)
    fill: Callable[[Fields], Fill] | None = None
    twin_bias: tuple[str, str] = ("", "")
    twins: Mapping[str, str] = field(default_factory=dict)
    gates: tuple[Rule, ...] = ()
    over: Mapping[Over, tuple[Rule, ...]] = field(default_factory=dict)
    settled: Callable[[Config, Mapping[str, Tensor | None]], Config] = lambda config, given: config

    def suited(self, config: Config, head: Head | None) -> "Family":
        """With the rules of these facts. Old heads over tokens come with a pooler that nothing reads."""
        gates, over = self.gates if config.gated else (), head.over if head else Over.TEXTS
        left = self.ignored if over is Over.TEXTS else (*self.ignored, r"pooler\..*")
        return replace(self, rules=(*gates, *self.over.get(over, ()), *self.rules), ignored=left)

    def heads(
        self, config: Config, fields: Fields, *, given: Mapping[str, Tensor | None]
    ) -> tuple[Config, Head | None]:
        """The facts with the head for masked tokens, if the folder states one and holds some of it; the head
        over texts. `given` are the published tensors, without prefix."""
        config, names = self.settled(config, given), set(given)
        parts = [part for rule in self.rules if rule.ours.startswith("fill.") for part in rule.published]
        held = {name for name in names if name.startswith(tuple(part.partition("{")[0] for part in parts))}
        if self.fill and held and any(one.endswith(FILLING) for one in fields("architectures", None) or []):
            return replace(config, fill=self.fill(fields)), self.head(fields, names - held)
        return config, self.head(fields, names)

    def says(self, config: Config, head: Head | None, *, names: Iterable[str]) -> dict[str, Any] | None:
        """The published fields of a model; None where, read back, they would be another's.

        `names` are those of our tensors.
        """
        try:
            suited = self.suited(config, head)
            parts = {part: None for name in names for part in suited.published(name)}
            values = self.fields(config, head)
            given = dict(values)
            if head and head.labels:
                given |= {"num_labels": head.labels}
            again = Fields(given, self.model_type)
            same = self.heads(self.config(again), again, given=parts) == (config, head)
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
        return self.rule(ours)[1]

    def rule(self, ours: str) -> tuple[Form, tuple[str, ...]]:
        """How one of our tensors is stored, and under which names, without prefix."""
        for rule in self.rules:
            if found := _pattern(rule.ours).fullmatch(ours):
                return rule.form, tuple(name.format_map(found.groupdict()) for name in rule.published)
        raise FolderError(f"the family {self.model_type} has no name for {ours}")

    def to_ours(
        self, tensors: dict[str, Tensor], wanted: Mapping[str, Tensor], *, config: Config, source: str
    ) -> dict[str, Tensor]:
        """Our tensors, shaped as those of `wanted`, from published ones, which are taken over.

        Missing, unknown or misshapen tensors are an error that lists their names.
        """
        given = {self.plain(name): tensor for name, tensor in tensors.items()}
        if len(given) < len(tensors):
            twice = [name for name in tensors if name != self.plain(name) and self.plain(name) in tensors]
            raise FolderError(f"{source}: tensors are there under two names: {_some(twice or list(tensors))}")
        tensors.clear()  # what is stacked is let go at once, so that no second copy of all comes to be
        fill = config.fill
        tied = (config.language_head and config.tied) or (fill and fill.tied)
        for twin, whole in (*self.twins.items(), *([self.tied] if tied else [])):
            if twin in given and whole not in given:
                given[whole] = given.pop(twin)
            self.untwin(given, (twin, whole), source=source)
        twin, whole = self.twin_bias if fill else ("", "")
        if twin in given and (whole not in given or not (fill and fill.tied)):
            given[whole] = given.pop(twin)  # which is what is computed with
        elif fill:
            self.untwin(given, self.twin_bias, source=source)
        names, used = list(given), set[str]()
        missing: list[str] = []
        misshapen: list[str] = []
        strange: list[str] = []
        ours: dict[str, Tensor] = {}
        for name, like in wanted.items():
            form, parts = self.rule(name)
            used.update(parts)
            shapes = dict(zip(parts, form.shapes(list(like.shape), config), strict=True))
            missing += [part for part in parts if part not in given]
            found = {part: given.pop(part) for part in parts if part in given}
            misshapen += [
                f"{part} is {list(tensor.shape)}, config.json says {shapes[part]}"
                for part, tensor in found.items()
                if list(tensor.shape) != shapes[part]
            ]
            strange += [
                f"{part} ({tensor.dtype})" for part, tensor in found.items() if not tensor.is_floating_point()
            ]
            if not missing and not misshapen:
                ours[name] = form.into(list(found.values()), config)
        unknown = [name for name in names if name not in used and not self.ignores(name)]
        faults = {
            "missing": missing,
            "unknown": unknown,
            "of another shape": misshapen,
            "of no floating-point kind": strange,
        }
        for what, faulty in faults.items():
            if faulty:
                raise FolderError(
                    f"{source}: {counted(len(faulty))} {what}: {_some(faulty)}; is config.json of this model?"
                )
        return ours

    def untwin(self, given: dict[str, Tensor], tied: tuple[str, str], *, source: str) -> None:
        """Let go of a tied tensor that is there twice; two that differ are two readings of one file."""
        twin, whole = tied
        if twin not in given or whole not in given:
            return
        if not torch.equal(given.pop(twin), given[whole]):
            if twin in self.twins:
                said = "differ, and a side's own table of tokens is not supported"
                raise FolderError(f"{source}: {twin} and {whole} {said}")
            said = f"{source}: config.json says that {twin} is {whole} (tie_word_embeddings), but they differ"
            raise FolderError(f'{said}; if both are meant, write "tie_word_embeddings": false')

    def to_published(
        self, ours: Mapping[str, Tensor], *, prefixed: bool, config: Config, head: Head | None
    ) -> dict[str, Tensor]:
        """Published tensors from ours."""
        published, suited = {}, self.suited(config, head)
        for name, tensor in ours.items():
            form, parts = suited.rule(name)
            for part, piece in zip(parts, form.back(tensor, config), strict=True):
                bare = not prefixed or part.startswith(self.bare)
                published[part if bare else self.prefix + part] = piece.contiguous()
        twin, whole = self.twin_bias
        if config.fill and not config.fill.tied and whole in published:
            published[twin] = published[whole].clone()  # the published code ties neither or both
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
