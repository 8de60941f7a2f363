"""A run that trains a language model, from nothing or further."""

from typing import Any

from clearhead.checkpoint.adapter import Adapted, new_adapter
from clearhead.checkpoint.adapter_files import write_adapter
from clearhead.checkpoint.catalog import locate
from clearhead.checkpoint.families import FAMILIES
from clearhead.checkpoint.folder import Loaded, read_folder
from clearhead.checkpoint.fresh import new_transformer
from clearhead.checkpoint.sizes import sizes
from clearhead.checkpoint.translate import Fields
from clearhead.engine.modes import own_modes
from clearhead.errors import DataError, SettingError
from clearhead.learn.corpus import Chats, Texts
from clearhead.learn.corpus_run import CorpusRun
from clearhead.learn.encoded import Encoded, open_end
from clearhead.learn.finish import write_language_card
from clearhead.learn.start import refuse_huge, refuse_translator
from clearhead.settings import Language, Speaker
from clearhead.tasks.language import LanguageScores
from clearhead.tasks.pieces import around
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.train import train_tokenizer

STEPS, MOST_EPOCHS = 600, 10  # of a new model, where nothing is asked for
NARROW = 512  # a width up to which a new model is a small one


class LanguageRun(CorpusRun):
    """Learns to say what comes next."""

    settings: Language
    task_name = "language"

    @own_modes(learning=True)
    def __init__(self, settings: Language):
        super().__init__(settings)
        self.read(speaking=True)
        texts, chosen_by = self.texts, self.chosen_by
        loaded = starting_speaker(settings, texts)
        if settings.lora is not None:
            facts = Adapted(
                rank=settings.lora,
                alpha=2.0 * settings.lora if settings.lora_alpha is None else settings.lora_alpha,
                dropout=settings.lora_dropout,
                targets=tuple(settings.lora_targets or ()),
                base=settings.base,
            )
            loaded = new_adapter(loaded, facts, seed=settings.seed)
        self.context = self.context_of(loaded, asked=settings.context, usual=Speaker.context)
        self.objective, self.validation = (
            group.pieces(loaded, context=self.context, blocks=settings.blocks) for group in (texts, chosen_by)
        )
        if not self.objective.spans or not self.validation.spans:
            raise DataError(
                f"no answer lies within the first {self.context} tokens; give a larger --context"
                if isinstance(texts, Chats)
                else "the texts are too short: there is no token that follows another"
            )
        self.ask = texts.ask
        self.notes = [*texts.notes, *chosen_by.notes]
        if (behind := around(loaded.tokenizer)[1]) and not isinstance(texts, Chats):
            name = loaded.tokenizer.name(behind[0])
            self.notes.append(
                f"the tokenizer of {settings.base} ends prompts with {name!r}; texts go on before it"
            )
        learned = loaded.tokenizer.vocab_size
        if settings.base == "new" and not settings.tokenizer and learned < settings.vocab != Speaker.vocab:
            self.notes.append(
                f"the texts give a vocabulary of {learned:,}, fewer than --vocab {settings.vocab:,}"
            )
        self.ready(loaded, self.objective)

    def resolved(self) -> dict[str, Any]:
        """What its settings came to."""
        return {
            "training_texts": len(self.texts),
            "validation_texts": len(self.chosen_by),
            "training_tokens": sum(self.objective.lengths),
            "learned_tokens": self.objective.counted,
            "validation_tokens": self.validation.counted,
            "context": self.context,
            "vocab": self.model.config.vocab,
        }

    def made(self) -> str:
        """How large it is, and how far it sees; of an adapter, what learns."""
        if self.settings.lora is None:
            return super().made()
        sizes = [(one.numel(), one.requires_grad) for one in self.trainer.network.parameters()]
        learned = sum(size for size, learns in sizes if learns)
        stays = sum(size for size, _ in sizes) - learned
        return f"an adapter of {learned:,} parameters on {stays:,} that stay as they are"

    def evaluation(self) -> LanguageScores:
        """How well it knows the texts that were kept aside."""
        network, budget = self.model.loaded.network, max(4096, self.settings.batch_tokens)
        aside = self.chosen_by
        return self.validation.scores(network, texts=len(aside), bytes=aside.bytes, budget=budget)

    def card(self) -> bool:
        """Write the model card."""
        return write_language_card(self)

    def keep(self) -> None:
        """Write the model or, where that is all that learns, its adapter."""
        if self.settings.lora is not None:
            write_adapter(self.out, self.model.loaded)
        else:
            super().keep()

    def usual_rate(self) -> float:
        """As of any model; small new ones learn at twice that, adapters at ten times that of their base."""
        if self.settings.learning_rate is not None or (
            self.settings.base != "new" and not self.settings.lora
        ):
            return super().usual_rate()
        if self.settings.lora:
            return 5e-4
        return 2e-3 if self.model.config.width <= NARROW else 1e-3

    def usual_epochs(self) -> int:
        """So many that a new model sees enough steps to learn in, however short the text."""
        if self.settings.base != "new":
            return super().usual_epochs()
        once = sum(self.objective.lengths) / (self.settings.batch_tokens * self.settings.accumulate)
        return max(1, min(MOST_EPOCHS, round(STEPS / once)))


def starting_speaker(settings: Language, texts: Texts | Chats | Encoded) -> Loaded:
    """The model before its first step."""
    if settings.base != "new":
        loaded = read_folder(locate(settings.base), settings)
        refuse_translator(loaded, settings)
        if not loaded.network.config.language_head:
            raise SettingError(
                f"--from {settings.base} has no language head, so it cannot learn what comes next"
            )
        return loaded
    if isinstance(texts, Chats):
        raise SettingError("conversations are learned by a model with a chat template: give --from one")
    if settings.tokenizer is not None:
        tokenizer = Tokenizer.read(locate(settings.tokenizer))
    elif isinstance(texts, Encoded):
        tokenizer = texts.tokenizer
        for name in ("vocab", "pieces"):
            if getattr(settings, name) != getattr(Speaker, name):
                raise SettingError(
                    f"--{name} is of a new tokenizer, and {texts.folder} has one: leave it out"
                )
    else:
        tokenizer = train_tokenizer(texts.texts, vocab=settings.vocab, kind=settings.pieces, closed=False)
    end = open_end(tokenizer, f"--tokenizer {settings.tokenizer}")
    family = FAMILIES[settings.architecture]
    source = f"--architecture {settings.architecture}"
    config = family.config(Fields(published_fields(settings, vocab=tokenizer.vocab_size), source))
    refuse_huge(sizes(config))
    network = new_transformer(config, None, seed=settings.seed, scaled=family.scaled)
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
