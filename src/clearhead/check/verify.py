"""A model's promises as laws, held against one model on this machine."""

import copy
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace

from torch import Tensor

from clearhead.check.answering import answering
from clearhead.check.embedding import embedding
from clearhead.check.filling import filling
from clearhead.check.finding import KEPT, RIGHT, SAME, TEXT, Finding, Verdict, judged
from clearhead.check.outputs import answers, stated
from clearhead.check.places import folder_of, same_bits
from clearhead.check.samples import TEXTS, companies, random_samples
from clearhead.check.spans import spans
from clearhead.check.speaking import speaking
from clearhead.check.tagging import tagging
from clearhead.check.textbook import explicit
from clearhead.check.words import answered, cut, follows, said, stated_labels
from clearhead.infer.model import Model, asked, load
from clearhead.reference import folder as reference
from clearhead.text.tokenizer import Tokenizer

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


def company(model: Model) -> Iterator[Finding]:
    """Alone = in any company, order and number, by raw bytes."""
    network = model.loaded.network
    samples = random_samples(model, 97)
    alone = [answers(network, [sample])[0] for sample in samples]
    compared, changed, lost = 0, set(), 0
    for members in companies(len(samples)):
        together = answers(network, [samples[member] for member in members])
        lost += len(members) - len(together)
        for member, vector in zip(members, together, strict=False):
            compared += 1
            if not same_bits(vector, alone[member]):
                changed.add(member)
    yield judged(
        SAME,
        "a neighbour changes no bit (float32, CPU)",
        holds=not changed and not lost,
        figure=f"{len(changed)} of {len(samples)} texts changed in {compared} comparisons",
        hint="a sum here depends on the number of rows or threads, most likely the matrix products: "
        "set MKL_CBWR=AUTO,STRICT before Python starts (import clearhead before torch computes does it too)",
    )
    labels = model.task or model.tags
    results = model.predict(list(TEXTS)) if labels else list(model.embed(list(TEXTS)))
    none = model.predict([]) if labels else list(model.embed([]))
    yield judged(
        SAME,
        "N texts give N results, no text gives none",
        holds=len(results) == len(TEXTS) and not none,
        figure=f"{len(results)} results for {len(TEXTS)} texts, {len(none)} for none",
        hint="results are lost between batches",
    )


def equations(model: Model) -> Iterator[Finding]:
    """Packed = explicit kernel = the whole model in NumPy, which reads the folder by itself, in float64."""
    samples = random_samples(model, 13, seed=1)
    network = copy.deepcopy(model.loaded.network).double()
    fast = answers(network, samples)
    gap = largest_gap(fast, answers(network, samples, attend=explicit))
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
        fast = answers(network, samples)
    with folder_of(model) as folder:
        whole = reference.read(folder)
        # Short ones, a middling one and the longest.
        places = [*range(4), len(samples) // 2, len(samples) - 1]
        plain = [stated(whole, samples[place], network=network) for place in places]
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


def tagged(model: Model) -> Iterator[Finding]:
    """The laws of a model that tags words; none for others."""
    if model.tags:
        with folder_of(model) as folder:
            yield from tagging(model, folder)


def keeping(model: Model) -> Iterator[Finding]:
    """Save → load = the same bits, labels and ids; adapters are saved as a part of the weights."""
    model = model.merged() if model.loaded.adapters else model
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        again = load(folder, fingerprint=False)  # this law finds what differs, and says it as a finding
    before, after = (copy.loaded.network.state_dict() for copy in (model, again))
    changed = [name for name in before if name not in after or not same_bits(before[name], after[name])]
    samples = random_samples(model, 8, seed=2)
    pairs = zip(answers(model.loaded.network, samples), answers(again.loaded.network, samples), strict=True)
    moved = sum(not same_bits(first, second) for first, second in pairs)
    labels, ends = (
        all(getattr(model.loaded, name) == getattr(again.loaded, name) for name in names)
        for names in (("labels", "problem", "no_answer_above", "embedding"), ("begin", "ends"))
    )
    yield judged(
        KEPT,
        "saved and loaded, the model is the same to the bit",
        holds=not changed and not moved and labels and ends,
        figure=f"{len(before) - len(changed)} of {len(before)} tensors, {8 - moved} of 8 answers the same, "
        f"labels {'kept' if labels else 'changed'}{'' if ends else ', where answers begin and end changed'}",
        hint=f"changed: {', '.join(changed[:3])}" if changed else "the answers changed",
    )
    ours, theirs = (
        [text for tokenizer in tokenizers(one) for text in tokenizer.encode(TEXTS, limit=one.limit)]
        for one in (model, again)
    )
    different = abs(len(ours) - len(theirs)) + sum(
        one.ids != two.ids or one.segments != two.segments for one, two in zip(ours, theirs, strict=False)
    )
    yield judged(
        KEPT,
        "saved and loaded, the tokenizer gives the same ids",
        holds=not different,
        figure=f"{len(ours) - different} of {len(ours)} texts the same",
        hint="a setting of the tokenizer is lost in its files",
    )


def tokenizers(model: Model) -> list[Tokenizer]:
    """The model's tokenizer, and that of its answers where it is another."""
    return [model.tokenizer, *([model.loaded.target] if model.loaded.target else [])]


def texts(model: Model) -> Iterator[Finding]:
    """Offsets, control tokens, decoding; of answers, too, where another tokenizer writes them."""
    for tokenizer, whose in zip(tokenizers(model), ("", ", of answers"), strict=False):
        for finding in cut_and_joined(tokenizer):
            yield replace(finding, law=finding.law + whose)


def cut_and_joined(tokenizer: Tokenizer) -> Iterator[Finding]:
    """What a tokenizer makes of texts, and of their ids."""
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
    spans,
    speaking,
    answering,
    filled,
    tagged,
    embedding,
    keeping,
    texts,
)


def largest_gap(ones: list[Tensor], twos: list[Tensor]) -> float:
    """Largest difference of two lists of vectors, relative to the largest number of each, or 1."""
    gap = 0.0
    for one, two in zip(ones, twos, strict=True):
        if one.shape != two.shape:
            return float("inf")
        here = float((one - two).abs().max() / two.abs().max().clamp(min=1))
        gap = max(gap, here if here == here else float("inf"))
    return gap
