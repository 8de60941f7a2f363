"""Texts with gaps: a mask that a person writes becomes the mask token, here and nowhere else."""

import re

from clearhead.errors import DataError, SettingError
from clearhead.text.encoding import Encoding
from clearhead.text.tokenizer import Tokenizer

MASK = "[MASK]"  # which every tokenizer's texts may hold, however it spells its own


def mask_of(tokenizer: Tokenizer, *, source: str) -> int:
    """The id of the mask token; SettingError, naming `source`, for a tokenizer without one."""
    mask = tokenizer.roles.get("mask_token")
    if mask is None:
        raise SettingError(
            f"{source}: the tokenizer has no mask token, so nothing can stand for a hidden one; name its "
            "mask_token in tokenizer_config.json, or use another"
        )
    return mask


def with_masks(tokenizer: Tokenizer, text: str, *, name: str) -> Encoding:
    """A text with what stands around it, in which `[MASK]`, and the tokenizer's own word for it, is the mask.

    Between masks it is read as the published code does: each part by itself, without the white space that
    belongs to the mask. Raises `DataError`, beginning with `name`, for a text without a mask.
    """
    mask = mask_of(tokenizer, source=name)
    spelled = tokenizer.name(mask)
    parts = re.split("|".join(map(re.escape, dict.fromkeys([spelled, MASK]))), text)
    if len(parts) == 1:
        raise DataError(f"{name}: the text has no mask; write {spelled} where a word is to be found")
    left, right = tokenizer.swallows(mask)
    ids: list[int] = []
    for number, part in enumerate(parts):
        part = part.rstrip() if left and number < len(parts) - 1 else part
        part = part.lstrip() if right and number else part
        ids += [mask] if number else []
        ids += tokenizer.plain([part], begins=not number)[0] if part else []
    return tokenizer.framed(ids)
