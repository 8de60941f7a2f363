"""What `predict` ought to say, from the outputs of the equations: a text cut, numbers put into words."""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clearhead.checkpoint.labels import Problem
from clearhead.reference import softmax
from clearhead.tasks.classify import Result
from clearhead.tasks.regress import NumberResult
from clearhead.tasks.several import THRESHOLD, SeveralResult
from clearhead.tasks.tag import TagResult
from clearhead.tasks.task import Answer
from clearhead.text.tokenizer import Encoding


def cut(encoding: Encoding, limit: int, *, side: str) -> tuple[list[int], list[int], int]:
    """A whole text cut to the limit as documented: content goes from one side, control tokens stay."""
    places = kept(encoding, limit, side=side)
    ids, segments = ([row[place] for place in places] for row in (encoding.ids, encoding.segments))
    return ids, segments, len(encoding.ids) - len(places)


def kept(encoding: Encoding, limit: int, *, side: str) -> list[int]:
    """The places of the tokens that stay."""
    control = [place for place, special in enumerate(encoding.special) if special]
    content = [place for place, special in enumerate(encoding.special) if not special]
    dropped = max(0, len(encoding.ids) - limit)
    stays = content[dropped:] if side == "left" else content[: len(content) - dropped]
    return sorted(control + stays)


def stated_labels(folder: Path) -> dict[str, str]:
    """The folder's own table of labels: names as texts have them, so without space around them."""
    table = json.loads((folder / "config.json").read_text(encoding="utf-8-sig")).get("id2label") or {}
    names = {number: name if isinstance(name, str) else json.dumps(name) for number, name in table.items()}
    return {number: name.strip() or name for number, name in names.items()}


def said(logits: NDArray[np.float64], table: dict[str, str], *, problem: Problem) -> dict[str, float]:
    """Probabilities, or the number, by label, with the folder's own table of labels."""
    match problem:
        case Problem.SINGLE:
            shares = softmax(logits)
        case Problem.MULTI:
            shares = np.exp(-np.logaddexp(0, -logits))
        case Problem.REGRESSION:
            shares = logits
    return {table[str(number)]: float(share) for number, share in enumerate(shares)}


def answered(result: Answer, table: dict[str, str]) -> dict[str, float]:
    """What `predict` said, by label."""
    if isinstance(result, NumberResult):
        return {} if result.value is None else {table["0"]: result.value}
    assert not isinstance(result, TagResult)  # of whole texts
    return result.scores


def follows(result: Answer) -> bool:
    """Whether the label of an answer is the most probable one, or its labels those above 0.5."""
    match result:
        case Result(label=label, score=score, scores=scores):
            best = max(scores.values())
            return score == best == scores[str(label)]
        case SeveralResult(labels=labels, scores=scores):
            return labels == tuple(label for label, score in scores.items() if score > THRESHOLD)
        case NumberResult() | TagResult():
            return True
