"""What a tokenizer's own description says: roles, control tokens, unknown token, losses.

`rules` is the content of tokenizer.json as the library writes it (every key present), `config` that of
tokenizer_config.json.
"""

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any

from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Core

ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
OPTIONS = ("lstrip", "rstrip", "single_word", "normalized", "special")
GROUPS = ("additional_special_tokens", "extra_special_tokens", "added_tokens_decoder")

# Pre-tokenizers that hand on every character; those with a `behavior` do, too, unless it says Removed.
KEEPING = ("ByteLevel", "Digits", "UnicodeScripts", "FixedLength")


def core_of(rules: Mapping[str, Any]) -> Core:
    """The library's object as a tokenizer.json describes it.

    The library reads scores with a last bit that differs now and then, and a last bit decides how `aaaaaaa`
    is cut. So they are handed over as numbers, and it reads the rest.
    """
    model = rules.get("model")
    if not isinstance(model, dict) or model.get("type") != "Unigram" or not model.get("vocab"):
        return Core.from_str(json.dumps(rules))
    rest = {**rules, "model": {**model, "vocab": model["vocab"][:1], "unk_id": None}}
    Core.from_str(json.dumps(rest))  # which refuses tokens that are none
    core = Core.from_str(json.dumps({**rest, "added_tokens": []}))
    scores = [(piece, score) for piece, score in model["vocab"]]
    if not all(isfinite(score) for _, score in scores):
        raise ValueError("a score is no finite number")
    core.model = models.Unigram(scores, model.get("unk_id"), model.get("byte_fallback") or False)
    core.add_tokens([as_added(token) for token in rules.get("added_tokens") or ()])
    return core


def following(core: Core) -> Core:
    """A core for what is not the beginning of a text: a ▁ that stands there alone is left out."""
    rules = json.loads(core.to_str())
    steps: list[Any] = [*steps_of(rules["pre_tokenizer"])]
    first = [step for step in steps if step.get("prepend_scheme") == "first"]
    if not first:
        return core
    for step in first:
        step["prepend_scheme"] = "never"
    core = core_of(rules)
    core.encode_special_tokens = True
    return core


def role_names(config: Mapping[str, Any]) -> dict[str, str]:
    """Published role (`"sep_token"`) → token (`"[SEP]"`)."""
    return {role: content(config[role]) for role in ROLES if config.get(role)}


