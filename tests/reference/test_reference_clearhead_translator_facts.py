"""Our own folders with an encoder and a decoder, of random numbers: torch's own blocks, facts one by one."""

import numpy as np
import pytest
import torch
from reference_folders import close, write
from translator_folders import FACTS, assert_same, pairs, random_tensors, translator

from clearhead.errors import FolderError
from clearhead.reference import WholeModel, layer_norm, read, sinusoidal_positions


def torch_block(tensors, facts, stack, i):
    kind = getattr(torch.nn, f"Transformer{stack.title()}Layer")
    options = {"dropout": 0.0, "batch_first": True, "norm_first": facts["norm_first"], "dtype": torch.float64}
    layer = kind(12, 3, dim_feedforward=20, layer_norm_eps=facts["epsilon"], **options)
    table = {
        "self_attn.in_proj_": ["attention.qkv."],
        "self_attn.out_proj.": ["attention.output."],
        "norm1.": ["attention_norm."],
        "linear1.": ["feed_forward.expand."],
        "linear2.": ["feed_forward.contract."],
        "norm2.": ["feed_forward_norm."],
    }
    if stack == "decoder":
        table |= {
            "multihead_attn.in_proj_": ["recall.query.", "recall.memory."],
            "multihead_attn.out_proj.": ["recall.output."],
            "norm2.": ["recall_norm."],
            "norm3.": ["feed_forward_norm."],
        }
    state = {
        their + kind: torch.from_numpy(
            np.concatenate([tensors[f"{stack}.blocks.{i}.{name}{kind}"] for name in ours]).astype(np.float64)
        )
        for their, ours in table.items()
        for kind in ("weight", "bias")
    }
    layer.load_state_dict(state)
    return layer.train()  # without dropout the same numbers, and never torch's fused path


@pytest.mark.parametrize("norm_first", [False, True])
def test_blocks_agree_with_torchs_own_encoder_and_decoder_layers(tmp_path, norm_first):
    facts = {**FACTS, "norm_first": norm_first, "epsilon": 1e-3}
    tensors = random_tensors(facts)
    ours = translator(write(tmp_path / "ours", facts, None, tensors))
    tokens = tensors["embedding.tokens.weight"].astype(np.float64)

    def embedded(ids):
        x = np.sqrt(12.0) * tokens[ids] + sinusoidal_positions(len(ids), 12)
        return torch.from_numpy(x)[None]

    def final(x, stack):
        if not norm_first:
            return x
        scale, shift = (tensors[f"{stack}.norm.{kind}"] for kind in ("weight", "bias"))
        return torch.from_numpy(layer_norm(x.numpy(), 1e-3, scale=scale, shift=shift))

    for source, target in pairs():
        with torch.no_grad():
            memory = embedded(source)
            for i in range(3):
                memory = torch_block(tensors, facts, "encoder", i)(memory)
            memory = final(memory, "encoder")
            y = embedded(target)
            hidden = torch.ones(len(target), len(target), dtype=torch.bool).triu(1)
            for i in range(2):
                y = torch_block(tensors, facts, "decoder", i)(y, memory, tgt_mask=hidden)
            y = final(y, "decoder")[0].numpy()
        close(ours.encode(source), memory[0].numpy())
        close(ours.logits(source, target), y @ tokens.T)


def test_rotary_positions_turn_within_a_text_and_never_across(tmp_path):
    facts = {**FACTS, "positions": {"kind": "rotary", "base": 100.0, "count": 64}}
    tensors = random_tensors(facts)
    # Where blocks hand on nothing of their own text, the order of the source is lost in the memory.
    for name in tensors:
        if "attention.output" in name:
            tensors[name] = np.zeros_like(tensors[name])
    ours = translator(write(tmp_path / "ours", facts, None, tensors))
    source, target = pairs()[-1]
    close(ours.logits(source[::-1], target), ours.logits(source, target))
    facts = {**facts, "kv_heads": None}
    whole = translator(write(tmp_path / "whole", facts, None, random_tensors(facts)))
    assert np.abs(whole.logits(source[::-1], target) - whole.logits(source, target)).max() > 1e-3


