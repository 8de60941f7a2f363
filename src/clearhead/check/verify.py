"""A model's promises as laws, held against one model on this machine."""

import copy
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from clearhead.check.filling import filling
from clearhead.check.finding import KEPT, RIGHT, SAME, TEXT, Finding, Verdict, judged
from clearhead.check.samples import TEXTS, companies, random_encodings
from clearhead.check.speaking import speaking
from clearhead.check.words import answered, cut, follows, said, stated_labels
from clearhead.checkpoint.tensors import INDEX, WEIGHTS
from clearhead.engine.modes import own_modes
from clearhead.infer.batches import packed
from clearhead.infer.model import Model, asked, load
from clearhead.model.kernels import Context, explicit
from clearhead.model.transformer import Transformer
from clearhead.reference import folder as reference
from clearhead.reference.whole import WholeModel
from clearhead.text.tokenizer import Encoding

NEAR = 2e-5  # float32, of a probability
TOLERANCE = 1e-10  # float64; relative to the largest number of a text, or 1


def verify(model: Model) -> list[Finding]:
    """All findings for a model; it keeps its promises where none failed."""
    return list(battery(model))


def battery(model: Model) -> Iterator[Finding]:
    """Findings one by one, as they are made."""
    model = asked(model)
    for law in LAWS:
        yield from law(model)


