"""GGUF files become published folders: the numbers, config and answers of the published code's reader."""

import json
import tracemalloc

import numpy as np
import pytest
import torch
from gguf_files import byte_level_facts, decoder, gpt2, ones, random_tensor, sentencepiece_facts, write
from safetensors.numpy import load_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from clearhead.checkpoint.gguf import convert
from clearhead.checkpoint.gguf.facts import LLAMA3
from clearhead.errors import FolderError
from clearhead.text.tokenizer import Tokenizer

IDS = torch.tensor([[1, 30, 7, 299, 45, 45, 260, 12, 2]])


def converted(tmp_path, made):
    folder = tmp_path / "folder"
    convert(write(tmp_path / "tiny.gguf", made), folder)
    return folder


def logits(model):
    with torch.no_grad():
        return model.eval()(input_ids=IDS).logits.double()


def their_model(path, folder):
    """The published code's own reading of the file, in a network with our config."""
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    tensors = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=model)["tensors"]
    missing, unknown = model.load_state_dict(tensors, strict=False)
    assert not unknown and set(missing) <= {"lm_head.weight"}
    model.tie_weights()
    return model


MADE = {
    **{f"llama in {kind}": lambda kind=kind: decoder("llama", kind)
       for kind in "F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q4_K Q5_K Q6_K".split()},
    "llama, untied": lambda: decoder("llama", "Q8_0", tied=False),
    "qwen2": lambda: decoder("qwen2", "Q4_0", words=byte_level_facts("qwen2")),
    "qwen3": lambda: decoder("qwen3", "Q6_K", words=byte_level_facts("qwen2")),
    "gpt2": gpt2,
    "gpt2 in Q8_0": lambda: gpt2("Q8_0"),
}  # fmt: skip


@pytest.mark.parametrize("what", MADE)
def test_the_folder_answers_as_the_published_codes_own_reading_of_the_file(tmp_path, what):
    folder = converted(tmp_path, MADE[what]())
    right = logits(their_model(tmp_path / "tiny.gguf", folder))
    model, found = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not any(found.values())
    assert model.dtype == torch.float32
    assert (logits(model) - right).abs().max() <= 1e-4 * right.abs().max() and right.std() > 0.01


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3"])
def test_the_config_is_the_one_that_the_published_code_reads(tmp_path, name):
    folder = converted(tmp_path, decoder(name, words=byte_level_facts("qwen2")))
    right = AutoConfig.from_pretrained(tmp_path, gguf_file="tiny.gguf").to_dict()
    found = AutoConfig.from_pretrained(folder).to_dict()
    for field in (
        "model_type hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads "
        "max_position_embeddings tie_word_embeddings bos_token_id eos_token_id pad_token_id"
    ).split():
        assert found[field] == right[field], field
    assert found["rope_parameters"]["rope_theta"] == right["rope_parameters"]["rope_theta"] == 100000.0
    assert found["rms_norm_eps"] == 1e-5 == pytest.approx(right["rms_norm_eps"])
    assert found["vocab_size"] == right["vocab_size"] + 5  # as many as there are vectors


def test_a_folder_holds_what_a_published_one_does(tmp_path):
    facts, tensors = decoder("llama")
    folder = converted(tmp_path, (facts, tensors))
    assert sorted(path.name for path in folder.iterdir()) == [
        "chat_template.jinja", "config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
        "tokenizer_config.json",
    ]  # fmt: skip
    config = json.loads((folder / "config.json").read_text())
    assert config == {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
        "hidden_act": "silu", "max_position_embeddings": 64, "rms_norm_eps": 1e-05, "rope_theta": 100000.0,
        "rope_scaling": None, "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False,
        "vocab_size": 365, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2, "dtype": "float32",
    }  # fmt: skip
    assert json.loads((folder / "generation_config.json").read_text()) == {
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2,
    }  # fmt: skip
    assert (folder / "chat_template.jinja").read_text() == facts["tokenizer.chat_template"]
    stored = load_file(folder / "model.safetensors")
    assert len(stored) == len(tensors)
    assert stored["model.embed_tokens.weight"].shape == (365, 256)
    assert stored["model.norm.weight"].tobytes() == tensors["output_norm.weight"][2]


def test_several_ends_of_an_answer_are_all_told(tmp_path):
    facts, tensors = decoder()
    ends = {"tokenizer.ggml.eot_token_id": 5, "tokenizer.ggml.eom_token_id": 2}
    folder = converted(tmp_path, (facts | ends, tensors))
    assert json.loads((folder / "generation_config.json").read_text())["eos_token_id"] == [2, 5]
    assert json.loads((folder / "config.json").read_text())["eos_token_id"] == 2


