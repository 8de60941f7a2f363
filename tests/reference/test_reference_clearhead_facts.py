"""Our own folders with the facts of other families: published tensors under our names give the same numbers.

The published folders are compared with the published implementation elsewhere; here each is rewritten by
hand.
"""

import numpy as np
import pytest
import transformers
from reference_folders import VOCAB, Published, renamed, texts, write
from safetensors.numpy import load_file

from clearhead.errors import FolderError
from clearhead.reference import read

SIZES = {"vocab": VOCAB, "width": 12, "layers": 4, "heads": 3, "hidden": 20, "activation": "gelu"}
AFTER = {**SIZES, "norm_first": False, "epsilon": 1e-12, "embedding_norm": True, "scale_embedding": False}
LEARNED = {"kind": "learned", "count": 32}


def published(folder, name, **fields):
    kind = getattr(transformers, f"{name}ForSequenceClassification")
    shape = {"hidden_size": 12, "num_hidden_layers": 4, "num_attention_heads": 3, "intermediate_size": 20}
    if name == "DistilBert":
        shape = {"dim": 12, "n_layers": 4, "n_heads": 3, "hidden_dim": 20}
    sizes = {"vocab_size": VOCAB, "max_position_embeddings": 32, "num_labels": 3, **shape, **fields}
    Published(folder, kind, kind.config_class(**sizes))
    return load_file(folder / "model.safetensors")


def stacked(tensors, *names):
    """Query, key and value as one layer."""
    return {
        kind: np.concatenate([tensors[f"{name}.{kind}"] for name in names]) for kind in ("weight", "bias")
    }


def bert_like(tensors, prefix):
    """The body of RoBERTa and ELECTRA under our names."""
    table = {
        f"{prefix}.embeddings.word_embeddings.": "embedding.tokens.",
        f"{prefix}.embeddings.position_embeddings.": "embedding.positions.",
        f"{prefix}.embeddings.token_type_embeddings.": "embedding.segments.",
        f"{prefix}.embeddings.LayerNorm.": "embedding.norm.",
        f"{prefix}.embeddings_project.": "embedding.widen.",
        "classifier.dense.": "head.dense.",
        "classifier.out_proj.": "head.output.",
    }
    ours = {}
    for i in range(4):
        old, new = f"{prefix}.encoder.layer.{i}", f"encoder.blocks.{i}"
        names = [f"{old}.attention.self.{part}" for part in ("query", "key", "value")]
        ours |= {f"{new}.attention.qkv.{kind}": array for kind, array in stacked(tensors, *names).items()}
        table |= {
            f"{old}.attention.output.dense.": f"{new}.attention.output.",
            f"{old}.attention.output.LayerNorm.": f"{new}.attention_norm.",
            f"{old}.intermediate.dense.": f"{new}.feed_forward.expand.",
            f"{old}.output.dense.": f"{new}.feed_forward.contract.",
            f"{old}.output.LayerNorm.": f"{new}.feed_forward_norm.",
        }
    return ours | renamed(tensors, table)


def assert_same(one, two):
    for ids in texts():
        np.testing.assert_array_equal(read(one).hidden(ids), read(two).hidden(ids))
        np.testing.assert_array_equal(read(one).logits(ids), read(two).logits(ids))


def test_learned_positions_may_have_rows_before_the_first(tmp_path):
    tensors = published(
        tmp_path / "theirs", "Roberta", max_position_embeddings=36, pad_token_id=3, type_vocab_size=1
    )
    facts = {**AFTER, "segments": 1, "positions": {**LEARNED, "offset": 4}}
    head = {"labels": 3, "pooling": "cls", "dense": True, "activation": "tanh"}
    ours = write(tmp_path / "ours", facts, head, bert_like(tensors, "roberta"))
    assert_same(ours, tmp_path / "theirs")


def test_an_embedding_may_be_narrower_than_the_stream(tmp_path):
    tensors = published(tmp_path / "theirs", "Electra", embedding_size=8)
    facts = {**AFTER, "segments": 2, "positions": LEARNED, "embedding_width": 8}
    head = {"labels": 3, "pooling": "cls", "dense": True, "activation": "gelu"}
    ours = write(tmp_path / "ours", facts, head, bert_like(tensors, "electra"))
    assert_same(ours, tmp_path / "theirs")


def test_the_activation_of_a_head_may_be_relu(tmp_path):
    tensors = published(tmp_path / "theirs", "DistilBert")
    ours = {}
    table = {
        "distilbert.embeddings.word_embeddings.": "embedding.tokens.",
        "distilbert.embeddings.position_embeddings.": "embedding.positions.",
        "distilbert.embeddings.LayerNorm.": "embedding.norm.",
        "pre_classifier.": "head.dense.",
        "classifier.": "head.output.",
    }
    for i in range(4):
        old, new = f"distilbert.transformer.layer.{i}", f"encoder.blocks.{i}"
        names = [f"{old}.attention.{part}" for part in ("q_lin", "k_lin", "v_lin")]
        ours |= {f"{new}.attention.qkv.{kind}": array for kind, array in stacked(tensors, *names).items()}
        table |= {
            f"{old}.attention.out_lin.": f"{new}.attention.output.",
            f"{old}.sa_layer_norm.": f"{new}.attention_norm.",
            f"{old}.ffn.lin1.": f"{new}.feed_forward.expand.",
            f"{old}.ffn.lin2.": f"{new}.feed_forward.contract.",
            f"{old}.output_layer_norm.": f"{new}.feed_forward_norm.",
        }
    head = {"labels": 3, "pooling": "cls", "dense": True, "activation": "relu"}
    facts = {**AFTER, "segments": 0, "positions": LEARNED}
    assert_same(write(tmp_path / "ours", facts, head, ours | renamed(tensors, table)), tmp_path / "theirs")


