"""The law of models that find answers: what they answer is what the equations say, window by window."""

from collections.abc import Iterator

import numpy as np

from clearhead.check.finding import RIGHT, Finding, judged
from clearhead.check.places import folder_of
from clearhead.check.samples import TEXTS
from clearhead.infer.model import Model
from clearhead.reference import folder as reference
from clearhead.reference.whole import WholeModel
from clearhead.settings import Finding as Settings

NEAR = 1e-3  # of a sum of two logits, float32
QUESTION = "What was it that nobody said?"


def spans(model: Model) -> Iterator[Finding]:
    """What `answer` says = the best span of the equations over all windows, found by trying each."""
    if not model.answers:
        return
    pairs = [(QUESTION, text) for text in (*TEXTS, TEXTS[0] * 60)]
    found = model.answer(pairs, no_answer_above=float("inf"))
    wrong = abs(len(found) - len(pairs))
    with folder_of(model) as folder:
        whole = reference.read(folder)
    assert isinstance(whole, WholeModel)
    for pair, result in zip(pairs, found, strict=False):
        scores, none = tried(model, whole, pair=pair)
        best = max(scores.values())
        given = scores.get((result.start, result.end), -np.inf)
        right = result.answer == pair[1][result.start : result.end] and best - given < NEAR
        wrong += not (right and result.margin is not None and abs(none - best - result.margin) < NEAR)
    several = sum(result.windows > 1 for result in found)
    yield judged(
        RIGHT,
        "a found answer is what the equations answer, over all windows (float32, within 1e-3)",
        holds=not wrong,
        figure=f"{len(pairs) - wrong} of {len(pairs)} answers, {several} in windows",
        hint="between the texts and the equations a window, an offset or a span is lost or swapped",
    )


def tried(
    model: Model, whole: WholeModel, *, pair: tuple[str, str]
) -> tuple[dict[tuple[int | None, int | None], float], float]:
    """The best score of each place in the context, without white space around it; the lowest of none."""
    (encoding,), context = model.tokenizer.encode([pair]), pair[1]
    inside = [place for place, source in enumerate(encoding.sources) if source == 1]
    around = [place for place, source in enumerate(encoding.sources) if source != 1]
    room = (model.limit or len(encoding.ids)) - len(around)
    step, begin = -(-room // 2), 0
    scores: dict[tuple[int | None, int | None], float] = {}
    none = np.inf
    while True:
        some = inside[begin : begin + room]
        kept = sorted([*around, *some])
        ids, segments = ([row[place] for place in kept] for row in (encoding.ids, encoding.segments))
        logits = dict(zip(kept, whole.logits(ids, segments), strict=True))
        none = min(none, float(logits[kept[0]].sum()))
        for number, first in enumerate(some):
            for last in some[number : number + Settings.max_answer_tokens]:
                start, end = encoding.offsets[first][0], encoding.offsets[last][1]
                while start < end and context[start].isspace():
                    start += 1
                while start < end and context[end - 1].isspace():
                    end -= 1
                score = float(logits[first][0] + logits[last][1])
                if start < end:
                    scores[start, end] = max(score, scores.get((start, end), -np.inf))
        if begin + room >= len(inside):
            return scores, none
        begin += step
