"""What an answer hangs on: heads and layers left out, attention followed to the input, what heads do."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.engine.modes import own_modes
from clearhead.engine.watching import Point
from clearhead.errors import SettingError
from clearhead.explain.asked import whole_numbers
from clearhead.explain.edit import Edit, ablate, edit
from clearhead.explain.objective import ROOM, Objective, Reading, objective
from clearhead.explain.record import Record, record
from clearhead.infer.model import Model
from clearhead.model.layout import pack


@dataclass(frozen=True, eq=False)
class Effects:
    """By how much the objective moves where a part is left out: below 0, the part speaks for the answer.
    `heads [layers, heads]`, `parts [layers, 2 or 3]` for what each layer's attention, a decoder's attention
    to the source (if there is one) and its feed-forward add; `cross` the heads of that attention."""

    objective: Objective
    score: float
    heads: Float[Tensor, "layers heads"]
    parts: Float[Tensor, "layers parts"]
    cross: Float[Tensor, "layers heads"] | None = None


@own_modes()
def effects(reading: Reading) -> Effects:
    """Each head and each part of each layer left out, one at a time (Michel et al. 2019; Voita et al. 2019);
    of a translator, those of its decoder. Copies of the text go through the model in few calls."""
    found = objective(reading)
    config = reading.model.config
    layers = config.decoder_layers or config.layers
    places = [(layer, head) for layer in range(layers) for head in range(config.heads)]
    points = [Point.ATTN_OUT, *([Point.CROSS_ATTN_OUT] if config.translates else []), Point.MLP_OUT]
    without = [
        Edit(point, layer, lambda x, _: torch.zeros_like(x)) for layer in range(layers) for point in points
    ]
    whole = float(found()[0])
    heads = scores(found, [ablate(*place) for place in places]) - whole
    parts = scores(found, without) - whole
    cross = None
    if config.translates:
        cross = (scores(found, [ablate(*place, cross=True) for place in places]) - whole).view(layers, -1)
    return Effects(found, whole, heads.view(layers, -1), parts.view(layers, -1), cross)


def nothing(x: Tensor, _: range) -> Tensor:
    """Zeros in place of what a part adds."""
    return torch.zeros_like(x)


def scores(found: Objective, edits: list[Edit]) -> Float[Tensor, " edits"]:
    """The objective under each edit alone: a copy of the text for each, as many at a time as fit."""
    reading = found.reading
    step = max(1, ROOM // (len(reading.encoding.ids) + len(reading.said)))
    made = []
    for start in range(0, len(edits), step):
        some = edits[start : start + step]
        own = [Edit(one.point, one.layer, one.change, text, one.encoder) for text, one in enumerate(some)]
        with edit(reading.model, *own):
            made.append(found(len(some)))
    return torch.cat(made)


def rollout(record: Record) -> Float[Tensor, "layers queries keys"]:
    """How much of each input token reaches each place after each layer: the product of the layers' mean
    weights, each mixed half and half with the stream that goes by (Abnar & Zuidema 2020, section 3)."""
    weights = [record.attention[layer] for layer in sorted(record.attention)]
    whole = record.heads is None and sorted(record.attention) == list(range(len(weights)))
    if not weights or not whole or weights[0].shape[1] != weights[0].shape[2]:
        raise SettingError(
            "a rollout needs the weights of all layers and rows: record(model) without a choice"
        )
    found, reached = [], torch.eye(weights[0].shape[1], dtype=weights[0].dtype)
    for each in weights:
        reached = (each.mean(0) / 2 + torch.eye(len(reached), dtype=each.dtype) / 2) @ reached
        found.append(reached)
    return torch.stack(found)


@dataclass(frozen=True, eq=False)
class HeadScores:
    """How much each head does one thing, 0 to 1, `[layers, heads]`: look at the token before; at the first
    one; in a sequence that comes twice, at the same token the first time (`duplicate`) and at the one that
    came after it (`induction`: Olsson et al. 2022)."""

    previous: Float[Tensor, "layers heads"]
    first: Float[Tensor, "layers heads"]
    duplicate: Float[Tensor, "layers heads"]
    induction: Float[Tensor, "layers heads"]


@own_modes()
def head_scores(model: Model, *, length: int = 48, sequences: int = 4, seed: int = 0) -> HeadScores:
    """The mean weights where each of these would be, over random tokens that come twice; of a model that
    reads and answers, of its encoder."""
    for name, given in (("length", length), ("sequences", sequences)):
        if min(whole_numbers(given, name), default=0) < 1 + (name == "length"):
            raise SettingError(f"{name}={given}: give {1 + (name == 'length')} or more")
    limit = model.limit
    length = length if limit is None else min(length, limit // 2)
    if length < 2:
        raise SettingError(f"{model.name} takes {limit} tokens: too few to come twice")
    chance = torch.Generator().manual_seed(seed)
    special = set(model.tokenizer.control_ids)
    usable = torch.tensor([id for id in range(model.config.vocab) if id not in special])
    ids = [usable[torch.randint(len(usable), (length,), generator=chance)].tolist() for _ in range(sequences)]
    with record(model) as seen:
        model.loaded.network(pack([row * 2 for row in ids]))
    found = seen.sources if model.translates else seen.records
    weights = torch.stack([torch.stack([one.attention[n] for n in sorted(one.attention)]) for one in found])
    mean = weights.mean(0)  # [layers, heads, queries, keys]

    def along(back: int) -> Tensor:
        rows = torch.arange(max(length, back), 2 * length)
        return mean[:, :, rows, rows - back].mean(-1)

    return HeadScores(along(1), mean[:, :, length:, 0].mean(-1), along(length), along(length - 1))
