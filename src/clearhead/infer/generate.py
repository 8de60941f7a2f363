"""A language model goes on with texts: an iterator of tokens, whatever the number and the lengths of texts.

Texts come in as others end; each has its own keys and values, as long as it is, and its own random numbers,
so that an answer does not depend on the company it was made in.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Literal

from torch import Tensor

from clearhead.engine.modes import own_modes
from clearhead.errors import DataError, NotFinite, SettingError
from clearhead.infer.batches import CALLS, ended
from clearhead.infer.choosing import chosen, framed, ruled, settings_of, stream_of
from clearhead.infer.given import check_texts
from clearhead.infer.model import Model, asked
from clearhead.infer.steps import joined, read, speaker
from clearhead.model.cache import Cache
from clearhead.model.transformer import Transformer
from clearhead.settings import Generating, made
from clearhead.text.stream import Stream

End = Literal["end", "stop", "length"]


@dataclass(frozen=True, slots=True)
class Token:
    """One token of an answer. `log_probability` is the model's own, before penalties and temperature, in
    nats; `end` says, of the last token, why it is the last: an end token, a stop string, or the length."""

    text: int  # which prompt
    sample: int  # which of its answers
    id: int
    piece: str  # text that is certain by now; put together, the answer
    log_probability: float
    end: End | None = None


@dataclass(eq=False)
class Lane:
    """An answer that is being made."""

    text: int
    sample: int
    ids: list[int]  # the prompt's and the answer's; of a text that is answered, the answer's alone
    prompt: int  # how many are the prompt's, or stand before an answer
    settings: Generating
    chance: random.Random
    stream: Stream
    most: int  # tokens of the answer
    ended: End | None = field(default=None)
    guessed: list[int] = field(default_factory=list)

    @property
    def new(self) -> int:
        """Tokens of the answer so far."""
        return len(self.ids) - self.prompt

    def guess(self, limit: int | None) -> list[int]:
        """What may come next: what came after the last two tokens where they stood before (Saxena 2023).
        Guesses are checked, never trusted; fewer near the answer's end, so that no position is missing."""
        most = min(self.settings.lookup, self.most - self.new - 1)
        most = most if limit is None else min(most, limit - len(self.ids))
        self.guessed = follow_up(self.ids, most=most) if most > 0 else []
        return self.guessed


def tokens(
    model: Model, prompts: Sequence[Sequence[int]], *, settings: Generating | Sequence[Generating]
) -> Iterator[Token]:
    """The tokens of the answers to prompts of ids, as they come; `settings` of all, or of each prompt
    (`batch_texts` is that of the first). An encoder–decoder reads a prompt whole and answers it.

    Raises `SettingError` for a model without a language head, `DataError` for a prompt that is empty or fills
    the model's positions.
    """
    network = speaker(model)
    check_prompts(prompts, network)
    each = settings_of(settings, prompts)
    if any(own.beams > 1 for own in each):
        raise SettingError("beams are searched by clearhead.infer.beams.beam_search; here an answer is one")
    refuse_foreign(network, each)
    waiting = [(text, sample) for text, own in enumerate(each) for sample in range(own.samples)][::-1]
    cache, active, call = Cache(network.config), list[Lane](), next(CALLS)
    while waiting or active:
        free = each[0].batch_texts - len(active)
        come = [
            begin(model, prompts[text], text=text, sample=sample, settings=each[text])
            for text, sample in (waiting.pop() for _ in range(min(free, len(waiting))))
        ]
        with own_modes():
            pieces = [[lane.ids[-1], *lane.guess(network.config.limit)] for lane in active]
            newer = read(network, [prompts[lane.text] for lane in come])
            logits = joined(network, cache, pieces=pieces, newer=newer, begun=[lane.ids for lane in come])
            active += come
            found = [advance(model, lane, logits=row) for lane, row in zip(active, logits, strict=True)]
        for trail, lane in zip(cache.trails, active, strict=True):
            if lane.ended:
                name, prompt = (call, lane.text, lane.sample), prompts[lane.text]
                ended(trail, name=name, prompt=prompt, tokens=len(lane.ids) - 1)
        for came in found:
            yield from came
        # A guess that was wrong, and what came after it, is taken back.
        cache.forget([len(row) - len(came) for row, came in zip(logits, found, strict=True)])
        stay = [place for place, lane in enumerate(active) if lane.ended is None]
        if len(stay) < len(active):
            cache.keep(stay)
            active = [active[place] for place in stay]


def follow_up(ids: Sequence[int], *, most: int) -> list[int]:
    """The tokens that followed the last two where these stood last before."""
    tail = tuple(ids[-2:])
    for start in range(len(ids) - 3, -1, -1):
        if (ids[start], ids[start + 1]) == tail:
            return list(ids[start + 2 : start + 2 + most])
    return []


def refuse_foreign(network: Transformer, settings: Sequence[Generating]) -> None:
    """Refuse a bias of an id that the model does not have, or of all it has."""
    vocab = len(network.next_weight)
    for biases in (each.biases for each in settings):
        if beyond := [id for id in biases if id >= vocab]:
            raise SettingError(f"--logit-bias {beyond[0]}: the model's ids go from 0 to {vocab - 1}")
        if list(biases.values()).count(-inf) == vocab:
            raise SettingError("--logit-bias forbids every token; leave at least one")


