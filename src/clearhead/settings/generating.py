"""How a language model's text is chosen, token by token, and where it ends."""

import re
from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite, isnan, nan
from typing import Annotated

from cyclopts import Parameter

from clearhead.errors import SettingError
from clearhead.settings.options import at_least, flag, option

PAIRS = "Models that turn a text into another"  # the heading of their flags
USUAL, ROOM = 64, 16
SAMPLING = ("top_k", "top_p", "min_p")
STRONGEST, LONGEST, HEAVIEST = 1000.0, 50, 1e6  # what float32 can still compare


@dataclass(frozen=True, kw_only=True)
class Prefixed:
    """What texts begin with that are read."""

    prefix: Annotated[str | None, Parameter(group=PAIRS, allow_leading_hyphen=True)] = option(
        None, "put before each text that is read, such as 'translate English to German: ' for T5"
    )


@dataclass(frozen=True, kw_only=True)
class Generating:
    """Greedy unless `temperature` is above 0."""

    max_new_tokens: int | None = option(
        None, "most tokens of an answer; else 64, and where a text is read whole twice its tokens and 16"
    )
    min_new_tokens: int = option(0, "tokens before which an answer does not end by itself")
    temperature: float = option(0.0, "0: always the most likely token; above: sampled, 1 as the model says")
    top_k: int | None = option(None, "sample among so many most likely tokens")
    top_p: float | None = option(None, "sample among the most likely tokens that share this probability")
    min_p: float | None = option(None, "sample among tokens at least so likely, as a share of the likeliest")
    repetition_penalty: float = option(1.0, "above 1: tokens that are there already become less likely")
    no_repeat_ngram_size: int = option(0, "no sequence of so many tokens comes twice; 0: any may")
    samples: int = option(1, "answers to each prompt; greedy gives one, beams at most as many as they are")
    beams: int = option(1, "above 1: beam search, the answers kept at a time")
    length_penalty: float = option(1.0, "beams: the power of its length that an answer's score is divided by")
    early_stopping: Annotated[bool, Parameter(negative="")] = option(
        False, "beams: end as soon as there are enough answers, though a better one may come"
    )
    stop: Annotated[list[str] | None, Parameter(negative="", allow_leading_hyphen=True)] = option(
        None, "end an answer before this string; may be given several times"
    )
    logit_bias: Annotated[list[str] | None, Parameter(negative="")] = option(
        None, "added to a token's logit each time: ID=NUMBER, -inf forbids it; may be given several times"
    )
    seed: int = option(0, "the same seed, prompt and settings give the same answer, in any company")
    batch_texts: int = option(16, "answers worked on at a time; they do not depend on it")
    lookup: int = option(
        0, "greedy: guess so many tokens from what stands before, check them in one step; the answer stays"
    )

    def __post_init__(self) -> None:
        if self.max_new_tokens is not None:
            at_least("max_new_tokens", self.max_new_tokens, least=1)
        for name in ("samples", "batch_texts", "beams"):
            at_least(name, getattr(self, name), least=1)
        for name in ("min_new_tokens", "no_repeat_ngram_size", "seed", "temperature", "lookup"):
            at_least(name, getattr(self, name), least=0)
        if self.min_new_tokens > self.most and self.max_new_tokens is not None:
            raise SettingError(
                f"--min-new-tokens {self.min_new_tokens} is more than --max-new-tokens {self.max_new_tokens}"
            )
        if not 1 / STRONGEST <= self.repetition_penalty <= STRONGEST:
            raise SettingError(
                f"--repetition-penalty {self.repetition_penalty} must be above 0, from {1 / STRONGEST:g} to "
                f"{STRONGEST:g} (1 changes nothing)"
            )
        if self.top_k is not None:
            at_least("top_k", self.top_k, least=1)
        for name in ("top_p", "min_p"):
            value = getattr(self, name)
            if value is not None and not (isfinite(value) and 0 < value <= 1):
                raise SettingError(f"{flag(name)} {value} must be above 0 and at most 1")
        for name in SAMPLING:
            if self.temperature == 0 and getattr(self, name) is not None:
                raise SettingError(f"{flag(name)} is for sampling; give --temperature above 0 too")
        if self.beams > 1 and (self.temperature or self.stop):
            given = "--temperature" if self.temperature else "--stop"
            raise SettingError(f"--beams searches for the most likely answer; {given} does not go with it")
        if self.samples > self.beams > 1:
            raise SettingError(f"--samples {self.samples} is more than --beams {self.beams}")
        if self.beams == 1 and (self.length_penalty != 1 or self.early_stopping):
            given = "--early-stopping" if self.early_stopping else "--length-penalty"
            raise SettingError(f"{given} is for beam search; give --beams above 1 too")
        if not -LONGEST <= self.length_penalty <= LONGEST:
            raise SettingError(f"--length-penalty {self.length_penalty} must be from -{LONGEST} to {LONGEST}")
        if self.temperature == 0 and self.beams == 1 and self.samples > 1:
            raise SettingError("--samples of a greedy answer are all alike; give --temperature above 0 too")
        if self.lookup and (self.temperature or self.beams > 1):
            raise SettingError("--lookup is for greedy answers; leave --temperature and --beams out")
        _ = self.biases
        if any(not isinstance(text, str) for text in self.stop or []):
            raise SettingError(f"--stop {self.stop!r} is no list of strings")
        if any(not text for text in self.stop or []):
            raise SettingError("--stop is empty; give the string that ends an answer")

    @property
    def most(self) -> int:
        """Most tokens of an answer that goes on with its prompt."""
        return max(USUAL, self.min_new_tokens) if self.max_new_tokens is None else self.max_new_tokens

    def most_of(self, read: int) -> int:
        """Most tokens of an answer to a text of which so many were read whole."""
        usual = max(2 * read + ROOM, self.min_new_tokens)
        return usual if self.max_new_tokens is None else self.max_new_tokens

    @cached_property
    def biases(self) -> dict[int, float]:
        """What is added to the logits of which ids."""
        found: dict[int, float] = {}
        for text in self.logit_bias or []:
            id, _, number = text.partition("=")
            try:
                bias = float(number.replace("_", "?"))  # Python would read 1_0 as 10
            except ValueError:
                bias = nan
            wrong = isnan(bias) or (abs(bias) > HEAVIEST and bias != -inf)
            if not re.fullmatch("[0-9]{1,9}", id.strip()) or wrong:
                raise SettingError(
                    f"--logit-bias {text[:40]!r} is not ID=NUMBER, such as 1234=-5 or 1234=-inf, the "
                    f"number from -{HEAVIEST:g} to {HEAVIEST:g}"
                )
            if int(id) in found:
                raise SettingError(f"--logit-bias names the id {int(id)} twice; give it one number")
            found[int(id)] = bias
        return found
