"""One step of the transformer of 2017 has the loss and the gradients of `torch.nn.Transformer` in a padded
rectangle, weight for weight."""

import random
from math import sqrt

import torch
from torch import nn
from torch.nn import functional

from clearhead.checkpoint.fresh import new_transformer
from clearhead.model.config import Activation, Config, Sinusoidal
from clearhead.model.positions import sinusoids
from clearhead.tasks.translate import Translations

VOCAB, WIDTH, HEADS, HIDDEN, LAYERS = 50, 32, 4, 64, 2
PAD, END = VOCAB - 1, 1
OURS = {  # by torch's names; some of ours lie one upon another there
    "self_attn.in_proj_": ("attention.qkv",),
    "self_attn.out_proj.": ("attention.output",),
    "multihead_attn.in_proj_": ("recall.query", "recall.memory"),
    "multihead_attn.out_proj.": ("recall.output",),
    "linear1.": ("feed_forward.expand",),
    "linear2.": ("feed_forward.contract",),
    "norm1.": ("attention_norm",),
    "norm2.": ("recall_norm",),
    "norm3.": ("feed_forward_norm",),
}


def ours():
    config = Config(
        vocab=VOCAB, width=WIDTH, layers=LAYERS, decoder_layers=LAYERS, heads=HEADS, hidden=HIDDEN,
        positions=Sinusoidal(), activation=Activation.RELU, scale_embedding=True, language_head=True,
    )  # fmt: skip
    return new_transformer(config, None, seed=0).double()


def torchs():
    made = nn.Transformer(WIDTH, HEADS, LAYERS, LAYERS, HIDDEN, 0.0, batch_first=True, dtype=torch.float64)
    made.encoder.norm = made.decoder.norm = None  # the paper has none after the last block
    return made


def twins(mine, peer):
    """Pairs of our parameters, one or two, and the one of torch's that holds the same."""
    named = dict(mine.named_parameters())
    for name, theirs in peer.named_parameters():
        side, _, layer, rest = name.split(".", 3)
        kind = "weight" if rest.endswith("weight") else "bias"
        found = OURS[rest.removesuffix(kind)]
        if (side, found) == ("encoder", ("recall_norm",)):
            found = OURS["norm3."]
        yield [named[f"{side}.blocks.{layer}.{one}.{kind}"] for one in found], theirs


def padded(rows):
    return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)


def loss_of_torchs(peer, table, pairs):
    """The mean over all tokens of the answers, smoothed (Vaswani et al. 2017, sections 3.4 and 5.4)."""
    source, right = (padded(side) for side in zip(*pairs, strict=True))
    before = torch.cat([torch.full((len(right), 1), PAD), right[:, :-1]], dim=1)

    def embed(ids):
        return functional.embedding(ids, table) * sqrt(WIDTH) + sinusoids(0, WIDTH)[: ids.shape[1]]

    hidden = source == PAD
    later = nn.Transformer.generate_square_subsequent_mask(before.shape[1], dtype=torch.float64)
    memory = peer.encoder(embed(source), src_key_padding_mask=hidden)
    made = peer.decoder(embed(before), memory, tgt_mask=later, memory_key_padding_mask=hidden)
    judge = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)
    return judge((made @ table.T).flatten(0, 1), right.flatten())


def test_a_step_has_the_gradients_of_torch_nn_transformer():
    mine, peer = ours(), torchs().train()
    with torch.no_grad():
        for parts, theirs in twins(mine, peer):
            theirs.copy_(torch.cat(parts))
    table = mine.embedding.tokens.weight.detach().clone().requires_grad_()
    chance = random.Random(1)
    lengths = [(chance.choice([2, 3, 5]), chance.choice([1, 3, 4])) for _ in range(12)]
    pairs = [tuple([chance.randrange(2, PAD) for _ in range(n)] + [END] for n in both) for both in lengths]
    loss_of_torchs(peer, table, pairs).backward()
    task = Translations(*zip(*pairs, strict=True), PAD, smoothing=0.1)
    everyone = list(range(len(pairs)))
    (task.loss(mine, everyone, drop=None) / task.size(everyone)).backward()
    assert torch.allclose(mine.embedding.tokens.weight.grad, table.grad, rtol=0, atol=1e-12)
    for parts, theirs in twins(mine, peer):
        assert torch.allclose(torch.cat([part.grad for part in parts]), theirs.grad, rtol=0, atol=1e-12)
