"""A run that learns vectors which tell what belongs together, from pairs of texts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from clearhead.checkpoint.catalog import locate
from clearhead.checkpoint.embedding import Embedding
from clearhead.checkpoint.folder import Loaded, read_folder
from clearhead.data.couples import Couple, couples_of, scored
from clearhead.data.wording import counted, place
from clearhead.engine.modes import own_modes
from clearhead.errors import DataError, SettingError
from clearhead.infer.couples import evaluate_couples
from clearhead.infer.embed import DOCUMENT, QUERY, limit_of, prompt_of, ready
from clearhead.infer.model import Model
from clearhead.learn.corpus import digest_of, tenth_aside
from clearhead.learn.coupled import Coupled
from clearhead.learn.course import Course
from clearhead.learn.finish import write_embedding_card
from clearhead.learn.start import new_encoder, refuse_translator
from clearhead.model.config import Pooling
from clearhead.settings import Contrasting, Embedded
from clearhead.tasks.embed import (
    PairScores,
    RetrievalScores,
    largest_score,
)
from clearhead.tasks.examples import Example, examples_named


class EmbedRun(Course):
    """Learns from pairs of texts that belong together, or that have scores."""

    settings: Contrasting
    task_name, noun, batch_option, embeds = "embed", "pair", "batch_pairs", True
    ask = 'predict {} --text "…"'

    @own_modes(learning=True)
    def __init__(self, settings: Contrasting):
        super().__init__(settings)
        self.notes = []
        pairs = self.read(settings.data)
        if settings.validation:
            self.pairs, self.chosen_by = pairs, self.read(settings.validation)
        else:
            what = f"{counted(len(pairs), 'pair')} with text on both sides"
            self.pairs, self.chosen_by = tenth_aside(pairs, seed=settings.seed, what=what, data=settings.data)
        if scored(self.pairs) != scored(self.chosen_by):
            raise DataError("--data and --validation must both have scores, or none of them")
        self.check()
        self.largest = largest_score(self.pairs)
        self.metric = "spearman" if scored(self.pairs) else "mrr_at_10"
        loaded = starting_model(settings, self.pairs)
        assert loaded.embedding
        model = Model(loaded)
        sides = self.sides(model, self.pairs, what="learn from")
        self.sides(model, self.chosen_by, what="choose by")  # what cannot be read is refused now
        self.objective = Coupled(
            loaded.network, self.pairs, sides=sides, pooling=loaded.embedding.pooling, settings=settings,
            largest=self.largest,
        )  # fmt: skip
        self.ready(loaded, self.objective)

    def read(self, path: str) -> list[Couple]:
        """The pairs of a file; those with an empty side are left out, and told."""
        settings = self.settings
        found = list(
            couples_of(
                path,
                settings,
                negative_column=settings.negative_column,
                format=settings.format,
                errors=settings.errors,
            )
        )
        whole = [couple for couple in found if not couple.blank]
        if lost := len(found) - len(whole):
            self.notes.append(f"{path}: {counted(lost, 'pair')} with an empty side left out")
        if not whole:
            raise DataError(f"{path}: no pair has text on both sides; give a file that holds some")
        return whole

    def check(self) -> None:
        """Refuse pairs that tell nothing from anything; tell of those that are there more than once."""
        pairs, data = self.pairs, self.settings.data
        if scored(pairs):
            if len({couple.score for couple in pairs}) < 2:
                raise DataError(f"{data}: all pairs have the same score, so nothing can be learned from them")
            return
        if what := untold(pairs):
            raise DataError(
                f"{data}: {what} to learn from: there is nothing to tell it from; give pairs with different "
                "texts on both sides, or a column of negatives"
            )
        told = {couple.anchor for couple in pairs} | {couple.positive for couple in pairs}
        known = {(couple.anchor, couple.positive) for couple in pairs}
        if repeated := len(pairs) - len(known):
            self.notes.append(f"{data}: {counted(repeated, 'pair')} there more than once")
        if 2 * len(pairs) - len(told):
            self.notes.append("texts that are there more than once are no negatives of what belongs to them")
        if both := sum((couple.anchor, couple.positive) in known for couple in self.chosen_by):
            aside = len(self.chosen_by)
            self.notes.append(f"{both} of {aside} validation pairs stand among the training pairs too")
        if (size := self.settings.batch_pairs) > len(pairs):
            self.notes.append(f"--batch-pairs {size} are more than there are; each step has all {len(pairs)}")

    def sides(
        self, model: Model, pairs: Sequence[Couple], *, what: str
    ) -> tuple[list[Example], list[Example], list[Example | None]]:
        """First texts, second ones and negatives as ids, cut to what the model reads, which is told."""
        settings = self.settings
        facts, limit = model.loaded.embedding, limit_of(model)
        assert facts
        prompts = [prompt_of(model, Embedded(), roles=roles) for roles in (QUERY, DOCUMENT)]
        if not facts.included and any(prompts):
            raise SettingError(
                f"{model.name} leaves its prompt out of the pooling (include_prompt), which is not learned "
                "here; take another model"
            )
        if scored(pairs):
            prompts = [facts.prompt()] * 2

        def examples(side: str, prompt: str) -> list[Example]:
            there = [(text, one) for one in pairs if (text := getattr(one, side)) is not None]
            texts = [ready(text, prompt, lowercase=facts.lowercase) for text, _ in there]
            names = [place(one.file, one.row) for _, one in there]
            return examples_named(texts, model.tokenizer, names=names, limit=limit, reading=settings)

        ones, others = examples("anchor", prompts[0]), examples("positive", prompts[1])
        found = iter(examples("negative", prompts[1]))
        thirds = [None if one.negative is None else next(found) for one in pairs]
        if cut := sum(bool(one.dropped or other.dropped) for one, other in zip(ones, others, strict=True)):
            told = f"in {cut:,} of {len(pairs):,} pairs to {what} a text is cut to {limit} tokens"
            self.notes.append(told)
        return ones, others, thirds

    def data(self) -> str:
        """SHA-256 of all pairs, and of which are learned from and which chosen by."""
        every = (*self.pairs, *self.chosen_by)
        facts = ((one.anchor, one.positive, one.negative or "", repr(one.score)) for one in every)
        return f"{len(self.pairs)} {digest_of(word for some in facts for word in some)}"

    @property
    def learned(self) -> Sequence[Couple]:
        """What it learns from."""
        return self.pairs

    def resolved(self) -> dict[str, Any]:
        """What its settings came to."""
        embedding = self.model.loaded.embedding
        assert embedding
        return {
            "training_texts": len(self.pairs),
            "validation_texts": len(self.chosen_by),
            "training_tokens": sum(self.objective.lengths),
            "pooling": str(embedding.pooling),
            "normalise": embedding.normalise,
            "scores_divided_by": self.largest if scored(self.pairs) else None,
        }

    def made(self) -> str:
        """What its vectors will be."""
        embedding = self.model.loaded.embedding
        assert embedding
        width = self.model.config.width
        kept = min(embedding.dimensions or width, width)
        return f"vectors of {kept} numbers, {embedding.pooling} pooling"

    def evaluation(self) -> PairScores:
        """How well its vectors tell what belongs together among the pairs kept aside."""
        settings = self.settings
        asking = Embedded(
            long=settings.long, stride=settings.stride, batch_tokens=max(2048, settings.batch_tokens)
        )
        metrics, _ = evaluate_couples(
            self.model, self.chosen_by, settings=asking, scale=settings.scale, largest=self.largest
        )
        return metrics

    def value_of(self, metrics: PairScores) -> float:
        """MRR@10 or, of pairs with scores, Spearman's correlation."""
        value = metrics.mrr_at_10 if isinstance(metrics, RetrievalScores) else metrics.spearman
        return -1.0 if value is None else float(value)

    def share(self) -> float:
        """By number."""
        return len(self.chosen_by) / len(self.pairs)

    def card(self) -> bool:
        """Write the model card."""
        return write_embedding_card(self)


