"""A run that learns to turn texts into others, from nothing or further."""

from collections.abc import Sequence
from typing import Any

from clearhead.checkpoint.answering import Begin
from clearhead.checkpoint.catalog import locate
from clearhead.checkpoint.families import FAMILIES
from clearhead.checkpoint.folder import Loaded, read_folder
from clearhead.checkpoint.fresh import new_transformer
from clearhead.checkpoint.sizes import sizes
from clearhead.data.parallel import Pair, pairs_of
from clearhead.data.wording import counted
from clearhead.engine.modes import own_modes
from clearhead.errors import DataError, SettingError
from clearhead.infer.model import Model
from clearhead.learn.by_loss import ByLoss
from clearhead.learn.corpus import digest_of, tenth_aside
from clearhead.learn.finish import write_translation_card
from clearhead.learn.schedule import Schedule
from clearhead.learn.start import refuse_huge
from clearhead.learn.trainer import Adam
from clearhead.model.config import Activation, Config, Sinusoidal
from clearhead.settings import Translating
from clearhead.tasks.translate import TranslationLoss, Translations, encoded, refuse_endless
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.train import train_tokenizer


class TranslateRun(ByLoss):
    """Learns what texts become."""

    settings: Translating
    task_name, noun = "translate", "pair"
    ask = 'predict {} --text "…"'

    @own_modes(learning=True)
    def __init__(self, settings: Translating):
        super().__init__(settings)
        self.notes = []
        pairs = self.read(settings.data)
        if settings.validation:
            self.pairs, self.chosen_by = pairs, self.read(settings.validation)
        else:
            what, data = f"{counted(len(pairs), 'pair')} with text on both sides", ", ".join(settings.data)
            self.pairs, self.chosen_by = tenth_aside(pairs, seed=settings.seed, what=what, data=data)
        every = (*self.pairs, *self.chosen_by)
        said = digest_of(text for pair in every for text in (pair.source, pair.target))
        self.digest = f"{len(self.pairs)} {said}"
        loaded = starting_translator(settings, self.pairs)
        refuse_endless(loaded)
        limit = Model(loaded).limit
        self.context = settings.context if limit is None else min(settings.context, limit)
        self.objective, self.validation = (
            self.translations(loaded, some, what=what)
            for some, what in ((self.pairs, "learn from"), (self.chosen_by, "choose by"))
        )
        if settings.base == "new":
            self.adam = PUBLISHED
        self.ready(loaded, self.objective)

    def read(self, paths: Sequence[str]) -> list[Pair]:
        """Pairs of files; those with an empty side are left out, and told."""
        settings = self.settings
        found = list(pairs_of(paths, settings, format=settings.format, errors=settings.errors))
        whole = [pair for pair in found if not pair.blank]
        if len(whole) < len(found):
            lost = counted(len(found) - len(whole), "pair")
            self.notes.append(f"{', '.join(paths)}: {lost} with an empty side left out")
        if not whole:
            raise DataError(f"{', '.join(paths)}: no pair has text on both sides; give files that hold some")
        same = sum(pair.source == pair.target for pair in whole)
        if same > len(whole) // 2:
            self.notes.append(
                f"{', '.join(paths)}: in {same:,} of {len(whole):,} pairs both sides are the same"
            )
        return whole

    def translations(self, loaded: Loaded, pairs: Sequence[Pair], *, what: str) -> Translations:
        """The ids of pairs, cut to the context, which is told."""
        texts = [((self.settings.prefix or "") + pair.source, pair.target) for pair in pairs]
        sources, answers, cut = encoded(loaded, texts, most=self.context)
        if cut:
            self.notes.append(f"{cut:,} of {len(pairs):,} pairs to {what} are cut to {self.context} tokens")
        self.tell_unknown("what is read", sources, unknown=loaded.tokenizer.unknown_id, what=what)
        self.tell_unknown("what it becomes", answers, unknown=loaded.writer.unknown_id, what=what)
        assert loaded.begin.start is not None
        return Translations(sources, answers, loaded.begin.start, self.settings.label_smoothing)

    def tell_unknown(
        self, side: str, ids: Sequence[Sequence[int]], *, unknown: int | None, what: str
    ) -> None:
        """Tell of a side's tokens that the vocabulary has no pieces for."""
        count = 0 if unknown is None else sum(one.count(unknown) for one in ids)
        share = count / sum(map(len, ids))
        if count:
            self.notes.append(
                f"{share:.1%} of the tokens of {side}, in pairs to {what}, are unknown to the vocabulary"
            )

    @property
    def learned(self) -> list[Pair]:
        """What it learns from."""
        return self.pairs

    def resolved(self) -> dict[str, Any]:
        """What its settings came to."""
        return {
            "training_texts": len(self.pairs),
            "validation_texts": len(self.chosen_by),
            "training_tokens": sum(self.objective.lengths),
            "validation_tokens": sum(self.validation.lengths),
            "context": self.context,
            "vocab": self.model.config.vocab,
            "prefix": self.settings.prefix,
        }

    def made(self) -> str:
        """How large the model is."""
        weights = sum(parameter.numel() for parameter in self.trainer.network.parameters())
        return f"{weights:,} parameters, a vocabulary of {self.model.config.vocab:,}"

    def evaluation(self) -> TranslationLoss:
        """How well it knows the answers that were kept aside."""
        budget = max(4096, self.settings.batch_tokens)
        return self.validation.scores(self.model.loaded.network, budget=budget)

    def usual_rate(self) -> float:
        """Of a new model the peak of the schedule of 2017: (width · warm-up)^-0.5 (Vaswani et al. 2017,
        equation 3)."""
        if self.settings.learning_rate is not None:
            return self.settings.learning_rate
        if self.settings.base != "new":
            return 1e-4
        steps = Schedule.of(1.0, len(self.trainer.steps), warmup=self.settings.warmup).warmup
        return min(MOST_RATE, float((self.model.config.width * steps) ** -0.5))

    def card(self) -> bool:
        """Write the model card."""
        return write_translation_card(self)


