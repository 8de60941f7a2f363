"""Published tokenizer classes: what the published reader puts around the vocabulary of each.

A class fixes the normaliser, the pre-tokenizer and the template. Its options stand in tokenizer_config.json,
or have the class's defaults; either counts more than what tokenizer.json says.
"""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tokenizers import Tokenizer as Core
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from clearhead.text.encoding import INPUTS, PLAIN_INPUTS, SEGMENTS
from clearhead.text.facts import content, listed_tokens, model_unknown, role_names, steps_of

Config = Mapping[str, Any]
Rows = list[tuple[str, float]]

# BERT's options in tokenizer_config.json → those of the library's normaliser.
BERT_OPTIONS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
# Options that a step must have, as they are where a file does not name them. The pattern is how converters
# write that sentencepiece takes several spaces for one; splitting at white space does it too.
USUAL: Config = {"clean_text": True, "use_regex": True, "split": True, "pattern": {"Regex": " {2,}"}}
# Options of the library's model that are off where a kind does not have them.
OFF = ("continuing_subword_prefix", "end_of_word_suffix", "ignore_merges", "byte_fallback", "fuse_unk")


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to build a tokenizer, shared by several published classes."""

    model: type
    """The library's model that it is for."""
    defaults: Config
    """What tokenizer_config.json need not say."""
    needed: tuple[str, ...]
    """The roles whose tokens must be in the vocabulary."""
    steps: frozenset[str]
    """The normalisers and pre-tokenizers that a tokenizer.json of this kind may state."""
    dress: Callable[..., None]
    """Put everything but the vocabulary into a core, from the configuration and tokenizer.json's content."""
    usual: Config = field(default_factory=lambda: USUAL)
    """Options that these steps have."""
    options: Config = field(default_factory=dict)
    """Options of the library's model."""
    file: str = ""
    """What SentencePiece's own file is called, where the kind has one."""
    rows: Callable[[Rows, Config], Rows] = lambda pieces, config: pieces
    """The vocabulary with its scores, from the pieces of that file."""

    def strange(self, rules: Config, config: Config) -> str | None:
        """The part of tokenizer.json's content `rules` that `dress` would lose, if there is one."""
        for part in ("normalizer", "pre_tokenizer"):
            for step in steps_of(rules.get(part)):
                unlike = any(step.get(option, value) != value for option, value in self.usual.items())
                if step["type"] not in self.steps or unlike:
                    return part
        model = rules["model"]
        for option, value in self.options.items():
            if model.get(option, value) != value:
                return option
        if "unk_id" in model and model_unknown(rules) != role_names(config)["unk_token"]:
            return "unk_id"
        return next((option for option in OFF if option not in self.options and model.get(option)), None)


def _bert(core: Core, config: Config, *, rules: Config) -> None:
    """WordPiece over words and punctuation (Devlin et al. 2019)."""
    core.model.unk_token = role_names(config)["unk_token"]
    core.normalizer = normalizers.BertNormalizer(
        clean_text=True, **{ours: config[theirs] for theirs, ours in BERT_OPTIONS.items()}
    )
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    core.post_processor = processors.BertProcessing(
        _token(core, config, role="sep_token"), _token(core, config, role="cls_token")
    )


def _gpt2(core: Core, config: Config, *, rules: Config) -> None:
    """Byte-level BPE (Radford et al. 2019), with nothing around a text unless the folder asks for it."""
    core.model.unk_token = None  # every byte is a token
    core.normalizer = None
    cut: Any = pre_tokenizers.ByteLevel(add_prefix_space=config["add_prefix_space"], use_regex=True)
    for step in steps_of(rules.get("pre_tokenizer")):
        # StarCoder, SmolLM: of their pre-tokenizer the class knows only the rest
        if step["type"] == "Digits":
            cut = pre_tokenizers.Sequence([pre_tokenizers.Digits(step["individual_digits"]), cut])
    core.pre_tokenizer = cut
    core.decoder = decoders.ByteLevel()
    if "post_processor" not in rules:  # of tokenizer.json also null counts: nothing
        asked = [role if config.get(f"add_{role}") else None for role in ("bos_token", "eos_token")]
        before, after = (role and _token(core, config, role=role) for role in asked)
        frame = [[f"{token[0]}:{{0}}"] if token else [] for token in (before, after)]
        single, second = ([*frame[0], text, *frame[1]] for text in ("$A:{0}", "$B:{0}"))
        core.post_processor = processors.TemplateProcessing(
            single=[piece.format(0) for piece in single],
            pair=[piece.format(0) for piece in single] + [piece.format(1) for piece in second],
            special_tokens=[token for token in {before, after} if token],
        )


