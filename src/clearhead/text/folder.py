"""Published tokenizer files → the library's object and the content of tokenizer_config.json."""

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Core
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from clearhead.errors import FolderError
from clearhead.text.facts import GROUPS, listed_tokens, role_names

# The published converter knows every format.
CONVERT = (
    "write a tokenizer.json with transformers: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"
)

# tokenizer_class values (without "Fast") whose vocab.txt is read the way BERT's is.
BERT_CLASSES = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "MobileBertTokenizer")

BERT_CONFIG: dict[str, Any] = {
    "tokenizer_class": "BertTokenizer",
    "do_lower_case": True,
    "strip_accents": None,
    "tokenize_chinese_chars": True,
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}

# BERT's options in tokenizer_config.json → those of the library's normaliser.
BERT_OPTIONS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}


def read_folder(folder: Path) -> tuple[Core, dict[str, Any]]:
    """The tokenizer in `folder` and its configuration; tokenizer.json is preferred to vocab.txt.

    The special tokens of special_tokens_map.json, an older place for them, join the configuration.
    """
    if not folder.is_dir():
        raise FolderError(f"{folder} is not a folder; give the folder that holds tokenizer.json")
    legacy = _read_json(folder / "special_tokens_map.json") or {}
    config = {**legacy, **(_read_json(folder / "tokenizer_config.json") or {})}
    _check_config(folder / "tokenizer_config.json", config)
    rules = _read_json(folder / "tokenizer.json")
    if rules is not None:
        return _read_rules(folder / "tokenizer.json", rules, config=config), config
    if (folder / "vocab.txt").is_file():
        config = {**BERT_CONFIG, **config}
        return _read_bert(folder / "vocab.txt", config), config
    raise FolderError(f"{folder} has neither tokenizer.json nor vocab.txt; {CONVERT}")


def _read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file; None if there is no such file."""
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # broken JSON, broken UTF-8, absurd nesting
        raise FolderError(f"{path} cannot be read as JSON ({error}); fetch it again") from error
    if not isinstance(content, dict):
        raise FolderError(f"{path} holds a {type(content).__name__}, not an object; fetch it again")
    return content


def _check_config(path: Path, config: dict[str, Any]) -> None:
    for group in GROUPS:
        if not isinstance(config.get(group) or [], list | dict):
            raise FolderError(
                f"{path}: {group} must be a list or an object of tokens; found {config[group]!r}"
            )
    for token in listed_tokens(config):
        if not isinstance(token.get("content") if isinstance(token, dict) else token, str):
            raise FolderError(f"{path}: {token!r} is no token; write a string, or an object with a content")
    for option in BERT_OPTIONS:
        value = config.get(option, False)
        if not (isinstance(value, bool) or (value is None and option == "strip_accents")):
            raise FolderError(f"{path}: {option}={value!r} is not known; use true or false")


def _read_rules(path: Path, rules: dict[str, Any], *, config: dict[str, Any]) -> Core:
    try:
        core = Core.from_str(json.dumps(rules))
    except Exception as error:  # the library raises nothing more specific
        raise FolderError(
            f"{path} does not describe a tokenizer ({error}); fetch it again, or {CONVERT}"
        ) from error
    for token in rules.get("added_tokens") or ():
        # The library numbers added tokens by itself and says nothing when that disagrees with the file.
        if (found := core.token_to_id(token["content"])) != token["id"]:
            raise FolderError(
                f"{path}: added token {token['content']!r} should have id {token['id']} but gets {found}; "
                "number the added tokens without gaps after the model's own vocabulary"
            )
    model, normalizer = core.model, core.normalizer
    # These two models fail on the first unknown word, not when they are read.
    if isinstance(model, models.WordPiece | models.WordLevel) and model.token_to_id(model.unk_token) is None:
        raise FolderError(
            f"{path}: unk_token {model.unk_token!r} is not in the vocabulary; add it or change it"
        )
    if isinstance(normalizer, normalizers.BertNormalizer):
        # An explicit option wins, as in the published reader.
        for theirs, ours in BERT_OPTIONS.items():
            if theirs in config:
                setattr(normalizer, ours, config[theirs])
    return core


def _read_bert(path: Path, config: dict[str, Any]) -> Core:
    """WordPiece as BERT does it (Devlin et al. 2019): one token per line, the id is the line number from 0.

    As in the published reader a repeated token keeps the id of its last line. An empty line uses up its id.
    """
    _check_bert(path, config)
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise FolderError(f"{path} is not UTF-8 ({error}); convert it to UTF-8") from error
    vocabulary = {line: index for index, line in enumerate(lines) if line}
    roles = role_names(config)
    for role in ("unk_token", "cls_token", "sep_token"):
        if roles.get(role) not in vocabulary:
            raise FolderError(
                f"{path} has no line {roles.get(role)!r}; "
                f"add it, or name another {role} in tokenizer_config.json"
            )
    core = Core(models.WordPiece(vocabulary, unk_token=roles["unk_token"], max_input_chars_per_word=100))
    core.normalizer = normalizers.BertNormalizer(
        clean_text=True, **{ours: config[theirs] for theirs, ours in BERT_OPTIONS.items()}
    )
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    core.add_special_tokens([token for token in roles.values() if token in vocabulary])
    first, last = roles["cls_token"], roles["sep_token"]
    core.post_processor = processors.TemplateProcessing(
        single=[f"{first}:0", "$A:0", f"{last}:0"],
        pair=[f"{first}:0", "$A:0", f"{last}:0", "$B:1", f"{last}:1"],
        special_tokens=[(first, vocabulary[first]), (last, vocabulary[last])],
    )
    return core


def _check_bert(path: Path, config: dict[str, Any]) -> None:
    """Refuse by name whatever would make the ids differ from the published ones."""
    kind = str(config["tokenizer_class"] or "BertTokenizer").removesuffix("Fast")
    if kind not in BERT_CLASSES:
        raise FolderError(
            f"{path} belongs to a {kind}, and only {', '.join(BERT_CLASSES)} are read; {CONVERT}"
        )
    if (path.parent / "added_tokens.json").is_file():
        raise FolderError(f"{path} has added_tokens.json beside it, which is not read; {CONVERT}")
    if config.get("do_basic_tokenize") is False or config.get("never_split"):
        raise FolderError(
            f"{path}: do_basic_tokenize=false and never_split in tokenizer_config.json are not supported; "
            "remove them if the model was trained without"
        )