def as_published(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration to write: a token that is an object says so, or the published code refuses it."""
    return {name: _typed(value) if name in (*ROLES, *GROUPS[:2]) else value for name, value in config.items()}


def as_added(token: str | Mapping[str, Any]) -> AddedToken:
    """A token with the options that its description states."""
    if isinstance(token, str):
        return AddedToken(token)
    return AddedToken(token["content"], **{name: token[name] for name in OPTIONS if name in token})


def as_special(token: AddedToken) -> AddedToken:
    """The same token, as one that is no text."""
    token.special = True
    return token


def _typed(token: Any) -> Any:
    if isinstance(token, list):
        return [_typed(each) for each in token]
    return {**token, "__type": "AddedToken"} if isinstance(token, dict) and "content" in token else token


def listed_tokens(config: Mapping[str, Any]) -> list[Any]:
    """Every token the configuration mentions, as a string or as an object with a `content`."""
    groups = [config.get(group) or [] for group in GROUPS]
    roles = [config[role] for role in ROLES if config.get(role)]
    return roles + [
        token for group in groups for token in (group.values() if isinstance(group, dict) else group)
    ]


def control_names(rules: Mapping[str, Any], config: Mapping[str, Any]) -> set[str]:
    """Every special token, wherever it is listed, except the one for unknown text.

    A token with two roles (`<|endoftext|>` is unknown, begin and end in GPT-2) counts as a control token.
    """
    roles = role_names(config)
    others = {token for role, token in roles.items() if role != "unk_token"}
    listed = [*rules["added_tokens"], *listed_tokens(config)]
    special = {content(token) for token in listed if isinstance(token, str) or token.get("special", True)}
    return others | (special - {roles.get("unk_token"), model_unknown(rules)})


def model_vocabulary(rules: Mapping[str, Any]) -> dict[str, int]:
    """Token → id as the model itself can produce them, without the added tokens."""
    vocabulary = rules["model"]["vocab"]
    if isinstance(vocabulary, dict):
        return vocabulary
    return {piece: index for index, (piece, _score) in enumerate(vocabulary)}  # Unigram


def model_unknown(rules: Mapping[str, Any]) -> str | None:
    """The token the model gives for text it does not know; None if it has none."""
    model = rules["model"]
    if model["type"] == "Unigram":
        return None if model["unk_id"] is None else model["vocab"][model["unk_id"]][0]
    return model.get("unk_token") or None


def is_lossless(rules: Mapping[str, Any], controls: set[str]) -> bool:
    """True if every string comes back from decode as it went into encode.

    That takes byte-level pieces (Radford et al. 2019), all 256 of them, no normaliser, no added leading
    space, and no added token that swallows spaces or decodes to something else.
    """
    model, decoder = rules["model"], rules["decoder"]
    steps = steps_of(rules["pre_tokenizer"])
    leading_space = [step["add_prefix_space"] for step in steps if step["type"] == "ByteLevel"]
    matched = [
        token for token in rules["added_tokens"] if token["content"] not in controls and not token["special"]
    ]
    return (
        model["type"] == "BPE"
        and not model["continuing_subword_prefix"]
        and not model["end_of_word_suffix"]
        and decoder is not None
        and decoder["type"] == "ByteLevel"
        and not steps_of(rules["normalizer"])
        and leading_space == [False]
        and all(step["type"] in KEEPING or step.get("behavior", "Removed") != "Removed" for step in steps)
        and set(pre_tokenizers.ByteLevel.alphabet()) <= model["vocab"].keys()
        and not any(token["lstrip"] or token["rstrip"] for token in matched)
        and all(decoders.ByteLevel().decode([token["content"]]) == token["content"] for token in matched)
    )


def content(token: str | Mapping[str, Any]) -> str:
    """Published files write a token as a string or as an object with a `content`."""
    return token if isinstance(token, str) else token["content"]


def steps_of(part: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """A normaliser or pre-tokenizer as the flat list of its steps."""
    if part is None:
        return []
    if part["type"] != "Sequence":
        return [part]
    inner = part["normalizers"] if "normalizers" in part else part["pretokenizers"]
    return [step for one in inner for step in steps_of(one)]


def template_of(config: Mapping[str, Any]) -> str | None:
    """The template that a tokenizer's configuration holds; of several the one named default."""
    stated = config.get("chat_template")
    if isinstance(stated, list):
        stated = {entry.get("name"): entry.get("template") for entry in stated if isinstance(entry, Mapping)}
        stated = stated.get("default")
    return stated if isinstance(stated, str) else None


def cuts_at_spaces(rules: Mapping[str, Any]) -> bool:
    """Whether a text may be cut before any space between two other characters, and its parts have its ids:
    so it is with byte-level BPE, each of whose patterns takes one space before what it is for (Radford et al.
    2019)."""
    steps = steps_of(rules["pre_tokenizer"])
    bytes_alone = len(steps) == 1 and steps[0]["type"] == "ByteLevel" and not steps_of(rules["normalizer"])
    return bytes_alone and bool(steps[0].get("use_regex", True)) and not steps[0].get("add_prefix_space")


def spelled_controls(
    vocabulary: Mapping[str, int], controls: frozenset[int], *, unknown: int | None
) -> dict[int, tuple[int, ...]]:
    """What to read instead of each control token the model itself can produce: its characters one by one."""
    allowed = {token: id for token, id in vocabulary.items() if id not in controls}
    spelled = {}
    for token, id in vocabulary.items():
        if id in controls:
            letters = [allowed.get(letter, unknown) for letter in token]
            spelled[id] = tuple(letter for letter in letters if letter is not None)
    return spelled