def check_prompts(prompts: Sequence[Sequence[int]], network: Transformer) -> None:
    """Refuse prompts from which no token can follow, by number."""
    vocab, limit, answered = network.config.vocab, network.config.limit, network.config.translates
    for index, prompt in enumerate(prompts):
        if isinstance(prompt, str):
            raise DataError(
                f"prompt {index} is a string; give its ids: model.tokenizer.encode([prompt])[0].ids"
            )
        if not len(prompt):
            raise DataError(
                f"prompt {index} is empty: a model goes on from at least one token; write something"
            )
        for id in prompt:
            if isinstance(id, bool) or not isinstance(id, int) or not 0 <= id < vocab:
                raise DataError(f"prompt {index} holds {id!r}; the model's ids go from 0 to {vocab - 1}")
        if limit is not None and len(prompt) >= limit + answered:
            raise DataError(
                f"prompt {index} has {len(prompt)} tokens, and the model has {limit} positions"
                f"{'' if answered else ', the answer included'}; shorten the prompt"
            )


def refuse_unusable(logits: Tensor, scores: Tensor) -> None:
    """Refuse to choose where the model's numbers are none, or rules have left nothing."""
    if not logits.max() < inf:  # NaN is not below anything
        raise NotFinite("the model computes numbers that are not finite, so it cannot say what comes next")
    if scores.max() == -inf:
        raise SettingError(
            "no token is left to choose: --logit-bias, --no-repeat-ngram-size and --min-new-tokens forbid "
            "them all"
        )


def begin(model: Model, prompt: Sequence[int], *, text: int, sample: int, settings: Generating) -> Lane:
    """An answer of which nothing is there yet."""
    chance = stream_of(settings.seed, prompt, sample=sample)
    before = beginning(model, prompt)
    stream = Stream(model.loaded.writer, settings.stop or (), before=before)
    most = most_of(model, prompt, settings=settings)
    return Lane(text, sample, before, len(before), settings, chance, stream, most)


def most_of(model: Model, prompt: Sequence[int], *, settings: Generating) -> int:
    """Most tokens of the answer to a prompt; SettingError where a decoder has no positions for the least."""
    limit, least = model.config.limit, settings.min_new_tokens
    if model.config.translates and limit is not None and least >= limit:
        raise SettingError(
            f"--min-new-tokens {least} is more than {model.name} has positions for: {limit - 1}"
        )
    return settings.most_of(len(prompt)) if model.config.translates else settings.most


def beginning(model: Model, prompt: Sequence[int]) -> list[int]:
    """The ids that an answer goes on from: the prompt's, or the one before all answers to texts."""
    start = model.loaded.begin.start
    return list(prompt) if start is None else [start]


def advance(model: Model, lane: Lane, *, logits: Tensor) -> list[Token]:
    """Choose the next token of one answer from the first row of logits; as long as it is the one that was
    guessed, the next from the next row."""
    guessed, made = lane.guessed, list[Token]()
    for row in logits:
        made.append(chosen_token(model, lane, logits=row))
        if lane.ended or len(made) > len(guessed) or guessed[len(made) - 1] != made[-1].id:
            break
    lane.guessed = []
    return made


def chosen_token(model: Model, lane: Lane, *, logits: Tensor) -> Token:
    """One more token of an answer, and whether it is the last."""
    ends, limit = model.loaded.ends, model.config.limit
    scores = framed(logits, model.loaded.begin, new=lane.new)
    scores = ruled(scores, lane.ids, new=lane.new, ends=ends, settings=lane.settings)
    refuse_unusable(logits, scores)
    id = chosen(scores, lane.settings, chance=lane.chance)
    sure = float(logits[id] - logits.logsumexp(-1))
    lane.ids.append(id)
    piece = lane.stream.push(id)
    if id in ends:
        lane.ended = "end"
    elif lane.stream.stopped is not None:
        lane.ended = "stop"
    elif lane.new >= lane.most or len(lane.ids) == limit:
        lane.ended = "length"
    if lane.ended and lane.ended != "stop":
        piece += lane.stream.close()
    return Token(lane.text, lane.sample, id, piece, sure, lane.ended)


def generate(model: Model, prompts: Sequence[str], **settings: object) -> Iterator[tuple[int, str]]:
    """Go on with texts: (index of the prompt, piece of its answer), as the pieces come.

    Greedy unless `temperature` is above 0; options as `clearhead generate --help` lists them.
    """
    wanted: Generating = made(Generating, settings)
    model = asked(model)
    if wanted.samples > 1:
        raise SettingError(
            "samples gives several answers to a prompt; clearhead.infer.generate.tokens tells them apart"
        )
    ids = [list(encoding.ids) for encoding in model.tokenizer.encode(check_texts(prompts))]
    for token in tokens(model, ids, settings=wanted):
        if token.piece:
            yield token.text, token.piece
