"""Language modelling: the loss of the next token, in chunks, and what it comes to for people."""

from dataclasses import asdict, dataclass
from math import exp, isfinite, log
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from clearhead.errors import NotFinite

IGNORED = -100  # a row whose next token is not asked for
CHUNK = 2**22  # logits that are held at a time, but
FEWEST = 128  # rows at least: each chunk reads and writes the whole gradient of the matrix


@dataclass(frozen=True)
class LanguageScores:
    """How well a model knows texts. `loss` is the mean over tokens in nats; bits per byte of their UTF-8 can
    be compared between tokenizers."""

    texts: int
    tokens: int
    bytes: int
    loss: float
    perplexity: float
    bits_per_byte: float

    @classmethod
    def of(cls, nats: float, *, texts: int, tokens: int, bytes: int) -> "LanguageScores":
        """From the sum of the loss over all tokens; NotFinite where it is none."""
        loss, perplexity = mean_of(nats, tokens)
        return cls(texts, tokens, bytes, loss, perplexity, nats / log(2) / max(1, bytes))

    def summary(self) -> dict[str, Any]:
        """The scores for metrics.jsonl."""
        return {f"eval_{name}": value for name, value in asdict(self).items() if name not in COUNTS}


COUNTS = ("texts", "tokens", "bytes")


def mean_of(nats: float, tokens: int) -> tuple[float, float]:
    """The mean loss of tokens, and the perplexity that it is; NotFinite where their sum is no number."""
    if not isfinite(nats):
        raise NotFinite(f"the model computes numbers that are not finite: the loss of these texts is {nats}")
    loss = nats / max(1, tokens)
    return loss, exp(min(loss, 700))


class NextToken(torch.autograd.Function):
    """The summed cross entropy of a linear layer's logits, which are never all there at once.

    The gradients are made with the loss, chunk by chunk: softmax minus what is right, times the other factor.
    """

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        """x `[rows, width]`, the layer's matrix `[vocab, width]`, its bias or None, targets `[rows]`, and the
        share of each that is spread over all."""
        x, weight, bias, targets, spread = given
        rows = rows_at_once(weight)
        total = torch.zeros((), dtype=torch.float64)
        # A matrix that stays as it is needs no gradient, which is a third of the work.
        for_x, for_weight = torch.empty_like(x), torch.zeros_like(weight) if weight.requires_grad else None
        for_bias = None if bias is None else torch.zeros_like(bias)
        for start in range(0, len(x), rows):
            part, right = x[start : start + rows], targets[start : start + rows]
            logits = functional.linear(part, weight, bias)
            highest = logits.amax(-1, keepdim=True)
            asked = right != IGNORED
            at = right.clamp(min=0)[:, None]
            hit = (1 - spread) * (logits.gather(1, at) - highest).squeeze(1)
            if spread:
                hit += spread * (logits.mean(-1) - highest.squeeze(1))
            logits.sub_(highest).exp_()
            sums = logits.sum(-1, keepdim=True)
            total += ((sums.log().squeeze(1) - hit) * asked).double().sum()
            logits.div_(sums).scatter_add_(1, at, torch.full_like(sums, spread - 1.0))
            if spread:
                logits.sub_(spread / len(weight))
            logits.mul_(asked[:, None])
            torch.mm(logits, weight, out=for_x[start : start + rows])
            if for_weight is not None:
                for_weight.addmm_(logits.T, part)
            if for_bias is not None:
                for_bias += logits.sum(0)
        ctx.save_for_backward(for_x, for_weight, for_bias)
        return total.to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """What forward made, times the gradient of the sum."""
        return *(None if one is None else one * gradients[0] for one in ctx.saved_tensors), None, None


def rows_at_once(weight: Tensor) -> int:
    """Of how many rows the logits of a matrix `[vocab, width]` are held together."""
    return max(FEWEST, CHUNK // len(weight))


def next_token_loss(
    x: Float[Tensor, "rows width"],
    weight: Float[Tensor, "vocab width"],
    *,
    targets: Int[Tensor, " rows"],
    bias: Float[Tensor, " vocab"] | None = None,
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """The sum over rows of −log p(target) (Bengio et al. 2003, equation 1 without its mean); rows whose
    target is `IGNORED` do not count. Memory does not grow with rows times vocabulary. `smoothing` is the
    share of each target that is spread over all words (Szegedy et al. 2016, section 7)."""
    if 2 * int((asked := targets != IGNORED).sum()) < len(targets):  # as of answers after long questions
        x, targets = x[asked], targets[asked]
    if torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad):
        found: Tensor = NextToken.apply(x, weight, bias, targets, smoothing)
        return found
    total = torch.zeros((), dtype=torch.float64)
    rows = rows_at_once(weight)
    for start in range(0, len(x), rows):
        logits = functional.linear(x[start : start + rows], weight, bias)
        right = targets[start : start + rows]
        how: dict[str, Any] = {"ignore_index": IGNORED, "reduction": "none", "label_smoothing": smoothing}
        total += functional.cross_entropy(logits, right, **how).double().sum()
    return total
