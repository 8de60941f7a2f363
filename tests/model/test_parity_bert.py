"""BERT agrees with the published code, in float64 to 1e-10."""

import random

import pytest
import torch

from clearhead.checkpoint.folder import read_folder
from clearhead.infer.batches import unpad
from clearhead.model.config import Pooling
from clearhead.model.heads import pool
from clearhead.model.kernels import Context
from clearhead.model.layout import pack
from clearhead.reference.folder import read
from tiny import bert_config, published, write_vocab

LENGTHS = (1, 2, 2, 5, 9, 17, 31, 32, 5)


def texts(vocab: int) -> tuple[list[list[int]], list[list[int]]]:
    chance = random.Random(1)
    ids = [[chance.randrange(vocab) for _ in range(length)] for length in LENGTHS]
    segments = [[int(place > length // 2) for place in range(length)] for length in LENGTHS]
    return ids, segments


def rectangle(rows: list[list[int]]) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [0] * (longest - len(row)) for row in rows])


@pytest.mark.parametrize("wide", [False, True], ids=["default", "wide"])
@pytest.mark.parametrize("act", ["gelu", "gelu_new", "relu"])
@pytest.mark.parametrize("labels", [(), ("a", "b", "c")], ids=["body", "head"])
def test_bert_agrees_with_the_published_code(tmp_path, wide, act, labels):
    model = published(labels, wide=wide, hidden_act=act)
    model.save_pretrained(tmp_path)
    write_vocab(tmp_path)
    ids, segments = texts(bert_config().vocab_size)
    mask = rectangle([[1] * len(row) for row in ids])
    with torch.no_grad():
        right = model.double()(
            input_ids=rectangle(ids),
            attention_mask=mask,
            token_type_ids=rectangle(segments),
            output_hidden_states=True,
        )
        network = read_folder(tmp_path).network.double()
        batch = pack(ids, segments)
        context = Context.of(batch.layout)
        stream = network(batch, context)
        answer = network.head(stream, context)
    hidden = right.hidden_states[-1]
    for place, rows in enumerate(batch.layout.slices):
        torch.testing.assert_close(stream[rows], hidden[place][: LENGTHS[place]], atol=1e-10, rtol=1e-10)
    expected = right.logits if labels else right.pooler_output
    torch.testing.assert_close(answer, expected, atol=1e-10, rtol=1e-10)

    kept = hidden * mask[..., None]
    mean = kept.sum(1) / mask.sum(1, keepdim=True)
    top = hidden.masked_fill(mask[..., None] == 0, -torch.inf).amax(1)
    for pooling, expected in ((Pooling.CLS, hidden[:, 0]), (Pooling.MEAN, mean), (Pooling.MAX, top)):
        torch.testing.assert_close(
            pool(stream, batch.layout, pooling=pooling), expected, atol=1e-10, rtol=1e-10
        )

    whole = read(tmp_path)
    for place, (row, segment) in enumerate(zip(ids, segments, strict=True)):
        twin = torch.from_numpy(whole.hidden(row, segment))
        torch.testing.assert_close(stream[batch.layout.slices[place]], twin, atol=1e-10, rtol=1e-10)
        twin = whole.logits(row, segment) if labels else whole.pooled(row, segment)
        torch.testing.assert_close(answer[place], torch.from_numpy(twin), atol=1e-10, rtol=1e-10)


def test_a_padded_rectangle_at_the_door_gives_the_published_answers(bert_folder):
    from transformers import BertForSequenceClassification

    model = BertForSequenceClassification.from_pretrained(bert_folder).eval()
    ids, segments = texts(model.config.vocab_size)
    mask = rectangle([[1] * len(row) for row in ids])
    with torch.no_grad():
        right = model(rectangle(ids), attention_mask=mask, token_type_ids=rectangle(segments)).logits
        batch = unpad(rectangle(ids), mask, token_type_ids=rectangle(segments))
        ours = read_folder(bert_folder).network.classify(batch)
    torch.testing.assert_close(ours, right, atol=1e-5, rtol=1e-5)
