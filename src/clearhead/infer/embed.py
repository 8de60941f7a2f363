"""Texts → vectors."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.checkpoint.embedding import Embedding
from clearhead.data.rows import Row
from clearhead.data.wording import place
from clearhead.engine.modes import own_modes
from clearhead.errors import SettingError
from clearhead.infer.batches import batches_of, check_encodings, finite
from clearhead.model.config import Pooling
from clearhead.model.heads import POOLS, pool
from clearhead.model.kernels import Context
from clearhead.model.transformer import Transformer
from clearhead.settings import Asking, Embedded, Vectors
from clearhead.tasks.examples import Example, examples_named, joined
from clearhead.text.encoding import Encoding, Text

if TYPE_CHECKING:
    from clearhead.infer.model import Model

BLOCK = 1024  # texts that are held at once, of files that are larger
QUERY, DOCUMENT = ("query",), ("document", "passage", "corpus")  # names of prompts for these, as published


@dataclass(frozen=True)
class Vector:
    """A text's vector; how many tokens were read, in how many windows, and how many were cut off. None for a
    text that was left out."""

    embedding: tuple[float, ...] | None
    tokens: int = 0
    dropped: int = 0
    windows: int = 0


def asking_for(given: Vectors, asking: Asking, *, prefix: str | None = None) -> Embedded:
    """How vectors are made, from settings that stand in two places."""
    values = {item.name: getattr(given, item.name) for item in fields(Vectors)}
    shared = {name: getattr(asking, name) for name in ("long", "stride", "batch_tokens")}
    return Embedded(**values, **shared, prefix=prefix)


def facts_of(model: "Model", settings: Embedded) -> Embedding:
    """How this model embeds: as asked for, else as its folder says, else by the mean."""
    said = model.loaded.embedding or Embedding()
    if settings.pooling is not None:
        said = replace(said, pooling=Pooling(settings.pooling))
    if settings.normalise is not None:
        said = replace(said, normalise=settings.normalise)
    width = model.config.width
    if settings.dimensions is not None and settings.dimensions > width:
        raise SettingError(
            f"--dimensions {settings.dimensions} is more than the model's vectors have ({width})"
        )
    return said


def limit_of(model: "Model") -> int | None:
    """Most tokens of a text that is embedded: what its folder says of that, else as elsewhere."""
    said, most = model.loaded.embedding, model.config.limit
    if said is None or said.limit is None:
        return model.limit
    return said.limit if most is None else min(said.limit, most)


def prompt_of(model: "Model", settings: Embedded, *, roles: Sequence[str] = ()) -> str:
    """What is put before each text: a prefix, the prompt that was named, that of a role, or of all texts."""
    said = model.loaded.embedding or Embedding()
    if settings.prefix is not None:
        if settings.prompt is not None:
            raise SettingError("--prefix and --prompt are both given; give one of them")
        return settings.prefix
    if settings.prompt is None:
        return said.prompt(*roles)
    if settings.prompt not in said.prompts:
        there = ", ".join(said.prompts) or "none"
        raise SettingError(
            f"--prompt {settings.prompt!r} is no prompt of {model.name} (there: {there}); give its words "
            "with --prefix"
        )
    return said.prompts[settings.prompt]


@own_modes()
def embedded(
    model: "Model",
    texts: Sequence[Text],
    *,
    names: Sequence[str],
    settings: Embedded,
    roles: Sequence[str] = (),
) -> tuple[Float[Tensor, "texts width"], list[Example]]:
    """One vector a text, in order, and what was read; `names` are theirs in messages.

    A text's windows are joined by the mean of their vectors, before any cut and norm. A
    text of which the tokenizer makes no token has zeros. Raises `NotFinite`, `DataError` by name for a text
    that is too long, `SettingError` for what the model does not have.
    """
    facts, prompt = facts_of(model, settings), prompt_of(model, settings, roles=roles)
    limit = limit_of(model)
    given = [ready(text, prompt, lowercase=facts.lowercase) for text in texts]
    examples = examples_named(given, model.tokenizer, names=names, limit=limit, reading=settings)
    skip = 0
    if prompt and not facts.included:
        skip = _length(model, prompt)
        if any(len(example.windows) > 1 for example in examples):
            raise SettingError(
                "a prompt that is left out of the pooling is for texts of one window; cut them"
            )
    flat = [window for example in examples for window in example.windows]
    check_encodings(flat, model.config)
    owners = [name for name, example in zip(names, examples, strict=True) for _ in example.windows]
    budget = settings.batch_tokens
    network = model.loaded.network
    found = pooled(network, flat, pooling=facts.pooling, budget=budget, skip=skip)
    vectors = joined(finite(found, owners.__getitem__), examples)
    return finished(vectors, facts, settings=settings), examples


def ready(text: Text, prompt: str, *, lowercase: bool) -> Text:
    """A text, or the first of a pair, behind its prompt."""
    parts = [text] if isinstance(text, str) else list(text)
    parts[0] = prompt + parts[0]
    if lowercase:  # sign by sign, as published: a Greek word's last sigma is one like others
        parts = ["".join(map(str.lower, part)) for part in parts]
    return parts[0] if isinstance(text, str) else (parts[0], parts[1])


def _length(model: "Model", prompt: str) -> int:
    """How many tokens at the beginning are the prompt's: with what the tokenizer puts before it."""
    (alone,) = model.tokenizer.encode([prompt])
    return len(alone.ids) - (alone.ids[-1] in model.tokenizer.control_ids)


