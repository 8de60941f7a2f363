"""Which sentence weighs most in a label: the one without which its probability falls furthest."""

import re
from collections.abc import Sequence
from dataclasses import replace

from clearhead.data.rows import Row
from clearhead.errors import SettingError
from clearhead.infer.evaluate import predict_rows
from clearhead.infer.model import Model
from clearhead.settings import Asking
from clearhead.tasks.classify import Evidence, Result
from clearhead.tasks.task import Answer

# A sentence ends behind . ! ? or …, and what closes a quotation, where white space follows.
END = re.compile(r"([.!?…]+)[\"'”’»)\]]*")
BEGIN = re.compile(r"\S")


def sentences(text: str) -> list[tuple[int, int]]:
    """Where the sentences of a text begin and end, in characters; a lone sign is none."""
    found, first = [], BEGIN.search(text)
    for match in END.finditer(text):
        end = match.end()
        if first and text[end : end + 1].isspace() and match.end(1) > first.start() + 1:
            found.append((first.start(), end))
            first = BEGIN.search(text, end)
    return [*found, (first.start(), len(text.rstrip()))] if first else found


def with_evidence(
    model: Model, answered: Sequence[tuple[Row, Answer]], *, settings: Asking
) -> list[tuple[Row, Answer]]:
    """Labels with the sentence that weighs most in each, of a pair of the second text: by how much the
    probability of the label falls where the sentence is left out (Li et al. 2016, who leave out words).

    Raises `SettingError` for a model that does not give one label a text.
    """
    asked, owners = list[Row](), list[tuple[int, tuple[int, int]]]()
    for index, (row, result) in enumerate(answered):
        if not isinstance(result, Result):
            raise SettingError("--evidence is for models with one label a text; this is another")
        text = row.text if row.pair is None else row.pair
        for start, end in sentences(text) if result.score is not None else []:
            rest = (text[:start] + text[end:].lstrip()).strip() or " "
            asked.append(replace(row, text=rest) if row.pair is None else replace(row, pair=rest))
            owners.append((index, (start, end)))
    plain = replace(settings, abstain_below=None)
    without = [
        result.scores if isinstance(result, Result) else {}
        for _, result in predict_rows(model, asked, settings=plain)
    ]
    best: dict[int, Evidence] = {}
    for (index, (start, end)), other in zip(owners, without, strict=True):
        row, result = answered[index]
        assert isinstance(result, Result)
        label = max(result.scores, key=result.scores.__getitem__)
        weight = result.scores[label] - other.get(label, 1 / len(result.scores))
        text = row.text if row.pair is None else row.pair
        if index not in best or weight > best[index].weight:
            best[index] = Evidence(text[start:end], start, end, weight)
    return [
        (row, replace(result, evidence=best.get(index)) if isinstance(result, Result) else result)
        for index, (row, result) in enumerate(answered)
    ]