PUBLISHED = Adam((0.9, 0.98), 1e-9)  # Vaswani et al. 2017, section 5.3
MOST_RATE = 2e-3  # of runs so short that the formula would give more


def starting_translator(settings: Translating, pairs: Sequence[Pair]) -> Loaded:
    """The model before its first step."""
    if settings.base != "new":
        loaded = read_folder(locate(settings.base), settings)
        if not loaded.network.config.translates:
            raise SettingError(
                f"--from {settings.base} is no encoder–decoder, so it cannot learn what texts become; give "
                "one, or new"
            )
        return loaded
    vocab = settings.vocab
    sides = [(pair.source for pair in pairs), (pair.target for pair in pairs)]
    if settings.separate:
        tokenizer, target = (train_tokenizer(side, vocab=vocab, limit=settings.context) for side in sides)
    else:
        texts = (text for pair in pairs for text in (pair.source, pair.target))
        tokenizer, target = train_tokenizer(texts, vocab=vocab, limit=settings.context), None
    config = transformer(settings, tokenizer, target=target)
    refuse_huge(sizes(config))
    network = new_transformer(config, None, seed=settings.seed)
    roles = (target or tokenizer).roles
    begin = Begin(start=roles["bos_token"])
    family = FAMILIES["clearhead"]
    return Loaded(
        network, tokenizer, (), family, None, ends=(roles["eos_token"],), begin=begin, target=target
    )


def transformer(settings: Translating, tokenizer: Tokenizer, *, target: Tokenizer | None) -> Config:
    """The transformer as it was first published (Vaswani et al. 2017): the norm after, ReLU, sinusoids, token
    vectors times √width, one table for both sides and the head."""
    return Config(
        vocab=tokenizer.vocab_size,
        target_vocab=None if target is None else target.vocab_size,
        width=settings.width,
        layers=settings.layers,
        decoder_layers=settings.layers,
        heads=settings.heads,
        hidden=settings.hidden or 4 * settings.width,
        positions=Sinusoidal(),
        activation=Activation.RELU,
        scale_embedding=True,
        attention_dropout=0.0,
        language_head=True,
    )