@own_modes()
def answers(
    network: Transformer, encodings: list[Encoding], *, context: Context | None = None
) -> list[Tensor]:
    """For each text, in order, all the model says: the vector of each token and, with a head, its row; with a
    language head, the logits of what comes next; with one for masked tokens, those of the middle token."""
    batch = packed(encodings)
    context = context or Context.of(batch.layout)
    stream = network(batch, context)
    found = [stream[rows].flatten() for rows in batch.layout.slices]
    if network.head:
        found = [torch.cat(pair) for pair in zip(found, network.head(stream, context), strict=True)]
    slices = batch.layout.slices
    if network.config.language_head or network.fill:
        ends = [rows.stop - 1 for rows in slices]
        places = [(rows.start + rows.stop) // 2 for rows in slices] if network.fill else ends
        rows = torch.nn.functional.pad(stream[torch.tensor(places)], (0, 0, 0, -len(places) % 8))
        logits = network.fill_logits(rows) if network.fill else network.next_logits(rows)
        found = [torch.cat(pair) for pair in zip(found, logits, strict=False)]
    return found


def company(model: Model) -> Iterator[Finding]:
    """Alone = in any company, order and number, by raw bytes."""
    network = model.loaded.network
    encodings = random_encodings(model, 97)
    alone = [answers(network, [encoding])[0] for encoding in encodings]
    compared, changed, lost = 0, set(), 0
    for members in companies(len(encodings)):
        together = answers(network, [encodings[member] for member in members])
        lost += len(members) - len(together)
        for member, vector in zip(members, together, strict=False):
            compared += 1
            if not same_bits(vector, alone[member]):
                changed.add(member)
    yield judged(
        SAME,
        "a neighbour changes no bit (float32, CPU)",
        holds=not changed and not lost,
        figure=f"{len(changed)} of {len(encodings)} texts changed in {compared} comparisons",
        hint="a sum here depends on the number of rows or threads, most likely the matrix products: "
        "set MKL_CBWR=AUTO,STRICT before Python starts (import clearhead before torch computes does it too)",
    )
    results = model.predict(list(TEXTS)) if model.task else list(model.embed(list(TEXTS)))
    none = model.predict([]) if model.task else list(model.embed([]))
    yield judged(
        SAME,
        "N texts give N results, no text gives none",
        holds=len(results) == len(TEXTS) and not none,
        figure=f"{len(results)} results for {len(TEXTS)} texts, {len(none)} for none",
        hint="results are lost between batches",
    )


def equations(model: Model) -> Iterator[Finding]:
    """Packed = explicit kernel = the whole model in NumPy, which reads the folder by itself, in float64."""
    encodings = random_encodings(model, 13, seed=1)
    network = copy.deepcopy(model.loaded.network).double()
    fast = answers(network, encodings)
    context = Context.of(packed(encodings).layout, attend=explicit)
    slow = answers(network, encodings, context=context)
    gap = largest_gap(fast, slow)
    yield judged(
        RIGHT,
        "the packed kernel equals the textbook's attention (float64)",
        holds=gap <= TOLERANCE,
        figure=f"largest gap {gap:.1e}, allowed {TOLERANCE:.0e}",
        hint="the fast kernel computes something else",
    )
    if model.loaded.adapters:  # a saved folder holds them as a part of the weights, which rounds
        model = model.merged()
        network = copy.deepcopy(model.loaded.network).double()
        fast = answers(network, encodings)
    with folder_of(model) as folder:
        whole = reference.read(folder)
        assert isinstance(whole, WholeModel)
        # Short ones, a middling one and the longest.
        places = [*range(4), len(encodings) // 2, len(encodings) - 1]
        shown = [encodings[place] for place in places]
        plain = []
        for encoding in shown:
            parts = [whole.hidden(encoding.ids, encoding.segments).ravel()]
            if network.head:
                ask = whole.logits if network.head.output else whole.pooled
                parts.append(np.ravel(ask(encoding.ids, encoding.segments)))
            if network.config.language_head:
                parts.append(whole.next_logits(encoding.ids))
            if network.fill:
                logits = whole.fill_logits(encoding.ids, encoding.segments)
                parts.append(logits[len(logits) // 2])
            plain.append(torch.from_numpy(np.concatenate(parts)))
    gap = largest_gap([fast[place] for place in places], plain)
    yield judged(
        RIGHT,
        "the model equals the equations in NumPy, read from the folder on their own (float64)",
        holds=gap <= TOLERANCE,
        figure=f"largest gap {gap:.1e}, allowed {TOLERANCE:.0e}",
        hint="a field or a tensor of the folder is read wrongly, or an equation is computed wrongly",
    )


def served(model: Model) -> Iterator[Finding]:
    """What `predict` answers = the equations in NumPy, put into words by the folder's own table of labels."""
    if not model.task:
        return
    given = [*TEXTS, TEXTS[0] * 300]
    results = model.predict(given)
    limit = model.limit or 10**9
    wrong = abs(len(given) - len(results))
    with folder_of(model) as folder:
        whole = reference.read(folder)
        table = stated_labels(folder)
    table = table or {str(number): label for number, label in enumerate(model.loaded.labels)}
    for text, result in zip(given, results, strict=False):
        encoding = model.tokenizer.encode([text])[0]
        ids, segments, dropped = cut(encoding, limit, side=model.tokenizer.truncation_side)
        scores = said(whole.logits(ids, segments), table, problem=model.loaded.problem)
        found = answered(result, table)
        right = scores.keys() == found.keys() and dropped == result.dropped
        # A number has no scale of its own, as a probability has.
        right = right and all(abs(scores[k] - found[k]) < NEAR * max(1, abs(scores[k])) for k in scores)
        wrong += not (right and follows(result))
    yield judged(
        RIGHT,
        "predict answers what the equations answer, label by label (float32, within 2e-5)",
        holds=not wrong,
        figure=f"{len(given) - wrong} of {len(given)} texts, {sum(r.dropped > 0 for r in results)} cut",
        hint="between the texts and the equations something is lost, swapped or cut wrongly",
    )


def filled(model: Model) -> Iterator[Finding]:
    """The laws of a model that fills masks, where the tokenizer has one; none for others."""
    if model.fills and "mask_token" in model.tokenizer.roles:
        with folder_of(model) as folder:
            yield from filling(model, folder)


def keeping(model: Model) -> Iterator[Finding]:
    """Save → load = the same bits, labels and ids; adapters are saved as a part of the weights."""
    model = model.merged() if model.loaded.adapters else model
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        again = load(folder, fingerprint=False)  # this law finds what differs, and says it as a finding
    before, after = (copy.loaded.network.state_dict() for copy in (model, again))
    changed = [name for name in before if name not in after or not same_bits(before[name], after[name])]
    encodings = random_encodings(model, 8, seed=2)
    pairs = zip(
        answers(model.loaded.network, encodings), answers(again.loaded.network, encodings), strict=True
    )
    moved = sum(not same_bits(first, second) for first, second in pairs)
    labels = model.loaded.labels == again.loaded.labels
    yield judged(
        KEPT,
        "saved and loaded, the model is the same to the bit",
        holds=not changed and not moved and labels,
        figure=f"{len(before) - len(changed)} of {len(before)} tensors, {8 - moved} of 8 answers the same, "
        f"labels {'kept' if labels else 'changed'}",
        hint=f"changed: {', '.join(changed[:3])}" if changed else "the answers changed",
    )
    different = sum(
        one.ids != two.ids or one.segments != two.segments
        for one, two in zip(model.encode(TEXTS), again.encode(TEXTS), strict=True)
    )
    yield judged(
        KEPT,
        "saved and loaded, the tokenizer gives the same ids",
        holds=not different,
        figure=f"{len(TEXTS) - different} of {len(TEXTS)} texts the same",
        hint="a setting of the tokenizer is lost in its files",
    )


def texts(model: Model) -> Iterator[Finding]:
    """Offsets, control tokens, decoding."""
    tokenizer = model.tokenizer
    encodings = tokenizer.encode(TEXTS)
    outside, literal = 0, 0
    for text, encoding in zip(TEXTS, encodings, strict=True):
        spans = [
            span for span, special in zip(encoding.offsets, encoding.special, strict=True) if not special
        ]
        starts = [start for start, _ in spans]
        outside += any(not 0 <= start <= end <= len(text) for start, end in spans) or starts != sorted(starts)
        inside = [
            number for number, special in zip(encoding.ids, encoding.special, strict=True) if not special
        ]
        literal += bool(tokenizer.control_ids.intersection(inside))
    yield judged(
        TEXT,
        "offsets lie in the original text and never go back",
        holds=not outside,
        figure=f"{len(TEXTS) - outside} of {len(TEXTS)} texts",
        hint="the tokenizer's offsets belong to a changed text",
    )
    yield judged(
        TEXT,
        "text that looks like a control token stays text",
        holds=not literal,
        figure=f"{literal} of {len(TEXTS)} texts gave a control token",
        hint="the tokenizer reads control tokens from user text",
    )
    law = "decoding gives the text back, character for character"
    if not tokenizer.lossless:
        figure = "the tokenizer changes texts (case, accents or spaces)"
        yield Finding(TEXT, law, Verdict.NOT_PROMISED, figure)
        return
    broken = sum(
        tokenizer.decode(encoding.ids) != text for text, encoding in zip(TEXTS, encodings, strict=True)
    )
    yield judged(
        TEXT,
        law,
        holds=not broken,
        figure=f"{len(TEXTS) - broken} of {len(TEXTS)} texts",
        hint="the decoder's files do not fit the encoder's",
    )


LAWS: tuple[Callable[[Model], Iterator[Finding]], ...] = (
    company,
    equations,
    served,
    speaking,
    filled,
    keeping,
    texts,
)


def same_bits(one: Tensor, two: Tensor) -> bool:
    """Whether two tensors hold the same raw bytes (a NaN equals itself, 0 is not −0)."""
    alike = one.shape == two.shape and one.dtype == two.dtype
    return alike and one.numpy().tobytes() == two.numpy().tobytes()


def largest_gap(ones: list[Tensor], twos: list[Tensor]) -> float:
    """Largest difference of two lists of vectors, relative to the largest number of each, or 1."""
    gap = 0.0
    for one, two in zip(ones, twos, strict=True):
        if one.shape != two.shape:
            return float("inf")
        here = float((one - two).abs().max() / two.abs().max().clamp(min=1))
        gap = max(gap, here if here == here else float("inf"))
    return gap


@contextmanager
def folder_of(model: Model) -> Iterator[Path]:
    """The folder a model was read from; a temporary one where there is none, or several files or adapters."""
    folder = model.loaded.folder
    if folder and not model.loaded.adapters and any((folder / name).is_file() for name in (WEIGHTS, INDEX)):
        yield folder
        return
    with tempfile.TemporaryDirectory() as place:
        model.save(place)
        yield Path(place)