MODERN = {
    **SIZES,
    "positions": {"kind": "rotary", "count": 32, "base": 160000.0, "local_base": 10000.0},
    "norm_first": True,
    "epsilon": 1e-5,
    "segments": 0,
    "embedding_norm": True,
    "scale_embedding": False,
    "gated": True,
    "bias": False,
    "norm_bias": False,
    "first_norm": False,
    "window": 4,
    "global_every": 3,
}
MODERN_HEAD = {
    "labels": 3,
    "pooling": "mean",
    "dense": True,
    "activation": "gelu",
    "bias": False,
    "dense_norm": True,
}


def modern(folder, **fields):
    """A published ModernBERT folder, and its tensors under our names."""
    tensors = published(
        folder, "ModernBert", local_attention=8, classifier_pooling="mean", pad_token_id=0, **fields
    )
    table = {
        "model.embeddings.tok_embeddings.": "embedding.tokens.",
        "model.embeddings.norm.": "embedding.norm.",
        "model.final_norm.": "encoder.norm.",
        "head.dense.": "head.dense.",
        "head.norm.": "head.norm.",
        "classifier.": "head.output.",
    }
    for i in range(4):
        old, new = f"model.layers.{i}", f"encoder.blocks.{i}"
        table |= {
            f"{old}.attn.Wqkv.": f"{new}.attention.qkv.",
            f"{old}.attn.Wo.": f"{new}.attention.output.",
            f"{old}.attn_norm.": f"{new}.attention_norm.",
            f"{old}.mlp.Wi.": f"{new}.feed_forward.expand.",
            f"{old}.mlp.Wo.": f"{new}.feed_forward.contract.",
            f"{old}.mlp_norm.": f"{new}.feed_forward_norm.",
        }
    return renamed(tensors, table)


@pytest.mark.parametrize("bias", [False, True])
def test_rotary_windowed_gated_and_without_a_first_norm(tmp_path, bias):
    fields = dict.fromkeys(("attention_bias", "mlp_bias", "norm_bias", "classifier_bias"), bias)
    tensors = modern(tmp_path / "theirs", **fields)
    facts, head = {**MODERN, "bias": bias, "norm_bias": bias}, {**MODERN_HEAD, "bias": bias}
    assert_same(write(tmp_path / "ours", facts, head, tensors), tmp_path / "theirs")


def test_without_a_local_base_or_without_global_blocks_the_numbers_are_those_of_such_a_model(tmp_path):
    same = {"rope_type": "default", "rope_theta": 50.0}
    bases = {"full_attention": same, "sliding_attention": same}
    tensors = modern(tmp_path / "theirs", layer_types=["sliding_attention"] * 4, rope_parameters=bases)
    facts = {
        **MODERN,
        "positions": {"kind": "rotary", "count": 32, "base": 50.0, "local_base": None},
        "global_every": None,
    }
    assert_same(write(tmp_path / "ours", facts, MODERN_HEAD, tensors), tmp_path / "theirs")


def test_without_a_window_every_block_sees_everything_with_the_one_base(tmp_path):
    tensors = modern(tmp_path / "theirs", layer_types=["full_attention"] * 4)
    facts = {**MODERN, "window": None}
    assert_same(write(tmp_path / "ours", facts, MODERN_HEAD, tensors), tmp_path / "theirs")


@pytest.mark.parametrize(
    ("facts", "head", "message"),
    [
        ({"first_norm": True}, {}, r"lacks encoder\.blocks\.0\.attention_norm\.weight$"),
        ({"gated": False}, {}, r"expand\.weight is \(40, 12\), not \(20, 12\)"),
        ({"bias": True}, {}, r"lacks encoder\.blocks\.0\.attention\.qkv\.bias"),
        ({"norm_bias": True}, {}, r"lacks embedding\.norm\.bias"),
        ({"embedding_width": 12}, {}, r"lacks embedding\.widen\.weight, embedding\.widen\.bias"),
        ({"window": 4.0}, {}, r"window=4\.0; it must be of type int"),
        ({"window": -1}, {}, "window=-1"),
        ({"global_every": 0}, {}, "global_every=0"),
        ({"heads": 4}, {}, "heads of width 3 cannot be turned in pairs"),
        ({"positions": {"kind": "rotary", "count": 32}}, {}, "lacks the field 'base'"),
        ({}, {"bias": True}, r"lacks head\.dense\.bias"),
        ({}, {"dense": False}, "head.dense_norm=true with dense=false"),
        ({}, {"dense_norm": False}, r"does not explain: head\.norm\.weight"),
        ({}, {"activation": "swish"}, r"head\.activation='swish'; this can be relu, gelu, gelu_tanh, tanh"),
    ],
)
def test_facts_that_do_not_fit_are_refused_by_name(tmp_path, facts, head, message):
    tensors = modern(tmp_path / "theirs")
    folder = write(tmp_path / "ours", {**MODERN, **facts}, {**MODERN_HEAD, **head}, tensors)
    with pytest.raises(FolderError, match=message):
        read(folder)