def test_biases_of_a_llama_file_are_flags_of_the_config(tmp_path):
    facts, tensors = decoder()
    for number in range(2):
        for inner, rows in {"attn_q": 256, "attn_k": 128, "attn_v": 128, "attn_output": 256}.items():
            tensors[f"blk.{number}.{inner}.bias"] = ones(rows, around=0.0, seed=rows + number)
    folder = converted(tmp_path, (facts, tensors))
    assert json.loads((folder / "config.json").read_text())["attention_bias"] is True
    right = logits(their_model(tmp_path / "tiny.gguf", folder))
    found = logits(AutoModelForCausalLM.from_pretrained(folder))
    assert (found - right).abs().max() <= 1e-4 * right.abs().max()
    del tensors["blk.1.attn_output.bias"]
    with pytest.raises(FolderError, match=r"lacks blk\.1\.attn_output\.bias"):
        converted(tmp_path, (facts, tensors))


def llama3_factors(factor, width=64, base=100000.0):
    """As the converter computes them."""
    found = []
    for place in range(0, width, 2):
        length = 2 * np.pi * base ** (place / width)
        if length < 8192 / 4:
            found.append(1.0)
        elif length > 8192:
            found.append(factor)
        else:
            smooth = (8192 / length - 1) / (4 - 1)
            found.append(1 / ((1 - smooth) / factor + smooth))
    return (len(found),), 0, np.array(found, "<f4").tobytes()


def test_llama_3s_scaling_is_found_again_in_its_factors(tmp_path):
    facts, tensors = decoder()
    folder = converted(tmp_path, (facts, tensors | {"rope_freqs.weight": llama3_factors(32.0)}))
    config = json.loads((folder / "config.json").read_text())
    assert config["rope_scaling"] == {"rope_type": "llama3", "factor": 32.0, **LLAMA3}
    AutoModelForCausalLM.from_pretrained(folder)
    other = ones(32, around=2.0)
    with pytest.raises(FolderError, match=r"rope_freqs\.weight holds other factors than Llama 3's"):
        converted(tmp_path, (facts, tensors | {"rope_freqs.weight": other}))


def test_a_factor_for_all_angles_is_told(tmp_path):
    facts, tensors = decoder()
    linear = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    folder = converted(tmp_path, (facts | linear, tensors))
    scaling = json.loads((folder / "config.json").read_text())["rope_scaling"]
    assert scaling == {"rope_type": "linear", "type": "linear", "factor": 4.0}
    folder = converted(tmp_path, (facts | linear | {"llama.rope.scaling.type": "none"}, tensors))
    assert json.loads((folder / "config.json").read_text())["rope_scaling"] is None


def test_memory_holds_one_tensor_and_one_copy(tmp_path):
    facts, tensors = decoder("llama", "Q8_0", words=sentencepiece_facts())
    facts["llama.vocab_size"] = 40_000
    tensors["token_embd.weight"] = random_tensor((40_000, 256), "Q8_0", np.random.default_rng(0))
    path = write(tmp_path / "tiny.gguf", (facts, tensors))
    largest = 40_000 * 256 * 4
    convert(path, tmp_path / "warm")
    tracemalloc.start()
    convert(path, tmp_path / "folder")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * largest


REFUSED = {
    "general.architecture": (
        "mamba",
        "holds a model of type 'mamba', which is not read; read are llama, qwen2",
    ),
    "llama.expert_count": (8, "llama.expert_count=8 is not supported, only 0"),
    "llama.rope.scaling.type": ("yarn", "llama.rope.scaling.type='yarn' is not supported, only 'none' and"),
    "llama.rope.dimension_count": (32, "dimension_count=32 is not supported, only whole heads"),
    "llama.attention.value_length": (32, r"value_length=32 is not supported, only that of keys \(64\)"),
    "llama.attention.sliding_window": (16, "sliding_window=16 is not supported, only 0"),
    "llama.attention.head_count": (0, "head_count=0 is not supported, only a number above 0"),
    "llama.attention.head_count_kv": ([2, 4], "head_count_kv is array.*, not a whole number"),
    "llama.attention.layer_norm_rms_epsilon": (float("nan"), "epsilon is nan, not a number"),
    "llama.logit_scale": (0.25, "llama.logit_scale=0.25 is not supported, only 1.0"),
    "llama.block_count": (3, r"lacks blk\.2\.attn"),
    "llama.context_length": ("long", "llama.context_length is 'long', not a whole number"),
    "split.count": (4, "is one of 4 parts of a model; join them first"),
    "general.alignment": (3, "general.alignment is 3, not a power of two"),
    "tokenizer.ggml.model": ("bert", "tokenizer.ggml.model 'bert' is not read; read are gpt2"),
    "tokenizer.ggml.pre": ("jais", "tokenizer.ggml.pre 'jais' is not known; known are default, gpt-2"),
    "tokenizer.ggml.eos_token_id": (360, "eos_token_id is 360; there are 360 tokens"),
    "tokenizer.ggml.merges": (["a b c"], "'a b c' is no merge of two tokens"),
    "tokenizer.ggml.token_type": ([1, 1], "360 tokens and 2 types of tokens"),
}