def _roberta(core: Core, config: Config, *, rules: Config) -> None:
    """Byte-level BPE as `<s> first </s></s> second </s>`, all in segment 0 (Liu et al. 2019)."""
    _gpt2(core, config, rules={"post_processor": "below"})
    core.post_processor = processors.RobertaProcessing(
        _token(core, config, role="sep_token"),
        _token(core, config, role="cls_token"),
        trim_offsets=config["trim_offsets"],
        add_prefix_space=config["add_prefix_space"],
    )


def _pieces(core: Core, *, scheme: str, rules: Config) -> None:
    """Unigram over words that begin with ▁ (Kudo and Richardson 2018), with the replacements of a
    tokenizer.json, or of the model file that `core` was made from."""
    if rules:
        maps = [step for step in steps_of(rules["normalizer"]) if step["type"] == "Precompiled"]
        core.normalizer = (
            normalizers.Precompiled(base64.b64decode(maps[0]["precompiled_charsmap"])) if maps else None
        )
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme=scheme)]
    )
    core.decoder = decoders.Metaspace(prepend_scheme=scheme)


def _t5(core: Core, config: Config, *, rules: Config) -> None:
    """SentencePiece's words, each text closed, and tokens for gaps (Raffel et al. 2020, section 3.1.4)."""
    _pieces(core, scheme="always", rules=rules)
    listed = [token for token in map(content, listed_tokens(config)) if token.startswith("<extra_id_")]
    core.add_special_tokens(listed or [f"<extra_id_{number}>" for number in range(config["extra_ids"])])
    name, id = _token(core, config, role="eos_token")
    core.post_processor = processors.TemplateProcessing(
        single=["$A", name], pair=["$A", name, "$B", name], special_tokens=[(name, id)]
    )


def _sentencepiece(core: Core, config: Config, *, rules: Config) -> None:
    """SentencePiece's words in RoBERTa's template (Conneau et al. 2020)."""
    _pieces(core, scheme="always" if config["add_prefix_space"] else "never", rules=rules)
    core.post_processor = processors.RobertaProcessing(
        _token(core, config, role="eos_token"),
        _token(core, config, role="bos_token"),
        trim_offsets=False,
        add_prefix_space=False,
    )


def _llama(core: Core, config: Config, *, rules: Config) -> None:
    """Pieces of the whole text, a ▁ for each space and one before it (Touvron et al. 2023).

    `legacy` puts one behind every added token, too.
    """
    before = config["add_prefix_space"] is not False
    scheme = ("always" if config["legacy"] else "first") if before else "never"
    core.normalizer = None
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    steps: list[Any] = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    core.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if before else steps)


def _token(core: Core, config: Config, *, role: str) -> tuple[str, int]:
    name = role_names(config)[role]
    id = core.token_to_id(name)
    assert id is not None  # one of the `needed`
    return name, id


def _named(config: Config, *roles: str) -> Rows:
    return [(role_names(config)[f"{role}_token"], 0.0) for role in roles]


def _roles(**names: str) -> dict[str, str]:
    return {f"{role}_token": token for role, token in names.items()}


