"""The peer of the benchmarks about language models: a GPT-2 of torch.nn modules, as a plain loop has it."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True)
class Size:
    """The shape of a model."""

    layers: int
    width: int
    heads: int
    context: int
    vocab: int
    dropout: float


class Block(nn.Module):
    """Attention and feed-forward, the norm before each."""

    def __init__(self, size: Size):
        super().__init__()
        width = size.width
        self.size = size
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(size.dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        texts, tokens, width = x.shape
        parts = self.qkv(self.first(x)).view(texts, tokens, 3, self.size.heads, -1).permute(2, 0, 3, 1, 4)
        dropped = self.size.dropout if self.training else 0.0
        seen = functional.scaled_dot_product_attention(*parts, is_causal=True, dropout_p=dropped)
        x = x + self.drop(self.out(seen.transpose(1, 2).reshape(texts, tokens, width)))
        inner = functional.gelu(self.expand(self.second(x)), approximate="tanh")
        return x + self.drop(self.contract(inner))


class Decoder(nn.Module):
    """Ids `[texts, tokens]` → logits `[texts, tokens, vocab]`; the output matrix is the embedding's."""

    def __init__(self, size: Size):
        super().__init__()
        self.tokens, self.places = (
            nn.Embedding(size.vocab, size.width),
            nn.Embedding(size.context, size.width),
        )
        self.blocks = nn.Sequential(*(Block(size) for _ in range(size.layers)))
        self.norm, self.drop = nn.LayerNorm(size.width), nn.Dropout(size.dropout)
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                adds = name.endswith(
                    ("out.weight", "contract.weight")
                )  # GPT-2 scales what adds to the stream
                nn.init.normal_(parameter, std=0.02 / (2 * size.layers) ** 0.5 if adds else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.drop(self.tokens(ids) + self.places(torch.arange(ids.shape[1])))
        return functional.linear(self.norm(self.blocks(x)), self.tokens.weight)


def adamw(model: nn.Module, *, rate: float, decay: float) -> torch.optim.Optimizer:
    """Fused AdamW that decays matrices alone."""
    groups = [
        {"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": decay},
        {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=rate, fused=True)
