"""The tokenizer that a file describes: byte-level BPE or SentencePiece's BPE, as published folders have it.

A file lists tokens, what each is for, and merges or scores. How a text is cut before merging is only named;
what the names mean stands in `CUTS`.
"""

from collections.abc import Iterable
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Core

from clearhead.checkpoint.gguf.container import File
from clearhead.errors import FolderError
from clearhead.text.folder import AS_IT_STANDS
from clearhead.text.tokenizer import Tokenizer

KEY = "tokenizer.ggml."
NORMAL, UNKNOWN, CONTROL, ADDED, UNUSED, BYTE = range(1, 7)
LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT2, DIGITS, QWEN2, LLAMA3 = "gpt-2", "smollm", "qwen2", "llama-bpe"
# What `tokenizer.ggml.pre` may say; nothing, or "default", is GPT-2's way.
CUTS = {
    **dict.fromkeys(("default", "gpt-2", "gpt2"), GPT2),
    **dict.fromkeys(("smollm", "starcoder", "refact", "codeshell"), DIGITS),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen"), QWEN2),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3"), LLAMA3),
}
SPACE = "▁"
LONGEST = 1000  # letters of a token that pairs are looked for in; published ones have some dozens


def tokenizer_of(file: File, *, limit: int) -> Tokenizer:
    """The tokenizer, with the longest input that its folder shall state.

    Raises `FolderError` where a part is missing, does not fit the others, or is of an unknown kind.
    """
    words = _Words(file)
    kind = file.fact(KEY + "model", str)
    if kind not in ("gpt2", "llama"):
        raise FolderError(
            f"{file.path}: tokenizer.ggml.model {kind!r:.60} is not read; read are gpt2 (byte-level BPE) and "
            "llama (SentencePiece's BPE)"
        )
    try:
        core = _byte_level(words) if kind == "gpt2" else _sentencepiece(words)
        for id, kind_of_token in words.marked():
            added = AddedToken(words.tokens[id], special=kind_of_token == CONTROL, normalized=False)
            (core.add_special_tokens if added.special else core.add_tokens)([added])
        words.frame(core)
        return Tokenizer(core, words.config(limit))
    except FolderError:
        raise
    except BaseException as error:  # the library panics over some contents, which is no Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise words.wrong(" ".join(str(error).split())) from error


def roles_of(file: File) -> dict[str, int]:
    """Published role (`"bos_token"`) → id, for the roles that the file names."""
    names = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    tokens = len(file.fact(KEY + "tokens", list))
    found = {}
    for role, name in names.items():
        id = file.fact(f"{KEY}{name}_token_id", int, default=None)
        if id is not None:
            found[f"{role}_token"] = _inside(file, id, name=name, count=tokens)
    return found


def ends_of(file: File) -> list[int]:
    """The ids that end an answer: of a text, of a turn, of a message."""
    count = len(file.fact(KEY + "tokens", list))
    ends = []
    for name in ("eos", "eot", "eom"):
        id = file.fact(f"{KEY}{name}_token_id", int, default=None)
        if id is not None and _inside(file, id, name=name, count=count) not in ends:
            ends.append(id)
    return ends


def _inside(file: File, id: int, *, name: str, count: int) -> int:
    if not 0 <= id < count:
        raise FolderError(f"{file.path}: {KEY}{name}_token_id is {id}; there are {count} tokens")
    return id


