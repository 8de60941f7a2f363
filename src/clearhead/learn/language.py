"""A run that trains a language model, from nothing or further."""

import hashlib
from collections.abc import Sequence
from typing import Any

from clearhead.checkpoint.catalog import locate
from clearhead.checkpoint.families import FAMILIES
from clearhead.checkpoint.folder import Loaded, read_folder
from clearhead.checkpoint.sizes import sizes
from clearhead.checkpoint.translate import Fields
from clearhead.data.documents import documents
from clearhead.errors import DataError, SettingError
from clearhead.infer.model import Model
from clearhead.learn.course import Course
from clearhead.learn.finish import write_language_card
from clearhead.learn.start import refuse_huge
from clearhead.model.transformer import new_transformer, own_modes
from clearhead.settings import Language, Masked
from clearhead.tasks.language import LanguageScores
from clearhead.tasks.pieces import Pieces, ids_of
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.train import train_tokenizer

TENTH = 10  # documents from which on a tenth of them is kept to choose by; of fewer, the end of each


class LanguageRun(Course):
    """Learns to say what comes next."""

    settings: Language
    task_name = "language"
    metric = "loss"

    @own_modes(learning=True)
    def __init__(self, settings: Language):
        super().__init__(settings)
        self.notes = []
        texts, chosen_by, self.few = sources(settings)
        self.digest, self.texts, self.chosen_by = digest_of_texts(texts, chosen_by), texts, chosen_by
        loaded = starting_speaker(settings, texts)
        self.context = min(settings.context, Model(loaded).limit or settings.context)
        self.objective, self.validation = (
            Pieces.of(ids_of(loaded.tokenizer, group), context=self.context, blocks=settings.blocks)
            for group in (texts, chosen_by)
        )
        if not self.objective.spans or not self.validation.spans:
            raise DataError("the texts are too short: there is no token that follows another")
        self.ready(loaded, self.objective)

    def data(self) -> str:
        """SHA-256 of all documents."""
        return self.digest

    def resolved(self) -> dict[str, Any]:
        """What its settings came to."""
        return {
            "training_texts": len(self.texts),
            "validation_texts": len(self.chosen_by),
            "training_tokens": sum(self.objective.lengths),
            "validation_tokens": self.validation.counted,
            "context": self.context,
            "vocab": self.model.config.vocab,
        }

    def evaluation(self) -> LanguageScores:
        """How well it knows the texts that were kept aside."""
        network, budget = self.model.loaded.network, max(4096, self.settings.batch_tokens)
        return self.validation.scores(network, texts=self.chosen_by, budget=budget)

    def value_of(self, metrics: LanguageScores) -> float:
        """The lower the loss, the better."""
        return -metrics.loss

    def evaluating(self, seconds: float) -> float:
        """Forward is a third of a step."""
        share = sum(self.validation.lengths) / sum(self.objective.lengths)
        return seconds / self.settings.epochs * share * self.evaluations / 3

    def card(self) -> bool:
        """Write the model card."""
        return write_language_card(self)

    def usual_rate(self) -> float:
        """A new model learns at 1e-3; one that knows much, at a twentieth."""
        if self.settings.learning_rate is not None:
            return self.settings.learning_rate
        return 1e-3 if self.settings.base == "new" else 5e-5


def sources(settings: Language | Masked) -> tuple[list[str], list[str], bool]:
    """Documents to learn from and to choose by, and whether they are too few to keep whole ones aside.

    Raises `DataError` where one of them holds no text.
    """
    texts = read(settings.data, settings)
    few = len(texts) < TENTH
    if settings.validation:
        chosen_by = read([settings.validation], settings)
    else:
        texts, chosen_by = kept_aside(texts, seed=settings.seed)
    if not texts or not chosen_by:
        empty = settings.data if not texts else [settings.validation or "the tenth kept aside"]
        raise DataError(f"{', '.join(empty)}: there is no text to learn from; give files that hold some")
    return texts, chosen_by, few


