"""One text as a model reads it, and the number that its answer hangs on: what effects are measured of."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cosine_similarity, logsigmoid

from clearhead.checkpoint.labels import Problem
from clearhead.engine.modes import own_modes
from clearhead.errors import DataError, SettingError
from clearhead.infer.batches import packed
from clearhead.infer.generate import beginning, tokens
from clearhead.infer.given import check_texts
from clearhead.infer.model import Model
from clearhead.model.config import Pooling
from clearhead.model.heads import pool
from clearhead.model.kernels import Context
from clearhead.model.layout import Batch
from clearhead.settings import Generating
from clearhead.tasks.translate import side_by_side
from clearhead.text.encoding import Encoding, Text
from clearhead.text.masks import mask_of, with_masks
from clearhead.text.stream import text_of

ROOM = 4096  # tokens of copies of a text that go through a model at a time
LONGEST = 30  # tokens of an answer in a text
MOST = 64  # tokens of an answer that is made to be looked at


@dataclass(frozen=True, eq=False)
class Reading:
    """A text, or a pair, as ids; of a translator also the ids before and of its answer."""

    model: Model
    text: Text
    encoding: Encoding
    said: tuple[int, ...] = ()

    @classmethod
    def of(cls, model: Model, text: Text, *, answer: str | None = None, most: int = MOST) -> "Reading":
        """As the model's task reads it, in one window. A translator's answer is the given one or, where none
        is, its own greedy one. Raises `DataError` for a text that is blank or longer than the model takes."""
        (text,) = check_texts([text])
        text = text if isinstance(text, str) else (text[0], text[1])
        parts = [text] if isinstance(text, str) else list(text)
        if not all(part.strip() for part in parts):
            raise DataError("there is nothing to look at in an empty text; write something")
        if model.answers and len(parts) < 2:
            raise DataError("a question is asked of a context; give both: the context with --context")
        asks = model.fills and any(has_mask(model, part) for part in parts)
        if len(parts) > 1 and (model.speaks or model.translates or model.tags or asks):
            raise DataError(
                f"two texts are given, and {model.name} reads one{' with masks' if asks else ''}; give one"
            )
        if answer is not None and not model.translates:
            raise SettingError(f"answer={answer!r:.60} is for models that turn a text into another")
        if model.fills and isinstance(text, str) and has_mask(model, text):
            encoding = with_masks(model.tokenizer, text, name="the text")
        else:
            (encoding,) = model.tokenizer.encode([text], limit=None)
        if model.limit is not None and len(encoding.ids) > model.limit:
            raise DataError(
                f"the text has {len(encoding.ids)} tokens, the model takes {model.limit}; shorten it"
            )
        said: tuple[int, ...] = ()
        if model.translates:
            start = model.loaded.begin.known(model.name)
            if answer is None:
                how = Generating(max_new_tokens=most)
                said = (start, *(one.id for one in tokens(model, [list(encoding.ids)], settings=how)))
            else:
                said = (start, *model.loaded.writer.plain([answer])[0], *model.loaded.ends[:1])
        return cls(model, text, encoding, said).checked()

    def checked(self) -> "Reading":
        """The same; DataError where the answer is longer than the decoder's positions."""
        most = self.model.config.limit if self.model.translates else None
        if most is not None and len(self.fed) > most:
            raise DataError(
                f"the answer has {len(self.fed)} tokens, {self.model.name} takes {most}; shorten it"
            )
        return self

    @property
    def fed(self) -> tuple[int, ...]:
        """The tokens that go through the layers that answer."""
        return self.said[:-1] if self.model.translates else self.encoding.ids

    @property
    def answer(self) -> str:
        """A translator's answer."""
        before = beginning(self.model, list(self.encoding.ids))
        return text_of(self.model.loaded.writer, list(self.said[1:]), before=before)

    def run(self, copies: int = 1) -> tuple[Tensor, Batch]:
        """The stream after the last block of so many copies in one call, and how they lie."""
        network = self.model.loaded.network
        if self.model.translates:
            source, target = side_by_side([self.encoding.ids] * copies, [self.fed] * copies)
            return network.answering(source, target), target
        batch = packed([self.encoding] * copies)
        return network(batch), batch


