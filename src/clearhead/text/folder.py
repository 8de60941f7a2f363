"""Published tokenizer files → the library's object and the content of tokenizer_config.json."""

import base64
import json
import os
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Core
from tokenizers import models

from clearhead.errors import FolderError, naming_place
from clearhead.text.encoding import INPUTS, PLAIN_INPUTS, Template
from clearhead.text.facts import GROUPS, OPTIONS, as_added, core_of, listed_tokens, role_names
from clearhead.text.kinds import CLASSES, LLAMA, MODEL_TYPES, Kind
from clearhead.text.vocabulary import CONVERT, check_charsmap, read_vocabulary, refuse_halves

Json = dict[str, Any]

MODEL = "config.json"
AS_IT_STANDS = "PreTrainedTokenizerFast"  # the published class that adds nothing to tokenizer.json
FOLLOWED = ("mistral", "qwen2")  # whose published reader follows tokenizer.json, whatever LlamaTokenizer is
MOST = 1_000_000  # tokens that a configuration may add without naming them


def read_folder(folder: Path, *, prefix: str = "") -> tuple[Core, Json]:
    """The tokenizer in `folder` and its configuration, with the defaults of its class filled in.

    tokenizer.json is preferred to vocab.txt, and to vocab.json with merges.txt. The class is the one that
    tokenizer_config.json names, or the one of config.json's model_type. With a `prefix` the names of both
    files begin with it, and no other file counts.
    """
    if not folder.is_dir():
        raise FolderError(f"{folder} is not a folder; give the folder that holds tokenizer.json")
    path, core = folder / f"{prefix}tokenizer.json", None
    rules = read_json(path)
    if rules is not None:
        core, rules = _read_rules(path, rules)
    config = read_config(folder, rules or {}, prefix=prefix)
    kind, name = _kind(folder, config, rules=rules)
    if core is None or rules is None:
        file, kind, core = read_vocabulary(folder, kind=kind, name=name, config=config)
        config = {**kind.defaults, **config}
        _check_basic(file, config)
        add_tokens(folder, core, config=config)
        _dress(file, core, kind=kind, config=config, rules={})
        listed = {token.content: token for token in core.get_added_tokens_decoder().values()}
        for role, token in role_names(config).items():
            if core.token_to_id(token) is not None:
                core.add_special_tokens([listed.get(token, as_added(config[role]))])
    else:
        add_tokens(folder, core, config=config)
        if kind is not None and INPUTS in kind.defaults:  # whatever the model is
            config = {INPUTS: kind.defaults[INPUTS], **config}
        if kind is not None and isinstance(core.model, kind.model):
            config = {**kind.defaults, **config}
            _dress(path, core, kind=kind, config=config, rules=rules)
        if (rules.get("truncation") or {}).get("direction") == "Left":
            config = {"truncation_side": "left", **config}
    return core, config


def read_json(path: Path) -> Json | None:
    """The object in a JSON file; None if there is no such file."""
    if not path.is_file():
        if os.path.lexists(path):
            raise FolderError(f"{path} is no file, or a link to nothing; fetch it again")
        return None
    try:
        with naming_place(path):
            written = path.read_text(encoding="utf-8-sig")
        content = json.loads(written)
    except (ValueError, RecursionError) as error:  # broken JSON, broken UTF-8, absurd nesting
        raise FolderError(f"{path} cannot be read as JSON ({error}); fetch it again") from error
    if not isinstance(content, dict):
        raise FolderError(f"{path} holds a {type(content).__name__}, not an object; fetch it again")
    if path.name != MODEL:  # of which nothing but two names is read here
        refuse_halves(path, written, content=content)
    return content


def read_config(folder: Path, rules: Json, *, prefix: str = "") -> Json:
    """tokenizer_config.json; two older files join it where it does not list the added tokens itself. With a
    `prefix` its name begins with it, and nothing joins it."""
    path = folder / f"{prefix}tokenizer_config.json"
    config = read_json(path) or {}
    if prefix:
        _check_config(path, config)
        return config
    if (template := folder / "chat_template.jinja").is_file():
        try:
            config["chat_template"] = template.read_text(encoding="utf-8")
        except ValueError as error:
            raise FolderError(f"{template} is not UTF-8 text ({error}); fetch it again") from error
    _check_config(path, config)
    if "added_tokens_decoder" in config:
        return config
    older = read_json(folder / "special_tokens_map.json") or {}
    _check_config(folder / "special_tokens_map.json", older)
    config = {**config, **older}
    stated = [token["content"] for token in rules.get("added_tokens") or ()]
    special = {token if isinstance(token, str) else token["content"] for token in listed_tokens(config)}
    added = {
        str(id): {"content": token, "special": token in special}
        for token, id in (read_json(folder / "added_tokens.json") or {}).items()
        if token not in stated
    }
    return {**config, "added_tokens_decoder": added} if added else config


