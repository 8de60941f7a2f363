"""All that a model says of some samples: by the network, in one batch, and by the equations, one by one."""

import numpy as np
import torch
from torch import Tensor

from clearhead.check.samples import Sample
from clearhead.engine.modes import own_modes
from clearhead.infer.batches import packed
from clearhead.model.config import Over
from clearhead.model.kernels import Context, Kernel, Source
from clearhead.model.layout import Batch, Layout, Run, round_up
from clearhead.model.transformer import Transformer
from clearhead.reference.layers import Array
from clearhead.reference.translator import WholeTranslator
from clearhead.reference.whole import WholeModel
from clearhead.tasks.translate import side_by_side


@own_modes()
def answers(network: Transformer, samples: list[Sample], *, attend: Kernel | None = None) -> list[Tensor]:
    """For each sample, in order, all the network says: the vector of each token and, with a head, its row;
    with a language head, the logits of what comes next; with one for masked tokens, those of the middle
    token. Of an encoder–decoder the vectors of both sides. `attend` takes the place of the fast kernel."""
    if network.config.translates:
        return answered(network, samples, attend=attend)
    batch = packed([sample.text for sample in samples])
    context = Context.of(batch.layout, attend=attend)
    stream = network(batch, context)
    found = [stream[rows].flatten() for rows in batch.layout.slices]
    slices = batch.layout.slices
    if network.head and network.head_facts:
        rows = network.head(stream, context)
        if network.head_facts.over is not Over.TEXTS:
            rows = [rows[lying].flatten() for lying in slices]
        found = [torch.cat(pair) for pair in zip(found, rows, strict=True)]
    if network.config.language_head or network.fill:
        ends = [rows.stop - 1 for rows in slices]
        places = [(rows.start + rows.stop) // 2 for rows in slices] if network.fill else ends
        rows = rows_at(stream, places)
        logits = network.fill_logits(rows) if network.fill else network.next_logits(rows)
        found = [torch.cat(pair) for pair in zip(found, logits, strict=False)]
    return found


def answered(network: Transformer, samples: list[Sample], *, attend: Kernel | None) -> list[Tensor]:
    """The same of an encoder–decoder. With another kernel, each answer also meets its text by itself."""
    source, target = both(samples)
    read = network(source, Context.of(source.layout, attend=attend))
    meeting = Source.of(read, source.layout, answers=target.layout)
    if attend:
        meeting = Source(read, source.layout, one_by_one(target.layout, source.layout))
    stream = network.decode(target, Context.of(target.layout, attend=attend, source=meeting))
    slices = target.layout.slices
    logits = network.next_logits(rows_at(stream, [rows.stop - 1 for rows in slices]))
    return [
        torch.cat([read[asked].flatten(), stream[said].flatten(), last])
        for asked, said, last in zip(source.layout.slices, slices, logits, strict=False)
    ]


def rows_at(stream: Tensor, places: list[int]) -> Tensor:
    """Some rows of a stream, and spare ones up to a multiple of 8."""
    spare = round_up(len(places)) - len(places)
    return torch.nn.functional.pad(stream[torch.tensor(places)], (0, 0, 0, spare))


def both(samples: list[Sample]) -> tuple[Batch, Batch]:
    """The texts and their answers, each in one row."""
    return side_by_side([sample.text.ids for sample in samples], [sample.answer for sample in samples])


def one_by_one(answers: Layout, source: Layout) -> tuple[Run, ...]:
    """Where each answer meets its text, none of them together with another."""
    meeting = [(answers.slices[index], source.slices[index]) for index in answers.order]
    return tuple(
        Run(said.start, asked.start, 1, said.stop - said.start, asked.stop - asked.start)
        for said, asked in meeting
    )


def stated(whole: WholeModel | WholeTranslator, sample: Sample, *, network: Transformer) -> Tensor:
    """What the equations say of one sample, as `answers` has it of the network."""
    ids, segments = sample.text.ids, sample.text.segments
    parts: list[Array]
    if isinstance(whole, WholeTranslator):
        memory = whole.encode(ids)
        vectors = whole.decode(memory, sample.answer)
        parts = [memory, vectors, whole.judged(vectors[-1])]
        return torch.from_numpy(np.concatenate([part.ravel() for part in parts]))
    parts = [whole.hidden(ids, segments)]
    if network.head:
        parts.append((whole.logits if network.head.output else whole.pooled)(ids, segments))
    if network.config.language_head:
        parts.append(whole.next_logits(ids))
    if network.fill:
        logits = whole.fill_logits(ids, segments)
        parts.append(logits[len(logits) // 2])
    return torch.from_numpy(np.concatenate([np.ravel(part) for part in parts]))