def best_span(logits: Tensor, encoding: Encoding) -> tuple[int, int]:
    """The tokens of the context that an answer begins and ends with: the best pair, of at most 30 tokens."""
    inside = [at for at, source in enumerate(encoding.sources) if source == 1]
    starts, ends = logits[inside, 0], logits[inside, 1]
    pairs = (starts[:, None] + ends[None]).triu() + torch.full_like(starts[:, None] * ends, -torch.inf).tril(
        -1
    )
    pairs = pairs + torch.full_like(pairs, -torch.inf).triu(LONGEST)
    best = int(pairs.argmax())
    return inside[best // len(inside)], inside[best % len(inside)]


def shown(model: Model, id: int) -> str:
    """A token as people read it: its text where it has any, else its name."""
    return text_of(model.loaded.writer, [id], before=[]).strip() or model.tokenizer.name(id)


def has_mask(model: Model, text: str) -> bool:
    """Whether a text has a place to be filled."""
    return "[MASK]" in text or model.tokenizer.name(mask_of(model.tokenizer, source=model.name)) in text


@dataclass(frozen=True, eq=False)
class Objective:
    """What a model's answer to one text hangs on: `name` says what, `unit` in which unit it is measured,
    `wanted` are the labels, ids or places that it answered."""

    reading: Reading
    name: str
    unit: str
    wanted: Tensor

    def __call__(self, copies: int = 1) -> Float[Tensor, " copies"]:
        """It, of each of so many copies in one call; gradients go through where they are on."""
        stream, batch = self.reading.run(copies)
        layout, model = batch.layout, self.reading.model
        network = model.loaded.network
        rows = torch.stack([stream[lying] for lying in layout.slices])  # [copies, tokens, width]
        if model.loaded.labels:
            assert network.head
            logits = network.head(stream, Context.of(layout))
            if model.tags or model.answers:
                logits = torch.stack([logits[lying] for lying in layout.slices])
            return self.of_labels(logits)
        if model.translates:
            said = network.next_logits(rows.flatten(0, 1)).unflatten(0, rows.shape[:2]).log_softmax(-1)
            return said.gather(2, self.wanted.expand(copies, -1)[..., None]).sum((1, 2))
        if model.speaks:
            return network.next_logits(rows[:, -1]).log_softmax(-1)[:, int(self.wanted)]
        if model.fills:
            at, ids = self.wanted
            said = network.fill_logits(rows[:, at].flatten(0, 1)).unflatten(0, (copies, len(at)))
            return said.log_softmax(-1).gather(2, ids.expand(copies, -1)[..., None]).sum((1, 2))
        vectors = pool(stream, layout, pooling=pooling_of(model))
        return cosine_similarity(vectors, self.wanted.expand_as(vectors))

    def of_labels(self, logits: Tensor) -> Tensor:
        """What the model said of labels, from `[copies, labels]` or `[copies, tokens, labels]`."""
        problem, wanted = self.reading.model.loaded.problem, self.wanted
        if problem is Problem.SPANS:
            start, end = logits.log_softmax(1).unbind(-1)
            return start[:, int(wanted[0])] + end[:, int(wanted[1])]
        if problem is Problem.TAGS:
            content = torch.tensor([not special for special in self.reading.encoding.special])
            said = logits.log_softmax(-1)[:, content]
            return said.gather(2, wanted.expand(len(logits), -1)[..., None]).sum((1, 2))
        chosen = logits[:, int(wanted)]
        if problem is Problem.SINGLE:
            return logits.log_softmax(-1)[:, int(wanted)]
        return chosen if problem is Problem.REGRESSION else logsigmoid(chosen)


def pooling_of(model: Model) -> Pooling:
    """How this model's vectors are pooled."""
    return Pooling.MEAN if model.loaded.embedding is None else model.loaded.embedding.pooling


@own_modes()
def objective(reading: Reading) -> Objective:
    """What the model's own answer to a text hangs on: the log-probability of its label, its next token, its
    whole answer, what it puts at masks, its tags, its span; of a model that embeds, how like its vector is to
    itself. Raises `DataError` for a text that is asked nothing: without a mask, of a model that fills."""
    model, (stream, batch) = reading.model, reading.run()
    network, rows = model.loaded.network, stream[batch.layout.slices[0]]
    labels, nats = model.loaded.labels, "nats"
    if labels:
        assert network.head
        logits = network.head(stream, Context.of(batch.layout))
        match model.loaded.problem:
            case Problem.SPANS:
                start, end = best_span(logits, reading.encoding)
                return Objective(reading, f"tokens {start} to {end}", nats, torch.tensor([start, end]))
            case Problem.TAGS:
                content = torch.tensor([not special for special in reading.encoding.special])
                return Objective(reading, "its tags", nats, logits[: len(rows)][content].argmax(-1))
            case Problem.REGRESSION:
                return Objective(reading, labels[0], "its unit", torch.tensor(0))
            case _:
                best = int(logits[0].argmax())
                return Objective(reading, labels[best], nats, torch.tensor(best))
    if model.translates:
        return Objective(reading, reading.answer, nats, torch.tensor(reading.said[1:]))
    if model.speaks:
        best = int(network.next_logits(rows[-1:])[0].argmax())
        return Objective(reading, shown(model, best), nats, torch.tensor(best))
    if model.fills:
        mask = mask_of(model.tokenizer, source=model.name)
        at = torch.tensor([place for place, id in enumerate(reading.encoding.ids) if id == mask])
        if not len(at):
            raise DataError("the text has no mask, so the model answers nothing; write [MASK] for a word")
        ids = network.fill_logits(rows[at]).argmax(-1)
        words = ", ".join(model.tokenizer.name(int(id)) for id in ids)
        return Objective(reading, words, nats, torch.stack([at, ids]))
    vector = pool(stream, batch.layout, pooling=pooling_of(model))
    return Objective(reading, "its own vector", "cosine", vector)