def untold(pairs: Sequence[Couple]) -> str:
    """What pairs are of which every text belongs to every first one, so that the loss is 0 from the start; ""
    where some text can be told from another."""
    right: dict[str, set[str]] = {}
    for couple in pairs:
        right.setdefault(couple.anchor, {couple.anchor}).add(couple.positive)
    seconds = {couple.positive for couple in pairs}
    every = seconds | {couple.negative for couple in pairs if couple.negative is not None}
    if not all(every <= own for own in right.values()):
        return ""
    if len(pairs) == 1:
        return "one pair"
    for which, texts in (("second", seconds), ("first", right.keys())):
        if len(texts) == 1:
            return f"pairs that all have the same {which} text"
    return "pairs of which each second text belongs to each first one"


def starting_model(settings: Contrasting, couples: Sequence[Couple]) -> Loaded:
    """The model before its first step. What its folder says of vectors stays, apart from what was asked for;
    where it says nothing, they are the mean, with length 1."""
    if settings.base == "new":
        texts = (text for couple in couples for text in (couple.anchor, couple.positive))
        loaded = new_encoder(settings, texts, head=None)
    else:
        loaded = read_folder(locate(settings.base), settings)
        refuse_translator(loaded, settings)
        if loaded.labels:
            raise SettingError(
                f"--from {settings.base} gives labels, which it would forget; give the model it was made from"
            )
        network = loaded.network
        if network.config.language_head or network.fill:
            raise SettingError(
                f"--from {settings.base} has a head for words, which vectors do not learn; give a body alone"
            )
    embedding = loaded.embedding or Embedding(normalise=True)
    if settings.pooling is not None:
        embedding = replace(embedding, pooling=Pooling(settings.pooling))
    return replace(loaded, embedding=embedding)