def test_keys_and_values_may_have_fewer_heads_in_both_attentions(tmp_path):
    tensors = random_tensors(FACTS)
    few, alike = dict(tensors), dict(tensors)
    for name, array in tensors.items():
        own = 12 if "attention.qkv" in name else 0
        if own or "recall.memory" in name:
            queries, keys, values = array[:own], *np.split(array[own:], 2)
            few[name] = np.concatenate([queries, keys[:4], values[:4]])
            alike[name] = np.concatenate([queries, *[keys[:4]] * 3, *[values[:4]] * 3])
    one = write(tmp_path / "few", {**FACTS, "kv_heads": 1}, None, few)
    assert_same(one, write(tmp_path / "alike", FACTS, None, alike))


def test_a_folder_without_decoder_layers_is_one_stack_with_sines_in_halves_if_it_says_so(tmp_path):
    tensors = {
        name: array
        for name, array in random_tensors(FACTS).items()
        if name.startswith(("embedding", "encoder"))
    }
    facts = {**FACTS, "decoder_layers": 0, "positions": {"kind": "sinusoidal", "halves": True}}
    alone = read(write(tmp_path / "alone", facts, None, tensors))
    assert isinstance(alone, WholeModel)
    both = {**FACTS, "positions": {"kind": "sinusoidal", "halves": True}}
    ours = translator(write(tmp_path / "both", both, None, random_tensors(FACTS)))
    close(alone.hidden([1, 2, 3, 4]), ours.encode([1, 2, 3, 4]))


@pytest.mark.parametrize(
    ("facts", "head", "message"),
    [
        ({"decoder_layers": -1}, None, "decoder_layers=-1; it must be at least 0"),
        ({"decoder_layers": 2.0}, None, "decoder_layers=2.0; it must be of type int"),
        ({"language_head": False}, None, "decoder_layers=2 without language_head=true"),
        ({"causal": True}, None, "causal=True with decoder_layers=2"),
        ({"segments": 2}, None, "segments=2 with decoder_layers=2"),
        ({"fill": {"activation": "gelu"}}, None, "fill=.* with decoder_layers=2"),
        ({"window": 4}, None, "window=4 with decoder_layers=2"),
        ({"qk_norm": True}, None, "qk_norm=True with decoder_layers=2"),
        ({"parallel": True}, None, "parallel=True with decoder_layers=2"),
        ({"embedding_width": 6}, None, "embedding_width=6 with decoder_layers=2"),
        ({"first_norm": False}, None, "first_norm=False with decoder_layers=2"),
        ({}, {"pooling": "cls", "dense": False, "labels": 2}, "head over texts; head must be null"),
        ({"positions": {"kind": "alibi"}}, None, r"positions\.kind='alibi'; this can be sinusoidal, rotary"),
        ({"positions": {"kind": "relative", "buckets": 8}}, None, "lacks the field 'distance'"),
        ({"positions": {"kind": "relative", "buckets": 2, "distance": 9}}, None, "at least 4 buckets"),
        ({"positions": {"kind": "learned", "count": 9}}, None, r"lacks embedding\.positions\.weight"),
        ({"embedding_norm": True}, None, r"lacks embedding\.norm\.weight"),
        ({"norm_first": True}, None, r"lacks encoder\.norm\.weight, .*decoder\.norm\.weight"),
        ({"tied": False}, None, r"lacks language_head\.weight"),
        ({"language_bias": True}, None, "lacks language_bias"),
        ({"target_vocab": 30}, None, r"lacks decoder_embedding\.tokens\.weight"),
        ({"decoder_layers": 1}, None, r"does not explain: decoder\.blocks\.1\."),
        ({"kv_heads": 1}, None, r"qkv\.weight is \(36, 12\), not \(20, 12\)"),
        ({"scale_scores": 1}, None, "scale_scores=1; it must be of type bool"),
        ({"decoder_layers": 0, "scale_scores": False}, None, "scale_scores=False; only"),
        ({"decoder_layers": 0, "target_vocab": 30}, None, "target_vocab=30; only"),
        ({"decoder_layers": 0, "language_bias": True}, None, "language_bias=True; only"),
        ({"decoder_layers": 0, "scale_output": True}, None, "scale_output=True; only"),
    ],
)
def test_facts_that_do_not_fit_are_refused_by_name(tmp_path, facts, head, message):
    folder = write(tmp_path / "ours", {**FACTS, **facts}, head, random_tensors(FACTS))
    with pytest.raises(FolderError, match=message):
        read(folder)