BERT = Kind(
    model=models.WordPiece,
    defaults={
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": True,
        "strip_accents": None,
        "tokenize_chinese_chars": True,
        INPUTS: ["input_ids", SEGMENTS, "attention_mask"],
        **_roles(unk="[UNK]", sep="[SEP]", pad="[PAD]", cls="[CLS]", mask="[MASK]"),
    },
    needed=("unk_token", "cls_token", "sep_token"),
    steps=frozenset({"BertNormalizer", "BertPreTokenizer"}),
    dress=_bert,
    options={"continuing_subword_prefix": "##", "max_input_chars_per_word": 100},
)
DISTILBERT = replace(
    BERT, defaults={**BERT.defaults, "tokenizer_class": "DistilBertTokenizer", INPUTS: PLAIN_INPUTS}
)
GPT2 = Kind(
    model=models.BPE,
    defaults={
        "tokenizer_class": "GPT2Tokenizer",
        "add_prefix_space": False,
        **_roles(bos="<|endoftext|>", eos="<|endoftext|>", unk="<|endoftext|>"),
    },
    needed=("bos_token", "eos_token"),
    steps=frozenset({"ByteLevel", "Digits"}),
    dress=_gpt2,
)
FAIRSEQ = _roles(bos="<s>", eos="</s>", unk="<unk>", sep="</s>", pad="<pad>", cls="<s>", mask="<mask>")
ROBERTA = Kind(
    model=models.BPE,
    defaults={"tokenizer_class": "RobertaTokenizer", "add_prefix_space": False, "trim_offsets": True}
    | FAIRSEQ,
    needed=("cls_token", "sep_token"),
    steps=frozenset({"ByteLevel"}),
    dress=_roberta,
)
SENTENCEPIECE = Kind(
    model=models.Unigram,
    defaults={"tokenizer_class": "XLMRobertaTokenizer", "add_prefix_space": True, **FAIRSEQ},
    needed=("bos_token", "eos_token", "unk_token"),
    steps=frozenset({"Precompiled", "Strip", "Replace", "WhitespaceSplit", "Metaspace"}),
    dress=_sentencepiece,
    options={"unk_id": 3},
    file="sentencepiece.bpe.model",
    rows=lambda pieces, config: [
        *_named(config, "bos", "pad", "eos", "unk"),
        *pieces[3:],
        *_named(config, "mask"),
    ],
)

CAMEMBERT = replace(
    SENTENCEPIECE,
    options={},  # its unk_id is the place of its unk_token
    defaults={
        **SENTENCEPIECE.defaults,
        "tokenizer_class": "CamembertTokenizer",
        "additional_special_tokens": ["<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"],
    },
    rows=lambda pieces, config: [
        *(("<s>NOTUSED", 0.0), *_named(config, "pad"), ("</s>NOTUSED", 0.0), *_named(config, "unk")),
        *(("<unk>NOTUSED", -100.0), *pieces[1:], *_named(config, "mask")),
    ],
)
T5 = Kind(
    model=models.Unigram,
    defaults={"extra_ids": 100, **_roles(eos="</s>", unk="<unk>", pad="<pad>")}
    | {"tokenizer_class": "T5Tokenizer"},
    needed=("eos_token", "unk_token", "pad_token"),
    steps=SENTENCEPIECE.steps,
    dress=_t5,
    options={"unk_id": 2},
    file="spiece.model",
    rows=lambda pieces, config: [
        *pieces,
        *((f"<extra_id_{number}>", 0.0) for number in reversed(range(config["extra_ids"]))),
    ],
)

LLAMA = Kind(
    model=models.BPE,
    defaults={
        "tokenizer_class": "LlamaTokenizer",
        "add_prefix_space": None,
        "legacy": False,
        **_roles(bos="<s>", eos="</s>", unk="<unk>"),
    },
    needed=("bos_token", "eos_token", "unk_token"),
    steps=frozenset({"Prepend", "Replace", "Metaspace"}),
    dress=_llama,
    usual={"prepend": "▁", "content": "▁", "replacement": "▁", "split": False, "pattern": {"String": " "}},
    options={"byte_fallback": True, "fuse_unk": True},
)

# Values of tokenizer_class, without "Fast".
CLASSES = {
    **dict.fromkeys(("BertTokenizer", "ElectraTokenizer", "MobileBertTokenizer"), BERT),
    "DistilBertTokenizer": DISTILBERT,
    **dict.fromkeys(("RobertaTokenizer", "BartTokenizer"), ROBERTA),
    "XLMRobertaTokenizer": SENTENCEPIECE,
    "CamembertTokenizer": CAMEMBERT,
    "T5Tokenizer": T5,
    "GPT2Tokenizer": GPT2,
}
# Values of model_type in config.json, for folders whose tokenizer_config.json names no class.
MODEL_TYPES = {
    **dict.fromkeys(("bert", "electra", "mobilebert"), BERT),
    "distilbert": DISTILBERT,
    **dict.fromkeys(("roberta", "bart"), ROBERTA),
    "xlm-roberta": SENTENCEPIECE,
    "camembert": CAMEMBERT,
    "t5": T5,
    "gpt2": GPT2,
}
