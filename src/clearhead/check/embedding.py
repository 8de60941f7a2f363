"""The laws of a model that gives vectors: a text's is its own, and what the equations say."""

import copy
from collections.abc import Iterator

import torch

from clearhead.check.finding import RIGHT, SAME, Finding, judged
from clearhead.check.places import folder_of, same_bits
from clearhead.check.samples import TEXTS, companies, random_samples
from clearhead.engine.modes import own_modes
from clearhead.infer.embed import facts_of, finished, pooled
from clearhead.infer.model import Model
from clearhead.reference import folder as reference
from clearhead.reference.vectors import read_pooled
from clearhead.reference.whole import WholeModel
from clearhead.settings import Embedded

TOLERANCE = 1e-10  # float64; relative to the largest number of a text, or 1
SOME = 13


def embedding(model: Model) -> Iterator[Finding]:
    """Both laws, of models of one stack whose answers are vectors; none for others."""
    if not model.embeds or model.translates:
        return
    texts = [*TEXTS, "", "one two three four five six seven eight " * 100]
    alone = [model.embed([text])[0] for text in texts]
    changed = set[int]()
    for members in companies(len(texts)):
        together = model.embed([texts[member] for member in members])
        pairs = zip(members, together, strict=True)
        changed |= {member for member, vector in pairs if not same_bits(vector, alone[member])}
    yield judged(
        SAME,
        "a text's vector, pooled as the folder says, keeps every bit in any company",
        holds=not changed,
        figure=f"{len(texts) - len(changed)} of {len(texts)} texts the same",
        hint="a vector depends on the others: on their number or their order",
    )
    gap = largest_gap(model.merged() if model.loaded.adapters else model)
    yield judged(
        RIGHT,
        "a text's vector is what the equations say, pooled as the folder says (float64)",
        holds=gap <= TOLERANCE,
        figure=f"largest gap {gap:.1e}, allowed {TOLERANCE:.0e}",
        hint="modules.json or the pooling's config.json is read wrongly, or tokens are pooled wrongly",
    )


@own_modes()
def largest_gap(model: Model) -> float:
    """The largest difference of a vector to that of the equations, relative to its largest number, or 1."""
    samples = [sample.text for sample in random_samples(model, SOME, seed=3)]
    network, facts = copy.deepcopy(model.loaded.network).double(), facts_of(model, Embedded())
    found = pooled(network, samples, pooling=facts.pooling, budget=2048)
    found = finished(found, facts, settings=Embedded())
    gap = 0.0
    with folder_of(model) as folder:
        whole, said = reference.read(folder), read_pooled(folder)
        assert isinstance(whole, WholeModel)
        for place in (*range(4), len(samples) - 1):
            text = samples[place]
            right = torch.from_numpy(said.vector(whole.hidden(text.ids, text.segments)))
            here = float((found[place] - right).abs().max() / right.abs().max().clamp(min=1))
            gap = max(gap, here if here == here else float("inf"))
    return gap