def read(paths: Sequence[str], settings: Language | Masked) -> list[str]:
    """The documents of files."""
    whole = settings.documents == "file"
    found = documents(paths, whole=whole, text_column=settings.text_column, format=settings.format)
    return list(found)


def kept_aside(texts: Sequence[str], *, seed: int) -> tuple[list[str], list[str]]:
    """Documents to learn from and to choose by: a tenth by seed or, of few, the last tenth of each."""
    if len(texts) >= TENTH:
        ranks = sorted(
            range(len(texts)), key=lambda place: hashlib.sha256(f"{seed} {place}".encode()).digest()
        )
        aside = set(ranks[: len(texts) // TENTH])
        return (
            [text for place, text in enumerate(texts) if place not in aside],
            [text for place, text in enumerate(texts) if place in aside],
        )
    ends = [len(text) - len(text) // TENTH for text in texts]
    pairs = list(zip(texts, ends, strict=True))
    return [text[:end] for text, end in pairs], [text[end:] for text, end in pairs if text[end:].strip()]


def digest_of_texts(*groups: Sequence[str]) -> str:
    """SHA-256 of texts in order."""
    digest = hashlib.sha256()
    for group in groups:
        for text in group:
            raw = text.encode()
            digest.update(f"{len(raw)} ".encode() + raw)
        digest.update(b"|")
    return digest.hexdigest()


def starting_speaker(settings: Language, texts: Sequence[str]) -> Loaded:
    """The model before its first step."""
    if settings.base != "new":
        loaded = read_folder(locate(settings.base), settings)
        if not loaded.network.config.language_head:
            raise SettingError(
                f"--from {settings.base} has no language head, so it cannot learn what comes next"
            )
        return loaded
    if settings.tokenizer is None:
        tokenizer = train_tokenizer(texts, vocab=settings.vocab, kind=settings.pieces, closed=False)
    else:
        tokenizer = Tokenizer.read(locate(settings.tokenizer))
    end = tokenizer.roles.get("eos_token")
    if end is not None and tokenizer.encode(["a"])[0].ids[-1] == end:
        raise SettingError(
            f"--tokenizer {settings.tokenizer} ends texts with {tokenizer.name(end)!r}, so no prompt could "
            "be gone on with; learn one that does not: clearhead tokenizer train --no-closed"
        )
    family = FAMILIES[settings.architecture]
    source = f"--architecture {settings.architecture}"
    config = family.config(Fields(published_fields(settings, vocab=tokenizer.vocab_size), source))
    refuse_huge(sizes(config))
    network = new_transformer(config, None, seed=settings.seed)
    return Loaded(network, tokenizer, (), family, None, ends=() if end is None else (end,))


def published_fields(settings: Language, *, vocab: int) -> dict[str, Any]:
    """The config of a new model in its family's own words; what is not said is as the family is published."""
    width, heads = settings.width, settings.heads
    if width % heads:
        raise SettingError(f"--width {width} cannot be shared by --heads {heads} evenly")
    if settings.architecture == "gpt2":
        return {
            "model_type": "gpt2", "vocab_size": vocab, "n_embd": width, "n_layer": settings.layers,
            "n_head": heads, "n_positions": settings.context, "n_inner": settings.hidden,
        }  # fmt: skip
    gated = settings.architecture != "gpt_neox"
    usual = -(-8 * width // 3 // 8) * 8 if gated else 4 * width
    said = {
        "model_type": settings.architecture, "vocab_size": vocab, "hidden_size": width,
        "num_hidden_layers": settings.layers, "num_attention_heads": heads,
        "intermediate_size": settings.hidden or usual, "max_position_embeddings": settings.context,
    }  # fmt: skip
    if gated:
        said |= {"num_key_value_heads": heads, "head_dim": width // heads, "tie_word_embeddings": True}
    return said
