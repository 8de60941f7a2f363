"""`Tokenizer`: text → ids with offsets and back, from every thread alike; text is never a control token."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from tokenizers import Encoding as CoreEncoding
from tokenizers import Tokenizer as Core

from clearhead.errors import DataError, FolderError
from clearhead.text.bulk import bulk_of
from clearhead.text.encoding import (
    Content,
    Encoding,
    Template,
    Text,
    check_limit,
    longest_first,
    rows_of,
    templates_of,
    with_marks,
)
from clearhead.text.facts import (
    as_special,
    control_names,
    core_of,
    cuts_at_spaces,
    following,
    is_lossless,
    model_unknown,
    model_vocabulary,
    role_names,
    spelled_controls,
    template_of,
)
from clearhead.text.parts import Part, read_source, read_target, write
from clearhead.text.pieces import Found, Kept, PieceReader
from clearhead.text.reading import Reader
from clearhead.text.words import PART, clean, parts


class Tokenizer:
    """Strings to ids and back, over the `tokenizers` library; never changes after it is made.

    Text is plain text: `[SEP]`, `</s>` or `<|endoftext|>` typed by a person gives the ids of its characters,
    never the control id, so that no text can move the border between two segments or end a generation.
    """

    def __init__(self, core: Core, config: Mapping[str, Any] | None = None, *, kept: Kept | None = None):
        """Take over `core`, which the caller must not use any more; `config` as in tokenizer_config.json.
        `kept` are published files of which one finds the pieces, where `core` only numbers them.

        What would silently change results is removed from `core`: stored truncation and padding, and the
        dropout of merges (Provilkov et al. 2020), which is for training and gives one text different ids.
        """
        self._core, self._config, self._kept = core, dict(config or {}), kept
        core.no_truncation()
        core.no_padding()
        rules = json.loads(core.to_str())
        if rules["model"].get("dropout"):
            core.model.dropout = None
        controls = control_names(rules, self._config)
        for token in core.get_added_tokens_decoder().values():
            if token.content in controls and not token.special:
                core.add_special_tokens([as_special(token)])
        core.encode_special_tokens = True  # the library's name for: special tokens in a text are text

        self._vocabulary = dict(sorted(core.get_vocab().items(), key=lambda item: item[1]))
        self._control_ids = frozenset(self._vocabulary[name] for name in controls if name in self._vocabulary)
        roles = role_names(self._config)
        self._roles = {
            role: self._vocabulary[name] for role, name in roles.items() if name in self._vocabulary
        }
        unknown = self._vocabulary.get(model_unknown(rules) or "", self._roles.get("unk_token"))
        self._unknown_id = None if unknown in self._control_ids else unknown
        self._reader: Reader | PieceReader = Reader(core)
        if kept is not None:
            self._reader = PieceReader(
                kept, self._vocabulary, unknown=model_vocabulary(rules)[roles["unk_token"]]
            )
        self._spelling = spelled_controls(
            model_vocabulary(rules), self._control_ids, unknown=self._unknown_id
        )
        self._lossless, self._cuts = is_lossless(rules, controls), cuts_at_spaces(rules)
        self._templates = templates_of(core, self._config)

    @classmethod
    def read(cls, folder: str | Path) -> "Tokenizer":
        """The tokenizer of a published folder: tokenizer.json, or the older vocabulary files. Of a model that
        has two it is the one for what it reads.

        tokenizer_config.json, special_tokens_map.json and added_tokens.json are used when present. Raises
        FolderError naming the file and the remedy if something is missing, broken, or would give other ids
        than published.
        """
        core, config, kept = read_source(Path(folder))
        return cls(core, config, kept=kept)

    @classmethod
    def read_target(cls, folder: str | Path) -> "Tokenizer | None":
        """The tokenizer for what a model of `folder` writes; None where it is the one for what it reads."""
        found = read_target(Path(folder))
        return cls(found[0], found[1], kept=found[2]) if found else None

    def write(self, folder: str | Path, *, part: Part = "source") -> None:
        """Write tokenizer.json and tokenizer_config.json, or as `target` the same with target_ before their
        names; fields that are not used here stay. Of a Marian folder also all its files as they were, and no
        tokenizer.json, which could not say how texts are cut."""
        write(Path(folder), self._core, config=self._config, kept=self._kept, part=part)

    def encode(
        self,
        texts: Sequence[Text],
        *,
        limit: int | None = None,
        long: Literal["truncate", "error"] = "truncate",
    ) -> list[Encoding]:
        """Texts, or pairs of texts, to ids: one `Encoding` each, in order.

        `limit` is the most tokens a result may have, special ones included. A longer one loses content tokens
        from its end, or its beginning if the folder's truncation_side is left (of a pair: first from the
        longer text), and `dropped` says how many; `long="error"`: DataError with its index and both lengths.
        Lone surrogates are read as U+FFFD. SettingError if the special tokens alone exceed `limit`.
        """
        rows = self.taken_apart(texts)
        check_limit(limit, long, needed=max((template.special_count for _, template in rows), default=0))
        result = []
        for index, (whole, template) in enumerate(rows):
            lengths = [len(content.ids) for content in whole]
            kept = lengths if limit is None else longest_first(lengths, limit - template.special_count)
            dropped = sum(lengths) - sum(kept)
            if dropped and long == "error":
                length = sum(lengths) + template.special_count
                said = f"text {index} has {length} tokens and the limit is {limit}, special tokens included"
                raise DataError(f"{said}; shorten it, or set long='truncate'")
            side = self.truncation_side
            cut = [content.cut(count, side=side) for content, count in zip(whole, kept, strict=True)]
            result.append(template.around(cut, dropped))
        return result

    def taken_apart(self, texts: Sequence[Text]) -> list[tuple[list[Content], Template]]:
        """The tokens of each text, or of both of a pair, and what stands around them."""
        rows = rows_of(texts)
        found = iter(self._contents([text for row in rows for text in row]))
        return [([next(found) for _ in row], self._templates[len(row)]) for row in rows]

    def decode(self, ids: Iterable[int]) -> str:
        """Ids to text, special tokens skipped; exactly the encoded text if the tokenizer is `lossless`.

        Nothing is cleaned up except by the decoder that tokenizer.json itself names.
        """
        return self._core.decode([id for id in ids if id not in self._control_ids])

    def plain(self, texts: Sequence[str], *, begins: bool = True) -> list[list[int]]:
        """The ids of each string by itself, with nothing around it. Without `begins` each follows something
        else, and gets nothing that stands only before a text."""
        core = self._reader if begins else self._following

        def ids(some: Iterable[str]) -> list[list[int]]:
            found = core.encode_batch_fast([clean(text) for text in some], add_special_tokens=False)
            return [self._spelled_ids(tokens.ids) for tokens in found]

        if self._cuts and any(len(text) > PART for text in texts):  # 150 bytes of memory a character
            return [[id for part in parts(text) for id in ids([part])[0]] for text in texts]
        return ids(texts)

    @cached_property
    def bulk(self) -> Callable[[Sequence[str]], list[list[int]]]:
        """`plain`, in a tenth of the time or less where another library is installed that gives its ids."""
        return self.plain if self._kept else bulk_of(self._core, self.plain, spelled=self._spelled_ids)

    def words(self, text: str) -> list[int]:
        """For each id that `plain` gives for a text, the number of the word it is a piece of: words are what
        the tokenizer splits a text into before it looks for pieces."""
        tokens = self._reader.encode(clean(text), add_special_tokens=False)
        pairs = zip(tokens.ids, tokens.word_ids, strict=True)
        return [word or 0 for id, word in pairs for _ in self._spelling.get(id, (id,))]

    def framed(self, ids: Sequence[int]) -> Encoding:
        """Ids that `plain` gave, with what stands around a text."""
        return self._templates[1].around([Content(ids, [(0, 0)] * len(ids))], 0)

    def tokens(self, text: Text) -> list[str]:
        """The token strings of one text as the vocabulary writes them, special tokens included."""
        return [self.name(id) for id in self.encode([text])[0].ids]

    def name(self, id: int) -> str:
        """The token string of an id; DataError if the vocabulary has no such id."""
        name = self._core.id_to_token(id) if 0 <= id < self.vocab_size else None
        if name is None:
            raise DataError(f"the vocabulary has no id {id}; its ids are below {self.vocab_size}")
        return name

    def swallows(self, id: int) -> tuple[bool, bool]:
        """Whether a control token takes away the white space to its left, and to its right. Raises
        `FolderError` for one that is only there between words, which no conversation is held to."""
        token = self._core.get_added_tokens_decoder().get(id)
        if token is None:
            return False, False
        if token.single_word:
            raise FolderError(f"single_word of the control token {token.content!r} is not supported in chats")
        return token.lstrip, token.rstrip

    def vocabulary(self) -> dict[str, int]:
        """Token → id, in their order; a copy."""
        return dict(self._vocabulary)

    def special_count(self, pair: bool = False) -> int:
        """How many special tokens are put around one text, or around a pair."""
        return self._templates[2 if pair else 1].special_count

    @property
    def framing_ids(self) -> frozenset[int]:
        """The ids of all tokens that are put around a text, or around a pair."""
        parts = (part for template in self._templates.values() for part in template.parts)
        return frozenset(part.id for part in parts if part.text is None)

    @property
    def vocab_size(self) -> int:
        """The rows an embedding table needs: the largest id plus 1 (ids may have gaps)."""
        return max(self._vocabulary.values(), default=-1) + 1

    @property
    def control_ids(self) -> frozenset[int]:
        """The ids of all special tokens except the unknown token; none of them ever comes from a text."""
        return self._control_ids

    @property
    def roles(self) -> Mapping[str, int]:
        """Published role (`"cls_token"`, `"mask_token"`, …) → id, for the roles the folder names."""
        return MappingProxyType(self._roles)

    @property
    def template(self) -> str | None:
        """How a conversation is laid out, as a jinja2 template, where the folder says it."""
        return template_of(self._config)

    @property
    def unknown_id(self) -> int | None:
        """The id for text the vocabulary cannot express; None if there is none (byte-level)."""
        return self._unknown_id

    @property
    def lossless(self) -> bool:
        """True if `decode(encode(text))` gives back every text exactly."""
        return self._lossless

    @property
    def truncation_side(self) -> Literal["left", "right"]:
        """The end at which a text that is too long loses tokens."""
        return "left" if self._config.get("truncation_side") == "left" else "right"

    @property
    def limit(self) -> int | None:
        """The longest input in tokens, special tokens included, as the folder states it, if it does."""
        stated = self._config.get("model_max_length", self._config.get("max_len"))
        if not isinstance(stated, int | float) or not 1 <= stated < 1_000_000:  # 1e30 is published for none
            return None
        return int(stated)

    def same(self, other: "Tokenizer") -> bool:
        """Whether both give every text the same ids and segments, and the same roles to them."""
        facts = [(each._kept, each._core.to_str(), each._roles, each._templates) for each in (self, other)]
        return facts[0] == facts[1]

    def __reduce__(self) -> tuple[Any, ...]:
        # The library's own copy forgets that special tokens in a text are text.
        return _copied, (self._core.to_str(), (self._config, self._kept))

    @cached_property
    def _following(self) -> Reader | PieceReader:
        return self._reader if self._kept else Reader(following(self._core))

    def _contents(self, texts: list[str]) -> list[Content]:
        """Each string's own tokens, without a control id among them."""
        read = [clean(text) for text in texts]
        found: Sequence[CoreEncoding | Found] = self._reader.encode_batch(read, add_special_tokens=False)
        return [self._content(text, tokens) for text, tokens in zip(read, found, strict=True)]

    def _spelled_ids(self, ids: list[int]) -> list[int]:
        """Ids, control tokens that the model found among its words spelled out."""
        if self._spelling.keys().isdisjoint(ids):
            return ids
        return [letter for id in ids for letter in self._spelling.get(id, (id,))]

    def _content(self, text: str, tokens: CoreEncoding | Found) -> Content:
        ids, offsets = tokens.ids, tokens.offsets
        if not self._spelling.keys().isdisjoint(ids):
            # The model found a control token among its words (in Unigram vocabularies `</s>` is one).
            spelled = [self._spelling.get(id, (id,)) for id in ids]
            offsets = [span for span, letters in zip(offsets, spelled, strict=True) for _ in letters]
            ids = [letter for letters in spelled for letter in letters]
        return Content(ids, offsets if text.isascii() else with_marks(text, offsets))


def _copied(rules: str, rest: tuple[Mapping[str, Any], Kept | None]) -> Tokenizer:
    return Tokenizer(core_of(json.loads(rules)), rest[0], kept=rest[1])