class _Words:
    """The vocabulary of a file, compared with itself."""

    def __init__(self, file: File):
        self.file = file
        self.tokens: list[str] = self._texts("tokens")
        self.types: list[int] = file.fact(KEY + "token_type", list, default=[NORMAL] * len(self.tokens))
        self.cut = file.fact(KEY + "pre", str, default="default")
        self.roles = roles_of(file)
        if len(self.types) != len(self.tokens):
            raise self.wrong(f"it has {len(self.tokens)} tokens and {len(self.types)} types of tokens")
        # Names that only fill up the table are no tokens of the published tokenizer.
        used = [id for id, kind in enumerate(self.types) if kind != UNUSED]
        self.vocabulary = {self.tokens[id]: id for id in used}
        if len(self.vocabulary) < len(used):
            twice = next(id for id in used if self.vocabulary[self.tokens[id]] != id)
            raise self.wrong(f"the token {self.tokens[twice]!r:.60} is there twice")

    def wrong(self, why: str) -> FolderError:
        return FolderError(f"{self.file.path}: the tokenizer's parts do not fit together: {why}")

    def _texts(self, key: str) -> list[str]:
        values = self.file.fact(KEY + key, list)
        if not all(isinstance(value, str) for value in values):
            raise self.wrong(f"{KEY}{key} is no list of texts")
        return values

    def marked(self) -> Iterable[tuple[int, int]]:
        """Control tokens, and those that are matched in a text as they are: id and type."""
        return [(id, kind) for id, kind in enumerate(self.types) if kind in (CONTROL, ADDED)]

    def merges(self) -> list[tuple[str, str]]:
        """The merges that the file lists, best first."""
        pairs = [tuple(merge.split(" ")) for merge in self._texts("merges")]
        if wrong := next((pair for pair in pairs if len(pair) != 2), None):
            raise self.wrong(f"{' '.join(wrong)!r:.60} is no merge of two tokens")
        return pairs  # type: ignore[return-value]

    def scored_merges(self) -> list[tuple[str, str]]:
        """Every pair that makes a token of the vocabulary, in the order of the scores of what they make.

        Control tokens are made of nothing: text that looks like one stays text.
        """
        scores = self.file.fact(KEY + "scores", list)
        if len(scores) != len(self.tokens) or not all(isinstance(score, float) for score in scores):
            raise self.wrong(f"it has {len(self.tokens)} tokens and {len(scores)} scores")
        words = {token: id for token, id in self.vocabulary.items() if self.types[id] == NORMAL}
        if (letters := max(map(len, words), default=0)) > LONGEST:
            raise self.wrong(f"a token has {letters:,} letters")
        found = [
            (-scores[id], -cut, token)
            for token, id in words.items()
            for cut in range(1, len(token))
            if token[:cut] in words and token[cut:] in words
        ]
        return [(token[:-cut], token[-cut:]) for _, cut, token in sorted(found, key=lambda merge: merge[:2])]

    def frame(self, core: Core) -> None:
        """The tokens around a text that the file asks for."""
        usual = self.file.fact(KEY + "model", str) == "llama" or CUTS[self.cut] == LLAMA3
        asked = {
            "bos_token": self.file.fact(KEY + "add_bos_token", bool, default=usual),
            "eos_token": self.file.fact(KEY + "add_eos_token", bool, default=False),
        }
        for role in asked:
            if asked[role] and role not in self.roles:
                raise self.wrong(f"a {role} is to stand around each text, and the file names none")
        around = {role: self.tokens[self.roles[role]] for role in asked if asked[role]}
        if around:
            before, after = ([around[role]] if role in around else [] for role in asked)
            first, second = ([*before, text, *after] for text in ("$A", "$B"))
            core.post_processor = processors.TemplateProcessing(
                single=first,
                pair=[*first, *(f"{piece}:1" for piece in second)],
                special_tokens=[(token, self.vocabulary[token]) for token in dict.fromkeys(around.values())],
            )

    def config(self, limit: int) -> dict[str, Any]:
        """What tokenizer_config.json says; byte-level BPE never gives the unknown token, so it names none."""
        roles = {role: self.tokens[id] for role, id in self.roles.items() if self.types[id] != UNUSED}
        if self.file.fact(KEY + "model", str) == "gpt2":
            roles.pop("unk_token", None)
        return {
            "tokenizer_class": AS_IT_STANDS,
            "clean_up_tokenization_spaces": False,
            "model_max_length": limit,
            **roles,
        }


def _byte_level(words: _Words) -> Core:
    """Byte-level BPE (Radford et al. 2019), cut as `tokenizer.ggml.pre` says."""
    if words.cut not in CUTS:
        raise FolderError(
            f"{words.file.path}: tokenizer.ggml.pre {words.cut!r:.60} is not known; "
            f"known are {', '.join(CUTS)}"
        )
    cut = CUTS[words.cut]
    core = Core(models.BPE(words.vocabulary, words.merges(), ignore_merges=cut == LLAMA3))
    prefix = words.file.fact(KEY + "add_space_prefix", bool, default=False)
    bytes_alone = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=False)
    whole = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=True)
    match cut:
        case "gpt-2":
            core.pre_tokenizer = whole
        case "smollm":
            core.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), whole])
        case _:
            digits = r"|\p{N}{1,3}|" if cut == LLAMA3 else r"|\p{N}|"
            pattern = pre_tokenizers.Split(Regex(LETTERS + digits + REST), "isolated")
            core.pre_tokenizer = pre_tokenizers.Sequence([pattern, bytes_alone])
    if words.cut == "qwen2":
        core.normalizer = normalizers.NFC()
    core.decoder = decoders.ByteLevel()
    return core


def _sentencepiece(words: _Words) -> Core:
    """BPE over characters (Kudo and Richardson 2018), what is unknown in bytes, a space before each text."""
    unknown = words.tokens[words.roles.setdefault("unk_token", 0)]
    if unknown not in words.vocabulary:
        raise words.wrong(f"the unknown token {unknown!r:.60} is marked as unused")
    bytewise = all(f"<0x{byte:02X}>" in words.vocabulary for byte in range(256))
    merges = words.merges() if KEY + "merges" in words.file.facts else words.scored_merges()
    core = Core(
        models.BPE(words.vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=bytewise)
    )
    prefix = words.file.fact(KEY + "add_space_prefix", bool, default=True)
    spaces = [normalizers.Replace(" ", SPACE)]
    core.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), *spaces] if prefix else spaces)
    core.decoder = decoders.Sequence(
        [
            decoders.Replace(SPACE, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            *([decoders.Strip(" ", left=1, right=0)] if prefix else []),
        ]
    )
    return core
