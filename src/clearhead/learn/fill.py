"""A run that trains a model to fill masks, from nothing or further."""

from collections.abc import Sequence
from typing import Any

from clearhead.checkpoint.catalog import locate
from clearhead.checkpoint.families import FAMILIES
from clearhead.checkpoint.folder import Loaded, read_folder
from clearhead.checkpoint.fresh import new_transformer, with_fill
from clearhead.checkpoint.sizes import sizes
from clearhead.checkpoint.translate import Fields
from clearhead.engine.modes import own_modes
from clearhead.errors import SettingError
from clearhead.learn.corpus import Texts
from clearhead.learn.corpus_run import CorpusRun
from clearhead.learn.finish import write_fill_card
from clearhead.learn.start import refuse_huge, refuse_translator
from clearhead.model.config import Fill
from clearhead.settings import Encoder, Masked
from clearhead.tasks.fill import FillScores, Gaps, Hiding
from clearhead.text.masks import MASK
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.train import masked_tokenizer


class FillRun(CorpusRun):
    """Learns to say which token is hidden."""

    settings: Masked
    task_name = "fill"
    ask = f'predict {{}} --text "… {MASK} …"'

    @own_modes(learning=True)
    def __init__(self, settings: Masked):
        super().__init__(settings)
        self.read()
        assert isinstance(self.texts, Texts)
        assert isinstance(self.chosen_by, Texts)
        loaded, self.notes = starting_filler(settings, self.texts.texts)
        self.context = self.context_of(loaded, asked=settings.context, usual=Encoder.context)
        if (around := loaded.tokenizer.special_count()) >= self.context:
            raise SettingError(
                f"--context {self.context} has no room for a token beside the {around} special ones; "
                f"make it at least {around + 1}"
            )
        source = f"--tokenizer {settings.tokenizer}" if settings.tokenizer else f"--from {settings.base}"
        hiding = Hiding(loaded.tokenizer, settings, seed=settings.seed, source=source)
        self.objective, self.validation = (
            Gaps(group, loaded.tokenizer, hiding=hiding, context=self.context)
            for group in (self.texts.texts, self.chosen_by.texts)
        )
        self.objective.check("the texts to learn from", source=source)
        self.validation.check("the texts to choose by", source=source)
        self.ready(loaded, self.objective)
        # Each epoch hides other tokens; the validation texts keep those of the first.
        self.objective.epoch = lambda: self.trainer.steps[self.trainer.done][0]

    def resolved(self) -> dict[str, Any]:
        """What its settings came to."""
        return {
            "training_texts": len(self.texts),
            "validation_texts": len(self.chosen_by),
            "training_tokens": sum(self.objective.lengths),
            "validation_tokens": sum(self.validation.lengths),
            "context": self.context,
            "vocab": self.model.config.vocab,
        }

    def evaluation(self) -> FillScores:
        """How well it knows the hidden tokens of the texts that were kept aside."""
        network, budget = self.model.loaded.network, max(4096, self.settings.batch_tokens)
        return self.validation.scores(network, texts=len(self.chosen_by), budget=budget)

    def card(self) -> bool:
        """Write the model card."""
        return write_fill_card(self)


def starting_filler(settings: Masked, texts: Sequence[str]) -> tuple[Loaded, list[str]]:
    """The model before its first step, and what a person should know of it. Of a published one, what reads
    whole texts is let go, and a body without a head for masked tokens gets a new one."""
    if settings.base != "new":
        loaded = read_folder(locate(settings.base), settings)
        refuse_translator(loaded, settings)
        network = loaded.network
        if network.config.causal:
            raise SettingError(
                f"--from {settings.base} is a decoder, which does not see what stands behind a mask; train "
                "it with clearhead train language"
            )
        if loaded.labels:
            raise SettingError(
                f"--from {settings.base} gives labels, which it would forget; give the model it was made from"
            )
        notes = []
        if network.fill is None:
            with_fill(network, published_fill(loaded), seed=settings.seed)
            notes.append(f"{settings.base} has no head for masked tokens, so that a new one is learned")
        network.head, network.head_facts = None, None  # which would no longer fit the body
        return loaded, notes
    if settings.tokenizer is None:
        kind = settings.architecture
        lowercase = kind == "bert" if settings.lowercase is None else settings.lowercase
        tokenizer = masked_tokenizer(texts, architecture=kind, vocab=settings.vocab, lowercase=lowercase)
    else:
        tokenizer = Tokenizer.read(locate(settings.tokenizer))
    family = FAMILIES[settings.architecture]
    fields = Fields(published_fields(settings, tokenizer), f"--architecture {settings.architecture}")
    config, _ = family.heads(
        family.config(fields), fields, given=dict.fromkeys(family.published("fill.dense.weight"))
    )
    refuse_huge(sizes(config))
    network = new_transformer(config, None, seed=settings.seed)
    return Loaded(network, tokenizer, (), family, None, new_head=family.new_head(fields)), []


def published_fill(loaded: Loaded) -> Fill:
    """The head that a body's family has for masked tokens."""
    family, config = loaded.family, loaded.network.config
    said = family.fields(config, loaded.network.head_facts)
    return family.fill(Fields(said, family.model_type)) if family.fill else Fill()


def published_fields(settings: Masked, tokenizer: Tokenizer) -> dict[str, Any]:
    """The config of a new model in its family's own words; what is not said is as the family is published."""
    width, kind = settings.width, settings.architecture
    if width % settings.heads:
        raise SettingError(f"--width {width} cannot be shared by --heads {settings.heads} evenly")
    stem = {"bert": "Bert", "roberta": "Roberta", "modernbert": "ModernBert"}[kind]
    said = {
        "model_type": kind, "architectures": [f"{stem}ForMaskedLM"], "vocab_size": tokenizer.vocab_size,
        "hidden_size": width, "num_hidden_layers": settings.layers, "num_attention_heads": settings.heads,
        "intermediate_size": settings.hidden or (3 * width // 2 if kind == "modernbert" else 4 * width),
        "max_position_embeddings": settings.context,
    }  # fmt: skip
    if kind != "roberta":
        return said
    pad = tokenizer.roles.get("pad_token")
    if pad is None:
        raise SettingError(
            f"--architecture roberta counts positions from the padding token on, and --tokenizer "
            f"{settings.tokenizer} has none; use bert or modernbert"
        )
    rows = {"pad_token_id": pad, "max_position_embeddings": settings.context + pad + 1}
    return said | rows | {"type_vocab_size": 1, "layer_norm_eps": 1e-5}  # as roberta-base is published
