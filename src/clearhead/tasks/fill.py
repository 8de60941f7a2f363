"""Masked tokens (Devlin et al. 2018, section 3.1): which are hidden, what is learned, what stands there."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from clearhead.engine.dropout import Dropout
from clearhead.engine.modes import own_modes
from clearhead.errors import DataError, SettingError
from clearhead.model.kernels import Context
from clearhead.model.layout import pack, round_up, within_budget
from clearhead.model.linear import linear
from clearhead.model.transformer import Transformer
from clearhead.settings import Hidden
from clearhead.tasks.language import CHUNK, IGNORED, mean_of, next_token_loss
from clearhead.text.masks import mask_of
from clearhead.text.tokenizer import Tokenizer

Places = np.ndarray[Any, np.dtype[np.integer[Any]]]
HIDDEN, SWAPPED = 0.8, 0.9  # of the chosen tokens so many become masks, up to here others, the rest stays


@dataclass(frozen=True)
class FillScores:
    """How well a model knows hidden tokens: `loss` is their mean in nats, `accuracy` the share for which the
    most likely token is the right one."""

    texts: int
    tokens: int
    masked: int
    loss: float
    perplexity: float
    accuracy: float

    def summary(self) -> dict[str, Any]:
        """The scores for metrics.jsonl."""
        counts = ("texts", "tokens", "masked")
        return {f"eval_{name}": value for name, value in asdict(self).items() if name not in counts}


@dataclass(frozen=True)
class Candidate:
    """A token that may stand at a mask, under the published names: its probability, its id, its text."""

    score: float
    token: int
    token_str: str


@dataclass(frozen=True)
class Filled:
    """What stands at the masks of one text, in order: of each the most likely tokens. `tokens` went through
    the model in `windows`, `dropped` did not fit. A text that was skipped has no masks."""

    masks: tuple[tuple[Candidate, ...], ...]
    tokens: int
    dropped: int = 0
    windows: int = 1


class Hiding:
    """Which tokens of a piece are hidden, and by what: a function of the seed, the epoch and the piece's ids
    alone, so that neither its company nor a stop and a resumption change it.

    Of the tokens that are no special ones `share` is chosen, at least one; of these 80 % become the mask,
    10 % another token, 10 % stay (Devlin et al. 2018, section 3.1). Of whole words those are chosen that fit.
    """

    def __init__(self, tokenizer: Tokenizer, hidden: Hidden, *, seed: int, source: str):
        self.share, self.whole_words, self.seed = hidden.mask_share, hidden.whole_words, seed
        self.mask = mask_of(tokenizer, source=source)
        left_alone = {*tokenizer.control_ids, tokenizer.unknown_id}
        self.others = np.array([id for id in tokenizer.vocabulary().values() if id not in left_alone])
        if not len(self.others):
            raise SettingError(f"{source}: its tokenizer has special tokens alone; give one with words")
        self.chosen_from = np.zeros(tokenizer.vocab_size, dtype=bool)
        self.chosen_from[self.others] = True

    def __call__(
        self, ids: Places, words: Places | None = None, *, epoch: int = 0
    ) -> tuple[list[int], list[int]]:
        """The piece as it is read, and the places that are asked about, in order; `words` are the numbers of
        the words that the ids are pieces of, where whole words are hidden. One id at least can be chosen."""
        said = f"{self.seed} {epoch} ".encode() + ids.astype("<i4").tobytes()
        chance = np.random.default_rng(
            int.from_bytes(hashlib.blake2b(said, digest_size=16).digest(), "little")
        )
        open_places = np.flatnonzero(self.chosen_from[ids])
        count = max(1, round(self.share * len(open_places)))
        if words is None:
            places = np.sort(chance.permutation(open_places)[:count])
        else:
            places = whole(open_places, words[open_places], count=count, chance=chance)
        fates = chance.random(len(places))
        read = ids.copy()
        read[places[fates < HIDDEN]] = self.mask
        swapped = places[(fates >= HIDDEN) & (fates < SWAPPED)]
        read[swapped] = chance.choice(self.others, len(swapped))
        return read.tolist(), places.tolist()


def whole(places: Places, words: Places, *, count: int, chance: np.random.Generator) -> Places:
    """Places of whole words, as many words as together have at most `count` places, and at least one word."""
    sizes = dict(zip(*np.unique(words, return_counts=True), strict=True))
    taken: list[int] = []
    room = count
    for word in chance.permutation(np.array(list(sizes))).tolist():
        if not taken or sizes[word] <= room:
            taken.append(word)
            room -= sizes[word]
        if room <= 0:
            break
    return places[np.isin(words, taken)]


class Gaps:
    """Documents cut into pieces of at most `context` tokens, what stands around a text included, never across
    a border; of each some tokens are hidden and asked for. `epoch` is asked which epoch it is."""

    def __init__(self, texts: Iterable[str], tokenizer: Tokenizer, *, hiding: Hiding, context: int):
        self.tokenizer, self.hiding = tokenizer, hiding
        self.epoch: Callable[[], int] = lambda: 0
        around = tokenizer.special_count()
        room = max(1, context - around)
        ids, words = [np.zeros(0, dtype=np.int32)], [np.zeros(0, dtype=np.int32)]
        self.spans: list[tuple[int, int]] = []
        place = 0
        for text in texts:
            (document,) = (np.array(found, dtype=np.int32) for found in tokenizer.plain([text]))
            for start in range(0, len(document), room):
                end = min(start + room, len(document))
                if hiding.chosen_from[document[start:end]].any():
                    self.spans.append((place + start, place + end))
            place += len(document)
            ids.append(document)
            if hiding.whole_words:
                words.append(np.array(tokenizer.words(text), dtype=np.int32))
        self.ids = np.concatenate(ids)
        self.words = np.concatenate(words) if hiding.whole_words else None
        self.lengths = [end - start + around for start, end in self.spans]

    def check(self, texts: str, *, source: str) -> None:
        """DataError where the `texts`, as they are called, hold no token that could be hidden."""
        if self.spans:
            return
        if len(self.ids):
            raise DataError(
                f"{source}: its tokenizer knows nothing of {texts}: all of their {len(self.ids):,} tokens "
                "are unknown; give texts that it knows, or a tokenizer that was learned from such texts"
            )
        raise DataError(f"{texts} hold no token that could be hidden; give texts that hold some")

    def hidden(self, member: int) -> tuple[list[int], list[int]]:
        """The ids of a piece as they are read, and the places that are asked about."""
        rows = slice(*self.spans[member])
        words = None if self.words is None else self.words[rows]
        return self.hiding(self.ids[rows], words, epoch=self.epoch())

    def size(self, members: Sequence[int]) -> float:
        """How many tokens are asked for."""
        return float(sum(len(self.hidden(member)[1]) for member in members))

    def rows(
        self, network: Transformer, members: Sequence[int], *, drop: Dropout | None
    ) -> tuple[Float[Tensor, "rows width"], Int[Tensor, " rows"]]:
        """The stream where tokens are asked for, and what is right there; rows are rounded up with zeros that
        are not asked for, so that no row's bits depend on how many there are."""
        drawn = [self.hidden(member) for member in members]
        read = [self.tokenizer.framed(ids) for ids, _ in drawn]
        batch = pack([text.ids for text in read], [text.segments for text in read])
        stream = network(batch, Context.of(batch.layout, drop=drop))
        places, targets = [], []
        for member, text, (_, asked), lies in zip(members, read, drawn, batch.layout.slices, strict=True):
            own = np.flatnonzero(~np.array(text.special))  # the places of the piece's own tokens
            places += (lies.start + own[asked]).tolist()
            targets += self.ids[slice(*self.spans[member])][asked].tolist()
        spare = round_up(len(places)) - len(places)
        x = functional.pad(stream[torch.tensor(places, dtype=torch.long)], (0, 0, 0, spare))
        return x, torch.tensor(targets + [IGNORED] * spare, dtype=torch.long)

    def loss(self, network: Transformer, members: Sequence[int], *, drop: Dropout | None) -> Tensor:
        """The loss of every token that is asked for, summed."""
        x, targets = self.rows(network, members, drop=drop)
        made, weight, bias = network.filling(x)
        return next_token_loss(made, weight, targets=targets, bias=bias)

    @own_modes()
    def scores(self, network: Transformer, *, texts: int, budget: int) -> FillScores:
        """How well a model knows the hidden tokens of these documents."""
        nats, right, masked = 0.0, 0, 0
        for members in within_budget(self.lengths, budget):
            x, targets = self.rows(network, members, drop=None)
            made, weight, bias = network.filling(x)
            size = rows_at_once(len(weight))
            for part, sought in zip(made.split(size), targets.split(size), strict=True):
                logits = linear(part, weight, bias=bias)
                losses = functional.cross_entropy(logits, sought, ignore_index=IGNORED, reduction="none")
                nats += float(losses.double().sum())
                right += int((logits.argmax(-1) == sought).sum())
            masked += int((targets != IGNORED).sum())
        loss, perplexity = mean_of(nats, masked)
        return FillScores(texts, sum(self.lengths), masked, loss, perplexity, right / max(1, masked))


def rows_at_once(vocab: int) -> int:
    """Of how many rows logits are held at a time: a multiple of 8, at which no row's bits depend on it."""
    return max(1, CHUNK // vocab // 8) * 8


def most_likely(
    logits: Float[Tensor, "rows vocab"], tokenizer: Tokenizer, *, count: int
) -> list[tuple[Candidate, ...]]:
    """The most likely tokens of each row, with their probabilities among all, the most likely one first. A
    token that has no text by itself (half a letter, a control token) is shown by its name."""
    best = logits.double().softmax(-1)[:, : tokenizer.vocab_size].topk(min(count, tokenizer.vocab_size))
    names = {id: name for name, id in tokenizer.vocabulary().items()}

    def shown(id: int) -> str:
        text = tokenizer.decode([id])
        return text if text and "\ufffd" not in text else names.get(id, "")

    return [
        tuple(Candidate(score, id, shown(id)) for score, id in zip(scores, ids, strict=True))
        for scores, ids in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]