def _check_config(path: Path, config: Json) -> None:
    for group in GROUPS:
        if not isinstance(config.get(group) or [], list | dict):
            raise FolderError(
                f"{path}: {group} must be a list or an object of tokens; found {config[group]!r}"
            )
    for token in listed_tokens(config):
        stated = token if isinstance(token, dict) else {"content": token}
        options = all(isinstance(stated.get(option, False), bool) for option in OPTIONS)
        if not options or not isinstance(stated.get("content"), str):
            raise FolderError(f"{path}: {token!r} is no token; write a string, or an object with a content")
    if (side := config.get("truncation_side", "right")) not in ("left", "right"):
        raise FolderError(f"{path}: truncation_side={side!r} is not known; use 'left' or 'right'")
    inputs = config.get(INPUTS, [])
    if not isinstance(inputs, list) or not all(isinstance(name, str) for name in inputs):
        raise FolderError(f"{path}: {INPUTS}={inputs!r} is not known; use a list such as {PLAIN_INPUTS}")
    if type(gaps := config.get("extra_ids", 0)) is not int or not 0 <= gaps <= MOST:
        raise FolderError(f"{path}: extra_ids={gaps!r} is not known; use a whole number from 0")
    if config.get("fast_tokenizer_files"):
        raise FolderError(
            f"{path}: fast_tokenizer_files names a file for each version of a library; {CONVERT}"
        )


def _kind(folder: Path, config: Json, *, rules: Json | None) -> tuple[Kind | None, str | None]:
    """How the folder's class builds a tokenizer, if we know, and what names the class."""
    model = read_json(folder / MODEL) or {}
    name, model_type = config.get("tokenizer_class") or model.get("tokenizer_class"), model.get("model_type")
    if isinstance(name, str) and model_type != "modernbert":  # whose class is published wrongly
        name = name.removesuffix("Fast")
        if name == LLAMA.defaults["tokenizer_class"] and rules:
            bytes_in_it = '"ByteLevel"' in json.dumps([rules["pre_tokenizer"], rules["decoder"]])
            return None if bytes_in_it or model_type in FOLLOWED else LLAMA, name
        return CLASSES.get(name), name
    if isinstance(model_type, str):
        return MODEL_TYPES.get(model_type), f"model of type {model_type}"
    return None, None


def _read_rules(path: Path, rules: Json) -> tuple[Core, Json]:
    """The tokenizer that tokenizer.json describes, and its content with every field there."""
    _check_maps(path, rules.get("normalizer"))
    _check_merges(path, rules.get("model"))
    try:
        core = core_of(rules)
    except Exception as error:  # the library raises nothing more specific
        raise FolderError(
            f"{path} does not describe a tokenizer ({error}); fetch it again, or {CONVERT}"
        ) from error
    stated = json.loads(core.to_str())
    for token in rules.get("added_tokens") or ():
        _check_id(path, core, token=token["content"], id=token["id"])
    _check_unknown(path, core, stated=stated["model"])
    frame = stated["post_processor"] or {}
    for part in frame["processors"] if frame.get("type") == "Sequence" else [frame]:
        names = {place["SpecialToken"]["id"] for place in _places(part) if "SpecialToken" in place}
        if missing := sorted(names - part.get("special_tokens", {}).keys()):
            raise FolderError(
                f"{path}: the template names {missing[0]!r}, which its special_tokens lack; add it there"
            )
    return core, stated


def _places(part: Json) -> list[Json]:
    return [*part["single"], *part["pair"]] if part.get("type") == "TemplateProcessing" else []


def _check_maps(path: Path, part: Any) -> None:
    """Refuse a broken table of replacements, wherever it stands."""
    if isinstance(part, dict) and part.get("type") == "Precompiled":
        try:
            table = base64.b64decode(part.get("precompiled_charsmap") or "", validate=True)
        except (TypeError, ValueError):
            table = b""
        check_charsmap(path, table)
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _check_maps(path, inner)


