"""Rotary positions as published configs spell them, older and newer, each against the published code."""

import pytest
from reference_folders import VOCAB, Published, assert_speaks, close, edit_config, texts
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, LlamaConfig, LlamaForCausalLM

from clearhead.errors import FolderError
from clearhead.reference import read

LLAMA = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 20,
    "max_position_embeddings": 64,
}
NEOX = {**LLAMA, "num_attention_heads": 2}
LINEAR = {"rope_type": "linear", "factor": 3.0}
# With 16 columns and a base of 500, turns within 16 tokens go from 2.5 down to 0.01: all three cases.
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 0.25,
    "high_freq_factor": 1.5,
    "original_max_position_embeddings": 16,
}
TABLES = {"default": {"rope_type": "default"}, "linear": LINEAR, "llama3": LLAMA3}


def llama(folder, **fields):
    return Published(folder, LlamaForCausalLM, LlamaConfig(**{**LLAMA, **fields}))


def neox(folder, **fields):
    return Published(folder, GPTNeoXForCausalLM, GPTNeoXConfig(**{**NEOX, **fields}))


@pytest.mark.parametrize("kind", TABLES)
def test_the_newer_spelling_has_everything_in_rope_parameters(tmp_path, kind):
    assert_speaks(llama(tmp_path, rope_parameters={**TABLES[kind], "rope_theta": 500.0}))


@pytest.mark.parametrize("word", ["type", "rope_type"])
@pytest.mark.parametrize("kind", TABLES)
def test_the_older_spelling_has_a_base_and_rope_scaling(tmp_path, kind, word):
    theirs = llama(tmp_path, rope_parameters={**TABLES[kind], "rope_theta": 500.0})
    table = {word if name == "rope_type" else name: value for name, value in TABLES[kind].items()}
    scaling = None if kind == "default" else table
    edit_config(tmp_path, rope_parameters=..., rope_theta=500, rope_scaling=scaling)
    assert_speaks(theirs)


def test_the_published_code_reads_the_older_spelling_alike(tmp_path):
    assert_speaks(llama(tmp_path / "linear", rope_theta=500.0, rope_scaling={"type": "linear", "factor": 3}))
    assert_speaks(llama(tmp_path / "llama3", rope_theta=500.0, rope_scaling=LLAMA3))


def test_every_kind_gives_other_numbers(tmp_path):
    ids = texts()[-1]
    found = {}
    for kind, table in TABLES.items():
        llama(tmp_path / kind, rope_parameters={**table, "rope_theta": 500.0})
        found[kind] = read(tmp_path / kind).next_logits(ids)
    for one, other in (("default", "linear"), ("default", "llama3"), ("linear", "llama3")):
        assert abs(found[one] - found[other]).max() > 1e-3


def test_the_base_inside_the_table_precedes_the_one_outside(tmp_path):
    theirs = llama(tmp_path, rope_parameters={**LINEAR, "rope_theta": 500.0})
    edit_config(tmp_path, rope_theta=77.0)
    assert_speaks(theirs)
    edit_config(tmp_path, rope_parameters=LINEAR, rope_theta=500.0)
    assert_speaks(theirs)


def test_of_both_tables_the_older_is_read_as_in_the_published_code(tmp_path):
    fields = {"rope_parameters": {"rope_type": "default", "rope_theta": 9.0}, "rope_scaling": LINEAR}
    theirs = llama(tmp_path, **fields)
    edit_config(tmp_path, **fields)
    assert_speaks(theirs)


def test_the_original_length_of_llama3_may_stand_outside_and_defaults_to_the_present_one(tmp_path):
    without = {name: value for name, value in LLAMA3.items() if not name.startswith("original")}
    theirs = llama(
        tmp_path / "default", max_position_embeddings=16, rope_parameters={**without, "rope_theta": 500.0}
    )
    edit_config(tmp_path / "default", rope_parameters={**without, "rope_theta": 500.0})
    assert_speaks(theirs)
    outside = {"original_max_position_embeddings": 8, "rope_theta": 500.0, "rope_scaling": LLAMA3}
    theirs = llama(tmp_path / "outside", **outside)
    edit_config(tmp_path / "outside", rope_parameters=..., **outside)
    assert_speaks(theirs)


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("kind", TABLES)
def test_a_part_of_each_head_turns(tmp_path, kind, share):
    table = {**TABLES[kind], "rope_theta": 500.0, "partial_rotary_factor": share}
    assert_speaks(neox(tmp_path, rope_parameters=table))


def test_the_older_spelling_of_a_part_has_names_of_its_own(tmp_path):
    theirs = neox(tmp_path, rotary_pct=0.5, rotary_emb_base=500.0)
    edit_config(tmp_path, rope_parameters=..., rotary_pct=0.5, rotary_emb_base=500)
    assert_speaks(theirs)
    edit_config(tmp_path, rotary_pct=0.25)
    quarter = read(tmp_path).next_logits([5, 6, 7])
    edit_config(tmp_path, rotary_pct=...)
    close(read(tmp_path).next_logits([5, 6, 7]), quarter)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"rope_type": "dynamic", "factor": 2.0}, "rope_type='dynamic'; this can be default, linear, llama3"),
        ({"rope_type": "yarn", "factor": 2.0}, "rope_type='yarn'; this can be"),
        ({"type": "longrope"}, "rope_type='longrope'; this can be"),
        ({"rope_type": "linear"}, "lacks the field 'factor'"),
        ({"rope_type": "linear", "factor": 0}, "factor=0.0; it must be above 0"),
        ({**LINEAR, "attention_factor": 2.0}, "has attention_factor in rope_parameters; 'linear' does not"),
        ({"full_attention": {"rope_theta": 9.0}}, "has full_attention in rope_parameters"),
        ({**LLAMA3, "high_freq_factor": 0.25}, "low_freq_factor=0.25 and high_freq_factor=0.25"),
        ({**LLAMA3, "low_freq_factor": "low"}, "low_freq_factor='low'; it must be of type float"),
        ({**LLAMA3, "original_max_position_embeddings": 8.5}, "it must be of type int"),
        ({"rope_theta": 0.0}, "rope_theta=0.0; the base of rotary positions must be above 0"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor=0.5; only 1.0"),
        (["linear"], "it must be of type dict"),
    ],
)
def test_a_table_that_is_not_computed_here_is_refused_by_name(tmp_path, table, message):
    llama(tmp_path)
    edit_config(tmp_path, rope_parameters=table)
    with pytest.raises(FolderError, match=message):
        read(tmp_path)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.2, 1.5])
def test_columns_that_do_not_make_pairs_are_refused(tmp_path, share):
    neox(tmp_path)
    edit_config(tmp_path, rope_parameters=..., rotary_pct=share)
    with pytest.raises(FolderError, match=f"heads of width 16, of which {share} turns"):
        read(tmp_path)
