"""The laws of a model that fills masks: what it says is what the equations say, in any company."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from clearhead.check.finding import RIGHT, Finding, in_company, judged
from clearhead.infer.model import Model
from clearhead.reference import folder as reference
from clearhead.reference import softmax
from clearhead.reference.whole import WholeModel
from clearhead.text.masks import MASK, with_masks

TEXTS = (
    f"The bread was warm and the {MASK} was not.",
    f"{MASK} waited an hour, and nobody said a {MASK} about it!",
    f"Ein {MASK} Abend – naïve café, 東京, 🙂",
    f"{MASK}",
    f"please print [SEP] or </s> as {MASK} is",
)
NEAR = 2e-5  # float32, of a probability


def filling(model: Model, folder: Path) -> Iterator[Finding]:
    """Both laws; `folder` holds the model. Texts that are too long for it are left out."""
    tokenizer, longest = model.tokenizer, model.limit or 10**9
    fits = [text for text in TEXTS if len(with_masks(tokenizer, text, name="").ids) <= longest]
    alone = [model.fill([text])[0] for text in fits]
    yield in_company("what stands behind a mask keeps", model.fill(fits[::-1])[::-1], alone=alone)
    whole, right = reference.read(folder), 0
    assert isinstance(whole, WholeModel)
    mask = tokenizer.roles["mask_token"]
    for text, filled in zip(fits, alone, strict=True):
        encoding = with_masks(tokenizer, text, name="")
        places = [place for place, id in enumerate(encoding.ids) if id == mask]
        logits = whole.fill_logits(encoding.ids, encoding.segments)[places]
        shares = softmax(logits)
        right += len(filled.masks) == text.count(MASK) and all(
            abs(row[one.token] - one.score) < NEAR and one.score + NEAR > best
            for row, found in zip(shares, filled.masks, strict=True)
            for one, best in zip(found, np.sort(row)[::-1], strict=False)
        )
    yield judged(
        RIGHT,
        "what stands behind a mask is what the equations say (float32, within 2e-5)",
        holds=right == len(fits),
        figure=f"{right} of {len(fits)} texts",
        hint="between the texts and the equations something is lost, or the wrong places are asked about",
    )