def _check_merges(path: Path, model: Any) -> None:
    """The library does not survive two tokens that merge into one which the vocabulary lacks."""
    if not isinstance(model, dict) or not isinstance(vocab := model.get("vocab"), dict):
        return
    prefix, merges = model.get("continuing_subword_prefix") or "", model.get("merges")
    if not isinstance(prefix, str) or not isinstance(merges, list):
        return
    start = len(prefix)
    for merge in merges:
        pair = merge.split(" ", 1) if isinstance(merge, str) else merge
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            return  # what the library refuses by itself
        first, second = pair
        if first in vocab and second in vocab and first + second[start:] not in vocab:
            raise FolderError(
                f"{path}: {first!r} and {second!r} merge into {first + second[start:]!r}, which its "
                "vocabulary lacks; fetch it again"
            )


def _check_id(path: Path, core: Core, *, token: str, id: int) -> None:
    # The library numbers added tokens by itself and says nothing when that disagrees with the file.
    if (found := core.token_to_id(token)) != id:
        raise FolderError(
            f"{path}: added token {token!r} should have id {id} but gets {found}; "
            "number the added tokens without gaps after the model's own vocabulary"
        )


def _check_unknown(path: Path, core: Core, *, stated: Json) -> None:
    """These models fail on the first unknown word, not when they are read."""
    if isinstance(core.model, models.Unigram):
        pieces = {piece for piece, _ in stated["vocab"]}
        every = stated.get("byte_fallback") and all(f"<0x{byte:02X}>" in pieces for byte in range(256))
        if stated.get("unk_id") is None and not every:
            raise FolderError(
                f"{path}: the Unigram model has no unk_id, so that a text with a new character would fail; "
                "set unk_id to the place of the unknown token in its vocabulary, counted from 0"
            )
    elif (unknown := core.model.unk_token) is not None and core.model.token_to_id(unknown) is None:
        raise FolderError(f"{path}: unk_token {unknown!r} is not in the vocabulary; add it or change it")


def _check_basic(path: Path, config: Json) -> None:
    if config.get("do_basic_tokenize") is False or config.get("never_split"):
        raise FolderError(
            f"{path}: do_basic_tokenize=false and never_split in tokenizer_config.json are not supported; "
            "remove them if the model was trained without"
        )


def _dress(file: Path, core: Core, *, kind: Kind, config: Json, rules: Json) -> None:
    """Put around the vocabulary what the class has there; refuse what would be lost in tokenizer.json."""
    for option, usual in kind.defaults.items():
        # Switches are on or off; strip_accents may also be left to lower-casing.
        if isinstance(usual, bool) and not isinstance(config[option], bool):
            raise FolderError(f"{file}: {option}={config[option]!r} is not known; use true or false")
    if not isinstance(config.get("strip_accents", False), bool | type(None)):
        raise FolderError(
            f"{file}: strip_accents={config['strip_accents']!r} is not known; use true or false"
        )
    roles = role_names(config)
    for role in kind.needed:
        if core.token_to_id(roles.get(role, "")) is None:
            raise FolderError(
                f"{file}: the vocabulary lacks {roles.get(role)!r}; "
                f"add it, or name another {role} in tokenizer_config.json"
            )
    lost = kind.strange(rules, config) if rules else None
    stated = [Template.of(core, pair=pair) for pair in (False, True)]
    kind.dress(core, config, rules=rules)
    if (
        not lost
        and rules.get("post_processor")
        and stated != [Template.of(core, pair=pair) for pair in (False, True)]
    ):
        lost = "post_processor"
    if lost:
        raise FolderError(
            f"{file}: its {lost} is not that of {config['tokenizer_class']}, which the published reader uses "
            f"instead; to keep it, set tokenizer_class in tokenizer_config.json to {AS_IT_STANDS}"
        )


def add_tokens(folder: Path, core: Core, *, config: Json) -> None:
    """The added tokens that the configuration lists, with their ids and options."""
    decoder = config.get("added_tokens_decoder") or {}
    if not isinstance(decoder, dict) or not all(id.isdecimal() for id in decoder):
        raise FolderError(f"{folder}: added_tokens_decoder must be an object of tokens by id")
    for id, token in sorted(decoder.items(), key=lambda entry: int(entry[0])):
        added = as_added(token)
        core.add_tokens([added])
        _check_id(folder, core, token=added.content, id=int(id))
