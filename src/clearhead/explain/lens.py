"""What each layer's stream would already answer (nostalgebraist 2020, "interpreting GPT: the logit lens"):
the model's own last norm and head, put on the stream between its blocks."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, pad

from clearhead.checkpoint.labels import Problem
from clearhead.engine.modes import own_modes
from clearhead.errors import SettingError
from clearhead.explain.asked import whole_numbers
from clearhead.explain.objective import Reading, pooling_of, shown
from clearhead.explain.record import record
from clearhead.infer.model import Model
from clearhead.model.heads import pool
from clearhead.model.kernels import Context
from clearhead.model.layout import Batch
from clearhead.tasks.fill import rows_at_once
from clearhead.text.stream import namer

LIKELY = "probability"


@dataclass(frozen=True)
class Guess:
    """Something that a layer would answer, and its probability (of vectors: the cosine to the last one)."""

    text: str
    probability: float


@dataclass(frozen=True)
class Lens:
    """`layers[layer][row]` are the most likely answers, best first: layer 0 is the stream before the first
    block, layer n that after block n; a row is a token (`tokens`), or the one row of a whole text."""

    kind: str  # "next token", "masked token", "label", "tag", "answer" (start and end) or "vector"
    unit: str  # of what is said beside an answer: "probability", "cosine" or "number"
    tokens: tuple[str, ...]
    layers: tuple[tuple[tuple[Guess, ...], ...], ...]


@own_modes()
def lens(reading: Reading, *, candidates: int = 3) -> Lens:
    """The logit lens of one text; of a translator, of its decoder. Where a model has no head to put on the
    stream, how like each layer's vector is to the last one's."""
    if min(whole_numbers(candidates, "candidates"), default=0) < 1:
        raise SettingError(f"candidates={candidates}: give 1 or more")
    model, network = reading.model, reading.model.loaded.network
    with record(network, what=["resid_pre", "resid_post"]) as seen:
        _, batch = reading.run()
    (one,) = seen.records
    posts = one["resid_post"]
    streams = [one["resid_pre"][0], *(posts[layer] for layer in sorted(posts))]
    stack = network.decoder if network.decoder else network.encoder
    assert isinstance(stack, nn.Module)
    norm = stack.norm if isinstance(stack.norm, nn.Module) else nn.Identity()
    ready = [norm(rows) for rows in streams]
    kind = kind_of(model)
    names = namer(model.tokenizer)
    tokens = tuple(names(id) for id in reading.fed)
    if kind in ("next token", "masked token"):
        said = partial(shown, model) if kind == "next token" else names
        room = rows_at_once(model.config.vocab)
        made = [
            [
                one
                for some in rows.split(room)
                for one in guesses(said_by_head(reading, some, batch=batch), said, count=candidates)
            ]
            for rows in ready
        ]
        return Lens(kind, LIKELY, tokens, tuple(map(tuple, made)))
    found, labels = [said_by_head(reading, rows, batch=batch) for rows in ready], model.loaded.labels
    if kind == "vector":
        likeness = [float(cosine_similarity(vector, found[-1])) for vector in found]
        return Lens(
            kind, "cosine", ("the text",), tuple(((Guess("the last vector", one),),) for one in likeness)
        )
    if kind == "answer":
        name = tokens.__getitem__
        each = tuple(guesses(logits.T, name, count=candidates) for logits in found)  # of [2, tokens]
        return Lens(kind, LIKELY, ("start", "end"), each)
    if kind == "tag":
        each = tuple(guesses(logits, labels.__getitem__, count=candidates) for logits in found)
        return Lens(kind, LIKELY, tokens, each)
    problem = model.loaded.problem
    every = tuple(guesses(one, labels.__getitem__, count=len(labels), problem=problem) for one in found)
    unit = "number" if problem is Problem.REGRESSION else LIKELY
    return Lens(kind, unit, ("the text",), every)


def said_by_head(reading: Reading, rows: Tensor, *, batch: Batch) -> Tensor:
    """What the model's own head makes of the stream of one text, `[tokens, width]`: logits of tokens, of
    labels, or of labels for each token; without a head the pooled vector."""
    network, kind = reading.model.loaded.network, kind_of(reading.model)
    if kind in ("next token", "masked token"):
        return network.next_logits(rows) if kind == "next token" else network.fill_logits(rows)
    stream = pad(rows, (0, 0, 0, batch.layout.tokens - len(rows)))  # with the spare rows
    if kind == "vector":
        return pool(stream, batch.layout, pooling=pooling_of(reading.model))
    assert network.head
    return network.head(stream, Context.of(batch.layout))[: len(rows)]


def kind_of(model: Model) -> str:
    """What this model's head answers."""
    if model.tags or model.answers:
        return "tag" if model.tags else "answer"
    if model.loaded.labels:
        return "label"
    if model.speaks or model.translates:
        return "next token"
    return "masked token" if model.fills else "vector"


def guesses(
    logits: Tensor, name: Any, *, count: int, problem: Problem = Problem.SINGLE
) -> tuple[tuple[Guess, ...], ...]:
    """The most likely answers of each row; of several labels each with its own probability, of a number the
    number."""
    best = logits.topk(min(count, logits.shape[-1]), dim=-1)
    match problem:
        case Problem.MULTI:
            shares = best.values.sigmoid()
        case Problem.REGRESSION:
            shares = best.values
        case _:
            shares = (best.values - logits.logsumexp(-1, keepdim=True)).exp()
    pairs = zip(best.indices.tolist(), shares.tolist(), strict=True)
    return tuple(
        tuple(Guess(name(id), share) for id, share in zip(ids, values, strict=True)) for ids, values in pairs
    )
