"""What stands behind masks, by a model that has a head for them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from clearhead.infer.batches import batches_of, finite
from clearhead.model.layout import round_up
from clearhead.tasks.fill import Candidate, Filled, most_likely, rows_at_once
from clearhead.text.encoding import Text
from clearhead.text.masks import mask_of, with_masks

if TYPE_CHECKING:
    from clearhead.infer.model import Model


def masked(
    model: "Model", texts: Sequence[Text], *, names: Sequence[str], candidates: int, budget: int
) -> list[Filled]:
    """The most likely tokens at each mask of each text, which has a name in messages; `budget` tokens at a
    time."""
    network, tokenizer = model.loaded.network, model.tokenizer
    mask = mask_of(tokenizer, source=model.name)
    encodings = [
        with_masks(tokenizer, str(text), name=name, limit=model.limit)
        for text, name in zip(texts, names, strict=True)
    ]
    found: dict[int, Filled] = {}
    for members, batch in batches_of(encodings, budget):
        stream = network(batch)
        asked = [[at for at, id in enumerate(encodings[member].ids) if id == mask] for member in members]
        lying = zip(asked, batch.layout.slices, strict=True)
        places = torch.tensor([rows.start + at for own, rows in lying for at in own])
        owners = [names[member] for member, own in zip(members, asked, strict=True) for _ in own]
        rows = torch.nn.functional.pad(stream[places], (0, 0, 0, round_up(len(places)) - len(places)))
        best: list[tuple[Candidate, ...]] = []
        for part in rows.split(rows_at_once(model.config.vocab)):
            logits = network.fill_logits(part)[: len(owners) - len(best)]
            finite(logits, owners[len(best) :].__getitem__)
            best += most_likely(logits, tokenizer, count=candidates)
        likely = iter(best)
        for member, own in zip(members, asked, strict=True):
            masks = tuple(next(likely) for _ in own)
            found[member] = Filled(masks, len(encodings[member].ids))
    return [found[index] for index in range(len(texts))]