def pooled(
    network: Transformer, encodings: Sequence[Encoding], *, pooling: Pooling, budget: int, skip: int = 0
) -> Float[Tensor, "texts width"]:
    """What is pooled of the last block's vectors of each text, in order, without its first `skip` tokens; in
    float32, of a float64 network in float64."""
    wide = next(network.parameters()).dtype == torch.float64
    found = torch.zeros(len(encodings), network.config.width, dtype=torch.float64 if wide else torch.float32)
    for members, batch in batches_of(encodings, budget):
        stream = network(batch, Context.of(batch.layout))
        if skip:
            for member, rows in zip(members, batch.layout.slices, strict=True):
                if rows.stop > rows.start + skip:
                    texts = stream[rows.start + skip : rows.stop].unsqueeze(0)
                    found[member] = POOLS[pooling](texts)[0].to(found.dtype)
        else:
            found[members] = pool(stream, batch.layout, pooling=pooling).to(found.dtype)
    return found


def finished(vectors: Tensor, facts: Embedding, *, settings: Vectors) -> Tensor:
    """Vectors cut and brought to length 1 as asked for; else as the folder says, whose own cut comes behind
    the norm, as published."""
    if settings.dimensions is None and settings.normalise is None:
        return shortened(vectors, None, normalise=facts.normalise)[:, : facts.dimensions].contiguous()
    return shortened(vectors, settings.dimensions or facts.dimensions, normalise=facts.normalise)


def shortened(vectors: Tensor, dimensions: int | None, *, normalise: bool) -> Tensor:
    """The first numbers of vectors (Kusupati et al. 2022), with length 1 if asked for; zeros stay."""
    kept = vectors[:, :dimensions]
    if not normalise:
        return kept.contiguous()
    wide = kept.double()  # so that a row's length does not hang on how rows are summed
    return (wide / wide.norm(dim=1, keepdim=True).clamp(min=1e-12)).to(vectors.dtype)


def blocks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Rows, so many at once."""
    left = iter(rows)
    while some := list(islice(left, BLOCK)):
        yield some


def embed_rows(model: "Model", rows: Iterable[Row], *, settings: Embedded) -> Iterator[tuple[Row, Vector]]:
    """One vector a row, in order, a block of rows at a time; a text of only white space, where it is let
    through, gets none."""
    for some in blocks(rows):
        asked = [row for row in some if not row.blank]
        vectors, examples = of_rows(model, asked, settings=settings, roles=())
        found = iter(
            Vector(tuple(vector), example.tokens, example.dropped, len(example.windows))
            for vector, example in zip(vectors.tolist(), examples, strict=True)
        )
        yield from ((row, Vector(None) if row.blank else next(found)) for row in some)


def of_rows(
    model: "Model", rows: Sequence[Row], *, settings: Embedded, roles: Sequence[str]
) -> tuple[Tensor, list[Example]]:
    """The vectors of rows, and what was read of them."""
    names = [place(row.file, row.row) for row in rows]
    return embedded(model, [row.asked for row in rows], names=names, settings=settings, roles=roles)
