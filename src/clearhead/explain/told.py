"""A look at a text as plain values: exact for JSON, and small enough for a page."""

import base64
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unicodedata import category

import torch

from clearhead.data.wording import spoken, visible
from clearhead.explain.lens import LIKELY
from clearhead.explain.look import Look, Share, Token, Weights

LEVELS = 255  # steps of a weight on a page, so that it is wrong by at most half a step: 0.00196
DIGITS = 4  # of a probability on a page
SHARE = 0.9999  # what is not certain is not said to be
# Base 85 takes a quarter more than bytes, base 64 a third. Three of its signs mean something in a page.
MARKUP, SAFE = "<>&", ".,:"


def told(look: Look) -> dict[str, Any]:
    """All of a look, unrounded, as JSON holds it. `weights` has by kind ("self", or "cross", "encoder" and
    "decoder") `values [layers, heads, queries, keys]` as lists, with the layers' numbers and whether queries
    and keys are `tokens` (of the text) or `said` (of an answer)."""
    text, pair = (look.text, None) if isinstance(look.text, str) else look.text
    said = next((one.queries for one in look.weights if one.kind == "decoder"), None)
    read = next(one.keys for one in look.weights if one.kind != "decoder")
    return {
        "model": look.model,
        "kind": look.kind,
        "text": text,
        **({} if pair is None else {"pair": pair}),
        "tokens": [asdict(one) for one in read],
        **({} if said is None else {"said": [asdict(one) for one in said]}),
        "layers": sorted({layer for one in look.weights for layer in one.layers}),
        "heads": list(look.weights[0].heads),
        "weights": {
            one.kind: {
                "layers": list(one.layers),
                "queries": "said" if said and one.kind != "encoder" else "tokens",
                "keys": "said" if one.kind == "decoder" else "tokens",
                "values": one.values.tolist(),
            }
            for one in look.weights
        },
        "lens": asdict(look.lens),
        "answers": [{"of": of, "shares": [asdict(one) for one in shares]} for of, shares in look.answers],
        **({} if look.answer is None else {"answer": look.answer}),
    }


def shown(look: Look) -> dict[str, Any]:
    """What a page shows: texts whose control characters are visible, weights of 8 bits."""
    parts = [one for one in look.weights if one.layers]
    guessed = list(dict.fromkeys(guess.text for row in look.lens.layers for some in row for guess in some))
    number = {text: place for place, text in enumerate(guessed)}
    plain = look.lens.unit != LIKELY
    texts = [look.text] if isinstance(look.text, str) else list(look.text)
    return {
        "model": name_of(look.model),
        "size": look.parts,
        "kind": look.kind,
        "numbers": look.numbers,
        "texts": [spoken(one) for one in texts],
        "parts": [
            {
                "kind": one.kind,
                "queries": tokens(one.queries),
                "keys": tokens(one.keys),
                "layers": one.layers,
                "heads": one.heads,
            }
            for one in parts
        ],
        "lens": {
            "tokens": [legible(token) for token in look.lens.tokens],
            "names": [legible(text) for text in guessed],
            "layers": [
                [
                    [[number[guess.text], rounded(guess.probability, plain=plain)] for guess in some]
                    for some in row
                ]
                for row in look.lens.layers
            ],
        },
        "answers": answers(look),
        "answer": look.answer,
        "weights": packed(parts),
    }


def name_of(model: str) -> str:
    """A model's own name, without the folders that it lies in, for a page that others may read."""
    return visible(Path(model).name or model)


def answers(look: Look) -> list[list[Any]]:
    """What the model answers, for a page: each heading with names, probabilities and places."""

    def row(one: Share) -> list[Any]:
        return [visible(one.name), rounded(one.share, plain=look.numbers), one.start, one.end]

    return [[visible(of), [row(one) for one in shares]] for of, shares in look.answers]


def rounded(share: float, *, plain: bool) -> float:
    """A number with few digits; a probability is 1 only where it is."""
    found = float(f"{share:.{DIGITS}g}")
    return found if plain or found <= SHARE or share == 1 else SHARE


def tokens(given: Sequence[Token]) -> list[list[Any]]:
    """Tokens for a page: the text, whether it is special, which text of a pair it is of."""
    return [[legible(one.text), int(one.special), one.source] for one in given]


def legible(text: str) -> str:
    """A token that can be seen: control characters as their signs, spaces as ␣, and what else would leave no
    mark by its number."""
    found = visible(text)
    if found.strip() and not all(category(sign) in ("Cf", "Mn", "Me", "Zs") for sign in found):
        return found
    if found and set(found) == {" "}:
        return "␣" * len(found)
    return " ".join(f"U+{ord(sign):04X}" for sign in found) or "∅"


def packed(parts: Sequence[Weights]) -> str:
    """Weights one after another, a byte each: compressed, as text that no page takes for markup."""
    raw = b"".join(levels(one.values).numpy().tobytes() for one in parts)
    return base64.b85encode(zlib.compress(raw)).decode("ascii").translate(str.maketrans(MARKUP, SAFE))


def unpacked(text: str) -> bytes:
    """The bytes of `packed`, as a page reads them."""
    return zlib.decompress(base64.b85decode(text.translate(str.maketrans(SAFE, MARKUP))))


def levels(values: torch.Tensor) -> torch.Tensor:
    """Weights from 0 to 1 in 255 steps: at most 1/510 off."""
    return (values.double() * LEVELS).round().clamp(0, LEVELS).to(torch.uint8)