@pytest.mark.parametrize("key", REFUSED)
def test_a_fact_that_cannot_be_kept_is_refused_by_name(tmp_path, key):
    value, message = REFUSED[key]
    facts, tensors = decoder()
    with pytest.raises(FolderError, match=message) as error:
        converted(tmp_path, (facts | {key: value}, tensors))
    assert "\n" not in str(error.value) and "tiny.gguf" in str(error.value)
    assert not (tmp_path / "folder" / "config.json").exists()


@pytest.mark.parametrize(
    "key", ["general.architecture", "llama.embedding_length", "tokenizer.ggml.tokens", "tokenizer.ggml.model"]
)
def test_a_fact_that_is_not_there_is_named(tmp_path, key):
    facts, tensors = decoder()
    del facts[key]
    with pytest.raises(FolderError, match=f"does not say {key}, which a model folder needs"):
        converted(tmp_path, (facts, tensors))


def test_a_fact_that_nobody_knows_is_named_once(tmp_path):
    facts, tensors = decoder()
    with pytest.warns(UserWarning, match=r"facts not known and not used: attention\.spin, wings"):
        converted(tmp_path, (facts | {"llama.wings": 2, "llama.attention.spin": 0.5}, tensors))


def test_tensors_are_all_there_and_all_known(tmp_path):
    facts, tensors = decoder()
    with pytest.raises(
        FolderError, match=r"holds .blk\.0\.attn_sinks\.weight., which is not read in a model of"
    ):
        converted(tmp_path, (facts, tensors | {"blk.0.attn_sinks.weight": ones(4)}))
    with pytest.raises(FolderError, match=r"the 130 rows of blk\.0\.attn_k\.weight are not 2 even heads"):
        converted(tmp_path, (facts, tensors | {"blk.0.attn_k.weight": ones(130, 256)}))
    del tensors["output_norm.weight"]
    with pytest.raises(FolderError, match=r"lacks output_norm\.weight, which a model of type llama has"):
        converted(tmp_path, (facts, tensors))


def test_more_tokens_than_vectors_are_refused(tmp_path):
    facts, tensors = decoder()
    with pytest.raises(FolderError, match="has 360 tokens and vectors for 300"):
        converted(tmp_path, (facts, tensors | {"token_embd.weight": ones(300, 256)}))


def test_what_is_stored_in_a_kind_that_is_not_read_is_refused_by_both_names(tmp_path):
    facts, tensors = decoder()
    tensors["blk.1.ffn_up.weight"] = ((512, 256), 10, bytes(512 * 84))
    message = (
        r"blk\.1\.ffn_up\.weight. is stored as Q2_K, which is not read; read are F32, F16, BF16, Q8_0, Q4_0"
    )
    with pytest.raises(FolderError, match=message):
        converted(tmp_path, (facts, tensors))
    tensors["blk.1.ffn_up.weight"] = ((512, 256), 77, bytes(512))
    with pytest.raises(FolderError, match="is stored as type 77, which is not read"):
        converted(tmp_path, (facts, tensors))


def test_a_place_that_cannot_be_written_is_one_line(tmp_path):
    path = write(tmp_path / "tiny.gguf", decoder())
    (tmp_path / "taken").write_text("")
    with pytest.raises(FolderError, match=r"cannot be written \(.*\); is there room"):
        convert(path, tmp_path / "taken")


def test_the_tokenizer_of_the_folder_is_ours(tmp_path):
    tokenizer = Tokenizer.read(converted(tmp_path, decoder()))
    assert tokenizer.lossless and tokenizer.limit == 64
    assert tokenizer.roles == {"bos_token": 1, "eos_token": 2, "pad_token": 2}
    assert tokenizer.control_ids == {0, 1, 2}
