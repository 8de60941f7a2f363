"""What stands behind masks, by a model that has a head for them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from clearhead.infer.batches import batches_of, finite
from clearhead.model.layout import round_up
from clearhead.settings import Asking
from clearhead.tasks.fill import Candidate, Filled, most_likely, rows_at_once
from clearhead.tasks.gaps import parts_of
from clearhead.text.encoding import Text
from clearhead.text.masks import mask_of, with_masks

if TYPE_CHECKING:
    from clearhead.infer.model import Model


def masked(
    model: "Model", texts: Sequence[Text], *, names: Sequence[str], candidates: int, asking: Asking
) -> list[Filled]:
    """The most likely tokens at each mask of each text, which has a name in messages."""
    network, tokenizer = model.loaded.network, model.tokenizer
    mask = mask_of(tokenizer, source=model.name)
    side, limit = tokenizer.truncation_side, model.limit
    each = [
        parts_of(
            with_masks(tokenizer, str(text), name=name),
            mask,
            name=name,
            limit=limit,
            reading=asking,
            side=side,
        )
        for text, name in zip(texts, names, strict=True)
    ]
    flat = [(owner, part) for owner, parts in enumerate(each) for part in parts]
    said: dict[int, list[tuple[Candidate, ...]]] = {}
    for members, batch in batches_of([part.encoding for _, part in flat], asking.batch_tokens):
        stream = network(batch)
        asked = [flat[member][1].masks for member in members]
        lying = zip(asked, batch.layout.slices, strict=True)
        places = torch.tensor([rows.start + at for own, rows in lying for at in own])
        owners = [names[flat[m][0]] for m, own in zip(members, asked, strict=True) for _ in own]
        rows = torch.nn.functional.pad(stream[places], (0, 0, 0, round_up(len(places)) - len(places)))
        best: list[tuple[Candidate, ...]] = []
        for some in rows.split(rows_at_once(model.config.vocab)):
            logits = network.fill_logits(some)[: len(owners) - len(best)]
            finite(logits, owners[len(best) :].__getitem__)
            best += most_likely(logits, tokenizer, count=candidates)
        likely = iter(best)
        for member, own in zip(members, asked, strict=True):
            said[member] = [next(likely) for _ in own]
    found, at = list[Filled](), 0
    for parts in each:
        masks = [one for place in range(at, at + len(parts)) for one in said[place]]
        at += len(parts)
        tokens = sum(len(part.encoding.ids) for part in parts)
        # Of several windows none has lost what others hold.
        dropped = parts[0].encoding.dropped if asking.long == "truncate" else 0
        found.append(Filled(tuple(masks), tokens, dropped, len(parts)))
    return found
